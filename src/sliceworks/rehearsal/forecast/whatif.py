"""What if: a Scenario's changes of quota, priorities and capacity and its submissions, as things that happen in a run."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument
from sliceworks.base.words import closest
from sliceworks.catalog.labels import RESERVATION_NAME
from sliceworks.rehearsal.forecast import newcomers
from sliceworks.rehearsal.queue_steps import quotas, spoken
from sliceworks.rehearsal.scenarios import renumbered
from sliceworks.specs import documents
from sliceworks.specs.scenario import EndReservation, Scenario, SetPriority, SetQuota, Submit, Target

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.base.yamls import Document
    from sliceworks.rehearsal.forecast.course import Course
    from sliceworks.rehearsal.forecast.jobs import Job
    from sliceworks.rehearsal.forecast.outlook import Happens, Lasts, Outlook
    from sliceworks.specs.scenario import Event


@dataclass(slots=True)
class WhatIf:
    """Jobs that come beside those there are, what happens, and all of it in words."""

    more: list[Job] = field(default_factory=list)
    happens: list[Happens] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


def read(file: Path, outlook: Outlook) -> WhatIf:
    """The Scenario of a file, checked against the queues that there are."""
    document = yamls.load_one(file, "Scenario")
    scenario = documents.read_as(document, Scenario)
    reader = _Reader(document, yamls.folder_of(file), outlook, scenario)
    for number, event in enumerate(scenario.spec.events):
        reader.take(number, event)
    return reader.found


class _Reader:
    """Reads one scenario."""

    def __init__(self, document: Document, folder: Path, outlook: Outlook, scenario: Scenario) -> None:
        self._document, self._folder, self._outlook = document, folder, outlook
        start, taken = scenario.spec.start, outlook.snapshot.taken
        self._start = (start - taken).total_seconds() if start else 0.0
        self._random = Random(scenario.spec.seed)
        self._queues = {each["metadata"]["name"]: each for each in outlook.snapshot.of("ClusterQueue")}
        self.found = WhatIf()

    def take(self, number: int, event: Event) -> None:
        """One event."""
        name, action = event.action
        at, path = self._start + event.at, ("spec", "events", number)
        if isinstance(action, SetQuota):
            self._quota(at, action, path)
        elif isinstance(action, SetPriority):
            self._priority(at, action, path)
        elif isinstance(action, EndReservation):
            self._reservation(at, action, path)
        elif isinstance(action, Submit):
            self._submissions(at, action)
        elif name == "delete" and isinstance(action, Target):
            self._cancel(at, action, path)
        else:
            alias = str(type(event).model_fields[name].alias)
            remedy = "it knows setQuota, setPriority, endReservation, submit and delete"
            raise InvalidDocument(
                f"a forecast has no {alias}: there are queues in it, but no machines",
                place=self._document.place(*path),
                hint=remedy,
            )

    def _happens(self, at: float, words: str, act: Happens) -> None:
        self.found.words.append(words)
        self.found.happens.append(lambda course, lasts: course.at(at, lambda: act(course, lasts)))

    def _quota(self, at: float, action: SetQuota, path: tuple[str | int, ...]) -> None:
        name = self._known("ClusterQueue", action.cluster_queue, self._queues, path)
        if not list(quotas(self._queues[name], action.flavor, action.resource)):
            place = self._document.place(*path)
            raise InvalidDocument(
                f"{name} has no {action.resource} of flavor {action.flavor}", place=place, hint=f"sliceworks queues show {name}"
            )

        def act(course: Course, _lasts: Lasts) -> None:
            queue = copy.deepcopy(course.ledger.queues[name])
            for quota in quotas(queue, action.flavor, action.resource):
                quota["nominalQuota"] = action.after(str(quota["nominalQuota"]))
            course.change_queue(queue)

        self._happens(at, spoken(action), act)

    def _priority(self, at: float, action: SetPriority, path: tuple[str | int, ...]) -> None:
        classes = {each["metadata"]["name"]: each for each in self._outlook.snapshot.of("WorkloadPriorityClass")}
        value = int(classes[self._known("priority", action.priority, classes, path)]["value"])
        job = self._job(action.job, action.namespace, path)
        self._happens(at, spoken(action), lambda course, _lasts: course.prefer(job.key, value))

    def _cancel(self, at: float, action: Target, path: tuple[str | int, ...]) -> None:
        job = self._job(action.name, action.namespace, path)
        self._happens(at, f"{job.name} is cancelled", lambda course, _lasts: course.drop(job.key))

    def _reservation(self, at: float, action: EndReservation, path: tuple[str | int, ...]) -> None:
        held: dict[str, set[str]] = {}
        for flavor in self._outlook.snapshot.of("ResourceFlavor"):
            name = ((flavor.get("spec") or {}).get("nodeLabels") or {}).get(RESERVATION_NAME)
            if name:
                held.setdefault(name, set()).add(flavor["metadata"]["name"])
        flavors = held[self._known("reservation", action.reservation, held, path)]

        def act(course: Course, _lasts: Lasts) -> None:
            for name in list(course.ledger.queues):
                queue = copy.deepcopy(course.ledger.queues[name])
                for flavor in flavors:
                    for quota in quotas(queue, flavor):
                        quota["nominalQuota"] = "0"
                course.change_queue(queue)
            course.evict(lambda item: any(flavor in flavors for flavor, _ in item.usage))

        self._happens(at, spoken(action), act)

    def _submissions(self, at: float, action: Submit) -> None:
        taken, moment = self._outlook.snapshot.taken, at
        loaded = yamls.load_path(self._folder / action.file)
        for number in range(1, action.count + 1):
            for document in loaded:
                one = renumbered(document, number)
                when = taken + timedelta(seconds=max(moment, 0.0))
                self.found.more.append(
                    newcomers.job(one, self._folder, self._outlook.snapshot, namespace=action.namespace, at=when)
                )
            moment += action.every or (self._random.expovariate(action.rate / 3600) if action.rate else 0.0)
        self.found.words.append(f"{action.count * len(loaded)} more jobs come from {action.file}")

    def _job(self, name: str, namespace: str, path: tuple[str | int, ...]) -> Job:
        found = find(self._outlook, name, namespace)
        if len(found) == 1:
            return found[0]
        place = self._document.place(*path)
        if found:
            where = ", ".join(sorted(each.key[0] for each in found))
            raise InvalidDocument(f"there are {len(found)} jobs {name}", place=place, hint=f"name its namespace: {where}")
        raise InvalidDocument(f"there is no job {name!r} that runs or waits", place=place, hint=closest_job(self._outlook, name))

    def _known(self, what: str, name: str, known: dict[str, Any], path: tuple[str | int, ...]) -> str:
        if name in known:
            return name
        remedy = closest(name, known) or f"there are: {', '.join(sorted(known)) or 'none'}"
        raise InvalidDocument(f"there is no {what} {name!r}", place=self._document.place(*path), hint=remedy)


def find(outlook: Outlook, name: str, namespace: str = "") -> list[Job]:
    """The jobs of a name that run or wait."""
    return [job for job in outlook.jobs.values() if job.name == name and namespace in ("", job.key[0])]


def closest_job(outlook: Outlook, name: str) -> str:
    """The job that may have been meant."""
    return closest(name, (job.name for job in outlook.jobs.values())) or "sliceworks train list -A"
