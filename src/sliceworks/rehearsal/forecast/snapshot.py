"""The state of all queues at one time: read from a cluster or from a file.

Only fields that affect quota are kept: no environment variables, commands or managed fields, so that a file can be shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from operator import index
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import Forbidden, InvalidDocument, NotFound, SliceworksError
from sliceworks.kube.resources import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    COHORT,
    LOCAL_QUEUE,
    NAMESPACE,
    RESOURCE_FLAVOR,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
)
from sliceworks.rehearsal.forecast.jobs import finished_job_of, job_of, trim
from sliceworks.twin.controllers.kueue import model_builder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sliceworks.kube.client import Client

Object = dict[str, Any]
_API_VERSION, _KIND = "sliceworks.dev/v1alpha1", "QueueSnapshot"

RESOURCES = (
    NAMESPACE,
    RESOURCE_FLAVOR,
    ADMISSION_CHECK,
    COHORT,
    CLUSTER_QUEUE,
    WORKLOAD_PRIORITY_CLASS,
    LOCAL_QUEUE,
    WORKLOAD,
)
"""Resources to read, in the order in which they are loaded."""
_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_KINDS = {resource.kind for resource in RESOURCES}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Objects by kind at a time."""

    taken: datetime
    objects: dict[str, list[Object]]

    def list(self, kind: str) -> list[Object]:
        """The objects of one kind."""
        return self.objects.get(kind, [])

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        body = {"apiVersion": _API_VERSION, "kind": _KIND, "taken": clock.rfc3339(self.taken), "objects": self.objects}
        try:
            path.write_bytes(orjson.dumps(body, option=orjson.OPT_APPEND_NEWLINE))
        except OSError as error:
            raise SliceworksError(f"{path}: {(error.strerror or 'cannot be written').lower()}") from error


async def take(client: Client) -> Snapshot:
    """Read the current state of a cluster."""
    objects: dict[str, list[Object]] = {}
    for resource in RESOURCES:
        try:
            listed = await client.list_all(resource)
        except NotFound as error:
            raise SliceworksError("Kueue is not installed in this cluster", hint="install it, or use --twin") from error
        except Forbidden as error:
            remedy = "ask an administrator for a file: sliceworks train forecast --save FILE, then --snapshot FILE"
            raise SliceworksError(f"a forecast requires permission to list {resource.plural} of all teams", hint=remedy) from error
        objects[resource.kind] = [trim(resource.kind, item) for item in listed.items]
    return Snapshot(clock.now(), objects)


def load(path: Path) -> Snapshot:
    """Load a snapshot from a file; raises InvalidDocument."""
    try:
        body = orjson.loads(path.read_bytes())
    except OSError as error:
        raise InvalidDocument((error.strerror or "cannot be read").lower(), place=str(path)) from error
    except orjson.JSONDecodeError as error:
        raise InvalidDocument(f"not valid JSON: {error.msg}", place=f"{path}:{error.lineno}", hint=_HINT) from error
    if not isinstance(body, dict) or (body.get("apiVersion"), body.get("kind")) != (_API_VERSION, _KIND):
        raise InvalidDocument(f"not a {_KIND} of {_API_VERSION}", place=str(path), hint=_HINT)
    return Snapshot(_parse_time(body.get("taken"), path), _check_objects(body.get("objects"), path))


_HINT = "create one with: sliceworks train forecast --save FILE"


def _parse_time(value: Any, path: Path) -> datetime:
    try:
        result = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        result = None
    if result is None or result.tzinfo is None:
        raise InvalidDocument(f"taken: must be a time such as 2026-11-16T08:00:00Z, found {value!r}", place=str(path), hint=_HINT)
    return result


def _check_objects(objects: Any, path: Path) -> dict[str, list[Object]]:
    if not isinstance(objects, dict):
        raise InvalidDocument("objects: must be lists by kind", place=str(path), hint=_HINT)
    unknown = sorted(set(objects) - _KINDS)
    if unknown:
        raise InvalidDocument(f"objects: unknown kind {unknown[0]}", place=str(path), hint=_HINT)
    for kind, listed in objects.items():
        for number, obj in enumerate(listed if isinstance(listed, list) else [None]):
            if not _is_complete(kind, obj):
                raise InvalidDocument(f"objects.{kind}[{number}] is not a complete {kind}", place=str(path), hint=_HINT)
    return {kind: objects.get(kind, []) for kind in sorted(_KINDS)}


def _is_complete(kind: str, obj: Any) -> bool:
    """Whether an object has all fields that a forecast reads."""
    try:
        trimmed = trim(kind, obj)
        if kind in _CHECKS:
            _CHECKS[kind](trimmed)
        return isinstance(trimmed["metadata"]["name"], str)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


_CHECKS: dict[str, Callable[[Object], object]] = {
    "ResourceFlavor": model_builder.build_flavor,
    "Cohort": lambda obj: model_builder.build_quotas(obj.get("spec") or {}),
    "ClusterQueue": lambda obj: (model_builder.build_cluster_queue(obj), obj["spec"]),
    "LocalQueue": lambda obj: (obj["metadata"]["namespace"], obj["spec"]["clusterQueue"]),
    "WorkloadPriorityClass": lambda obj: int(obj["value"]),
    "Workload": lambda obj: (job_of(obj, _ANY_TIME), finished_job_of(obj, _ANY_TIME), index(obj["spec"].get("priority") or 0)),
}
