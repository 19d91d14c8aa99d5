"""The most that a queue can ever have: its own quota, what its cohort lends, and the limits of both."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.training.quotas import Quotas

KIND = ("v4-16", "google.com/tpu")


def node(
    name: str, nominal: int | None, cohort: str = "", *, parent: str = "", limits: dict[str, int] | None = None
) -> dict[str, Any]:
    resources = [{"name": KIND[1], "nominalQuota": str(nominal), **{key: str(value) for key, value in (limits or {}).items()}}]
    groups = (
        [{"coveredResources": [KIND[1]], "flavors": [{"name": KIND[0], "resources": resources}]}] if nominal is not None else []
    )
    return {"metadata": {"name": name}, "spec": {"cohortName": cohort, "parentName": parent, "resourceGroups": groups}}


def most(queues: list[dict[str, Any]], cohorts: list[dict[str, Any]] | None = None, queue: str = "a") -> int:
    return int(Quotas(queues, cohorts or []).most(queue, KIND))


def test_a_queue_alone_has_its_own() -> None:
    assert most([node("a", 16)]) == 16
    assert most([node("a", None)]) == 0


@pytest.mark.parametrize(
    ("limits", "others", "expected"),
    [
        ({}, {}, 48),
        ({"borrowingLimit": 8}, {}, 24),
        ({}, {"lendingLimit": 8}, 24),
        ({"borrowingLimit": 100}, {"lendingLimit": 8}, 24),
        ({"borrowingLimit": 0}, {}, 16),
        ({"lendingLimit": 4}, {}, 48),
    ],
)
def test_what_a_cohort_lends_is_bounded_on_both_sides(limits: dict[str, int], others: dict[str, int], expected: int) -> None:
    assert most([node("a", 16, "team", limits=limits), node("b", 32, "team", limits=others)]) == expected


def test_cohorts_have_quotas_of_their_own_and_lie_in_others() -> None:
    queues = [node("a", 16, "inner"), node("far", 64, "other")]
    assert most(queues, [node("inner", 8)]) == 24
    assert most(queues, [node("inner", 8, parent="root"), node("other", None, parent="root")]) == 88
    assert most(queues, [node("inner", 8, parent="root", limits={"borrowingLimit": 10}), node("other", None, parent="root")]) == 34
    assert most(queues, [node("inner", 8, parent="root"), node("other", 0, parent="root", limits={"lendingLimit": 4})]) == 28


def test_a_ring_of_cohorts_does_no_harm() -> None:
    assert most([node("a", 16, "x")], [node("x", 1, parent="y"), node("y", 2, parent="x")]) >= 16
