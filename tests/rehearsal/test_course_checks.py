"""What a Scenario expects, held against the record of a day."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError
from tests.support.days import a_day

from sliceworks.rehearsal.course.checks import check, step_of
from sliceworks.specs.expectations import Expectation

if TYPE_CHECKING:
    from sliceworks.rehearsal.day.record import Day


def _expect(**wanted: Any) -> Expectation:
    return Expectation.model_validate(wanted)


def _found(day: Day, **wanted: Any) -> tuple[bool, str]:
    found = check(_expect(**wanted), day)
    return found.kept, found.actual


def _job(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "namespace": {"pretrain": "language"}.get(name, "vision"), **more}


@pytest.mark.parametrize(
    ("wanted", "kept", "actual"),
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
        (_job("later", waited="10m"), False, "was never admitted"),
        (_job("later", by="10h"), False, "suspended"),
        (_job("nobody", outcome="succeeded"), False, "there was no such job"),
    ],
)
def test_jobs(wanted: dict[str, Any], kept: bool, actual: str) -> None:
    assert _found(a_day(), job=wanted) == (kept, actual)


def test_times_count_from_when_the_platform_stood() -> None:
    later = replace(a_day(), opened=3600.0)
    assert _found(later, job=_job("pretrain", outcome="succeeded", by="5h"))[0]
    assert _found(later, state={"kind": "ModelService", "name": "densenet", "namespace": "serving", "state": "Ready"}) == (
        True,
        "before the day began",
    )


def test_a_slice_counts_once_it_stands() -> None:
    day = a_day()
    assert _found(day, slice={"job": "vision/ablation", "zone": "us-west4-b"}) == (False, "none was made")
    standing = replace(day.slices[1], spans=(replace(day.slices[1].spans[1], state="running"),))
    day = replace(day, slices=(standing,))
    assert _found(day, slice={"job": "vision/ablation", "zone": "us-west4-b", "capacity": "spot"})[0]
    assert not _found(day, slice={"job": "vision/ablation", "zone": "us-west4-a"})[0]
    assert not _found(day, slice={"job": "vision/ablation", "by": "1h"})[0]


def test_states_of_graphs_and_models() -> None:
    def state(**more: Any) -> tuple[bool, str]:
        return _found(a_day(), state={"kind": "GemmaOnTPUServer", "name": "gemma", "namespace": "serving", **more})

    assert state(state="ACTIVE", by="90m") == (True, "at 83m")
    assert state(state="ACTIVE", by="1h") == (False, "at 83m")
    assert state(state="gone")[0]
    assert state(state="ERROR") == (False, "never; last it was DELETING")
    assert _found(a_day(), state={"kind": "ModelService", "name": "x", "namespace": "y", "state": "ready"}) == (
        False,
        "there was none",
    )


def test_chips_of_a_team_and_in_all() -> None:
    def chips(**more: Any) -> tuple[bool, str]:
        return _found(a_day(), chips={"chip": "v5e", **more})

    assert chips(team="language", at="1h", least=16) == (True, "16")
    assert chips(team="language", at="8000s", least=16) == (False, "0")
    assert chips(team="language", at="1m", most=0) == (True, "0")
    assert chips(at="5h", least=16, most=16) == (True, "16")
    assert chips(at="10h", least=1) == (False, "0")
    assert chips(team="nobody", at="5h", least=1) == (False, "0")
    assert check(_expect(chips={"chip": "v5e", "at": "1h", "least": 1, "most": 8}), a_day()).expected == (
        "there are at least 1 and at most 8 v5e at 60m"
    )
    with pytest.raises(ValidationError, match="give least, most or both"):
        _expect(chips={"chip": "v5e", "at": "1h"})


def test_load_tests_keep_their_objectives() -> None:
    day = a_day()
    assert _found(day, loadTest={"name": "chat", "goodput": 50}) == (True, "kept")
    assert _found(day, loadTest={"name": "chat", "goodput": 70}) == (False, "too few good answers a second")
    assert _found(day, loadTest={"name": "other"}) == (False, "it did not run")
    run = day.measured.load_runs[0]
    missed = replace(run, failed=6, objectives=(replace(run.objectives[0], kept=False),))
    day = replace(day, measured=replace(day.measured, load_runs=(missed,)))
    assert _found(day, loadTest={"name": "chat"}) == (False, "ttft p99 < 500ms: 20 ms; too many requests failed")
    assert _found(day, loadTest={"name": "chat", "errors": 0.01}) == (False, "ttft p99 < 500ms: 20 ms")


def test_what_goes_wrong_is_mended_in_time() -> None:
    day = a_day()
    assert _found(day, incident={"kind": "stockout", "about": "ablation", "within": "10m"}) == (
        True,
        "once, mended after 6m20s at most",
    )
    assert _found(day, incident={"kind": "stockout", "within": "5m"}) == (False, "slice ablation-a: mended after 6m20s")
    assert _found(day, incident={"kind": "cloud"}) == (False, "pool v5e-0: not mended")
    assert _found(day, incident={"kind": "crash"}) == (False, "it did not happen")


def test_nothing_is_left() -> None:
    assert _found(a_day(), nothingLeft=True) == (True, "nothing")
    left = replace(a_day(), left=("container/clusters platform",))
    assert _found(left, nothingLeft=True) == (False, "container/clusters platform")
    assert _found(left, nothingLeft=False)[0]


def test_each_is_expected_of_its_step() -> None:
    assert step_of(_expect(job=_job("pretrain"))) == "day"
    assert step_of(_expect(loadTest={"name": "chat"})) == "load-test"
    assert step_of(_expect(nothingLeft=True)) == "destroy"


def test_an_expectation_is_one_thing() -> None:
    with pytest.raises(ValidationError, match="exactly one of job, slice, state, chips, loadTest, incident, nothingLeft"):
        _expect(nothingLeft=True, loadTest={"name": "chat"})
