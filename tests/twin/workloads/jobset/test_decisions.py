"""What a JobSet makes of its Jobs: counts, dependencies, success, failure and its conditions."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.jobset_objects import child, jobset, replicated

from sliceworks.base.errors import BadRequest
from sliceworks.twin.workloads.jobset import failure, progress
from sliceworks.twin.workloads.jobset.children import Children
from sliceworks.twin.workloads.jobset.report import Report


def test_counts_are_listed_by_name_backwards() -> None:
    found = Children(
        active=[child("1", ready=1, succeeded=1, pods=2), child("2", active=0, suspended=True), child("3", replicated_job="gone")],
        successful=[child("4", replicated_job="b")],
        failed=[child("5", replicated_job="b")],
    )
    counts = progress.counts(jobset(replicated("a", 2), replicated("b", 2)), found, restart_job=False)
    assert progress.listed(counts) == [
        {"name": "b", "ready": 0, "succeeded": 1, "failed": 1, "active": 0, "suspended": 0},
        {"name": "a", "ready": 1, "succeeded": 0, "failed": 0, "active": 1, "suspended": 1},
    ]


@pytest.mark.parametrize(
    ("wanted", "entry", "may"),
    [
        ("Ready", {"ready": 2}, True),
        ("Ready", {"ready": 1, "failed": 1}, True),
        ("Ready", {"ready": 1}, False),
        ("Complete", {"ready": 2}, False),
        ("Complete", {"succeeded": 2}, True),
    ],
)
def test_dependencies(wanted: str, entry: dict[str, int], may: bool) -> None:
    later = replicated("b", dependsOn=[{"name": "a", "status": wanted}])
    whole = jobset(replicated("a", 2), later)
    counts = {"a": {"ready": 0, "failed": 0, "succeeded": 0, **entry}}
    assert progress.may_start(whole, later, counts) is may
    assert not progress.may_start(whole, replicated("c", dependsOn=[{"name": "z", "status": "Ready"}]), counts)


@pytest.mark.parametrize(
    ("policy", "done", "over"),
    [
        ({"operator": "All"}, ["a", "a"], False),
        ({"operator": "All"}, ["a", "a", "b"], True),
        ({"operator": "Any"}, ["a"], True),
        ({"operator": "All", "targetReplicatedJobs": ["b"]}, ["a", "a"], False),
        ({"operator": "All", "targetReplicatedJobs": ["b"]}, ["b"], True),
        ({"operator": "Any", "targetReplicatedJobs": ["b"]}, ["a", "a"], False),
    ],
)
def test_a_success_policy_says_when_a_jobset_is_over(policy: dict[str, Any], done: list[str], over: bool) -> None:
    whole = jobset(replicated("a", 2), replicated("b"), successPolicy=policy)
    assert progress.succeeded(whole, [child("x", replicated_job=name) for name in done]) is over


def _failed(name: str, at: str = "1", **more: Any) -> Any:
    return child(name, finished="Failed", failed_at=at, reason=more.pop("reason", "BackoffLimitExceeded"), **more)


def _react(whole: dict[str, Any], *failed: Any, restart_job: bool = False) -> Report:
    report = Report(whole)
    failure.react(whole, list(failed), report, restart_job=restart_job)
    return report


def test_the_job_that_failed_first_is_named() -> None:
    report = _react(jobset(replicated("a")), _failed("late", "2"), _failed("early", "1"))
    assert report.conditions[0]["message"] == "jobset failed due to one or more job failures (first failed job: early)"
    assert report.status["terminalState"] == "Failed"


def test_restarts_are_counted_until_the_maximum() -> None:
    whole = jobset(replicated("a"), failurePolicy={"maxRestarts": 1})
    report = _react(whole, _failed("x"))
    assert (report.status["restarts"], report.status["restartsCountTowardsMax"]) == (1, 1)
    assert [event.reason for event in report.events] == ["DefaultFailurePolicy", "RestartJobSetFailurePolicyAction"]
    report = _react(whole, _failed("x"))
    assert report.conditions[-1]["reason"] == "ReachedMaxRestarts"


def test_a_rule_needs_all_it_asks_for() -> None:
    rule = {
        "name": "r",
        "action": "FailJobSet",
        "onJobFailureReasons": ["DeadlineExceeded"],
        "onJobFailureMessagePatterns": ["^exit \\d+$"],
        "targetReplicatedJobs": ["a"],
    }
    fits = {"reason": "DeadlineExceeded", "message": "exit 3"}
    for wrong in ({}, {"reason": "Other"}, {"message": "exit"}, {"replicated_job": "b"}, {"replicated_job": ""}):
        whole = jobset(replicated("a"), failurePolicy={"maxRestarts": 5, "rules": [rule]})
        report = _react(whole, _failed("x", **{**fits, **wrong}))
        assert bool(report.finished_at) is (not wrong), wrong


def test_one_job_is_restarted_on_its_own() -> None:
    status = {"restarts": 0, "replicatedJobsStatus": [{"name": "a"}]}
    rules = [{"name": "r", "action": "RestartJob"}]
    whole = jobset(replicated("a", 3), status=status, failurePolicy={"maxRestarts": 1, "rules": rules})
    _react(whole, _failed("x", index=1), restart_job=True)
    assert status["replicatedJobsStatus"] == [{"name": "a", "jobRestarts": [0, 1, 0], "jobRestartsCountTowardsMax": [0, 1, 0]}]
    assert status["restarts"] == 0
    assert _react(whole, _failed("x", index=1), restart_job=True).finished_at


def test_single_restarts_need_their_gate() -> None:
    whole = jobset(replicated("a"), failurePolicy={"rules": [{"name": "r", "action": "RestartJobAndIgnoreMaxRestarts"}]})
    with pytest.raises(BadRequest, match="feature gate RestartJob is disabled"):
        _react(whole, _failed("x"))


def test_a_condition_that_was_never_true_is_not_mentioned() -> None:
    report = Report(jobset())
    report.resume()
    assert not report.changed
    report.suspend()
    report.resume()
    assert [(each["type"], each["status"]) for each in report.conditions] == [("Suspended", "False")]
    assert [event.reason for event in report.events] == ["SuspendedJobs", "ResumeJobs"]


def test_starting_ends_where_started_begins() -> None:
    report = Report(jobset())
    report.start_up(done=False)
    report.start_up(done=True)
    kinds = [(each["type"], each["status"]) for each in report.conditions]
    assert kinds == [("StartupPolicyInProgress", "False"), ("StartupPolicyCompleted", "True")]


def test_what_is_zero_is_left_out_but_restarts() -> None:
    report = Report({"status": {"restarts": 0, "restartsCountTowardsMax": 0, "conditions": []}})
    assert report.written() == {"restarts": 0}
