"""The expectations of a Scenario, checked against the record of a run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from tests.support.rehearsal_runs import small_run

from sliceworks.rehearsal.simulation.expectations import check, step_of
from sliceworks.specs.scenario import Expectation

if TYPE_CHECKING:
    from sliceworks.rehearsal.record import RunRecord


def _expect(**wanted: Any) -> Expectation:
    return Expectation.model_validate(wanted)


def _found(day: RunRecord, **wanted: Any) -> tuple[bool, str]:
    result = check(_expect(**wanted), day)
    return result.passed, result.actual


def _job(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": {"pretrain": "language"}.get(name, "vision"), **more}


@pytest.mark.parametrize(
    ("expected", "kept", "actual"),
    [
        (_job("pretrain", outcome="succeeded", by="6h"), True, "succeeded at 5h33m, restarted once"),
        (_job("pretrain", outcome="succeeded", by="5h"), False, "succeeded at 5h33m, restarted once"),
        (_job("pretrain", outcome="failed"), False, "succeeded at 5h33m, restarted once"),
        (_job("pretrain", restarted=1), True, "succeeded at 5h33m, restarted once"),
        (_job("pretrain", restarted=2), False, "restarted once"),
        (_job("pretrain", restarted=0), False, "restarted once"),
        (_job("pretrain", waited="1m"), False, "waited 100s"),
        (_job("ablation", preempted=1), True, "succeeded at 150m, preempted once"),
        (_job("ablation", preempted=0), False, "preempted once"),
        (_job("later", outcome="suspended"), True, "suspended"),
        (_job("later", waited="10m"), False, "never admitted"),
        (_job("later", by="10h"), False, "suspended"),
        (_job("missing", outcome="succeeded"), False, "job not found"),
    ],
)
def test_job_expectation(expected: dict[str, Any], kept: bool, actual: str) -> None:
    assert _found(small_run(), job=expected) == (kept, actual)


def test_times_are_relative_to_the_scenario_start() -> None:
    later = replace(small_run(), scenario_start=3600.0)
    assert _found(later, job=_job("pretrain", outcome="succeeded", by="5h"))[0]
    assert _found(later, state={"kind": "ModelService", "name": "densenet", "namespace": "serving", "state": "Ready"}) == (
        True,
        "before the scenario started",
    )


def test_slice_expectation_needs_a_running_slice() -> None:
    day = small_run()
    assert _found(day, slice={"job": "vision/ablation", "zone": "us-west4-b"}) == (False, "no slice was created")
    standing = replace(day.slices[1], spans=(replace(day.slices[1].spans[1], state="running"),))
    day = replace(day, slices=(standing,))
    assert _found(day, slice={"job": "vision/ablation", "zone": "us-west4-b", "capacity": "spot"})[0]
    assert not _found(day, slice={"job": "vision/ablation", "zone": "us-west4-a"})[0]
    assert not _found(day, slice={"job": "vision/ablation", "by": "1h"})[0]


def test_state_expectation() -> None:
    def state(**more: Any) -> tuple[bool, str]:
        return _found(small_run(), state={"kind": "GemmaOnTPUServer", "name": "gemma", "namespace": "serving", **more})

    assert state(state="ACTIVE", by="90m") == (True, "at 83m")
    assert state(state="ACTIVE", by="1h") == (False, "at 83m")
    assert state(state="deleted")[0]
    assert state(state="ERROR") == (False, "never; last state DELETING")
    assert _found(small_run(), state={"kind": "ModelService", "name": "x", "namespace": "y", "state": "ready"}) == (
        False,
        "not found",
    )


def test_chips_expectation_of_a_team_and_in_total() -> None:
    def chips(**more: Any) -> tuple[bool, str]:
        return _found(small_run(), chips={"chip": "v5e", **more})

    assert chips(team="language", at="1h", min=16) == (True, "16")
    assert chips(team="language", at="8000s", min=16) == (False, "0")
    assert chips(team="language", at="1m", max=0) == (True, "0")
    assert chips(at="5h", min=16, max=16) == (True, "16")
    assert chips(at="10h", min=1) == (False, "0")
    assert chips(team="other", at="5h", min=1) == (False, "0")
    assert check(_expect(chips={"chip": "v5e", "at": "1h", "min": 1, "max": 8}), small_run()).expected == (
        "there are at least 1 and at most 8 v5e at 60m"
    )
    with pytest.raises(ValidationError, match="must set min, max or both"):
        _expect(chips={"chip": "v5e", "at": "1h"})


def test_load_test_expectation() -> None:
    day = small_run()
    assert _found(day, loadTest={"name": "chat", "goodput": 50}) == (True, "objectives met")
    assert _found(day, loadTest={"name": "chat", "goodput": 70}) == (False, "goodput is too low")
    assert _found(day, loadTest={"name": "other"}) == (False, "the load test did not run")
    run = day.measured.load_runs[0]
    missed = replace(run, failed=6, objectives=(replace(run.objectives[0], passed=False),))
    day = replace(day, measured=replace(day.measured, load_runs=(missed,)))
    assert _found(day, loadTest={"name": "chat"}) == (False, "ttft p99 < 500ms: 20 ms; too many requests failed")
    assert _found(day, loadTest={"name": "chat", "errors": 0.01}) == (False, "ttft p99 < 500ms: 20 ms")


def test_incident_expectation_checks_recovery_time() -> None:
    day = small_run()
    assert _found(day, incident={"kind": "stockout", "about": "ablation", "within": "10m"}) == (
        True,
        "once, recovered after at most 6m20s",
    )
    assert _found(day, incident={"kind": "stockout", "within": "5m"}) == (False, "slice ablation-a: recovered after 6m20s")
    assert _found(day, incident={"kind": "cloud"}) == (False, "pool v5e-0: not recovered")
    assert _found(day, incident={"kind": "crash"}) == (False, "no such incident")


def test_nothing_left_expectation() -> None:
    assert _found(small_run(), nothingLeft=True) == (True, "nothing")
    left = replace(small_run(), leftovers=("container/clusters platform",))
    assert _found(left, nothingLeft=True) == (False, "container/clusters platform")
    assert _found(left, nothingLeft=False)[0]


def test_step_of_each_expectation() -> None:
    assert step_of(_expect(job=_job("pretrain"))) == "scenario"
    assert step_of(_expect(loadTest={"name": "chat"})) == "load-test"
    assert step_of(_expect(nothingLeft=True)) == "destroy"


def test_expectation_sets_exactly_one_field() -> None:
    with pytest.raises(ValidationError, match="exactly one of job, slice, state, chips, loadTest, incident, nothingLeft"):
        _expect(nothingLeft=True, loadTest={"name": "chat"})
