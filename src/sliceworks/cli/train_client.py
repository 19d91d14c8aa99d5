"""Reads and watches training jobs: their JobSet, Workload and pods."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from sliceworks.base import memory
from sliceworks.base.errors import Forbidden, NotFound, SliceworksError
from sliceworks.base.names import suggest_name
from sliceworks.catalog.labels import JOB_UID, JOBSET_NAME
from sliceworks.kube.resources import JOBSET, WORKLOAD

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator

    from sliceworks.kube import Client, Delta, Informer
    from sliceworks.kube.requests import ListOptions

Object = dict[str, Any]
T = TypeVar("T")
_NO_RIGHTS = (
    "pass your team's namespace with -n, or ask an administrator to add you to the members in the Environment and run queues apply"
)


def run(work: Callable[[Client], Awaitable[T]], namespace: str, where: dict[str, Any]) -> T:
    """Run `work` on the target cluster."""
    from sliceworks.cli import connections

    with permission_hints(), memory.reduced_gc():
        return connections.run_on_cluster(work, where, namespace)


@contextmanager
def permission_hints() -> Iterator[None]:
    """Add a hint to permission errors: whom to ask for access."""
    try:
        yield
    except Forbidden as error:
        error.hint = error.hint or _NO_RIGHTS
        raise


async def list_jobsets(client: Client, namespace: str | None, **selection: Unpack[ListOptions]) -> list[Object]:
    """List the JobSets of a namespace, or of all."""
    try:
        return (await client.list_all(JOBSET, namespace, **selection)).items
    except NotFound as error:
        raise not_installed("JobSet") from error


async def find_jobset(client: Client, name: str, namespace: str) -> Object:
    """Read a JobSet; NotFound suggests the closest name."""
    try:
        return await client.get(JOBSET, name, namespace)
    except NotFound as error:
        remedy = await _elsewhere(client, name)
        if not remedy:
            known = (jobset["metadata"]["name"] for jobset in await list_jobsets(client, namespace))
            remedy = suggest_name(name, known) or "sliceworks train list -A"
        raise SliceworksError(f"training job {name!r} not found in namespace {namespace}", hint=remedy) from error


async def _elsewhere(client: Client, name: str) -> str:
    """Return a hint with the namespaces that have a job of this name; empty if none or not permitted."""
    try:
        jobsets = await list_jobsets(client, None, fields=f"metadata.name={name}")
    except Forbidden:
        return ""
    places = sorted(item["metadata"]["namespace"] for item in jobsets)
    return f"found in {' and '.join(places[:3])}: pass -n" if places else ""


async def find_workload(client: Client, jobset: Object) -> Object | None:
    """Return the Workload of a JobSet; None if it does not exist or cannot be read."""
    from sliceworks.training import lifecycle

    return await lifecycle.find_workload(client, jobset)


async def list_pods(client: Client, name: str, namespace: str) -> list[Object]:
    """Return the pods of a JobSet, including those of auxiliary jobs."""
    from sliceworks.kube.resources import POD

    return (await client.list_all(POD, namespace, labels=f"{JOBSET_NAME}={name}")).items


def not_installed(what: str) -> SliceworksError:
    """Return the error for a missing component."""
    return SliceworksError(f"{what} is not installed in this cluster", hint="install it, or use --twin")


_DEBOUNCE = 0.1  # seconds; changes within it are reported together
_OPEN_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """The current state of a job; a deleted job keeps its last state."""

    jobset: Object
    workload: Object | None = None
    pods: list[Object] = field(default_factory=list)
    is_deleted: bool = False


class JobWatcher:
    """Yields a snapshot after every change."""

    def __init__(self, jobset: Object, jobsets: Informer, workloads: Informer, pods: Informer) -> None:
        self._jobset, self._is_deleted = jobset, False
        self._workloads, self._pods = workloads, pods
        self._changed = asyncio.Event()
        self._uid = jobset["metadata"]["uid"]
        jobsets.add_handler(self._take)
        if not any(item["metadata"]["uid"] == self._uid for item in jobsets.store):
            self._is_deleted = True
        for informer in (workloads, pods):
            informer.add_handler(lambda _delta: self._changed.set())

    def _take(self, delta: Delta) -> None:
        """Another job that has taken the name is not this one."""
        if delta.object["metadata"]["uid"] == self._uid:
            self._jobset, self._is_deleted = delta.object, delta.kind == "deleted"
            self._changed.set()

    def snapshot(self) -> JobSnapshot:
        """Return the current snapshot."""
        return JobSnapshot(self._jobset, next(iter(self._workloads.store), None), list(self._pods.store), self._is_deleted)

    async def snapshots(self) -> AsyncGenerator[JobSnapshot, None]:
        """Yield the current snapshot, then one after every batch of changes."""
        while True:
            self._changed.clear()
            yield self.snapshot()
            await self._changed.wait()
            await asyncio.sleep(_DEBOUNCE)


@asynccontextmanager
async def watch_job(client: Client, jobset: Object) -> AsyncIterator[JobWatcher]:
    """Watch one JobSet."""
    from sliceworks.kube import Informers
    from sliceworks.kube.resources import POD

    metadata = jobset["metadata"]
    name, namespace, uid = metadata["name"], metadata["namespace"], metadata["uid"]
    async with Informers(client) as informers:
        jobsets = informers.open(JOBSET, namespace, fields=f"metadata.name={name}")
        workloads = informers.open(WORKLOAD, namespace, labels=f"{JOB_UID}={uid}")
        pods = informers.open(POD, namespace, labels=f"{JOBSET_NAME}={name}")
        await jobsets.wait_synced(_OPEN_SECONDS)
        await pods.wait_synced(_OPEN_SECONDS)
        yield JobWatcher(jobset, jobsets, workloads, pods)
