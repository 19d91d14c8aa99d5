"""Checks the expectations of a Scenario against the record of its run. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base import duration
from sliceworks.base.names import join_first
from sliceworks.rehearsal.record import CheckResult
from sliceworks.rehearsal.simulation.steps import DESTROY, LOAD_TEST, SCENARIO

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.rehearsal.record import JobRecord, RunRecord
    from sliceworks.specs.scenario import (
        Expectation,
        ExpectChips,
        ExpectIncident,
        ExpectJob,
        ExpectLoadTest,
        ExpectSlice,
        ExpectState,
    )

_DELETED = "deleted"


def step_of(expectation: Expectation) -> str:
    """Name of the step that the expectation is checked after."""
    return {"load_test": LOAD_TEST, "nothing_left": DESTROY}.get(expectation.selected[0], SCENARIO)


def check(expectation: Expectation, run: RunRecord, place: str = "") -> CheckResult:
    """Compare an expectation with the record of a run."""
    name, value = expectation.selected
    expected, problems, actual = getattr(_Checker(run), name)(value)
    return CheckResult(expected, "; ".join(problems) or actual, not problems, place)


Finding = tuple[str, list[str], str]


@dataclass(frozen=True, slots=True)
class _Checker:
    """Checks one run. The public methods have the names of the expectations; each returns what was expected, the problems, and what
    was found if there are none."""

    run: RunRecord

    def _at(self, at: float) -> str:
        return (
            "before the scenario started" if at < self.run.scenario_start else f"at {duration.human(at - self.run.scenario_start)}"
        )

    def job(self, spec: ExpectJob) -> Finding:
        name = f"{spec.namespace}/{spec.name}"
        expected = f"job {name} {', '.join(_describe_expected_job(spec)) or 'exists'}"
        job = next((item for item in self.run.jobs if (item.namespace, item.name) == (spec.namespace, spec.name)), None)
        if job is None:
            return expected, ["job not found"], ""
        return expected, list(self._job_problems(spec, job)), self._describe_job(job)

    def _job_problems(self, spec: ExpectJob, job: JobRecord) -> Iterator[str]:
        if (spec.outcome is not None and job.outcome != spec.outcome) or (
            spec.by is not None and (job.ended is None or job.ended - self.run.scenario_start > spec.by)
        ):
            yield self._describe_job(job)
        if spec.waited is not None and (job.waited is None or job.waited > spec.waited):
            yield "never admitted" if job.waited is None else f"waited {duration.human(job.waited)}"
        for verb, minimum, count in (
            ("preempted", spec.preempted, job.preemptions),
            ("restarted", spec.restarted, job.restarts),
        ):
            if minimum is not None and (count > 0 if minimum == 0 else count < minimum):
                yield f"{verb} {_times(count)}"

    def _describe_job(self, job: JobRecord) -> str:
        summary = job.outcome if job.ended is None else f"{job.outcome} {self._at(job.ended)}"
        summary += f", preempted {_times(job.preemptions)}" if job.preemptions else ""
        return summary + (f", restarted {_times(job.restarts)}" if job.restarts else "")

    def slice(self, spec: ExpectSlice) -> Finding:
        where = " ".join(filter(None, (spec.capacity, f"in {spec.zone}" if spec.zone else "")))
        expected = f"a slice{f' {where}' if where else ''} for {spec.job}{_format_deadline(spec.by)}"
        slices = [
            (span.begin, item) for item in self.run.slices if item.job == spec.job for span in item.spans if span.state == "running"
        ]
        summary = (
            ", ".join(f"{record.capacity} in {record.zone}, {self._at(at)}" for at, record in slices) or "no slice was created"
        )
        fits = any(
            spec.zone in ("", record.zone)
            and spec.capacity in ("", record.capacity)
            and (spec.by is None or at - self.run.scenario_start <= spec.by)
            for at, record in slices
        )
        return expected, [] if fits else [summary], summary

    def state(self, spec: ExpectState) -> Finding:
        expected = f"{spec.kind} {spec.namespace}/{spec.name} is {spec.state}{_format_deadline(spec.by)}"
        key = (spec.kind, spec.namespace, spec.name)
        instances = [instance for instance in self.run.instances if (instance.kind, instance.namespace, instance.name) == key]
        if not instances:
            return expected, ["not found"], ""
        if spec.state == _DELETED:
            times = [item.deleted for item in instances if item.deleted is not None]
        else:
            times = [span.begin for instance in instances for span in instance.spans if span.state == spec.state]
        if not times:
            last = next((span.state for span in reversed(instances[-1].spans)), "unknown")
            return expected, [f"never; last state {last}"], ""
        summary = self._at(times[0])
        return expected, [summary] if spec.by is not None and times[0] - self.run.scenario_start > spec.by else [], summary

    def chips(self, spec: ExpectChips) -> Finding:
        bounds = [f"at {word} {count}" for word, count in (("least", spec.min), ("most", spec.max)) if count is not None]
        verb = f"{spec.team} uses" if spec.team else "there are"
        expected = f"{verb} {' and '.join(bounds)} {spec.chip} at {duration.human(spec.at)}"
        series = self.run.usage if spec.team else self.run.capacity
        points = next((item.points for item in series if (item.team, item.chip) == (spec.team, spec.chip)), ())
        count = next((count for at, count in reversed(points) if at - self.run.scenario_start <= spec.at), 0)
        fits = (spec.min is None or count >= spec.min) and (spec.max is None or count <= spec.max)
        return expected, [] if fits else [str(count)], str(count)

    def load_test(self, spec: ExpectLoadTest) -> Finding:
        goodput = f" with a goodput of {spec.goodput:g}/s" if spec.goodput else ""
        expected = f"load test {spec.name} meets its objectives{goodput}, errors at most {spec.errors:.2%}"
        run = next((item for item in self.run.measured.load_runs if item.name == spec.name), None)
        if run is None:
            return expected, ["the load test did not run"], ""
        problems = [f"{objective.expected}: {objective.actual}" for objective in run.objectives if not objective.passed]
        if run.goodput < spec.goodput:
            problems.append("goodput is too low")
        if run.failed > run.requests * spec.errors:
            problems.append("too many requests failed")
        return expected, problems, "objectives met"

    def incident(self, spec: ExpectIncident) -> Finding:
        about = f" of {spec.about}" if spec.about else ""
        within = f" within {duration.human(spec.within)}" if spec.within is not None else ""
        expected = f"recovery from a {spec.kind}{about}{within}"
        incidents = [incident for incident in self.run.incidents if incident.kind == spec.kind and spec.about in incident.subject]
        if not incidents:
            return expected, ["no such incident"], ""
        for item in incidents:
            if item.recovered_at is None:
                return expected, [f"{item.subject}: not recovered"], ""
            if spec.within is not None and item.recovered_at - item.at > spec.within:
                return expected, [f"{item.subject}: recovered after {duration.human(item.recovered_at - item.at)}"], ""
        longest = max(incident.recovered_at - incident.at for incident in incidents if incident.recovered_at is not None)
        return expected, [], f"{_times(len(incidents))}, recovered after at most {duration.human(longest)}"

    def nothing_left(self, expects_nothing: bool) -> Finding:
        left = self.run.leftovers
        summary = join_first(left, 5) or "nothing"
        expected = "no resources left in the cloud" if expects_nothing else "resources left in the cloud"
        return expected, [] if bool(left) != expects_nothing else [summary], summary


def _describe_expected_job(spec: ExpectJob) -> Iterator[str]:
    if spec.outcome is not None:
        yield f"{spec.outcome}{_format_deadline(spec.by)}"
    elif spec.by is not None:
        yield f"has ended{_format_deadline(spec.by)}"
    if spec.waited is not None:
        yield f"waits at most {duration.human(spec.waited)}"
    for verb, count in (("preempted", spec.preempted), ("restarted", spec.restarted)):
        if count is not None:
            yield f"never {verb}" if count == 0 else f"{verb} {'at least ' if count > 1 else ''}{_times(count)}"


def _format_deadline(seconds: float | None) -> str:
    return f" by {duration.human(seconds)}" if seconds is not None else ""


def _times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")
