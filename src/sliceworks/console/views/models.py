"""Model services as a page shows them: what each serves and on what, its parts and addresses, and why one is not ready. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import is_true
from sliceworks.base.errors import SliceworksError
from sliceworks.serving import doors
from sliceworks.serving import record as records
from sliceworks.serving import standing as standings
from sliceworks.serving.compile import plan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.serving.cluster import Seen
    from sliceworks.serving.record import Record
    from sliceworks.serving.standing import Standing

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
    """One model service in a list."""

    name: str
    namespace: str
    engine: str
    models: tuple[str, ...]
    on: str
    ready: int
    wanted: int
    state: str
    gateway: str
    usd: float | None
    created: str

    @property
    def tone(self) -> str:
        return TONES.get(self.state, "idle")


@dataclass(frozen=True, slots=True)
class Piece:
    """A workload of a service."""

    name: str
    count: str
    state: str


@dataclass(frozen=True, slots=True)
class Address:
    """Where one can knock."""

    name: str
    port: str
    address: str


@dataclass(frozen=True, slots=True)
class Details:
    """One service with everything there is of it. `shut` says why no prompt can be sent; it is empty where one can."""

    service: Service
    parts: tuple[Piece, ...]
    addresses: tuple[Address, ...]
    outside: str
    causes: tuple[tuple[str, str], ...]
    left: tuple[str, ...]
    pods: tuple[tuple[str, str, str], ...]
    shut: str


def services(config_maps: Iterable[Object], workloads: Iterable[Object]) -> tuple[list[Service], list[str]]:
    """All services, those that are not ready first; and which records nobody can read any more."""
    by_place: dict[str, list[Object]] = {}
    for each in workloads:
        by_place.setdefault(each["metadata"].get("namespace", ""), []).append(each)
    found, broken = [], []
    for obj in config_maps:
        if (obj["metadata"].get("labels") or {}).get(records.LABEL) != records.KIND:
            continue
        try:
            record = records.read(obj)
        except SliceworksError as error:
            broken.append(f"In {obj['metadata'].get('namespace')}: {error.message}")
            continue
        found.append(service(record, standings.standing(record, by_place.get(record.namespace, ()))))
    return sorted(found, key=lambda each: (each.state == "ready", each.namespace, each.name)), broken


def service(record: Record, stands: Standing) -> Service:
    """A service by its record and its workloads."""
    spec, wanted = record.service.spec, plan(record.service)
    return Service(
        name=record.service.metadata.name,
        namespace=record.namespace,
        engine=spec.engine,
        models=tuple(each.name for each in spec.models),
        on=wanted.what,
        ready=sum(each.ready for each in stands.servers),
        wanted=sum(each.wanted for each in stands.servers),
        state=stands.state,
        gateway=spec.gateway.name if spec.gateway else "",
        usd=wanted.price.usd if wanted.price else None,
        created=record.created,
    )


def details(seen: Seen) -> Details:
    """A service with its parts."""
    record, stands = seen.record, seen.standing
    parts = [Piece(str(each), f"{each.ready} of {each.wanted}", each.word) for each in stands.parts]
    parts += [Piece(name, "–", "missing") for name in stands.missing]
    return Details(
        service(record, stands),
        tuple(parts),
        tuple(_addresses(seen.services)),
        doors.outside(record),
        tuple((str(each), each.remedy) for each in seen.causes),
        record.left,
        tuple(_pod(each) for each in seen.pods),
        _shut(record, stands),
    )


def _shut(record: Record, stands: Standing) -> str:
    try:
        doors.door(record)
    except SliceworksError as error:
        return f"{error.message}: {error.hint}" if error.hint else error.message
    if not any(each.ready for each in stands.servers):
        return "No server of it is ready yet."
    return ""


def _addresses(found: Iterable[Object]) -> Iterator[Address]:
    for each in found:
        name, place = each["metadata"]["name"], each["metadata"].get("namespace", "")
        for port in each["spec"].get("ports") or ():
            yield Address(name, port.get("name", ""), f"{name}.{place}.svc:{port['port']}")


def _pod(pod: Object) -> tuple[str, str, str]:
    """Its name, how it stands, and where."""
    phase = str((pod.get("status") or {}).get("phase") or "unknown").lower()
    return pod["metadata"]["name"], "ready" if is_true(pod, "Ready") else phase, pod["spec"].get("nodeName", "")
