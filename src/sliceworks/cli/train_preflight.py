"""Checks what a cluster must provide before a job is submitted to it.

A user who may submit jobs may lack permission to read queues, priorities or Secrets; checks that cannot read them are skipped.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import duration, yaml_documents
from sliceworks.base.errors import Forbidden, InvalidDocument, NotFound, SliceworksError
from sliceworks.base.names import suggest_name
from sliceworks.cli import train_client
from sliceworks.kube.resources import (
    CLUSTER_QUEUE,
    COHORT,
    CONFIG_MAP,
    LOCAL_QUEUE,
    NAMESPACE,
    PERSISTENT_VOLUME_CLAIM,
    RESOURCE_FLAVOR,
    SECRET,
    SERVICE_ACCOUNT,
    WORKLOAD_PRIORITY_CLASS,
)
from sliceworks.kube.selectors import from_label_selector
from sliceworks.specs.documents import DocumentProblem
from sliceworks.training import queues
from sliceworks.training.admissibility import QueueObjects, explain_inadmissible, warn_of_ready_timeout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sliceworks.kube import Client
    from sliceworks.kube.resources import Resource
    from sliceworks.training.submission import Submission

Object = dict[str, Any]
_KUEUE_CONFIG = ("kueue-system", "kueue-manager-config", "controller_manager_config.yaml")
_GONE: Object = {}
"""What was asked for and is not there; None stands for what may not be read."""


@dataclass(frozen=True, slots=True)
class QueuePlacement:
    """Destination of a job: namespace, ClusterQueue, other readable ClusterQueues, and priority; and a warning, if any."""

    namespace: str
    cluster_queue: str = ""
    priority: int = 0
    queue_objects: QueueObjects | None = None
    warning: str = ""


async def check_cluster(client: Client, submission: Submission, namespace: str) -> QueuePlacement:
    """Raise the first problem; otherwise return the destination of the job."""
    try:
        local, classes, queue_objects, home, config = await asyncio.gather(
            _named(client, LOCAL_QUEUE, namespace),
            _named(client, WORKLOAD_PRIORITY_CLASS),
            _park(client),
            _find(client, NAMESPACE, namespace),
            _find(client, CONFIG_MAP, _KUEUE_CONFIG[1], _KUEUE_CONFIG[0]),
        )
    except NotFound as error:
        raise train_client.not_installed("Kueue") from error
    if home == _GONE:
        raise SliceworksError(
            f"namespace {namespace!r} not found",
            hint="choose another with -n; sliceworks queues apply creates the namespaces of teams",
        )
    spec = submission.job.spec
    for field, name, known in (("queue", spec.queue, local), ("priority", spec.priority, classes)):
        if name and known is not None and name not in known:
            raise _unknown(submission, field, name, known, namespace)
    await _check_name(client, submission.job.metadata.name, namespace)
    for finding in await _missing(client, submission, namespace):
        raise finding.to_error(submission.document)
    target = local[spec.queue]["spec"]["clusterQueue"] if local else ""
    if queue_objects is not None and target:
        for finding in (
            *explain_inadmissible(submission.jobset(namespace), target, submission.request.shape.type_name, queue_objects),
            *_left_out(target, queue_objects, home),
        ):
            raise finding.to_error(submission.document)
    priority = int((classes or {}).get(spec.priority or "", {}).get("value", 0))
    timeout = _ready_timeout(config)
    warning = warn_of_ready_timeout(spec, timeout) if timeout is not None else ""
    return QueuePlacement(namespace, target, priority, queue_objects, warning)


def check_environment(submission: Submission, file: Path, namespace: str) -> str:
    """Raise if an Environment is invalid, or if its pools and queues cannot hold the job; otherwise return a warning, if any."""
    from sliceworks.cli.env_site import require_valid

    environment = require_valid(file)
    types = {flavor.type: flavor for flavor in queues.list_flavors(environment.spec)}
    type_name = submission.request.shape.type_name
    if type_name not in types and not any(type_name.startswith(f"{item}-") for item in types):
        remedy = suggest_name(type_name, types) or f"available: {', '.join(types) or 'no accelerators'}"
        problem = DocumentProblem(("spec", "slices", "type"), f"{file} has no pool of {type_name}", remedy)
        raise problem.to_error(submission.document)
    objects: dict[str, list[Object]] = {}
    for obj in queues.build_manifests(environment):
        objects.setdefault(obj["kind"], []).append(obj)
    namespace = namespace or submission.job.metadata.namespace or ""
    local = {item["metadata"]["namespace"]: item for item in objects.get(LOCAL_QUEUE.kind, ())}
    if namespace and namespace not in local:
        listed = f"namespaces of its teams: {', '.join(local)}" if local else "it has no teams"
        raise SliceworksError(f"{file} has no team with the namespace {namespace}", hint=listed)
    named = {item["metadata"]["name"]: item for place, item in local.items() if place == (namespace or place)}
    if submission.job.spec.queue not in named:
        raise _unknown(submission, "queue", submission.job.spec.queue, named, namespace)
    target = named[submission.job.spec.queue]
    known = QueueObjects(
        tuple(objects[CLUSTER_QUEUE.kind]), tuple(objects[RESOURCE_FLAVOR.kind]), tuple(objects.get(COHORT.kind, ()))
    )
    jobset = submission.jobset(target["metadata"]["namespace"])
    for finding in explain_inadmissible(jobset, target["spec"]["clusterQueue"], type_name, known):
        raise finding.to_error(submission.document)
    within = environment.spec.queues.ready_within
    return warn_of_ready_timeout(submission.job.spec, duration.parse(within)) if within else ""


def _ready_timeout(config: Object | None) -> float | None:
    """The timeout of Kueue's waitForPodsReady; None if it is off or may not be read."""
    text = ((config or {}).get("data") or {}).get(_KUEUE_CONFIG[2], "")
    try:
        documents = yaml_documents.load_all(text, _KUEUE_CONFIG[1])
        section = documents[0].data.get("waitForPodsReady") if documents else None
        if not isinstance(section, dict) or section.get("enable") is False:
            return None
        return duration.parse(section.get("timeout") or "5m")
    except (SliceworksError, ValueError):
        return None


def _unknown(submission: Submission, field: str, name: str, known: dict[str, Object], namespace: str) -> InvalidDocument:
    where = f" in namespace {namespace}" if field == "queue" and namespace else ""
    close = suggest_name(name, known)
    listed = f"available: {', '.join(sorted(known))}; " if known else ""
    remedy = close or f"{listed}`sliceworks queues apply` creates the {field} of an Environment"
    return InvalidDocument(f"{field} {name!r} not found{where}", place=submission.document.place("spec", field), hint=remedy)


async def _check_name(client: Client, name: str, namespace: str) -> None:
    if await train_client.list_jobsets(client, namespace, fields=f"metadata.name={name}"):
        raise already_exists(name, namespace)


def already_exists(name: str, namespace: str) -> SliceworksError:
    """Return the error for a job name that is in use."""
    remedy = f"choose another name, or run sliceworks train cancel {name} -n {namespace}"
    return SliceworksError(f"job {name} already exists in namespace {namespace}", hint=remedy)


def _left_out(queue: str, queue_objects: QueueObjects, namespace_object: Object | None) -> Iterator[DocumentProblem]:
    """Raise if the ClusterQueue does not accept the namespace."""
    cluster_queue = queue_objects.queue(queue)
    if cluster_queue is None or namespace_object is None:
        return
    if not from_label_selector((cluster_queue.get("spec") or {}).get("namespaceSelector")).matches(
        namespace_object["metadata"].get("labels")
    ):
        message = f"queue {queue} does not accept namespace {namespace_object['metadata']['name']}"
        yield DocumentProblem(("spec", "queue"), message, "its namespaceSelector must match the namespace's labels")


@dataclass(frozen=True, slots=True)
class Requirement:
    """An object that the document references and the namespace must contain."""

    resource: Resource
    name: str
    path: tuple[str, ...]
    key: str = ""

    def find_problem(self, obj: Object | None, namespace: str) -> DocumentProblem | None:
        """Return the problem with the object, if any."""
        if obj is None:
            return None
        if obj == _GONE:
            remedy = f"create it, or correct the name: kubectl get {self.resource.plural} -n {namespace}"
            return DocumentProblem(self.path, f"{self.resource.kind} {self.name!r} not found in namespace {namespace}", remedy)
        held = sorted(obj.get("data") or {})
        if self.key and self.key not in held:
            return DocumentProblem(
                self.path, f"key {self.key!r} not found in Secret {self.name!r}", f"keys: {', '.join(held) or 'none'}"
            )
        return None


async def _missing(client: Client, submission: Submission, namespace: str) -> list[DocumentProblem]:
    """Find Secrets, claims and service accounts that the document references and the namespace lacks."""
    needs = list(_needs(submission))
    objects = await asyncio.gather(*(_find(client, item.resource, item.name, namespace) for item in needs))
    problems = (need.find_problem(obj, namespace) for need, obj in zip(needs, objects, strict=True))
    return [finding for finding in problems if finding is not None]


def _needs(submission: Submission) -> Iterator[Requirement]:
    spec = submission.job.spec
    for secret in spec.secrets:
        yield Requirement(SECRET, secret.secret, ("spec", "secrets"), secret.key)
    for volume in spec.volumes:
        if volume.pvc:
            yield Requirement(PERSISTENT_VOLUME_CLAIM, volume.pvc, ("spec", "volumes"))
    if spec.service_account:
        yield Requirement(SERVICE_ACCOUNT, spec.service_account, ("spec", "serviceAccount"))
    if spec.tensorboard and spec.tensorboard.service_account:
        yield Requirement(SERVICE_ACCOUNT, spec.tensorboard.service_account, ("spec", "tensorboard"))
    for helper in spec.side_jobs:
        if helper.service_account:
            yield Requirement(SERVICE_ACCOUNT, helper.service_account, ("spec", "helpers"))


async def _park(client: Client) -> QueueObjects | None:
    queues = await _named(client, CLUSTER_QUEUE)
    if queues is None:
        return None
    flavors = await _named(client, RESOURCE_FLAVOR)
    try:
        cohorts = await _named(client, COHORT)
    except NotFound:
        cohorts = {}
    return (
        None
        if flavors is None or cohorts is None
        else QueueObjects(tuple(queues.values()), tuple(flavors.values()), tuple(cohorts.values()))
    )


async def _named(client: Client, resource: Resource, namespace: str | None = None) -> dict[str, Object] | None:
    try:
        return {item["metadata"]["name"]: item for item in (await client.list_all(resource, namespace)).items}
    except Forbidden:
        return None


async def _find(client: Client, resource: Resource, name: str, namespace: str | None = None) -> Object | None:
    try:
        return await client.get(resource, name, namespace)
    except Forbidden:
        return None
    except NotFound:
        return _GONE
