"""What if: quota, priority, capacity and submission events of a Scenario, applied in every trial."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.base.names import suggest_name
from sliceworks.catalog.labels import RESERVATION_NAME
from sliceworks.platform.loader import substitute_document_index
from sliceworks.rehearsal.event_actions import describe_queue_action, flavor_quotas
from sliceworks.rehearsal.forecast import arrivals
from sliceworks.specs import documents
from sliceworks.specs.scenario import EndReservation, Scenario, SetPriority, SetQuota, Submit, Target

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.base.yaml_documents import Document
    from sliceworks.rehearsal.forecast.forecaster import Forecaster, RunTimes, TrialEvent
    from sliceworks.rehearsal.forecast.jobs import Job
    from sliceworks.rehearsal.forecast.trial import Trial
    from sliceworks.specs.scenario import Event


@dataclass(slots=True)
class WhatIf:
    """Additional jobs, events, and descriptions of both."""

    extra_jobs: list[Job] = field(default_factory=list)
    events: list[TrialEvent] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


def read(file: Path, forecaster: Forecaster) -> WhatIf:
    """Read a Scenario and validate it against the snapshot's queues."""
    document = yaml_documents.load_one(file, "Scenario")
    scenario = documents.read_as(document, Scenario)
    parser = _Parser(document, yaml_documents.base_directory(file), forecaster, scenario)
    for number, event in enumerate(scenario.spec.events):
        parser.add(number, event)
    return parser.result


class _Parser:
    """Reads one scenario."""

    def __init__(self, document: Document, folder: Path, forecaster: Forecaster, scenario: Scenario) -> None:
        self._document, self._folder, self._forecaster = document, folder, forecaster
        start, taken = scenario.spec.start, forecaster.snapshot.taken
        self._start = (start - taken).total_seconds() if start else 0.0
        self._random = Random(scenario.spec.seed)
        self._queues = {item["metadata"]["name"]: item for item in forecaster.snapshot.list("ClusterQueue")}
        self.result = WhatIf()

    def add(self, number: int, event: Event) -> None:
        """Add one event."""
        name, action = event.action
        at, path = self._start + event.at, ("spec", "events", number)
        if isinstance(action, SetQuota):
            self._add_quota(at, action, path)
        elif isinstance(action, SetPriority):
            self._add_priority(at, action, path)
        elif isinstance(action, EndReservation):
            self._add_reservation(at, action, path)
        elif isinstance(action, Submit):
            self._add_submissions(at, action)
        elif name == "delete" and isinstance(action, Target):
            self._add_cancellation(at, action, path)
        else:
            alias = str(type(event).model_fields[name].alias)
            remedy = "supported events: setQuota, setPriority, endReservation, submit, delete"
            raise InvalidDocument(
                f"{alias}: not supported in a forecast, which has queues but no machines",
                place=self._document.place(*path),
                hint=remedy,
            )

    def _add_event(self, at: float, description: str, action: TrialEvent) -> None:
        self.result.messages.append(description)
        self.result.events.append(lambda trial, run_times: trial.at(at, lambda: action(trial, run_times)))

    def _add_quota(self, at: float, action: SetQuota, path: tuple[str | int, ...]) -> None:
        name = self._check_known("ClusterQueue", action.cluster_queue, self._queues, path)
        if not list(flavor_quotas(self._queues[name], action.flavor, action.resource)):
            place = self._document.place(*path)
            raise InvalidDocument(
                f"{name} has no {action.resource} of flavor {action.flavor}", place=place, hint=f"sliceworks queues show {name}"
            )

        def act(trial: Trial, _run_times: RunTimes) -> None:
            queue = copy.deepcopy(trial.cache.cluster_queues[name])
            for quota in flavor_quotas(queue, action.flavor, action.resource):
                quota["nominalQuota"] = action.after(str(quota["nominalQuota"]))
            trial.update_queue(queue)

        self._add_event(at, describe_queue_action(action), act)

    def _add_priority(self, at: float, action: SetPriority, path: tuple[str | int, ...]) -> None:
        classes = {item["metadata"]["name"]: item for item in self._forecaster.snapshot.list("WorkloadPriorityClass")}
        value = int(classes[self._check_known("priority", action.priority, classes, path)]["value"])
        job = self._job(action.job, action.namespace, path)
        self._add_event(at, describe_queue_action(action), lambda trial, _run_times: trial.set_priority(job.key, value))

    def _add_cancellation(self, at: float, action: Target, path: tuple[str | int, ...]) -> None:
        job = self._job(action.name, action.namespace, path)
        self._add_event(at, f"{job.name} is cancelled", lambda trial, _run_times: trial.delete_job(job.key))

    def _add_reservation(self, at: float, action: EndReservation, path: tuple[str | int, ...]) -> None:
        flavors_by_reservation: dict[str, set[str]] = {}
        for flavor in self._forecaster.snapshot.list("ResourceFlavor"):
            name = ((flavor.get("spec") or {}).get("nodeLabels") or {}).get(RESERVATION_NAME)
            if name:
                flavors_by_reservation.setdefault(name, set()).add(flavor["metadata"]["name"])
        flavors = flavors_by_reservation[self._check_known("reservation", action.reservation, flavors_by_reservation, path)]

        def act(trial: Trial, _run_times: RunTimes) -> None:
            for name in list(trial.cache.cluster_queues):
                queue = copy.deepcopy(trial.cache.cluster_queues[name])
                for flavor in flavors:
                    for quota in flavor_quotas(queue, flavor):
                        quota["nominalQuota"] = "0"
                trial.update_queue(queue)
            trial.evict(lambda item: any(flavor in flavors for flavor, _ in item.usage))

        self._add_event(at, describe_queue_action(action), act)

    def _add_submissions(self, at: float, action: Submit) -> None:
        taken, arrival = self._forecaster.snapshot.taken, at
        loaded = yaml_documents.load_path(self._folder / action.file)
        for number in range(1, action.count + 1):
            for document in loaded:
                indexed = substitute_document_index(document, number)
                submitted_at = taken + timedelta(seconds=max(arrival, 0.0))
                self.result.extra_jobs.append(
                    arrivals.job_from_document(
                        indexed, self._folder, self._forecaster.snapshot, namespace=action.namespace, at=submitted_at
                    )
                )
            arrival += action.every or (self._random.expovariate(action.rate / 3600) if action.rate else 0.0)
        self.result.messages.append(f"{action.count * len(loaded)} more jobs are submitted from {action.file}")

    def _job(self, name: str, namespace: str, path: tuple[str | int, ...]) -> Job:
        jobs = find(self._forecaster, name, namespace)
        if len(jobs) == 1:
            return jobs[0]
        place = self._document.place(*path)
        if jobs:
            namespaces = ", ".join(sorted(item.key[0] for item in jobs))
            raise InvalidDocument(f"{len(jobs)} jobs are named {name}", place=place, hint=f"set the namespace: {namespaces}")
        raise InvalidDocument(f"job {name!r} is neither running nor pending", place=place, hint=closest_job(self._forecaster, name))

    def _check_known(self, what: str, name: str, known: dict[str, Any], path: tuple[str | int, ...]) -> str:
        if name in known:
            return name
        remedy = suggest_name(name, known) or f"known: {', '.join(sorted(known)) or 'none'}"
        raise InvalidDocument(f"{what} {name!r} not found", place=self._document.place(*path), hint=remedy)


def find(forecaster: Forecaster, name: str, namespace: str = "") -> list[Job]:
    """Running and pending jobs with a name."""
    return [job for job in forecaster.jobs.values() if job.name == name and namespace in ("", job.key[0])]


def closest_job(forecaster: Forecaster, name: str) -> str:
    """Hint with the most similar job name."""
    return suggest_name(name, (job.name for job in forecaster.jobs.values())) or "sliceworks train list -A"
