"""The maximum quota of a queue: its own quota, what its cohort lends, and the limits of both."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from sliceworks.training.quota import QuotaTree
from sliceworks.twin.controllers.kueue import model_builder
from sliceworks.twin.controllers.kueue.core.model import ClusterQueue
from sliceworks.twin.controllers.kueue.core.quota_tree import QuotaTree as CoreTree

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
    return int(QuotaTree(queues, cohorts or []).maximum(queue, KIND))


def test_queue_without_cohort_has_its_own_quota() -> None:
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
def test_borrowing_and_lending_limits(limits: dict[str, int], others: dict[str, int], expected: int) -> None:
    assert most([node("a", 16, "team", limits=limits), node("b", 32, "team", limits=others)]) == expected


def test_nested_cohorts_with_quota() -> None:
    queues = [node("a", 16, "inner"), node("far", 64, "other")]
    assert most(queues, [node("inner", 8)]) == 24
    assert most(queues, [node("inner", 8, parent="root"), node("other", None, parent="root")]) == 88
    assert most(queues, [node("inner", 8, parent="root", limits={"borrowingLimit": 10}), node("other", None, parent="root")]) == 34
    assert most(queues, [node("inner", 8, parent="root"), node("other", 0, parent="root", limits={"lendingLimit": 4})]) == 28


def test_cohort_cycle_terminates() -> None:
    assert most([node("a", 16, "x")], [node("x", 1, parent="y"), node("y", 2, parent="x")]) >= 16


@pytest.mark.parametrize("seed", range(40))
def test_quota_that_is_available_now_is_what_kueue_computes(seed: int) -> None:
    random = Random(seed)
    cohorts = [node("top", random.choice([None, 8])), node("left", random.choice([None, 4]), parent=random.choice(["", "top"]))]
    core: CoreTree[ClusterQueue] = CoreTree()
    for cohort in cohorts:
        spec = cohort["spec"]
        core.put_cohort(cohort["metadata"]["name"], spec["parentName"], model_builder.build_quotas(spec))
    queues = []
    for name in "abc":
        limits = {key: random.randint(0, 8) for key in ("borrowingLimit", "lendingLimit") if random.random() < 0.4}
        queue = node(name, 8, random.choice(["", "top", "left"]), limits=limits)
        core.put_cluster_queue(ClusterQueue(name), queue["spec"]["cohortName"], model_builder.build_quotas(queue["spec"]))
        queues.append(queue)
    for queue in queues:
        used = random.randint(0, 12)
        queue["status"] = {"flavorsReservation": [{"name": KIND[0], "resources": [{"name": KIND[1], "total": str(used)}]}]}
        core.cluster_queues[queue["metadata"]["name"]].add_usage(KIND, used)
    tree = QuotaTree(queues, cohorts)
    for name in "abc":
        assert tree.available(name, KIND) == core.cluster_queues[name].available(KIND)
