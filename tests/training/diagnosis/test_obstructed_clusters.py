"""`train why` has a cause for every job that does not run, whatever is in its way."""

from __future__ import annotations

import os

import pytest
from tests.support.obstructed_cluster import explain_all

from sliceworks.base import clock

_SEEDS = int(os.environ.get("SLICEWORKS_SEEDS", "12"))
_FAILED_ONCE = (1, 38, 80, 149)
"""1, 38: Kueue waited for the pods of jobs in another queue. 80: a node stayed ready that failed at the time at which its lease
was created. 149: the host of a pod reported nothing."""
_VAGUE = ("running", "starting", "pending-in-queue")
"""Answers that name nothing to act on: right for a few seconds, wrong for a job that does not start for minutes."""


@pytest.mark.parametrize("seed", sorted({*range(_SEEDS), *_FAILED_ONCE}))
def test_a_job_that_does_not_run_has_a_cause(seed: int) -> None:
    world, diagnoses = clock.run(explain_all(seed), virtual=True, seed=seed)
    vague = {name: found.causes[0].message for name, found in diagnoses.items() if found.causes[0].kind.name in _VAGUE}
    assert not vague, f"{vague} {world.obstacles}"


def test_random_clusters_obstruct_jobs_in_many_ways() -> None:
    kinds = {
        cause.kind.name
        for seed in range(8)
        for diagnosis in clock.run(explain_all(seed), virtual=True, seed=seed)[1].values()
        for cause in diagnosis.causes
    }
    assert len(kinds) > 5, kinds
