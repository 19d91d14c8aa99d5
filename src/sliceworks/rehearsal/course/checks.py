"""Whether a day went as its Scenario expects. Pure: from the record of the day alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base import duration
from sliceworks.rehearsal.day.record import Check
from sliceworks.specs.expectations import ExpectChips, ExpectIncident, ExpectJob, ExpectLoadTest, ExpectSlice, ExpectState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.rehearsal.day.record import Day, JobLife
    from sliceworks.specs.expectations import Expectation

LOAD_TEST, DESTROY, DAY = "load-test", "destroy", "day"
_GONE = "gone"


def step_of(expectation: Expectation) -> str:
    """The step that it is expected of."""
    return {"load_test": LOAD_TEST, "nothing_left": DESTROY}.get(expectation.wanted[0], DAY)


def check(expectation: Expectation, day: Day, place: str = "") -> Check:
    """What was expected and what was found, in words."""
    _, wanted = expectation.wanted
    view = _View(day)
    if isinstance(wanted, ExpectJob):
        expected, problems, actual = view.job(wanted)
    elif isinstance(wanted, ExpectSlice):
        expected, problems, actual = view.slice(wanted)
    elif isinstance(wanted, ExpectState):
        expected, problems, actual = view.state(wanted)
    elif isinstance(wanted, ExpectChips):
        expected, problems, actual = view.chips(wanted)
    elif isinstance(wanted, ExpectLoadTest):
        expected, problems, actual = view.load_test(wanted)
    elif isinstance(wanted, ExpectIncident):
        expected, problems, actual = view.incident(wanted)
    else:
        expected, problems, actual = view.left(empty=bool(wanted))
    return Check(expected, "; ".join(problems) or actual, not problems, place)


Found = tuple[str, list[str], str]


@dataclass(frozen=True, slots=True)
class _View:
    """Looks things up in a day. Each method says what was expected, what is wrong, and else what was found."""

    day: Day

    def _at(self, at: float) -> str:
        return "before the day began" if at < self.day.opened else f"at {duration.human(at - self.day.opened)}"

    def job(self, wanted: ExpectJob) -> Found:
        name = f"{wanted.namespace}/{wanted.name}"
        expected = f"job {name} {', '.join(_of_job(wanted)) or 'is there'}"
        life = next((each for each in self.day.jobs if (each.namespace, each.name) == (wanted.namespace, wanted.name)), None)
        if life is None:
            return expected, ["there was no such job"], ""
        return expected, list(self._job_problems(wanted, life)), self._job_told(life)

    def _job_problems(self, wanted: ExpectJob, life: JobLife) -> Iterator[str]:
        if (wanted.outcome is not None and life.outcome != wanted.outcome) or (
            wanted.by is not None and (life.ended is None or life.ended - self.day.opened > wanted.by)
        ):
            yield self._job_told(life)
        if wanted.waited is not None and (life.waited is None or life.waited > wanted.waited):
            yield "was never admitted" if life.waited is None else f"waited {duration.human(life.waited)}"
        for what, least, count in (
            ("preempted", wanted.preempted, life.preemptions),
            ("restarted", wanted.restarted, life.restarts),
        ):
            if least is not None and (count > 0 if least == 0 else count < least):
                yield f"{what} {_times(count)}"

    def _job_told(self, life: JobLife) -> str:
        told = life.outcome if life.ended is None else f"{life.outcome} {self._at(life.ended)}"
        told += f", preempted {_times(life.preemptions)}" if life.preemptions else ""
        return told + (f", restarted {_times(life.restarts)}" if life.restarts else "")

    def slice(self, wanted: ExpectSlice) -> Found:
        where = " ".join(filter(None, (wanted.capacity, f"in {wanted.zone}" if wanted.zone else "")))
        expected = f"a slice{f' {where}' if where else ''} for {wanted.job}{_by(wanted.by)}"
        made = [
            (span.begin, each)
            for each in self.day.slices
            if each.job == wanted.job
            for span in each.spans
            if span.state == "running"
        ]
        told = ", ".join(f"{each.capacity} in {each.zone}, {self._at(at)}" for at, each in made) or "none was made"
        fits = any(
            wanted.zone in ("", each.zone)
            and wanted.capacity in ("", each.capacity)
            and (wanted.by is None or at - self.day.opened <= wanted.by)
            for at, each in made
        )
        return expected, [] if fits else [told], told

    def state(self, wanted: ExpectState) -> Found:
        expected = f"{wanted.kind} {wanted.namespace}/{wanted.name} is {wanted.state}{_by(wanted.by)}"
        key = (wanted.kind, wanted.namespace, wanted.name)
        lives = [each for each in self.day.lives if (each.kind, each.namespace, each.name) == key]
        if not lives:
            return expected, ["there was none"], ""
        if wanted.state == _GONE:
            moments = [each.gone for each in lives if each.gone is not None]
        else:
            moments = [span.begin for each in lives for span in each.spans if span.state == wanted.state]
        if not moments:
            last = next((span.state for span in reversed(lives[-1].spans)), "in no state")
            return expected, [f"never; last it was {last}"], ""
        told = self._at(moments[0])
        return expected, [told] if wanted.by is not None and moments[0] - self.day.opened > wanted.by else [], told

    def chips(self, wanted: ExpectChips) -> Found:
        bounds = [f"at {word} {count}" for word, count in (("least", wanted.least), ("most", wanted.most)) if count is not None]
        who = f"{wanted.team} has" if wanted.team else "there are"
        expected = f"{who} {' and '.join(bounds)} {wanted.chip} at {duration.human(wanted.at)}"
        series = self.day.usage if wanted.team else self.day.capacity
        points = next((each.points for each in series if (each.team, each.chip) == (wanted.team, wanted.chip)), ())
        count = next((count for at, count in reversed(points) if at - self.day.opened <= wanted.at), 0)
        fits = (wanted.least is None or count >= wanted.least) and (wanted.most is None or count <= wanted.most)
        return expected, [] if fits else [str(count)], str(count)

    def load_test(self, wanted: ExpectLoadTest) -> Found:
        least = f" with {wanted.goodput:g} good answers a second" if wanted.goodput else ""
        expected = f"load test {wanted.name} keeps its objectives{least}, errors at most {wanted.errors:.2%}"
        run = next((each for each in self.day.measured.load_runs if each.name == wanted.name), None)
        if run is None:
            return expected, ["it did not run"], ""
        problems = [f"{each.expected}: {each.actual}" for each in run.objectives if not each.kept]
        if run.goodput < wanted.goodput:
            problems.append("too few good answers a second")
        if run.failed > run.requests * wanted.errors:
            problems.append("too many requests failed")
        return expected, problems, "kept"

    def incident(self, wanted: ExpectIncident) -> Found:
        about = f" of {wanted.about}" if wanted.about else ""
        within = f" within {duration.human(wanted.within)}" if wanted.within is not None else ""
        expected = f"a {wanted.kind}{about} is mended{within}"
        found = [each for each in self.day.incidents if each.kind == wanted.kind and wanted.about in each.subject]
        if not found:
            return expected, ["it did not happen"], ""
        for each in found:
            if each.mended is None:
                return expected, [f"{each.subject}: not mended"], ""
            if wanted.within is not None and each.mended - each.at > wanted.within:
                return expected, [f"{each.subject}: mended after {duration.human(each.mended - each.at)}"], ""
        longest = max(each.mended - each.at for each in found if each.mended is not None)
        return expected, [], f"{_times(len(found))}, mended after {duration.human(longest)} at most"

    def left(self, *, empty: bool) -> Found:
        left = self.day.left
        told = ", ".join(left[:5]) + (f" and {len(left) - 5} more" if len(left) > 5 else "") if left else "nothing"
        expected = "nothing is left in the cloud" if empty else "something is left in the cloud"
        return expected, [] if bool(left) != empty else [told], told


def _of_job(wanted: ExpectJob) -> Iterator[str]:
    if wanted.outcome is not None:
        yield f"{wanted.outcome}{_by(wanted.by)}"
    elif wanted.by is not None:
        yield f"has ended{_by(wanted.by)}"
    if wanted.waited is not None:
        yield f"waits at most {duration.human(wanted.waited)}"
    for what, count in (("preempted", wanted.preempted), ("restarted", wanted.restarted)):
        if count is not None:
            yield f"never {what}" if count == 0 else f"{what} {'at least ' if count > 1 else ''}{_times(count)}"


def _by(seconds: float | None) -> str:
    return f" by {duration.human(seconds)}" if seconds is not None else ""


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
