"""The parts of the Job controller one by one: indexes, policies, back-off, templates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.twin.workloads.jobs import backoff, indexes, policies, templates

START = datetime(2026, 11, 15, 3, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([0], "0"), ([0, 1], "0,1"), ([0, 1, 2], "0-2"), ([1, 3, 4, 5, 7, 8], "1,3-5,7,8"), ([10, 2], "2,10")],
)
def test_texts_of_indexes(numbers: list[int], text: str) -> None:
    assert indexes.show(indexes.of(numbers)) == text
    assert indexes.parse(text, 100) == indexes.of(numbers)


def test_indexes_beyond_the_end_are_left_out() -> None:
    assert indexes.parse("0-9", 5) == ((0, 4),)
    assert indexes.parse("1,7", 5) == ((1, 1),)
    assert indexes.parse("x,2-y,3", 5) == ((3, 3),)


@given(st.sets(st.integers(0, 40)), st.integers(0, 12), st.integers(0, 45))
def test_missing_indexes(taken: set[int], count: int, completions: int) -> None:
    free = [number for number in range(completions) if number not in taken]
    assert indexes.missing(indexes.of(taken), count, completions) == free[:count]


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)))
def test_sets_of_indexes(one: set[int], other: set[int]) -> None:
    first, second = indexes.of(one), indexes.of(other)
    assert indexes.union(first, second) == indexes.of(one | other)
    assert indexes.common(first, second) == len(one & other)
    assert indexes.total(first) == len(one)
    assert all(indexes.has(first, number) == (number in one) for number in range(42))


def pod(code: int = 0, *, container: str = "main", conditions: tuple[tuple[str, str], ...] = ()) -> dict[str, Any]:
    status: dict[str, Any] = {"conditions": [{"type": kind, "status": status} for kind, status in conditions]}
    status["containerStatuses"] = [{"name": container, "state": {"terminated": {"exitCode": code}}}]
    return {"metadata": {"namespace": "ns", "name": "p"}, "status": status}


def rule(action: str, *values: int, operator: str = "In", container: str | None = None) -> dict[str, Any]:
    codes: dict[str, Any] = {"operator": operator, "values": list(values)}
    return {"action": action, "onExitCodes": {**codes, **({"containerName": container} if container else {})}}


def test_first_rule_that_matches_decides() -> None:
    policy = {"rules": [rule("Ignore", 1, 2), rule("FailJob", 2, 3), rule("Count", 9, operator="NotIn")]}
    assert policies.failure(policy, pod(2)) == policies.Verdict("Ignore", False)
    words = "Container main for pod ns/p failed with exit code 3 matching FailJob rule at index 1"
    assert policies.failure(policy, pod(3)) == policies.Verdict("FailJob", True, words)
    assert policies.failure(policy, pod(7)).action == "Count"
    assert policies.failure(policy, pod(9)) == policies.Verdict()
    assert policies.failure(None, pod(1)) == policies.Verdict()


def test_rules_for_containers_and_success() -> None:
    policy = {"rules": [rule("FailJob", 1, operator="NotIn", container="side")]}
    assert policies.failure(policy, pod(5)).action == ""
    assert policies.failure(policy, pod(5, container="side")).action == "FailJob"
    assert policies.failure(policy, pod(0, container="side")).action == ""


def test_rules_on_conditions() -> None:
    policy = {"rules": [{"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}
    words = "Pod ns/p has condition DisruptionTarget matching FailJob rule at index 0"
    assert policies.failure(policy, pod(1, conditions=(("DisruptionTarget", "True"),))).message == words
    assert policies.failure(policy, pod(1, conditions=(("DisruptionTarget", "False"),))).action == ""


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
def test_success_policy(rules: list[dict[str, Any]], done: list[int], message: str) -> None:
    assert policies.success({"rules": rules}, 10, indexes.of(done)) == message


@pytest.mark.parametrize(("failures", "seconds"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (40, 600)])
def test_waiting_after_failures(failures: int, seconds: float) -> None:
    assert backoff.remaining(failures, START, START) == seconds
    assert backoff.remaining(failures, START, START + timedelta(seconds=601)) == 0


def test_failures_since_the_last_success() -> None:
    at = [START + timedelta(seconds=second) for second in range(5)]
    record = backoff.next_record(backoff.Record(), [], at[:2])
    assert record == backoff.Record(2, at[1])
    assert backoff.next_record(record, [], []) == record
    assert backoff.next_record(record, [at[2]], []) == backoff.Record()
    assert backoff.next_record(record, [at[2]], [at[1], at[3], at[4]]) == backoff.Record(2, at[4])


def test_when_a_pod_ended() -> None:
    metadata: dict[str, Any] = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    found: dict[str, Any] = {"metadata": metadata, "status": {}}
    assert backoff.finished_at(found) == datetime(2026, 1, 1, tzinfo=UTC)
    metadata |= {"deletionTimestamp": "2026-01-02T00:00:30Z", "deletionGracePeriodSeconds": 30}
    assert backoff.finished_at(found) == datetime(2026, 1, 2, tzinfo=UTC)
    found["status"]["conditions"] = [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-03T00:00:00Z"}]
    assert backoff.finished_at(found) == datetime(2026, 1, 3, tzinfo=UTC)
    found["status"]["containerStatuses"] = [{"name": "m", "state": {"terminated": {"finishedAt": "2026-01-04T00:00:00Z"}}}]
    assert backoff.finished_at(found) == datetime(2026, 1, 4, tzinfo=UTC)


def test_pods_of_indexes() -> None:
    containers = [{"name": "m", "image": "i"}]
    job = {
        "metadata": {"name": "work"},
        "spec": {"template": {"metadata": {"finalizers": ["own"]}, "spec": {"containers": containers}}},
    }
    template = templates.indexed(job)
    found = templates.at_index(template, "work", 3, (2, 1))
    assert found["metadata"]["finalizers"] == ["own", "batch.kubernetes.io/job-tracking"]
    assert found["metadata"]["annotations"] == {
        "batch.kubernetes.io/job-completion-index": "3",
        "batch.kubernetes.io/job-index-failure-count": "2",
        "batch.kubernetes.io/job-index-ignored-failure-count": "1",
    }
    assert found["spec"]["hostname"] == "work-3"
    assert "env" not in containers[0]
    assert templates.failure_counts(found) == (2, 1)
    assert templates.prefix("a" * 60, 12) == "a" * 54 + "-12-"
