"""Days with many jobs, to see that a page stays small and quick."""

from __future__ import annotations

from random import Random

from sliceworks.rehearsal.day.record import Day, JobLife, Series, SliceLife, Span

_HOUR = 3600.0
_SHORT = "waits for 128 chips of v5e in queue language: 64 of 192 are free, llama-70b holds 128 until about 11:20"


def large_day(jobs: int = 1000, seed: int = 3) -> Day:
    """Many jobs of five teams in three days."""
    random, lasted = Random(seed), 72 * _HOUR
    lives = []
    for number in range(jobs):
        at = random.uniform(0, lasted * 0.9)
        admitted = at + random.expovariate(1 / 2400)
        ended = admitted + random.expovariate(1 / 9000) + 60
        spans = (
            Span("waiting", at, admitted, _SHORT),
            Span("starting", admitted, admitted + 40),
            Span("running", admitted + 40, ended),
        )
        team = f"team-{number % 5}"
        lives.append(
            JobLife(
                f"train-{number:04d}",
                team,
                team,
                team,
                "normal",
                "v5e",
                16,
                at,
                admitted,
                admitted + 40,
                ended,
                "succeeded",
                spans=spans,
            )
        )
    slices = tuple(
        SliceLife(
            f"pool-{job.name}",
            "v5e",
            "4x4",
            4,
            16,
            "us-central1-a",
            "spot",
            job.submitted,
            job.ended,
            f"{job.namespace}/{job.name}",
        )
        for job in lives
    )
    return Day(
        "large",
        ".",
        seed,
        "2026-11-16T08:00:00Z",
        lasted,
        usage=_held(lives),
        capacity=(Series("v5e", ((0, 2048),)),),
        jobs=tuple(lives),
        slices=slices,
    )


def _held(jobs: list[JobLife]) -> tuple[Series, ...]:
    found = []
    for team in sorted({job.team for job in jobs}):
        changes = sorted(
            change for job in jobs if job.team == team for change in ((job.admitted or 0.0, 16), (job.ended or 0.0, -16))
        )
        points, held = [], 0
        for at, change in changes:
            held += change
            points.append((at, held))
        found.append(Series("v5e", tuple(points), team))
    return tuple(found)
