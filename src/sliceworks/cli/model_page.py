"""One model service on a page: what it serves and where, its parts, how it scales, and why it does not. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from sliceworks.base import tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.serving.cluster import Seen
    from sliceworks.serving.record import Record
    from sliceworks.serving.standing import Standing
    from sliceworks.serving.why import Cause

Object = dict[str, Any]


def render(seen: Seen) -> str:
    """For a person."""
    from sliceworks.serving.compile import plan

    service = seen.record.service
    wanted = plan(service)
    facts = [
        ("name", service.metadata.name),
        ("namespace", seen.record.namespace),
        ("engine", service.spec.engine),
        ("models", ", ".join(each.name for each in service.spec.models)),
        ("on", wanted.what),
        ("usd/hour", str(wanted.price or "unknown")),
        ("state", seen.standing.state),
    ]
    parts = [(str(each), f"{each.ready}/{each.wanted}", each.word) for each in seen.standing.parts]
    parts += [(name, "-", "missing") for name in seen.standing.missing]
    pages = [
        "".join(f"{name + ':':<11}{value}\n" for name, value in facts),
        tables.render(("part", "ready", "state"), parts),
        tables.render(("service", "port", "address"), list(_endpoints(seen))),
    ]
    if seen.scalings:
        rows = [(each.name, each.replicas, each.state) for each in seen.scalings]
        pages.append(tables.render(("autoscaler", "replicas", "state"), rows))
    told = [_told("not ready", each) for each in seen.causes]
    told += [_told("not scaled", each.trouble) for each in seen.scalings if each.trouble]
    told += _left(seen)
    return "\n".join([*pages, *(["".join(told)] if told else [])])


def _told(what: str, cause: Cause) -> str:
    remedy = f"{'':{len(what) + 2}}{cause.remedy}\n" if cause.remedy else ""
    return f"{what}: {cause}\n{remedy}"


def _left(seen: Seen) -> list[str]:
    finish = f"`sliceworks models deploy -f FILE -n {seen.record.namespace}` waits for what must come before, and does it"
    return [f"left to do: {', '.join(seen.record.left)}\n            {finish}\n"] if seen.record.left else []


def brief(record: Record, stands: Standing) -> Object:
    """The first things that a program wants to know of one among many."""
    return {
        "name": record.service.metadata.name,
        "namespace": record.namespace,
        "engine": record.service.spec.engine,
        "models": [each.name for each in record.service.spec.models],
        "state": stands.state,
        "parts": [
            {"kind": each.kind, "name": each.name, "ready": each.ready, "wanted": each.wanted, "state": each.word}
            for each in stands.parts
        ],
        "left": list(record.left),
    }


def data(seen: Seen) -> Object:
    """For a program."""
    return {
        **brief(seen.record, seen.standing),
        "endpoints": [{"service": name, "port": port, "address": address} for name, port, address in _endpoints(seen)],
        "causes": [asdict(each) for each in seen.causes],
        "autoscalers": [asdict(each) for each in seen.scalings],
        "document": seen.record.document,
    }


def _endpoints(seen: Seen) -> Iterator[tuple[str, str, str]]:
    for service in seen.services:
        name, place = service["metadata"]["name"], service["metadata"]["namespace"]
        for port in service["spec"].get("ports") or ():
            yield name, port.get("name", ""), f"{name}.{place}.svc:{port['port']}"
