"""The scheduling queue: order, groups of equal pods, and requeueing."""

from __future__ import annotations

from tests.support.scheduler_snapshot import SnapshotBuilder

from sliceworks.twin.scheduler.pod_queue import SchedulingQueue

RESOURCES = frozenset(("NodeResourcesFit",))


def names(queue: SchedulingQueue) -> list[str]:
    """The names of all pods in scheduling order."""
    names_in_order = []
    while (group := queue.next()) is not None:
        names_in_order.append(group.first.key[1])
        queue.remove(group.first.key)
    return names_in_order


def test_queue_orders_by_priority_then_age() -> None:
    builder, queue = SnapshotBuilder(), SchedulingQueue({})
    queue.add(builder.pod("a"))
    queue.add(builder.pod("b", priority=5))
    queue.add(builder.pod("c", asks={"cpu": "1"}))
    queue.add(builder.pod("d"))
    queue.add(builder.pod("e", priority=5, asks={"cpu": "1"}))
    assert names(queue) == ["b", "e", "a", "c", "d"]


def test_equal_pods_are_requeued_together() -> None:
    builder, queue = SnapshotBuilder(), SchedulingQueue({})
    for name in ("a", "b", "c"):
        queue.add(builder.pod(name))
    group = queue.next()
    assert group is not None
    queue.mark_unschedulable(group, RESOURCES)
    assert queue.next() is None
    queue.requeue_rejected(frozenset(("NodePorts",)))
    assert queue.next() is None
    queue.requeue_rejected(RESOURCES)
    assert names(queue) == ["a", "b", "c"]


def test_added_pod_requeues_its_group() -> None:
    builder, queue = SnapshotBuilder(), SchedulingQueue({})
    queue.add(builder.pod("a"))
    group = queue.next()
    assert group is not None
    queue.mark_unschedulable(group, RESOURCES)
    queue.add(builder.pod("b"))
    assert names(queue) == ["a", "b"]


def test_groups_are_split_by_new_label_keys() -> None:
    keys: dict[str, None] = {}
    builder, queue = SnapshotBuilder(), SchedulingQueue(keys)
    queue.add(builder.pod("a", labels={"app": "x"}))
    queue.add(builder.pod("b", labels={"app": "y"}))
    first = queue.next()
    assert first is not None
    assert len(first.pods) == 2
    queue.mark_unschedulable(first, RESOURCES)
    keys["app"] = None
    queue.add(builder.pod("c", labels={"app": "y"}))
    first = queue.next()
    assert first is not None
    assert list(first.pods) == [("ns", "a")]
    queue.mark_unschedulable(first, RESOURCES)
    assert names(queue) == ["b", "c"]


def test_last_message_is_kept_when_a_pod_changes() -> None:
    builder, queue = SnapshotBuilder(), SchedulingQueue({})
    queue.add(builder.pod("a"))
    group = queue.next()
    assert group is not None
    group.last_message["ns", "a"] = "no"
    queue.add(builder.pod("a", asks={"cpu": "1"}))
    group = queue.next()
    assert group is not None
    assert group.last_message == {("ns", "a"): "no"}
