"""Training jobs as rows: which are wanted, in which order, and what is told of each."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration
from sliceworks.base.conditions import condition
from sliceworks.cli.output import Report
from sliceworks.training.asked import size
from sliceworks.training.states import ending, pod_spec, state, workers
from sliceworks.training.words import ENDED, PRIORITY, QUEUE, RUNS, TYPE, WAITS

if TYPE_CHECKING:
    from collections.abc import Iterable

Object = dict[str, Any]
Row = tuple[object, ...]
_COLUMNS = ("name", "queue", "priority", "type", "slices", "state", "restarts", "age")
_WIDE = (*_COLUMNS, "hosts", "chips", "ran", "image")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs are wanted; what is left out wants all."""

    queue: str | None = None
    kind: str | None = None
    states: tuple[str, ...] = ()
    namespaces: frozenset[str] | None = None

    def labels(self) -> str:
        """What the server can pick by."""
        pairs = ((QUEUE, self.queue), (TYPE, self.kind))
        return ",".join(f"{key}={value}" for key, value in pairs if value)

    def wants(self, jobset: Object, word: str) -> bool:
        """What only we can pick by."""
        return (not self.states or word in self.states) and (
            self.namespaces is None or jobset["metadata"]["namespace"] in self.namespaces
        )


@dataclass(frozen=True, slots=True)
class Table:
    """What is shown of each job."""

    filter: Filter
    form: str = "table"
    everywhere: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        columns = _WIDE if self.form == "wide" else _COLUMNS
        return ("namespace", *columns) if self.everywhere else columns

    def wanted(self, jobsets: Iterable[Object]) -> list[Object]:
        """Those that are wanted, in order."""
        found = [(word, each) for each in jobsets if self.filter.wants(each, word := state(each))]
        running = [each for word, each in found if word in RUNS]
        waiting = [each for word, each in found if word in WAITS]
        ended = [each for word, each in found if word in ENDED]
        ended.sort(key=lambda each: str(ending(each).get("lastTransitionTime", "")), reverse=True)
        return [*sorted(running, key=_born), *sorted(waiting, key=_born), *ended]

    def row(self, jobset: Object) -> Row:
        """One job. Its age is the last but those of the wide form."""
        metadata = jobset["metadata"]
        labels = metadata.get("labels") or {}
        row: Row = (
            metadata["name"],
            *(labels.get(key, "-") for key in (QUEUE, PRIORITY, TYPE)),
            workers(jobset).get("replicas", 1),
            state(jobset),
            (jobset.get("status") or {}).get("restarts", 0),
            duration.human(_since(metadata["creationTimestamp"])),
        )
        if self.form == "wide":
            row += (*size(jobset), _ran(jobset), _image(jobset))
        return (metadata["namespace"], *row) if self.everywhere else row

    def still(self, jobset: Object) -> Row:
        """A row without what changes by itself."""
        ages = {self.columns.index("age"), self.columns.index("ran") if "ran" in self.columns else -1}
        return tuple(cell for number, cell in enumerate(self.row(jobset)) if number not in ages)

    def report(self, jobsets: list[Object]) -> Report:
        """All of it, for any form."""
        rows = [self.row(each) for each in jobsets] if self.form in ("table", "wide") else []
        return Report(self.columns, rows, jobsets, [f"jobset/{each['metadata']['name']}" for each in jobsets])


def _born(jobset: Object) -> tuple[str, str]:
    return jobset["metadata"]["creationTimestamp"], jobset["metadata"]["name"]


def _since(moment: str) -> float:
    return max(clock.since(datetime.fromisoformat(moment)).total_seconds(), 0)


def _container(jobset: Object) -> Object:
    containers: list[Object] = pod_spec(jobset)["containers"]
    return containers[0]


def _image(jobset: Object) -> str:
    return str(_container(jobset).get("image", ""))


def _ran(jobset: Object) -> str:
    """How long it runs or ran: since it was let go by its queue."""
    if state(jobset) in WAITS:
        return "-"
    resumed = condition(jobset, "Suspended")
    began = resumed["lastTransitionTime"] if resumed.get("status") == "False" else jobset["metadata"]["creationTimestamp"]
    over = ending(jobset).get("lastTransitionTime")
    seconds = _since(began) - (_since(over) if over else 0)
    return duration.human(max(seconds, 0))
