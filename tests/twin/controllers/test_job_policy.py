"""The pure parts of the Job controller: completion indexes, policies, backoff and pod templates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.twin.controllers.builtin import indexed_job, job_policy

START = datetime(2026, 11, 15, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([0], "0"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([1, 3, 4, 5, 7, 8], "1,3-5,7,8"), ([10, 2], "2,10")],
)
def test_indexes_format_and_parse(numbers: list[int], text: str) -> None:
    assert indexed_job.format_indexes(indexed_job.intervals_of(numbers)) == text
    assert indexed_job.parse_indexes(text, 100) == indexed_job.intervals_of(numbers)


def test_invalid_indexes_are_ignored() -> None:
    assert indexed_job.parse_indexes("0-9", 5) == ((0, 4),)
    assert indexed_job.parse_indexes("1,7", 5) == ((1, 1),)
    assert indexed_job.parse_indexes("x,2-y,3", 5) == ((3, 3),)


@given(st.sets(st.integers(0, 40)), st.integers(0, 12), st.integers(0, 45))
def test_missing_indexes_are_the_first_free_ones(taken: set[int], count: int, completions: int) -> None:
    free = [number for number in range(completions) if number not in taken]
    assert indexed_job.missing_indexes(indexed_job.intervals_of(taken), count, completions) == free[:count]


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_intervals_behave_like_sets(one: set[int], other: set[int]) -> None:
    first, second = indexed_job.intervals_of(one), indexed_job.intervals_of(other)
    assert indexed_job.merge_intervals(first, second) == indexed_job.intervals_of(one | other)
    assert indexed_job.count_common_indexes(first, second) == len(one & other)
    assert indexed_job.count_indexes(first) == len(one)
    assert all(indexed_job.contains_index(first, number) == (number in one) for number in range(42))


class CountedIntervals(tuple[tuple[int, int], ...]):
    """Intervals that count how many of them are read."""

    reads = 0

    def __getitem__(self, index: Any) -> Any:
        CountedIntervals.reads += 1
        return super().__getitem__(index)

    def __iter__(self) -> Any:
        for interval in super().__iter__():
            CountedIntervals.reads += 1
            yield interval


def test_fragmented_indexes_are_not_compared_with_each_other() -> None:
    even, third = (CountedIntervals(indexed_job.intervals_of(range(0, 60_000, step))) for step in (2, 3))
    assert indexed_job.count_common_indexes(even, third) == 10_000
    assert indexed_job.contains_index(even, 40_000)
    assert not indexed_job.contains_index(even, 40_001)
    assert CountedIntervals.reads < 4 * (len(even) + len(third))


def pod(code: int = 0, *, container: str = "main", conditions: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    status: dict[str, Any] = {"conditions": [{"type": kind, "status": status} for kind, status in conditions]}
    status["containerStatuses"] = [{"name": container, "state": {"terminated": {"exitCode": code}}}]
    return {"metadata": {"namespace": "ns", "name": "p"}, "status": status}


def rule(action: str, *values: int, operator: str = "In", container: str | None = None) -> dict[str, Any]:
    codes: dict[str, Any] = {"operator": operator, "values": list(values)}
    return {"action": action, "onExitCodes": {**codes, **({"containerName": container} if container else {})}}


def test_first_matching_failure_rule_decides() -> None:
    policy = {"rules": [rule("Ignore", 1, 2), rule("FailJob", 2, 3), rule("Count", 9, operator="NotIn")]}
    assert job_policy.match_pod_failure_policy(policy, pod(2)) == job_policy.PodFailureMatch("Ignore", False)
    message = "Container main for pod ns/p failed with exit code 3 matching FailJob rule at index 1"
    assert job_policy.match_pod_failure_policy(policy, pod(3)) == job_policy.PodFailureMatch("FailJob", True, message)
    assert job_policy.match_pod_failure_policy(policy, pod(7)).action == "Count"
    assert job_policy.match_pod_failure_policy(policy, pod(9)) == job_policy.PodFailureMatch()
    assert job_policy.match_pod_failure_policy(None, pod(1)) == job_policy.PodFailureMatch()


def test_failure_rule_matches_container_and_failures_only() -> None:
    policy = {"rules": [rule("FailJob", 1, operator="NotIn", container="side")]}
    assert job_policy.match_pod_failure_policy(policy, pod(5)).action == ""
    assert job_policy.match_pod_failure_policy(policy, pod(5, container="side")).action == "FailJob"
    assert job_policy.match_pod_failure_policy(policy, pod(0, container="side")).action == ""


def test_failure_rule_matches_pod_conditions() -> None:
    policy = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
    message = "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 0"
    assert job_policy.match_pod_failure_policy(policy, pod(1, conditions=(("DisruptionTarget", "True"),))).message == message
    assert job_policy.match_pod_failure_policy(policy, pod(1, conditions=(("DisruptionTarget", "False"),))).action == ""


@pytest.mark.parametrize(
    ("rules", "done", "message"),
    [
        ([{"succeededCount": 2}], [0], ""),
        ([{"succeededCount": 2}], [0, 5], "Matched rules at index 0"),
        ([{"succeededIndexes": "0,3"}], [0], ""),
        ([{"succeededIndexes": "0,3"}, {"succeededIndexes": "1"}], [1], "Matched rules at index 1"),
        ([{"succeededIndexes": "0-5", "succeededCount": 2}], [1, 4, 9], "Matched rules at index 0"),
        ([{"succeededCount": 0}], [], ""),
    ],
)
def test_success_policy_matches_first_met_rule(rules: list[dict[str, Any]], done: list[int], message: str) -> None:
    assert job_policy.match_success_policy({"rules": rules}, 10, indexed_job.intervals_of(done)) == message


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (40, 600)])
def test_backoff_doubles_up_to_the_limit(failures: int, seconds: float) -> None:
    assert job_policy.remaining_backoff(failures, START, START) == seconds
    assert job_policy.remaining_backoff(failures, START, START + timedelta(seconds=601)) == 0


def test_backoff_record_counts_failures_since_last_success() -> None:
    at = [START + timedelta(seconds=second) for second in range(5)]
    record = job_policy.next_backoff_record(job_policy.BackoffRecord(), [], at[:2])
    assert record == job_policy.BackoffRecord(2, at[1])
    assert job_policy.next_backoff_record(record, [], []) == record
    assert job_policy.next_backoff_record(record, [at[2]], []) == job_policy.BackoffRecord()
    assert job_policy.next_backoff_record(record, [at[2]], [at[1], at[3], at[4]]) == job_policy.BackoffRecord(2, at[4])


def test_finished_at_prefers_containers_over_conditions_and_metadata() -> None:
    metadata: dict[str, Any] = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    obj: dict[str, Any] = {"metadata": metadata, "status": {}}
    assert job_policy.finished_at(obj) == datetime(2026, 1, 1, tzinfo=UTC)
    metadata |= {"deletionTimestamp": "2026-01-02T00:00:30Z", "deletionGracePeriodSeconds": 30}
    assert job_policy.finished_at(obj) == datetime(2026, 1, 2, tzinfo=UTC)
    obj["status"]["conditions"] = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-03T00:00:00Z"}]
    assert job_policy.finished_at(obj) == datetime(2026, 1, 3, tzinfo=UTC)
    obj["status"]["containerStatuses"] = [{"name": "m", "state": {"terminated": {"finishedAt": "2026-01-04T00:00:00Z"}}}]
    assert job_policy.finished_at(obj) == datetime(2026, 1, 4, tzinfo=UTC)


def test_pod_template_at_index() -> None:
    containers = [{"name": "m", "image": "i"}]
    job = {
        "metadata": {"name": "work"},
        "spec": {"template": {"metadata": {"finalizers": ["own"]}, "spec": {"containers": containers}}},
    }
    template = indexed_job.indexed_pod_template(job)
    obj = indexed_job.pod_template_at_index(template, "work", 3, (2, 1))
    assert obj["metadata"]["finalizers"] == ["own", "batch.kubernetes.io/job-tracking"]
    assert obj["metadata"]["annotations"] == {
        "batch.kubernetes.io/job-completion-index": "3",
        "batch.kubernetes.io/job-index-failure-count": "2",
        "batch.kubernetes.io/job-index-ignored-failure-count": "1",
    }
    assert obj["spec"]["hostname"] == "work-3"
    assert "env" not in containers[0]
    assert indexed_job.index_failure_counts(obj) == (2, 1)
    assert indexed_job.pod_name_prefix("a" * 60, 12) == "a" * 54 + "-12-"
