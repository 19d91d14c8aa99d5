"""Model services: status, workloads, endpoints and problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import SliceworksError
from sliceworks.serving import record as records
from sliceworks.serving import service_endpoint
from sliceworks.serving import service_status as service_statuses
from sliceworks.serving.compiler import plan
from sliceworks.training.status import read_host

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.serving.cluster import ServiceDetails
    from sliceworks.serving.record import Record
    from sliceworks.serving.service_status import ServiceStatus

Object = dict[str, Any]
TONES = {
    "ready": "good",
    "starting": "wait",
    "running": "wait",
    "updating": "wait",
    "degraded": "wait",
    "unfinished": "wait",
    "failed": "bad",
    "stopped": "idle",
    "missing": "bad",
    "done": "good",
}


@dataclass(frozen=True, slots=True)
class Service:
    """A model service in the list."""

    name: str
    namespace: str
    engine: str
    models: tuple[str, ...]
    on: str
    ready: int
    desired: int
    state: str
    gateway: str
    usd: float | None
    created: str

    @property
    def tone(self) -> str:
        return TONES.get(self.state, "idle")


@dataclass(frozen=True, slots=True)
class ServiceWorkload:
    """A workload of a service."""

    name: str
    count: str
    state: str


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A port of a Kubernetes Service."""

    name: str
    port: str
    address: str


@dataclass(frozen=True, slots=True)
class Details:
    """Everything on the page of a service. `unavailable` is why prompts cannot be sent, empty when they can."""

    service: Service
    workloads: tuple[ServiceWorkload, ...]
    endpoints: tuple[Endpoint, ...]
    external_url: str
    causes: tuple[tuple[str, str], ...]
    pending: tuple[str, ...]
    pods: tuple[tuple[str, str, str], ...]
    unavailable: str


def services(config_maps: Iterable[Object], workloads: Iterable[Object]) -> tuple[list[Service], list[str]]:
    """All services, those that are not ready first, and error messages of unreadable records."""
    by_namespace: dict[str, list[Object]] = {}
    for workload in workloads:
        by_namespace.setdefault(workload["metadata"].get("namespace", ""), []).append(workload)
    result, broken = [], []
    for obj in config_maps:
        if (obj["metadata"].get("labels") or {}).get(records.LABEL) != records.KIND:
            continue
        try:
            record = records.from_config_map(obj)
        except SliceworksError as error:
            broken.append(f"namespace {obj['metadata'].get('namespace')}: {error.message}")
            continue
        result.append(service(record, service_statuses.compute_status(record, by_namespace.get(record.namespace, ()))))
    return sorted(result, key=lambda view: (view.state == "ready", view.namespace, view.name)), broken


def service(record: Record, status: ServiceStatus) -> Service:
    """The view of a service from its record and status."""
    spec, serving_plan = record.service.spec, plan(record.service)
    return Service(
        name=record.service.metadata.name,
        namespace=record.namespace,
        engine=spec.engine,
        models=tuple(model.name for model in spec.models),
        on=serving_plan.summary,
        ready=sum(server.ready for server in status.servers),
        desired=sum(item.desired for item in status.servers),
        state=status.state,
        gateway=spec.gateway.name if spec.gateway else "",
        usd=serving_plan.price.usd if serving_plan.price else None,
        created=record.created,
    )


def details(seen: ServiceDetails) -> Details:
    """The page of a service."""
    record, status = seen.record, seen.status
    workloads = [ServiceWorkload(str(part), f"{part.ready} of {part.desired}", part.state) for part in status.workloads]
    workloads += [ServiceWorkload(name, "–", "missing") for name in status.missing]
    return Details(
        service(record, status),
        tuple(workloads),
        tuple(_endpoints(seen.services)),
        service_endpoint.external_url(record),
        tuple((str(cause), cause.hint) for cause in seen.causes),
        record.pending_steps,
        tuple(_pod(pod) for pod in seen.pods),
        _unavailable(record, status),
    )


def _unavailable(record: Record, status: ServiceStatus) -> str:
    try:
        service_endpoint.find_endpoint(record)
    except SliceworksError as error:
        return f"{error.message}: {error.hint}" if error.hint else error.message
    if not any(server.ready for server in status.servers):
        return "No replica is ready yet."
    return ""


def _endpoints(kube_services: Iterable[Object]) -> Iterator[Endpoint]:
    for item in kube_services:
        name, namespace = item["metadata"]["name"], item["metadata"].get("namespace", "")
        for port in item["spec"].get("ports") or ():
            yield Endpoint(name, port.get("name", ""), f"{name}.{namespace}.svc:{port['port']}")


def _pod(pod: Object) -> tuple[str, str, str]:
    """The name, state and node of a pod."""
    host = read_host(pod)
    return host.pod, "ready" if host.ready else "not ready" if host.state == "running" else host.state, host.node
