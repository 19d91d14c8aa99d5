"""Loads, unloads or changes a model of a deployed service: edits the document, then applies it in the engine's own way."""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.errors import SliceworksError, TimedOut, Unreachable, UsageError
from sliceworks.base.names import suggest_name
from sliceworks.kube import pod_diagnosis
from sliceworks.kube.resources import DEPLOYMENT, JOB, POD
from sliceworks.kube.selectors import from_labels
from sliceworks.serving import cluster, gateway_objects, objects, saxml, service_endpoint, triton, workload
from sliceworks.serving.record import RecordConflict
from sliceworks.serving.rollout import Rollout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.kube import Client
    from sliceworks.serving.record import Record
    from sliceworks.specs.model_service import ModelService

Object = dict[str, Any]
MULTI_MODEL_ENGINES = ("saxml", "triton")
"""Engines that serve several models."""
_WEIGHTS_FIELDS = {"vllm": "source", "jetstream": "checkpoint"}
"""The field with the weights of a model, for engines that serve one model."""
_PREVIOUS_REPLICAS = "sliceworks.dev/replicas-before"
_RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
_REVERT_TIMEOUT = 60.0
_JOB_TTL = 3600  # seconds for which a Job and its log are kept


def add_model(record: Record, model: Mapping[str, Any]) -> Object:
    """The document with a model added, or replaced if one has its name; for a single-model engine, with its only model replaced."""
    document, settings = _copy_document(record)
    engine = record.service.spec.engine
    if engine not in MULTI_MODEL_ENGINES:
        field, current = _WEIGHTS_FIELDS[engine], settings["model"]["name"]
        if model["name"] != current and field not in model:
            raise UsageError(f"model {model['name']}: {field} is required to replace {current}", hint=f"set it with --{field}")
        settings["model"] = {**settings["model"], **model}
        return _restore_replicas(document)
    if engine == "saxml" and "class" not in model:
        hint = "set it with --class, such as LLaMA7BFP16TPUv5e"
        raise UsageError(f"model {model['name']}: class is required by engine saxml", hint=hint)
    settings["models"] = [other for other in settings["models"] if other["name"] != model["name"]] + [dict(model)]
    return document


def update_model(record: Record, name: str, changes: Mapping[str, Any]) -> Object:
    """The document with changed fields of a model."""
    require_model(record, name)
    document, settings = _copy_document(record)
    models = settings["models"] if record.service.spec.engine in MULTI_MODEL_ENGINES else [settings["model"]]
    next(model for model in models if model["name"] == name).update(changes)
    return _restore_replicas(document)


def remove_model(record: Record, name: str) -> Object:
    """The document without a model; for a single-model engine, without servers.

    Unchanged if an earlier removal still has to unload the model on the servers.
    """
    document, settings = _copy_document(record)
    if load_step("unload", name) in record.pending_steps:
        return document
    require_model(record, name)
    if record.service.spec.engine not in MULTI_MODEL_ENGINES:
        return _stop_servers(document)
    remaining = [model for model in settings["models"] if model["name"] != name]
    if not remaining:
        service = record.service.metadata.name
        raise SliceworksError(
            f"cannot unload {name}: it is the only model of {service}", hint=f"sliceworks models delete {service}"
        )
    settings["models"] = remaining
    return document


def load_step(verb: str, model: str) -> str:
    """The pending step of a model that servers have to load or unload."""
    return f"{verb} {model} on every server"


def require_model(record: Record, name: str) -> None:
    """Raise UsageError if the service does not have this model."""
    names = [model.name for model in record.service.spec.models]
    if name not in names:
        hint = suggest_name(name, names) or f"models: {', '.join(names)}"
        raise UsageError(f"model service {record.service.metadata.name} has no model {name!r}", hint=hint)


def _stop_servers(document: Object) -> Object:
    """Set replicas to 0; an annotation keeps the previous number."""
    spec, metadata = document["spec"], document["metadata"]
    if spec.get("replicas"):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), _PREVIOUS_REPLICAS: str(spec["replicas"])}
    spec["replicas"] = 0
    return document


def _restore_replicas(document: Object) -> Object:
    """Restore the previous replicas if they are 0."""
    spec, metadata = document["spec"], document["metadata"]
    if spec.get("replicas") != 0:
        return document
    del spec["replicas"]
    previous = (metadata.get("annotations") or {}).pop(_PREVIOUS_REPLICAS, "")
    if previous.isdecimal():
        spec["replicas"] = int(previous)
    if not metadata.get("annotations"):
        metadata.pop("annotations", None)
    return document


def _copy_document(record: Record) -> tuple[Object, Object]:
    document = deepcopy(record.document)
    return document, document["spec"][record.service.spec.engine]


async def publish(
    client: Client,
    record: Record,
    edited: tuple[ModelService, Object],
    change: tuple[str, str],
    *,
    report: Callable[[str], None],
    timeout: float,
) -> list[str]:
    """Load or unload a model (`change` is the verb and the model) with the edited document; returns notes for the user."""
    service, document = edited
    verb, model = change
    spec = record.service.spec
    rollout = Rollout(client, service, document, record.namespace)
    rollout.based_on = record
    if spec.triton:
        # Each server loads or unloads the model; none restarts.
        rollout.unchanged_components, rollout.pending_steps = frozenset({objects.SERVER_COMPONENT}), (load_step(verb, model),)
    await rollout.prepare()
    if spec.saxml and verb == "unload":
        await _unpublish(client, record, model, timeout)
    is_unchanged = document == record.document
    applied = await rollout.apply(report, timeout)
    if spec.triton:
        await _load_or_revert(client, record, applied, (verb, model), report=report)
        applied = await rollout.finish()
    elif service.spec.saxml and verb == "load" and (is_unchanged or not service.spec.saxml.publish):
        await _republish(client, applied, model, timeout)
    elif is_unchanged:
        await _restart_servers(client, record)
    await rollout.follow(applied, report, timeout)
    notes = []
    if spec.gateway and not is_unchanged:
        report("waiting for the gateway to reload its configuration")
        if not await _wait_for_gateway(client, applied, (verb, model), timeout):
            notes.append("No gateway server responds; the gateway reloads its configuration within about a minute.")
    if spec.triton and spec.triton.load == "named" and not is_unchanged:
        notes.append("Servers that start later load the models of the last deployment; `models deploy` updates them.")
    return notes


async def _load_or_revert(
    client: Client, record: Record, applied: Record, change: tuple[str, str], *, report: Callable[[str], None]
) -> None:
    """Load or unload a model on all servers. If one fails, revert the change, unless another client changed the record since."""
    verb, model = change
    try:
        await load_on_triton(client, record, verb, model)
    except SliceworksError:
        if verb == "load" and model not in {known.name for known in record.service.spec.models}:
            with suppress(SliceworksError):
                await load_on_triton(client, record, "unload", model)
        revert = Rollout(client, record.service, record.document, record.namespace)
        revert.unchanged_components, revert.based_on = frozenset({objects.SERVER_COMPONENT}), applied
        with suppress(RecordConflict):
            await revert.prepare()
            await revert.apply(report, _REVERT_TIMEOUT)
        raise


async def load_on_triton(client: Client, record: Record, verb: str, model: str) -> None:
    """Load or unload a model on every ready server; raises the first error."""
    labels = from_labels(objects.selector(record.service, objects.SERVER_COMPONENT))
    pods = [pod for pod in (await client.list_all(POD, record.namespace, labels=labels)).items if cluster.is_ready(pod)]
    if not pods:
        name = record.service.metadata.name
        raise SliceworksError(f"model service {name} has no ready server", hint=f"sliceworks models show {name} explains why")
    for pod in pods:
        name, address = pod["metadata"]["name"], pod["status"]["podIP"]
        connection = service_endpoint.connect_pod(client, record.namespace, name, triton.PORTS["http"], address)
        await service_endpoint.read_all(connection, "POST", f"/v2/repository/models/{quote(model, safe='')}/{verb}")


async def _wait_for_gateway(client: Client, record: Record, change: tuple[str, str], timeout: float) -> bool:
    """Wait until every ready gateway server has loaded, or unloaded, the model; False if none responds."""
    verb, model = change
    assert record.service.spec.gateway is not None
    labels = from_labels({objects.GATEWAY_LABEL: record.service.spec.gateway.name})
    deadline, responded = clock.loop_time() + timeout, False
    while True:
        pods = [pod for pod in (await client.list_all(POD, record.namespace, labels=labels)).items if cluster.is_ready(pod)]
        try:
            late = [pod for pod in pods if await _is_served(client, record, pod, model) is not (verb == "load")]
        except Unreachable:
            if not responded:
                return False
            late = pods  # A server has stopped since.
        if not late:
            return bool(pods)
        responded = True
        if clock.loop_time() >= deadline:
            wrong = "does not serve" if verb == "load" else "still serves"
            raise TimedOut(f"pod/{late[0]['metadata']['name']} {wrong} model {model}", hint="read the log of the gateway")
        await clock.sleep(1)


async def _is_served(client: Client, record: Record, pod: Object, model: str) -> bool:
    """Whether the configuration of a gateway server has a model: its metrics name every model, and need no key."""
    name, address = pod["metadata"]["name"], pod["status"]["podIP"]
    connection = service_endpoint.connect_pod(client, record.namespace, name, gateway_objects.PORTS["admin"], address)
    metrics = await service_endpoint.read_all(connection, "GET", "/metrics")
    return f'vllm:num_requests_waiting{{model_name="{model}"}}'.encode() in metrics


async def _restart_servers(client: Client, record: Record) -> None:
    """Restart the servers in a rolling update, so that they load their model again."""
    servers = {version.name for version in workload.list_versions(record.service)}
    for ref in record.objects:
        if ref.kind == "Deployment" and ref.name in servers:
            patch = {"spec": {"template": {"metadata": {"annotations": {_RESTARTED_AT: clock.timestamp()}}}}}
            await client.patch(DEPLOYMENT, ref.name, patch, record.namespace)


async def _unpublish(client: Client, record: Record, model: str, timeout: float) -> None:
    settings = record.service.spec.saxml
    assert settings is not None
    await _run_job(client, record, saxml.unpublication_job(record.service, settings, saxml.root(settings), model), timeout)


async def _republish(client: Client, record: Record, model: str, timeout: float) -> None:
    """Publish an unchanged model again: its checkpoint may have changed."""
    settings = record.service.spec.saxml
    assert settings is not None
    await _run_job(client, record, saxml.publication_job(record.service, settings, saxml.root(settings), model), timeout)


async def _run_job(client: Client, record: Record, job: Object, timeout: float) -> None:
    """Run a Job under a generated name and wait for it."""
    job["metadata"] = {**job["metadata"], "namespace": record.namespace, "ownerReferences": [record.owner]}
    job["metadata"].pop("name")
    job["metadata"]["generateName"] = f"{record.service.metadata.name}-publish-"
    job["spec"]["ttlSecondsAfterFinished"] = _JOB_TTL
    created = await client.create(job, record.namespace, resource=JOB)
    name, deadline = created["metadata"]["name"], clock.loop_time() + timeout
    while True:
        live = await client.get(JOB, name, record.namespace)
        if is_condition_true(live, "Complete"):
            return
        if is_condition_true(live, "Failed"):
            cause = (await _explain_job(client, record, live))[0]
            raise SliceworksError(str(cause), hint=cause.hint)
        if clock.loop_time() >= deadline:
            causes = await _explain_job(client, record, live)
            cause = causes[0] if causes else pod_diagnosis.PendingCause(f"job/{name}", "not complete")
            raise TimedOut(f"job/{name} did not complete in time: {cause}", hint=cause.hint)
        await clock.sleep(1)


async def _explain_job(client: Client, record: Record, job: Object) -> list[pod_diagnosis.Cause]:
    """Why a Job has failed or is not complete."""
    pods = await client.list_all(POD, record.namespace, labels=f"batch.kubernetes.io/job-name={job['metadata']['name']}")
    return pod_diagnosis.explain(pods.items, [job], [])
