"""The state of all queues at one moment: read from a cluster, or from a file that was saved before.

Only what decides about quota is kept: no environment variables, no commands, no managed fields. A file can be given to others.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from operator import index
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import Forbidden, InvalidDocument, NotFound, SliceworksError
from sliceworks.kube.resources import Resource
from sliceworks.kube.well_known import NAMESPACE
from sliceworks.rehearsal.forecast.jobs import job_of, past_of
from sliceworks.rehearsal.forecast.trimming import trimmed
from sliceworks.twin.workloads.kueue import reading

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sliceworks.kube.client import Client

Object = dict[str, Any]
_API_VERSION, _KIND = "sliceworks.dev/v1alpha1", "QueueSnapshot"


def _kueue(kind: str, plural: str, *, namespaced: bool = False) -> Resource:
    return Resource("kueue.x-k8s.io", "v1beta2", kind, plural, namespaced)


RESOURCES = (
    NAMESPACE,
    _kueue("ResourceFlavor", "resourceflavors"),
    _kueue("AdmissionCheck", "admissionchecks"),
    _kueue("Cohort", "cohorts"),
    _kueue("ClusterQueue", "clusterqueues"),
    _kueue("WorkloadPriorityClass", "workloadpriorityclasses"),
    _kueue("LocalQueue", "localqueues", namespaced=True),
    _kueue("Workload", "workloads", namespaced=True),
)
"""What is read, in the order in which a twin learns of it."""
_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_KINDS = {resource.kind for resource in RESOURCES}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """When it was taken, and the objects of each kind."""

    taken: datetime
    objects: dict[str, list[Object]]

    def of(self, kind: str) -> list[Object]:
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
    """The state of a cluster now."""
    found: dict[str, list[Object]] = {}
    for resource in RESOURCES:
        try:
            listed = await client.list_all(resource)
        except NotFound as error:
            raise SliceworksError("Kueue is not installed in this cluster", hint="install it, or use --twin") from error
        except Forbidden as error:
            remedy = "ask an administrator for a file: sliceworks train forecast --save FILE, then --snapshot FILE"
            raise SliceworksError(f"a forecast reads {resource.plural} of all teams, and you may not", hint=remedy) from error
        found[resource.kind] = [trimmed(resource.kind, each) for each in listed.items]
    return Snapshot(clock.now(), found)


def load(path: Path) -> Snapshot:
    """A snapshot from its file; InvalidDocument says what is wrong with it."""
    try:
        body = orjson.loads(path.read_bytes())
    except OSError as error:
        raise InvalidDocument((error.strerror or "cannot be read").lower(), place=str(path)) from error
    except orjson.JSONDecodeError as error:
        raise InvalidDocument(f"is no JSON: {error.msg}", place=f"{path}:{error.lineno}", hint=_REMEDY) from error
    if not isinstance(body, dict) or (body.get("apiVersion"), body.get("kind")) != (_API_VERSION, _KIND):
        raise InvalidDocument(f"is no {_KIND} of {_API_VERSION}", place=str(path), hint=_REMEDY)
    return Snapshot(_moment(body.get("taken"), path), _checked(body.get("objects"), path))


_REMEDY = "make one with: sliceworks train forecast --save FILE"


def _moment(text: Any, path: Path) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        found = None
    if found is None or found.tzinfo is None:
        raise InvalidDocument(f"taken: must be a time such as 2026-11-16T08:00:00Z, found {text!r}", place=str(path), hint=_REMEDY)
    return found


def _checked(objects: Any, path: Path) -> dict[str, list[Object]]:
    if not isinstance(objects, dict):
        raise InvalidDocument("objects: must be lists by kind", place=str(path), hint=_REMEDY)
    unknown = sorted(set(objects) - _KINDS)
    if unknown:
        raise InvalidDocument(f"objects: unknown kind {unknown[0]}", place=str(path), hint=_REMEDY)
    for kind, listed in objects.items():
        for number, each in enumerate(listed if isinstance(listed, list) else [None]):
            if not _whole(kind, each):
                raise InvalidDocument(f"objects.{kind}[{number}] is not a whole {kind}", place=str(path), hint=_REMEDY)
    return {kind: objects.get(kind, []) for kind in sorted(_KINDS)}


def _whole(kind: str, obj: Any) -> bool:
    """Whether an object can be worked with: everything that a forecast reads of it is read once."""
    try:
        kept = trimmed(kind, obj)
        if kind in _READ:
            _READ[kind](kept)
        return isinstance(kept["metadata"]["name"], str)
    except (AttributeError, KeyError, TypeError, ValueError):
        return False


_READ: dict[str, Callable[[Object], object]] = {
    "ResourceFlavor": reading.flavor,
    "Cohort": lambda obj: reading.quotas(obj.get("spec") or {}),
    "ClusterQueue": lambda obj: (reading.cluster_queue(obj), obj["spec"]),
    "LocalQueue": lambda obj: (obj["metadata"]["namespace"], obj["spec"]["clusterQueue"]),
    "WorkloadPriorityClass": lambda obj: int(obj["value"]),
    "Workload": lambda obj: (job_of(obj, _ANY_TIME), past_of(obj, _ANY_TIME), index(obj["spec"].get("priority") or 0)),
}
