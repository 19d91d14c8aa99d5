"""What went wrong in a day, and what the platform did about it: put together from what was planned and what was seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.rehearsal.course.machines import is_stockout
from sliceworks.rehearsal.day.record import Answer, Incident

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.rehearsal.course.blows import Blow
    from sliceworks.rehearsal.course.jobs import Turn
    from sliceworks.rehearsal.course.machines import Trouble
    from sliceworks.rehearsal.day.record import SliceLife

_AGAIN = ("running", "ended")


def incidents(
    blows: Iterable[Blow], turns: Iterable[Turn], troubles: Iterable[Trouble], slices: Iterable[SliceLife]
) -> tuple[Incident, ...]:
    """All of them, first to last."""
    happened, lives = list(turns), list(slices)
    found = [
        *_preemptions(happened),
        *_stockouts(list(troubles), lives, happened),
        *(_blow(each, happened) for each in blows),
    ]
    return tuple(sorted(found, key=lambda each: (each.at, each.subject, each.kind)))


def _preemptions(turns: list[Turn]) -> Iterator[Incident]:
    for turn in turns:
        if turn.what == "preempted":
            again = _next(turns, turn.at, turn.job)
            answers = [Answer(turn.at, "gave its chips back and went into its queue again")]
            if again is not None:
                answers.append(Answer(again.at, "ran again"))
            what = f"work of higher priority needed the chips of {turn.job}"
            yield Incident(turn.at, what, "preemption", f"job {turn.job}", tuple(answers), again.at if again else None)


def _stockouts(troubles: list[Trouble], lives: list[SliceLife], turns: list[Turn]) -> Iterator[Incident]:
    """Pools that could not be made. Until its job runs, what is tried for it in vain belongs to the first failure."""
    mended: dict[str, float | None] = {}
    for trouble in troubles:
        if trouble.job and trouble.job in mended and ((until := mended[trouble.job]) is None or trouble.at <= until):
            continue
        found = _stockout(trouble, lives, turns)
        mended[trouble.job] = found.mended
        yield found


def _stockout(trouble: Trouble, lives: list[SliceLife], turns: list[Turn]) -> Incident:
    """One of them; what comes next for the same job is the answer."""
    subject = f"slice {trouble.pool}" + (f" of job {trouble.job}" if trouble.job else "")
    later = [each for each in lives if trouble.job and each.job == trouble.job and each.born >= trouble.at]
    ends = [Answer(at, f"the slice stands in {each.zone}") for each in later for at in _stood(each)]
    ran = _next(turns, trouble.at, trouble.job)
    if ran is not None:
        ends.append(Answer(ran.at, f"{trouble.job} runs" if ran.what == "running" else f"{trouble.job} {ran.note}"))
    ends.sort(key=lambda each: each.at)
    until = ends[0].at if ends else None
    tried = [each for each in later if until is None or each.born <= until]
    tries = [Answer(each.born, f"asked for {each.capacity} machines in {each.zone}") for each in tried]
    unlike = {each.what: each for each in reversed(tries)}
    if is_stockout(trouble):
        kind, what = "stockout", f"{trouble.zone} has no {trouble.capacity} machines with {trouble.chip} to give"
    else:
        kind, what = "cloud", f"the cloud could not make machines with {trouble.chip} in {trouble.zone} ({trouble.code})"
    answers = sorted((*unlike.values(), *ends[:2]), key=lambda each: each.at)
    return Incident(trouble.at, what, kind, subject, tuple(answers), until)


def _stood(life: SliceLife) -> Iterator[float]:
    return (span.begin for span in life.spans if span.state == "running")


def _blow(blow: Blow, turns: list[Turn]) -> Incident:
    """What jobs did that lost a host or a pod: they are mended when all of them run again, or have ended."""
    answers: list[Answer] = []
    mended: list[float | None] = []
    for job in blow.jobs:
        after = [turn for turn in turns if turn.job == job and turn.at >= blow.at]
        restart = next((turn for turn in after if turn.what == "restarted"), None)
        again = _next(turns, restart.at if restart else blow.at, job)
        if restart is not None:
            answers.append(Answer(restart.at, f"started {job} again, for the {_ordinal(int(restart.note))} time"))
        if again is not None:
            answers.append(Answer(again.at, f"{job} {'ran again' if again.what == 'running' else again.note}"))
        mended.append(again.at if again else None)
    known = [each for each in mended if each is not None]
    subject = ", ".join(f"job {job}" for job in blow.jobs) or "machines without work"
    done = max(known) if known and len(known) == len(mended) else None
    return Incident(blow.at, blow.what, blow.kind, subject, tuple(sorted(answers, key=lambda each: each.at)), done)


def _next(turns: list[Turn], at: float, job: str) -> Turn | None:
    """When a job ran again or ended, after a moment."""
    return next((turn for turn in turns if turn.job == job and turn.at > at and turn.what in _AGAIN), None)


def _ordinal(number: int) -> str:
    return {1: "first", 2: "second", 3: "third"}.get(number, f"{number}th")
