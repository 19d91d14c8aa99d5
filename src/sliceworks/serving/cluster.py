"""Model services of a cluster, as they are read from it: records, workloads, pods and what was told about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import progress
from sliceworks.base.conditions import is_true
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.base.words import closest
from sliceworks.kube.well_known import (
    CONFIG_MAP,
    CORE_EVENT,
    DEPLOYMENT,
    HORIZONTAL_POD_AUTOSCALER,
    JOB,
    POD,
    SERVICE,
    STATEFUL_SET,
)
from sliceworks.serving import record as records
from sliceworks.serving import standing as standings
from sliceworks.serving import why
from sliceworks.serving.scaling import scaling

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube import Client
    from sliceworks.serving.record import Record
    from sliceworks.serving.scaling import Scaling
    from sliceworks.serving.standing import Standing
    from sliceworks.serving.why import Cause

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A service and what there is of it."""

    record: Record
    standing: Standing
    pods: tuple[Object, ...]
    services: tuple[Object, ...]
    causes: tuple[Cause, ...]
    scalings: tuple[Scaling, ...] = ()


async def all_records(client: Client, namespace: str | None) -> list[Record]:
    """The services of a namespace, or of all. A record that somebody has changed beyond use is told of, and passed over."""
    found: list[Record] = []
    for each in (await client.list_all(CONFIG_MAP, namespace, labels=records.SELECTOR)).items:
        try:
            found.append(records.read(each))
        except SliceworksError as error:
            metadata = each["metadata"]
            progress.say(
                f"configmap/{metadata['name']} in {metadata['namespace']} records no model service any more: {error.message}"
            )
    return found


async def one_record(client: Client, name: str, namespace: str) -> Record:
    """One service; an error names the closest."""
    try:
        return records.read(await client.get(CONFIG_MAP, records.record_name(name), namespace))
    except NotFound as error:
        known = [each.service.metadata.name for each in await all_records(client, namespace)]
        hint = closest(name, known) or "sliceworks models list -A"
        raise SliceworksError(f"there is no model service {name!r} in {namespace}", hint=hint) from error


def neighbours(name: str, front: str, known: Iterable[Record]) -> list[Record]:
    """The other services that share a gateway and stay, in the order in which they came."""
    sharing = (each for each in known if each.service.spec.gateway and each.service.spec.gateway.name == front)
    found = [each for each in sharing if each.service.metadata.name != name and not each.going]
    return sorted(found, key=lambda each: (each.created, each.service.metadata.name))


async def workloads(client: Client, namespace: str | None) -> list[Object]:
    """Everything that runs pods."""
    return [item for kind in (DEPLOYMENT, STATEFUL_SET, JOB) for item in (await client.list_all(kind, namespace)).items]


async def look(client: Client, record: Record, namespace: str) -> Seen:
    """How a service stands, and why it is not ready where it is not."""
    running = await workloads(client, namespace)
    stands = standings.standing(record, running)
    pods = [each for each in (await client.list_all(POD, namespace)).items if standings.belongs(record, each)]
    services = [each for each in (await client.list_all(SERVICE, namespace)).items if standings.belongs(record, each)]
    causes: list[Cause] = []
    if not stands.settled:
        told = (await client.list_all(CORE_EVENT, namespace, fields="type=Warning")).items
        causes = causes_of(record, pods, running, told)
    autoscalers = (await client.list_all(HORIZONTAL_POD_AUTOSCALER, namespace)).items
    scalings = tuple(scaling(each) for each in autoscalers if standings.belongs(record, each))
    return Seen(record, stands, tuple(pods), tuple(services), tuple(causes), scalings)


def causes_of(record: Record, pods: list[Object], running: Iterable[Object], told: Iterable[Object]) -> list[Cause]:
    """Why a service is not ready, from its own pods and from the workloads and events of its namespace."""
    names = {each.name for each in record.objects} | {each["metadata"]["name"] for each in pods}
    own = [each for each in told if _is_about(each, names)]
    jobs = [each for each in running if each["kind"] == "Job" and records.reference(each) in record.objects]
    return why.explain(pods, jobs, own)


def _is_about(event: Object, names: set[str]) -> bool:
    """ReplicaSets are called after their Deployments."""
    name = (event.get("involvedObject") or {}).get("name", "")
    return name in names or name.rpartition("-")[0] in names


def is_ready(pod: Object) -> bool:
    """Whether a pod has an address and answers."""
    return bool((pod.get("status") or {}).get("podIP")) and is_true(pod, "Ready")
