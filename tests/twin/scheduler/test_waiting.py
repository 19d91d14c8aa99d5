"""Who waits, in which order, and who is woken."""

from __future__ import annotations

from tests.support.placing import Board

from sliceworks.twin.scheduler.waiting import Waiting

ROOM = frozenset(("NodeResourcesFit",))


def names(waiting: Waiting) -> list[str]:
    """The order in which pods are tried, if all find a node."""
    found = []
    while (lane := waiting.next()) is not None:
        found.append(lane.first.key[1])
        waiting.remove(lane.first.key)
    return found


def test_priority_then_age() -> None:
    board, waiting = Board(), Waiting({})
    waiting.add(board.pod("a"))
    waiting.add(board.pod("b", priority=5))
    waiting.add(board.pod("c", asks={"cpu": "1"}))
    waiting.add(board.pod("d"))
    waiting.add(board.pod("e", priority=5, asks={"cpu": "1"}))
    assert names(waiting) == ["b", "e", "a", "c", "d"]


def test_the_alike_wait_together() -> None:
    board, waiting = Board(), Waiting({})
    for name in ("a", "b", "c"):
        waiting.add(board.pod(name))
    lane = waiting.next()
    assert lane is not None
    waiting.park(lane, ROOM)
    assert waiting.next() is None
    waiting.wake_failed(frozenset(("NodePorts",)))
    assert waiting.next() is None
    waiting.wake_failed(ROOM)
    assert names(waiting) == ["a", "b", "c"]


def test_one_that_comes_later_wakes_its_lane() -> None:
    board, waiting = Board(), Waiting({})
    waiting.add(board.pod("a"))
    lane = waiting.next()
    assert lane is not None
    waiting.park(lane, ROOM)
    waiting.add(board.pod("b"))
    assert names(waiting) == ["a", "b"]


def test_labels_part_lanes_once_they_count() -> None:
    keys: dict[str, None] = {}
    board, waiting = Board(), Waiting(keys)
    waiting.add(board.pod("a", labels={"app": "x"}))
    waiting.add(board.pod("b", labels={"app": "y"}))
    first = waiting.next()
    assert first is not None
    assert len(first.pods) == 2
    waiting.park(first, ROOM)
    keys["app"] = None
    waiting.add(board.pod("c", labels={"app": "y"}))
    first = waiting.next()
    assert first is not None
    assert list(first.pods) == [("ns", "a")]
    waiting.park(first, ROOM)
    assert names(waiting) == ["b", "c"]


def test_what_was_told_is_remembered_when_a_pod_changes() -> None:
    board, waiting = Board(), Waiting({})
    waiting.add(board.pod("a"))
    lane = waiting.next()
    assert lane is not None
    lane.told["ns", "a"] = "no"
    waiting.add(board.pod("a", asks={"cpu": "1"}))
    lane = waiting.next()
    assert lane is not None
    assert lane.told == {("ns", "a"): "no"}
