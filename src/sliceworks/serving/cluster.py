"""Reads model services from a cluster: records, workloads, pods and warning events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import progress
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.base.names import suggest_name
from sliceworks.kube import pod_diagnosis
from sliceworks.kube.discovery import is_twin
from sliceworks.kube.resources import CONFIG_MAP, CORE_EVENT, DEPLOYMENT, HORIZONTAL_POD_AUTOSCALER, JOB, POD, SERVICE, STATEFUL_SET
from sliceworks.serving import record as records
from sliceworks.serving.objects import GATEWAY_LABEL
from sliceworks.serving.service_status import METRIC_APIS, autoscaler_status, belongs_to_service, compute_status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube import Client
    from sliceworks.kube.pod_diagnosis import Cause
    from sliceworks.serving.record import Record
    from sliceworks.serving.service_status import AutoscalerStatus, ServiceStatus

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ServiceDetails:
    """A service with its status, pods, Services and autoscalers, and the causes if it is not ready."""

    record: Record
    status: ServiceStatus
    pods: tuple[Object, ...]
    services: tuple[Object, ...]
    causes: tuple[Cause, ...]
    autoscalers: tuple[AutoscalerStatus, ...] = ()


async def list_records(client: Client, namespace: str | None) -> list[Record]:
    """The records of a namespace, or of all. Invalid records are reported and skipped."""
    result: list[Record] = []
    for config_map in (await client.list_all(CONFIG_MAP, namespace, labels=records.SELECTOR)).items:
        try:
            result.append(records.from_config_map(config_map))
        except SliceworksError as error:
            metadata = config_map["metadata"]
            progress.say(f"skipping configmap/{metadata['name']} in {metadata['namespace']}: invalid record: {error.message}")
    return result


async def get_record(client: Client, name: str, namespace: str) -> Record:
    """The record of a service; if it does not exist, the error suggests the closest name."""
    try:
        return records.from_config_map(await client.get(CONFIG_MAP, records.record_name(name), namespace))
    except NotFound as error:
        names = [record.service.metadata.name for record in await list_records(client, namespace)]
        hint = suggest_name(name, names) or "sliceworks models list -A"
        raise SliceworksError(f"model service {name!r} not found in namespace {namespace}", hint=hint) from error


def gateway_peers(name: str, gateway: str, known: Iterable[Record]) -> list[Record]:
    """The other services that share a gateway and are not being deleted, oldest first."""
    sharing = (record for record in known if record.service.spec.gateway and record.service.spec.gateway.name == gateway)
    peers = [record for record in sharing if record.service.metadata.name != name and not record.is_deleting]
    return sorted(peers, key=lambda record: (record.created, record.service.metadata.name))


async def list_workloads(client: Client, namespace: str | None) -> list[Object]:
    """All Deployments, StatefulSets and Jobs."""
    return [item for kind in (DEPLOYMENT, STATEFUL_SET, JOB) for item in (await client.list_all(kind, namespace)).items]


async def describe(client: Client, record: Record, namespace: str) -> ServiceDetails:
    """The details of a service, with causes if it is not ready."""
    workloads = await list_workloads(client, namespace)
    status = compute_status(record, workloads)
    pods = [pod for pod in (await client.list_all(POD, namespace)).items if belongs_to_service(record, pod)]
    services = [service for service in (await client.list_all(SERVICE, namespace)).items if belongs_to_service(record, service)]
    causes: list[Cause] = []
    if not status.is_settled:
        warnings = (await client.list_all(CORE_EVENT, namespace, fields="type=Warning")).items
        causes = find_causes(record, pods, workloads, warnings)
    listed = (await client.list_all(HORIZONTAL_POD_AUTOSCALER, namespace)).items
    autoscalers = [item for item in listed if belongs_to_service(record, item)]
    unmeasured = await _unmeasured(client) if autoscalers else ()
    statuses = tuple(autoscaler_status(item, unmeasured) for item in autoscalers)
    return ServiceDetails(record, status, tuple(pods), tuple(services), tuple(causes), statuses)


async def _unmeasured(client: Client) -> list[str]:
    """The failures of autoscalers that every twin without objects for these metrics has."""
    if not await is_twin(client):
        return []
    served = {group.name for group in await client.discovery.groups()}
    return [reason for reason, group in METRIC_APIS.items() if group not in served]


def find_causes(record: Record, pods: list[Object], workloads: Iterable[Object], warnings: Iterable[Object]) -> list[Cause]:
    """Why a service is not ready, from its pods and from the workloads and warning events of its namespace."""
    names = {ref.name for ref in record.objects} | {pod["metadata"]["name"] for pod in pods}
    events = [event for event in warnings if _is_about(event, names)]
    jobs = [item for item in workloads if item["kind"] == "Job" and records.reference(item) in record.objects]
    return pod_diagnosis.explain(pods, jobs, events, not_ready=describe_not_ready)


def _is_about(event: Object, names: set[str]) -> bool:
    """Whether an event is about one of these objects, or about a ReplicaSet of one."""
    name = (event.get("involvedObject") or {}).get("name", "")
    return name in names or name.rpartition("-")[0] in names


def is_ready(pod: Object) -> bool:
    """Whether a pod has an address and is ready."""
    return bool((pod.get("status") or {}).get("podIP")) and is_condition_true(pod, "Ready")


def describe_not_ready(pod: Object) -> str:
    """Why a running pod is not ready yet, as far as known: a server loads its model."""
    is_gateway = GATEWAY_LABEL in (pod["metadata"].get("labels") or {})
    return "running but not ready yet" if is_gateway else "running but not ready yet: the model is loading"
