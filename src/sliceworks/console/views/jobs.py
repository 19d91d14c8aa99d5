"""Training jobs in a table: a row of each, and those that one looks for, a page at a time. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sliceworks.base.conditions import condition
from sliceworks.training.asked import asked, size
from sliceworks.training.states import ending, state, workers
from sliceworks.training.words import ENDED, PRIORITY, QUEUE, RUNS, STATES, TYPE, WAITS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Object = dict[str, Any]
PAGE = 50
SORTS = ("name", "team", "state", "type", "chips", "restarts", "age", "cost")
_RANK = {word: number for number, word in enumerate(STATES)}


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job. `usd` is what its slices cost an hour, None where that is not known; `ready` of `slices` are ready; `said` is how it
    ended, in JobSet's words."""

    namespace: str
    name: str
    queue: str
    priority: str
    type: str
    state: str
    slices: int
    ready: int
    hosts: int
    chips: int
    restarts: int
    created: str
    began: str
    ended: str
    usd: float | None
    said: str = ""

    @property
    def holds(self) -> bool:
        """Whether it has slices that cost money now."""
        return self.state in RUNS


def job_row(jobset: Object) -> JobRow:
    """What the table says of a job."""
    metadata, status = jobset["metadata"], jobset.get("status") or {}
    labels, first, ask = metadata.get("labels") or {}, workers(jobset), asked(jobset)
    hosts, chips = size(jobset)
    counts: Object = next((each for each in status.get("replicatedJobsStatus") or () if each["name"] == first["name"]), {})
    resumed = condition(jobset, "Suspended")
    price = ask.price if ask else None
    return JobRow(
        namespace=metadata["namespace"],
        name=metadata["name"],
        queue=labels.get(QUEUE, ""),
        priority=labels.get(PRIORITY, ""),
        type=labels.get(TYPE, "") or (ask.shape.type_name if ask else ""),
        state=state(jobset),
        slices=first.get("replicas", 1),
        ready=counts.get("ready", 0) + counts.get("succeeded", 0),
        hosts=hosts,
        chips=chips or (ask.chips if ask else 0),
        restarts=status.get("restarts", 0),
        created=metadata["creationTimestamp"],
        began=_began(jobset, resumed),
        ended=ending(jobset).get("lastTransitionTime", ""),
        usd=price.usd if price else None,
        said=ending(jobset).get("message", ""),
    )


def _began(jobset: Object, suspended: Object) -> str:
    """When it was last let go; one that nobody ever held began at once."""
    if not suspended:
        return "" if jobset["spec"].get("suspend") else str(jobset["metadata"]["creationTimestamp"])
    return str(suspended["lastTransitionTime"]) if suspended["status"] == "False" else ""


@dataclass(frozen=True, slots=True)
class Query:
    """What one looks for. `page` counts from 0; without a `sort` what runs comes first, then what waits, then what has ended."""

    text: str = ""
    team: str = ""
    state: str = ""
    sort: str = ""
    descending: bool = False
    page: int = 0

    @staticmethod
    def read(asked: Mapping[str, str]) -> Query:
        """What an address asks for; what it has wrong is left out."""
        sort, page = asked.get("sort", ""), asked.get("page", "")
        column = sort.removeprefix("-")
        return Query(
            text=asked.get("text", ""),
            team=asked.get("team", ""),
            state=asked.get("state", ""),
            sort=column if column in SORTS else "",
            descending=sort.startswith("-") and column in SORTS,
            page=int(page) - 1 if page.isdecimal() and int(page) else 0,
        )

    def written(self) -> dict[str, str]:
        """The same for an address; people count pages from 1."""
        sort = f"-{self.sort}" if self.sort and self.descending else self.sort
        page = str(self.page + 1) if self.page else ""
        found = {"text": self.text, "team": self.team, "state": self.state, "sort": sort, "page": page}
        return {name: value for name, value in found.items() if value}

    def by(self, column: str) -> Query:
        """Sorted by a column; again the other way round; and then as it was."""
        if self.sort != column:
            return replace(self, sort=column, descending=False, page=0)
        return replace(self, descending=True, page=0) if not self.descending else replace(self, sort="", descending=False, page=0)


@dataclass(frozen=True, slots=True)
class JobsPage:
    """One page of the table: `first` is the number of its first row among the `found`, of `total` jobs in all."""

    rows: tuple[tuple[str, JobRow], ...]
    first: int
    found: int
    total: int
    pages: int
    query: Query
    states: tuple[tuple[str, int], ...]
    teams: tuple[str, ...]


def jobs_page(rows: Iterable[JobRow], team_of: Mapping[str, str], query: Query) -> JobsPage:
    """The page that a query asks for, or the last one where there are fewer; each row with its team."""
    every = [(team_of.get(row.namespace, row.namespace), row) for row in rows]
    words = query.text.lower().split()
    found = [pair for pair in every if _wanted(pair, query, words)]
    _sort(found, query)
    pages = max(-(-len(found) // PAGE), 1)
    page = min(max(query.page, 0), pages - 1)
    counts = Counter(row.state for _, row in every)
    return JobsPage(
        rows=tuple(found[page * PAGE : (page + 1) * PAGE]),
        first=page * PAGE,
        found=len(found),
        total=len(every),
        pages=pages,
        query=replace(query, page=page),
        states=tuple((word, counts[word]) for word in STATES if counts[word]),
        teams=tuple(sorted({team for team, _ in every})),
    )


def _wanted(pair: tuple[str, JobRow], query: Query, words: list[str]) -> bool:
    team, row = pair
    if (query.team and team != query.team) or (query.state and row.state != query.state):
        return False
    if not words:
        return True
    text = f"{row.namespace}/{row.name} {team} {row.queue} {row.type} {row.priority} {row.state}".lower()
    return all(word in text for word in words)


def _sort(found: list[tuple[str, JobRow]], query: Query) -> None:
    """In place. What was sorted by one column keeps the order of age within it."""
    if not query.sort:
        ended = sorted((each for each in found if each[1].state in ENDED), key=lambda each: each[1].ended, reverse=True)
        others = [each for each in found if each[1].state not in ENDED]
        found[:] = [*sorted(others, key=lambda each: (each[1].state in WAITS, each[1].created, each[1].name)), *ended]
        return
    found.sort(key=lambda each: each[1].created)
    keys = {
        "name": lambda each: each[1].name,
        "team": lambda each: each[0],
        "state": lambda each: _RANK.get(each[1].state, 9),
        "type": lambda each: each[1].type,
        "chips": lambda each: each[1].chips,
        "restarts": lambda each: each[1].restarts,
        "age": lambda each: each[1].created,
        "cost": lambda each: each[1].usd or 0.0,
    }
    # The youngest has the smallest age.
    found.sort(key=keys[query.sort], reverse=query.descending is not (query.sort == "age"))
