"""A change of what a running service serves, carried out in the engine's own way, and kept in the record."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sliceworks.base import clock
from sliceworks.base.conditions import condition, is_true
from sliceworks.base.errors import SliceworksError
from sliceworks.kube.selectors import from_labels
from sliceworks.kube.well_known import DEPLOYMENT, JOB, POD
from sliceworks.serving import cluster, editing, naming, reaching, sax_jobs, saxml, triton, versions
from sliceworks.serving.deploying import Rollout
from sliceworks.serving.keeping import ChangedMeanwhile

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.kube import Client
    from sliceworks.serving.record import Record
    from sliceworks.specs.serving import ModelService

Object = dict[str, Any]
_RESTARTED = "kubectl.kubernetes.io/restartedAt"
_UNDOING = 60.0
_KEPT = 3600  # seconds that the Job of a change is kept for its log


async def publish(
    client: Client,
    record: Record,
    wanted: tuple[ModelService, Object],
    change: tuple[str, str],
    *,
    tell: Callable[[str], None],
    timeout: float,
) -> list[str]:
    """Carry out a change: `load` or `unload` of a model. What a person should know besides is returned."""
    service, document = wanted
    verb, model = change
    place, spec = record.namespace, record.service.spec
    rollout = Rollout(client, service, document, place)
    rollout.based_on = record
    if spec.triton:
        # Servers are told one by one, and are not rolled for it.
        rollout.untouched, rollout.afterwards = frozenset({naming.SERVER}), (editing.telling(verb, model),)
    await rollout.prepare()
    if spec.saxml and verb == "unload":
        await _unpublish(client, record, model)
    same = document == record.document
    after = await rollout.apply(tell, timeout)
    if spec.triton:
        await _tell_or_undo(client, record, after, (verb, model), tell=tell)
        after = await rollout.finish()
    elif service.spec.saxml and verb == "load" and (same or not service.spec.saxml.publish):
        await _again(client, after, model)
    elif same:
        await _roll(client, record)
    await rollout.follow(after, tell, timeout)
    told = []
    if spec.gateway and not same:
        told.append("The gateway takes its changed document within a minute or so.")
    if spec.triton and spec.triton.load == "named" and not same:
        told.append("Servers that start later load what they were deployed with: `models deploy` rolls them.")
    return told


async def _tell_or_undo(
    client: Client, record: Record, after: Record, change: tuple[str, str], *, tell: Callable[[str], None]
) -> None:
    """What the servers refuse is not kept, not even by those that took it; but what somebody else has changed since is."""
    verb, model = change
    try:
        await tell_triton(client, record, verb, model)
    except SliceworksError:
        if verb == "load" and model not in {each.name for each in record.service.spec.models}:
            with suppress(SliceworksError):
                await tell_triton(client, record, "unload", model)
        before = Rollout(client, record.service, record.document, record.namespace)
        before.untouched, before.based_on = frozenset({naming.SERVER}), after
        with suppress(ChangedMeanwhile):
            await before.prepare()
            await before.apply(tell, _UNDOING)
        raise


async def tell_triton(client: Client, record: Record, verb: str, model: str) -> None:
    """Every ready server loads or unloads a model; the first that cannot says why."""
    labels = from_labels(naming.selector(record.service, naming.SERVER))
    pods = [each for each in (await client.list_all(POD, record.namespace, labels=labels)).items if cluster.is_ready(each)]
    if not pods:
        raise SliceworksError(f"no server of {record.service.metadata.name} is ready", hint="sliceworks models show tells why")
    for pod in pods:
        way = reaching.to_pod(client, record.namespace, pod["metadata"]["name"], triton.PORTS["http"], pod["status"]["podIP"])
        await reaching.whole(way, "POST", f"/v2/repository/models/{quote(model, safe='')}/{verb}")


async def _roll(client: Client, record: Record) -> None:
    """Servers are replaced one at a time, and read their model anew."""
    servers = {version.name for version in versions.versions(record.service)}
    for each in record.objects:
        if each.kind == "Deployment" and each.name in servers:
            note = {"spec": {"template": {"metadata": {"annotations": {_RESTARTED: clock.timestamp()}}}}}
            await client.patch(DEPLOYMENT, each.name, note, record.namespace)


async def _unpublish(client: Client, record: Record, model: str) -> None:
    part = record.service.spec.saxml
    assert part is not None
    await _once(client, record, sax_jobs.unpublication(record.service, part, saxml.root(part), model))


async def _again(client: Client, record: Record, model: str) -> None:
    """Publish a model again whose document has not changed: its checkpoint may have."""
    part = record.service.spec.saxml
    assert part is not None
    await _once(client, record, sax_jobs.publication_of(record.service, part, saxml.root(part), model))


async def _once(client: Client, record: Record, job: Object) -> None:
    """A Job of its own for each time that it is asked for."""
    job["metadata"] = {**job["metadata"], "namespace": record.namespace, "ownerReferences": [record.owner]}
    job["metadata"].pop("name")
    job["metadata"]["generateName"] = f"{record.service.metadata.name}-publish-"
    job["spec"]["ttlSecondsAfterFinished"] = _KEPT
    made = await client.create(job, record.namespace, resource=JOB)
    name = made["metadata"]["name"]
    while True:
        found = await client.get(JOB, name, record.namespace)
        if is_true(found, "Complete"):
            return
        if is_true(found, "Failed"):
            said = condition(found, "Failed").get("message", "")
            raise SliceworksError(f"Sax refused: job/{name} failed: {said}", hint=f"kubectl logs job/{name}")
        await clock.sleep(1)
