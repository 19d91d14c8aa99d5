"""The tree of quotas: what is there, what is left, and what borrowing and lending allow."""

from __future__ import annotations

import random

from sliceworks.twin.workloads.kueue.core.quotas import Leaf, Quota, lowest_fit
from sliceworks.twin.workloads.kueue.core.tree import Tree

CELL = ("f", "cpu")


def _tree(**quotas: Quota) -> Tree[Leaf]:
    tree: Tree[Leaf] = Tree()
    for name, quota in quotas.items():
        tree.put_leaf(Leaf(name), "all", {CELL: quota})
    return tree


def test_a_queue_alone_has_what_it_has() -> None:
    tree: Tree[Leaf] = Tree()
    leaf = Leaf("a")
    tree.put_leaf(leaf, "", {CELL: Quota(5)})
    leaf.add(CELL, 3)
    assert (leaf.available(CELL), leaf.potential(CELL)) == (2, 5)


def test_queues_of_a_cohort_share() -> None:
    tree = _tree(a=Quota(5), b=Quota(3))
    tree.leaves["a"].add(CELL, 6)
    assert tree.leaves["b"].available(CELL) == 2
    assert tree.leaves["b"].potential(CELL) == 8


def test_borrowing_and_lending_stop_at_their_limits() -> None:
    tree = _tree(a=Quota(2, 1), b=Quota(5, None, 2))
    assert tree.leaves["a"].potential(CELL) == 3
    assert tree.leaves["b"].potential(CELL) == 7
    tree.leaves["b"].add(CELL, 4)
    assert tree.leaves["b"].local_available(CELL) == 0
    assert tree.leaves["a"].available(CELL) == 3
    tree.leaves["b"].add(CELL, 1)
    assert tree.leaves["a"].available(CELL) == 2


def test_cohorts_of_cohorts() -> None:
    tree = _tree(a=Quota(2))
    tree.put_cohort("all", "top", {})
    tree.put_cohort("top", "", {CELL: Quota(10)})
    leaf = tree.leaves["a"]
    assert leaf.potential(CELL) == 12
    assert lowest_fit(leaf, CELL, 2) == (0, True)
    assert lowest_fit(leaf, CELL, 3) == (2, False)
    tree.put_cohort("all", "top", {CELL: Quota(1)})
    assert lowest_fit(leaf, CELL, 3) == (1, True)


def _cyclic(tree: Tree[Leaf]) -> bool:
    return tree.cohorts["all"].cyclic


def test_cycles_are_seen_and_harm_nothing() -> None:
    tree = _tree(a=Quota(2))
    tree.put_cohort("all", "top", {})
    tree.put_cohort("top", "all", {})
    assert _cyclic(tree)
    tree.put_cohort("top", "", {})
    assert not _cyclic(tree)
    assert tree.leaves["a"].available(CELL) == 2


def test_a_queue_that_moves_takes_its_usage_along() -> None:
    tree = _tree(a=Quota(2), b=Quota(4))
    leaf = tree.leaves["a"]
    leaf.add(CELL, 3)
    tree.put_leaf(leaf, "", {CELL: Quota(2)})
    assert tree.leaves["b"].available(CELL) == 4
    assert leaf.available(CELL) == -1
    tree.drop_leaf("b")
    assert tree.cohorts == {}


def test_taking_back_is_the_reverse_of_giving() -> None:
    dice = random.Random(3)
    tree = _tree(a=Quota(4, 3, 2), b=Quota(3, None, 0), c=Quota(6, 0))
    tree.put_cohort("all", "top", {CELL: Quota(1, 2, 1)})
    tree.put_cohort("top", "", {CELL: Quota(2)})
    before = {name: dict(node.usage) for name, node in (*tree.leaves.items(), *tree.cohorts.items())}
    given = [(dice.choice("abc"), dice.randint(0, 5)) for _ in range(50)]
    for name, amount in given:
        tree.leaves[name].add(CELL, amount)
    total = {name: dict(node.usage) for name, node in (*tree.leaves.items(), *tree.cohorts.items())}
    tree.cohorts["top"].rebuild()
    assert total == {name: dict(node.usage) for name, node in (*tree.leaves.items(), *tree.cohorts.items())}
    dice.shuffle(given)
    for name, amount in given:
        tree.leaves[name].remove(CELL, amount)
    after = {
        name: {cell: one for cell, one in node.usage.items() if one} for name, node in (*tree.leaves.items(), *tree.cohorts.items())
    }
    assert after == before
