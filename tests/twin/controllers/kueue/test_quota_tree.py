"""The quota tree: available quota, borrowing and lending limits, nested Cohorts."""

from __future__ import annotations

import random

from sliceworks.twin.controllers.kueue.core.quota_tree import ClusterQueueNode, Quota, QuotaTree, lowest_fitting_height

FLAVOR_RESOURCE = ("f", "cpu")


def _tree(**quotas: Quota) -> QuotaTree[ClusterQueueNode]:
    tree: QuotaTree[ClusterQueueNode] = QuotaTree()
    for name, quota in quotas.items():
        tree.put_cluster_queue(ClusterQueueNode(name), "all", {FLAVOR_RESOURCE: quota})
    return tree


def test_cluster_queue_without_cohort_has_its_own_quota() -> None:
    tree: QuotaTree[ClusterQueueNode] = QuotaTree()
    queue = ClusterQueueNode("a")
    tree.put_cluster_queue(queue, "", {FLAVOR_RESOURCE: Quota(5)})
    queue.add_usage(FLAVOR_RESOURCE, 3)
    assert (queue.available(FLAVOR_RESOURCE), queue.potential_available(FLAVOR_RESOURCE)) == (2, 5)


def test_cluster_queues_of_a_cohort_share_quota() -> None:
    tree = _tree(a=Quota(5), b=Quota(3))
    tree.cluster_queues["a"].add_usage(FLAVOR_RESOURCE, 6)
    assert tree.cluster_queues["b"].available(FLAVOR_RESOURCE) == 2
    assert tree.cluster_queues["b"].potential_available(FLAVOR_RESOURCE) == 8


def test_borrowing_and_lending_limits() -> None:
    tree = _tree(a=Quota(2, 1), b=Quota(5, None, 2))
    assert tree.cluster_queues["a"].potential_available(FLAVOR_RESOURCE) == 3
    assert tree.cluster_queues["b"].potential_available(FLAVOR_RESOURCE) == 7
    tree.cluster_queues["b"].add_usage(FLAVOR_RESOURCE, 4)
    assert tree.cluster_queues["b"].local_available(FLAVOR_RESOURCE) == 0
    assert tree.cluster_queues["a"].available(FLAVOR_RESOURCE) == 3
    tree.cluster_queues["b"].add_usage(FLAVOR_RESOURCE, 1)
    assert tree.cluster_queues["a"].available(FLAVOR_RESOURCE) == 2


def test_nested_cohorts() -> None:
    tree = _tree(a=Quota(2))
    tree.put_cohort("all", "top", {})
    tree.put_cohort("top", "", {FLAVOR_RESOURCE: Quota(10)})
    queue = tree.cluster_queues["a"]
    assert queue.potential_available(FLAVOR_RESOURCE) == 12
    assert lowest_fitting_height(queue, FLAVOR_RESOURCE, 2) == (0, True)
    assert lowest_fitting_height(queue, FLAVOR_RESOURCE, 3) == (2, False)
    tree.put_cohort("all", "top", {FLAVOR_RESOURCE: Quota(1)})
    assert lowest_fitting_height(queue, FLAVOR_RESOURCE, 3) == (1, True)


def _has_cycle(tree: QuotaTree[ClusterQueueNode]) -> bool:
    return tree.cohorts["all"].has_cycle


def test_cohort_cycle_is_detected_and_can_be_resolved() -> None:
    tree = _tree(a=Quota(2))
    tree.put_cohort("all", "top", {})
    tree.put_cohort("top", "all", {})
    assert _has_cycle(tree)
    tree.put_cohort("top", "", {})
    assert not _has_cycle(tree)
    assert tree.cluster_queues["a"].available(FLAVOR_RESOURCE) == 2


def test_moved_cluster_queue_keeps_its_usage() -> None:
    tree = _tree(a=Quota(2), b=Quota(4))
    queue = tree.cluster_queues["a"]
    queue.add_usage(FLAVOR_RESOURCE, 3)
    tree.put_cluster_queue(queue, "", {FLAVOR_RESOURCE: Quota(2)})
    assert tree.cluster_queues["b"].available(FLAVOR_RESOURCE) == 4
    assert queue.available(FLAVOR_RESOURCE) == -1
    tree.drop_cluster_queue("b")
    assert tree.cohorts == {}


def test_remove_usage_reverses_add_usage() -> None:
    rng = random.Random(3)
    tree = _tree(a=Quota(4, 3, 2), b=Quota(3, None, 0), c=Quota(6, 0))
    tree.put_cohort("all", "top", {FLAVOR_RESOURCE: Quota(1, 2, 1)})
    tree.put_cohort("top", "", {FLAVOR_RESOURCE: Quota(2)})
    before = {name: dict(node.usage) for name, node in (*tree.cluster_queues.items(), *tree.cohorts.items())}
    usages = [(rng.choice("abc"), rng.randint(0, 5)) for _ in range(50)]
    for name, amount in usages:
        tree.cluster_queues[name].add_usage(FLAVOR_RESOURCE, amount)
    total = {name: dict(node.usage) for name, node in (*tree.cluster_queues.items(), *tree.cohorts.items())}
    tree.cohorts["top"].rebuild()
    assert total == {name: dict(node.usage) for name, node in (*tree.cluster_queues.items(), *tree.cohorts.items())}
    rng.shuffle(usages)
    for name, amount in usages:
        tree.cluster_queues[name].remove_usage(FLAVOR_RESOURCE, amount)
    after = {
        name: {flavor_resource: amount for flavor_resource, amount in node.usage.items() if amount}
        for name, node in (*tree.cluster_queues.items(), *tree.cohorts.items())
    }
    assert after == before
