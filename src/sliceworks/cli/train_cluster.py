"""Training jobs as a cluster has them: read here, by every command of `train`, with a remedy for each thing that may be missing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from sliceworks.base import collector
from sliceworks.base.errors import Forbidden, NotFound, SliceworksError
from sliceworks.base.words import closest
from sliceworks.catalog.labels import JOBSET_NAME
from sliceworks.kube.resources import Resource

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from sliceworks.kube import Client
    from sliceworks.kube.options import ListOptions

Object = dict[str, Any]
T = TypeVar("T")
JOBSETS = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
_KUEUE = ("kueue.x-k8s.io", "v1beta2")
LOCAL_QUEUES = Resource(*_KUEUE, "LocalQueue", "localqueues")
WORKLOADS = Resource(*_KUEUE, "Workload", "workloads")
CLUSTER_QUEUES = Resource(*_KUEUE, "ClusterQueue", "clusterqueues", namespaced=False)
COHORTS = Resource(*_KUEUE, "Cohort", "cohorts", namespaced=False)
FLAVORS = Resource(*_KUEUE, "ResourceFlavor", "resourceflavors", namespaced=False)
PRIORITIES = Resource(*_KUEUE, "WorkloadPriorityClass", "workloadpriorityclasses", namespaced=False)
_NO_RIGHTS = "name your team's namespace with -n, or ask its administrator: members of the Environment, then queues apply"


def run(work: Callable[[Client], Awaitable[T]], namespace: str, where: dict[str, Any]) -> T:
    """Do a command's work on the cluster that is meant."""
    from sliceworks.cli import connections

    with remedies(), collector.rested():
        return connections.on_cluster(work, where, namespace)


@contextmanager
def remedies() -> Iterator[None]:
    """Whoever may not do something is told whom to ask."""
    try:
        yield
    except Forbidden as error:
        error.hint = error.hint or _NO_RIGHTS
        raise


async def all_jobsets(client: Client, namespace: str | None, **selection: Unpack[ListOptions]) -> list[Object]:
    """The JobSets of a namespace, or of all."""
    try:
        return (await client.list_all(JOBSETS, namespace, **selection)).items
    except NotFound as error:
        raise not_installed("JobSet") from error


async def find_jobset(client: Client, name: str, namespace: str) -> Object:
    """One JobSet; where there is none, the closest name."""
    try:
        return await client.get(JOBSETS, name, namespace)
    except NotFound as error:
        remedy = await _elsewhere(client, name)
        if not remedy:
            known = (each["metadata"]["name"] for each in await all_jobsets(client, namespace))
            remedy = closest(name, known) or "sliceworks train list -A"
        raise SliceworksError(f"there is no training job {name!r} in {namespace}", hint=remedy) from error


async def _elsewhere(client: Client, name: str) -> str:
    """In which namespaces there is a job of this name; empty where there is none, or one may not look."""
    try:
        found = await all_jobsets(client, None, fields=f"metadata.name={name}")
    except Forbidden:
        return ""
    places = sorted(each["metadata"]["namespace"] for each in found)
    return f"there is one in {' and '.join(places[:3])}: name it with -n" if places else ""


async def workload_of(client: Client, jobset: Object) -> Object | None:
    """The Workload that stands for a JobSet in its queue; None where nobody has made one, or one may not look."""
    from sliceworks.training import restarting

    return await restarting.workload_of(client, jobset)


async def pods_of(client: Client, name: str, namespace: str) -> list[Object]:
    """The pods of a JobSet, helpers' too."""
    from sliceworks.kube.well_known import POD

    return (await client.list_all(POD, namespace, labels=f"{JOBSET_NAME}={name}")).items


def not_installed(what: str) -> SliceworksError:
    """A cluster that lacks something we stand on."""
    return SliceworksError(f"{what} is not installed in this cluster", hint="install it, or use --twin")
