"""A rehearsal without steps: applies documents to an in-process twin in virtual time and returns their outcomes."""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, memory
from sliceworks.base.conditions import find_condition, is_condition_true
from sliceworks.base.errors import SliceworksError
from sliceworks.catalog.labels import DEFAULT_RUN_SECONDS
from sliceworks.kube.client import Client
from sliceworks.kube.resources import key_of
from sliceworks.platform.controller_host import ControllerRequirements, run_controllers
from sliceworks.rehearsal.drill import Drill
from sliceworks.rehearsal.events import EventResult, PlannedEvent, load_event_documents, plan_events, run_events
from sliceworks.rehearsal.timeline import Timeline, TimelineEntry
from sliceworks.serving.objects import COMPONENT_LABEL, SERVICE_LABEL
from sliceworks.serving.saxml import PUBLISHER
from sliceworks.serving.service_status import METRIC_APIS

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.base.yaml_documents import Document
    from sliceworks.kube.resources import Resource
    from sliceworks.rehearsal.record import Outage
    from sliceworks.specs.scenario import Scenario

Object = dict[str, Any]


def summarize_status(obj: Object) -> str:
    """`2/2 ready`, `Active`, `Established`; empty for objects without a status."""
    status: Object = obj.get("status") or {}
    summarize = _SUMMARIES.get(str(obj.get("kind")))
    if summarize is not None:
        return summarize(obj.get("spec") or {}, status)
    return str(status.get("phase") or ", ".join(true_conditions(obj)))


def true_conditions(obj: Object) -> list[str]:
    """The conditions that are true."""
    conditions = (obj.get("status") or {}).get("conditions") or []
    return [str(item.get("type")) for item in conditions if item.get("status") == "True"]


def _replicas(spec: Object, status: Object) -> str:
    return f"{status.get('readyReplicas') or 0}/{spec.get('replicas', 1)} ready"


def _job(spec: Object, status: Object) -> str:
    if spec.get("suspend"):
        return "suspended"
    ended = [name for name in true_conditions({"status": status}) if name in {"Complete", "Failed"}]
    return ended[0] if ended else f"{status.get('succeeded') or 0}/{spec.get('completions') or 1} succeeded"


def _quota(spec: Object, status: Object) -> str:
    used, hard = status.get("used") or {}, spec.get("hard") or {}
    return ", ".join(f"{name.removeprefix('requests.')} {used.get(name, 0)}/{limit}" for name, limit in hard.items())


def _node(_spec: Object, status: Object) -> str:
    return "Ready" if "Ready" in true_conditions({"status": status}) else "NotReady"


def _autoscaler(spec: Object, status: Object) -> str:
    limits = f"{spec.get('minReplicas', 1)} to {spec.get('maxReplicas')}"
    reasons = [str(condition.get("reason")) for condition in status.get("conditions") or () if _is_blocking(condition)]
    blocked = ["no metrics on a twin" if reason in METRIC_APIS else reason for reason in reasons]
    return ", ".join([f"{status.get('currentReplicas') or 0} of {limits}", *blocked])


def _is_blocking(condition: Object) -> bool:
    return condition.get("type") in {"AbleToScale", "ScalingActive"} and condition.get("status") == "False"


def _budget(_spec: Object, status: Object) -> str:
    return f"{status.get('disruptionsAllowed') or 0} disruptions allowed"


_SUMMARIES: dict[str, Callable[[Object, Object], str]] = {
    "Deployment": _replicas,
    "HorizontalPodAutoscaler": _autoscaler,
    "Job": _job,
    "Node": _node,
    "PodDisruptionBudget": _budget,
    "ReplicaSet": _replicas,
    "ResourceQuota": _quota,
    "StatefulSet": _replicas,
}


# The timeline shows what the twin's parts log; keep their log lines off the terminal.
logging.getLogger("sliceworks").addHandler(logging.NullHandler())

_CRD, _GRAPH = "CustomResourceDefinition", "ResourceGraphDefinition"
_TIMEOUT = 30.0  # seconds of twin time until a new kind must be served
_POLL = 0.1
_PREDECESSOR_POLL = 2.0
WAITING = "waiting"
"""Result of a document that was not applied, because it waits for another one."""


@dataclass(slots=True)
class Outcome:
    """Result of one document: created, changed, unchanged, refused or waiting."""

    document: Document
    result: str
    reason: str = ""
    state: str = ""
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Rehearsal:
    """Results of a finished rehearsal."""

    outcomes: list[Outcome]
    timeline: list[TimelineEntry]
    duration: float
    event_results: list[EventResult] = field(default_factory=list)
    outages: list[Outage] = field(default_factory=list)
    """Outages of the programs that the drill killed."""

    @property
    def refused(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes if outcome.result == "refused"]

    @property
    def failed(self) -> bool:
        """Whether a document or an event was refused."""
        return bool(self.refused) or any(result.refused for result in self.event_results)


def rehearse(
    documents: list[Document],
    *,
    scenario: Scenario | None = None,
    folder: Path | None = None,
    seconds: float = 60.0,
    seed: int = 0,
    drill: float | None = None,
) -> Rehearsal:
    """Apply documents to a fresh twin, run the events of a scenario for `seconds` of twin time, and return the results.

    With `drill`, a program of the twin or of Sliceworks is killed about every `drill` seconds.
    """
    steps = plan_events(scenario, folder or Path(), Random(seed)) if scenario is not None else []
    start = scenario.spec.start if scenario is not None else None
    event_documents = load_event_documents(scenario, folder or Path()) if scenario is not None else []
    requirements = ControllerRequirements.of([*documents, *event_documents], scenario)
    with memory.reduced_gc():
        return clock.run(
            _rehearse(documents, steps, seconds, requirements, Drill(drill, seed) if drill else None),
            virtual=True,
            seed=seed,
            start=start,
        )


async def _rehearse(
    documents: list[Document], steps: list[PlannedEvent], seconds: float, requirements: ControllerRequirements, drill: Drill | None
) -> Rehearsal:
    from sliceworks.twin.cluster import Cluster

    before_request = drill.between if drill else None
    async with (
        Cluster(config_connector=requirements.config_connector, job_seconds=DEFAULT_RUN_SECONDS, between=before_request) as cluster,
        run_controllers(cluster, requirements) as controllers,
        drill.active(cluster, lambda: controllers) if drill else nullcontext(),
    ):
        await clock.sleep(1)  # keep the twin's initial objects out of the timeline
        timeline = Timeline()
        cluster.store.subscribe(timeline.observe)
        timeline.begin()
        warnings: list[str] = []
        results: list[EventResult] = []
        async with Client(cluster.transport(), on_warning=warnings.append) as client:
            outcomes, waiting_tasks = [], list[asyncio.Task[None]]()
            for document in documents:
                if predecessors := _predecessors(document, documents):
                    outcomes.append(Outcome(document, WAITING))
                    waiting_tasks.append(asyncio.create_task(_apply_later(client, outcomes[-1], predecessors, timeline)))
                else:
                    outcomes.append(await apply_document(client, document, timeline, warnings))
            await run_events(steps, client, clock.sleep, on_result=results.append)
            await clock.sleep(max(0.0, seconds - timeline.elapsed()))
            for task in waiting_tasks:
                task.cancel()
            await asyncio.gather(*waiting_tasks, return_exceptions=True)
            for outcome in outcomes:
                outcome.state = await _final_status(client, outcome)
        return Rehearsal(outcomes, list(timeline.entries), timeline.elapsed(), results, drill.outages if drill else [])


def _predecessors(document: Document, documents: list[Document]) -> list[Document]:
    """Documents that must be complete before this one is applied. As in `models deploy`, a model is published after its
    checkpoint was converted and its servers are ready."""
    labels = document.data["metadata"].get("labels") or {}
    if document.data["kind"] != "Job" or labels.get(COMPONENT_LABEL) != PUBLISHER:
        return []
    service = labels.get(SERVICE_LABEL), document.data["metadata"].get("namespace")
    return [
        candidate
        for candidate in documents
        if candidate.data["kind"] in ("Job", "Deployment", "StatefulSet")
        and ((candidate.data["metadata"].get("labels") or {}).get(SERVICE_LABEL), candidate.data["metadata"].get("namespace"))
        == service
        and candidate.data["metadata"]["labels"].get(COMPONENT_LABEL) != PUBLISHER
    ]


async def _apply_later(client: Client, outcome: Outcome, predecessors: list[Document], timeline: Timeline) -> None:
    """Apply a document when its predecessors are complete; the outcome names the one that it waits for."""
    for predecessor in predecessors:
        resource = await client.resource_of(predecessor.data)
        outcome.reason, key = f"waits for {predecessor.name}", key_of(predecessor.data)
        while not _is_complete(await client.find(resource, key.name, key.namespace or None)):
            await clock.sleep(_PREDECESSOR_POLL)
    applied = await apply_document(client, outcome.document, timeline, [])
    outcome.result, outcome.reason, outcome.warnings = applied.result, applied.reason, applied.warnings


def _is_complete(obj: dict[str, Any] | None) -> bool:
    if obj is None:
        return False
    if obj["kind"] == "Job":
        return is_condition_true(obj, "Complete")
    status = obj.get("status") or {}
    return int(status.get("readyReplicas") or 0) >= int(obj["spec"].get("replicas", 1))


async def apply_document(client: Client, document: Document, timeline: Timeline, warnings: list[str]) -> Outcome:
    """Apply one document as `kubectl apply --server-side` does; a refusal is an outcome, not an exception."""
    obj = document.data
    warnings.clear()
    try:
        resource = await client.resource_of(obj)
        key = key_of(obj)
        before = await client.find(resource, key.name, key.namespace or None)
        with timeline.author(client.field_manager):
            applied = await client.apply(obj, resource=resource)
        if resource.kind == _CRD:
            await _wait_until_established(client, applied)
        elif resource.kind == _GRAPH:
            await _wait_until_graph_settled(client, resource, applied)
    except SliceworksError as error:
        metadata = obj["metadata"]
        timeline.add("refused", obj["kind"], metadata.get("namespace") or "", metadata["name"], by="sliceworks", note=error.message)
        return Outcome(document, "refused", error.message, warnings=list(warnings))
    if before is None:
        return Outcome(document, "created", warnings=list(warnings))
    is_unchanged = before["metadata"]["resourceVersion"] == applied["metadata"]["resourceVersion"]
    return Outcome(document, "unchanged" if is_unchanged else "changed", warnings=list(warnings))


async def _wait_until_established(client: Client, crd: dict[str, Any]) -> None:
    """Wait until the CRD is established."""
    resource = await client.resource_of(crd)
    async with asyncio.timeout(_TIMEOUT):
        while "Established" not in true_conditions(await client.get(resource, crd["metadata"]["name"])):
            await clock.sleep(_POLL)
    client.discovery.invalidate()


async def _wait_until_graph_settled(client: Client, resource: Resource, graph: dict[str, Any]) -> None:
    """Wait until a graph is ready or refused; the next document may be an instance of it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_TIMEOUT):
            while not _is_settled(await client.get(resource, graph["metadata"]["name"])):
                await clock.sleep(_POLL)
    client.discovery.invalidate()


def _is_settled(graph: dict[str, Any]) -> bool:
    refused = (find_condition(graph, kind).get("status") == "False" for kind in ("GraphAccepted", "KindReady"))
    return is_condition_true(graph, "Ready") or any(refused)


async def _final_status(client: Client, outcome: Outcome) -> str:
    """Status of the object at the end."""
    if outcome.result == "refused":
        return ""
    if outcome.result == WAITING:
        return outcome.reason
    data, key = outcome.document.data, key_of(outcome.document.data)
    obj = await client.find(await client.resource_of(data), key.name, key.namespace or None)
    return summarize_status(obj) if obj else "deleted"
