"""What a cluster must have before a job is sent to it. Everything is read at once, and judged together.

Who may submit work may not always look at queues, priorities or Secrets: what cannot be read is not judged.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import Forbidden, InvalidDocument, NotFound, SliceworksError
from sliceworks.base.words import closest
from sliceworks.cli import train_cluster
from sliceworks.kube.selectors import from_label_selector
from sliceworks.kube.well_known import NAMESPACE, PERSISTENT_VOLUME_CLAIM, SECRET, SERVICE_ACCOUNT
from sliceworks.specs.findings import Finding
from sliceworks.training.admissible import Park, never

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.kube import Client
    from sliceworks.kube.resources import Resource
    from sliceworks.rehearsal.submissions import Submission

Object = dict[str, Any]
_GONE: Object = {}
"""What was asked for and is not there; None stands for what may not be read."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a job goes: its namespace, its ClusterQueue and all others as far as they may be read, and how urgent it is."""

    namespace: str
    cluster_queue: str = ""
    priority: int = 0
    park: Park | None = None


async def check(client: Client, asked: Submission, namespace: str) -> Place:
    """Raises the first thing that stands in a job's way; else says where it goes."""
    try:
        queues, classes, park, home = await asyncio.gather(
            _named(client, train_cluster.LOCAL_QUEUES, namespace),
            _named(client, train_cluster.PRIORITIES),
            _park(client),
            _one(client, NAMESPACE, namespace),
        )
    except NotFound as error:
        raise train_cluster.not_installed("Kueue") from error
    if home == _GONE:
        raise SliceworksError(
            f"there is no namespace {namespace!r}", hint="-n names another; sliceworks queues apply makes a team's"
        )
    spec = asked.job.spec
    for field, name, known in (("queue", spec.queue, queues), ("priority", spec.priority, classes)):
        if name and known is not None and name not in known:
            raise _unknown(asked, field, name, known, namespace)
    await _check_name(client, asked.job.metadata.name, namespace)
    for finding in await _missing(client, asked, namespace):
        raise finding.told(asked.document)
    target = queues[spec.queue]["spec"]["clusterQueue"] if queues else ""
    if park is not None and target:
        for finding in (*never(asked.jobset(namespace), target, asked.ask.shape.type_name, park), *_left_out(target, park, home)):
            raise finding.told(asked.document)
    priority = int((classes or {}).get(spec.priority or "", {}).get("value", 0))
    return Place(namespace, target, priority, park)


def _unknown(asked: Submission, field: str, name: str, known: dict[str, Object], namespace: str) -> InvalidDocument:
    where = f" in namespace {namespace}" if field == "queue" else ""
    close = closest(name, known)
    listed = f"there is {', '.join(sorted(known))}; " if known else ""
    remedy = close or f"{listed}`sliceworks queues apply` makes the {field} that an Environment names"
    return InvalidDocument(f"there is no {field} {name!r}{where}", place=asked.document.place("spec", field), hint=remedy)


async def _check_name(client: Client, name: str, namespace: str) -> None:
    if await train_cluster.all_jobsets(client, namespace, fields=f"metadata.name={name}"):
        raise taken(name, namespace)


def taken(name: str, namespace: str) -> SliceworksError:
    """A second job of one name."""
    remedy = f"take another name, or sliceworks train cancel {name} -n {namespace}"
    return SliceworksError(f"there is already a job {name} in {namespace}", hint=remedy)


def _left_out(queue: str, park: Park, home: Object | None) -> Iterator[Finding]:
    """A namespace that the ClusterQueue does not take work from."""
    found = park.queue(queue)
    if found is None or home is None:
        return
    if not from_label_selector((found.get("spec") or {}).get("namespaceSelector")).matches(home["metadata"].get("labels")):
        told = f"queue {queue} takes no work from namespace {home['metadata']['name']}"
        yield Finding(("spec", "queue"), told, "its namespaceSelector must match the namespace's labels")


@dataclass(frozen=True, slots=True)
class Need:
    """Something that a document names and the namespace must have."""

    resource: Resource
    name: str
    path: tuple[str, ...]
    key: str = ""

    def lacking(self, obj: Object | None, namespace: str) -> Finding | None:
        """What is wrong with what was found."""
        if obj is None:
            return None
        if obj == _GONE:
            remedy = f"make it, or correct the name: kubectl get {self.resource.plural} -n {namespace}"
            return Finding(self.path, f"there is no {self.resource.kind} {self.name!r} in {namespace}", remedy)
        held = sorted(obj.get("data") or {})
        if self.key and self.key not in held:
            return Finding(self.path, f"the Secret {self.name!r} has no key {self.key!r}", f"it has {', '.join(held) or 'none'}")
        return None


async def _missing(client: Client, asked: Submission, namespace: str) -> list[Finding]:
    """Secrets, claims and service accounts that the document names and the namespace lacks."""
    needs = list(_needs(asked))
    found = await asyncio.gather(*(_one(client, each.resource, each.name, namespace) for each in needs))
    told = (need.lacking(obj, namespace) for need, obj in zip(needs, found, strict=True))
    return [finding for finding in told if finding is not None]


def _needs(asked: Submission) -> Iterator[Need]:
    spec = asked.job.spec
    for secret in spec.secrets:
        yield Need(SECRET, secret.secret, ("spec", "secrets"), secret.key)
    for volume in spec.volumes:
        if volume.pvc:
            yield Need(PERSISTENT_VOLUME_CLAIM, volume.pvc, ("spec", "volumes"))
    if spec.service_account:
        yield Need(SERVICE_ACCOUNT, spec.service_account, ("spec", "serviceAccount"))
    if spec.tensorboard and spec.tensorboard.service_account:
        yield Need(SERVICE_ACCOUNT, spec.tensorboard.service_account, ("spec", "tensorboard"))
    for helper in spec.beside:
        if helper.service_account:
            yield Need(SERVICE_ACCOUNT, helper.service_account, ("spec", "helpers"))


async def _park(client: Client) -> Park | None:
    queues = await _named(client, train_cluster.CLUSTER_QUEUES)
    if queues is None:
        return None
    flavors = await _named(client, train_cluster.FLAVORS)
    try:
        cohorts = await _named(client, train_cluster.COHORTS)
    except NotFound:
        cohorts = {}
    return (
        None
        if flavors is None or cohorts is None
        else Park(tuple(queues.values()), tuple(flavors.values()), tuple(cohorts.values()))
    )


async def _named(client: Client, resource: Resource, namespace: str | None = None) -> dict[str, Object] | None:
    try:
        return {each["metadata"]["name"]: each for each in (await client.list_all(resource, namespace)).items}
    except Forbidden:
        return None


async def _one(client: Client, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
    try:
        return await client.get(resource, name, namespace)
    except Forbidden:
        return None
    except NotFound:
        return _GONE
