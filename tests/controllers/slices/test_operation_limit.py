"""The adaptive limit of concurrent operations, and the poll interval."""

from __future__ import annotations

from typing import Any

from sliceworks.controllers.slices.node_pool_operations import OperationLimit, PendingOperation, poll_interval


def test_limit_grows_until_rejection() -> None:
    window, running = OperationLimit(3), 0
    while running < 30:
        assert window.available(running, 0.0) > 0
        running += 1
        window.record_accepted(running)
    window.record_rejected(30, 10.0)
    assert window.limit == 30
    assert window.available(29, 10.1) == 0
    assert window.resume_after(10.1) is not None
    assert window.available(29, 11.0) == 1


def test_finished_operation_raises_the_limit() -> None:
    window = OperationLimit(3)
    window.record_rejected(4, 0.0)
    for _ in range(4):
        window.record_finished()
    assert window.resume_after(0.0) is None
    assert 4.5 < window.limit < 5.1
    assert window.available(4, 0.0) in (0, 1)


def test_limit_recovers_quickly() -> None:
    window = OperationLimit(3)
    for running in range(1, 21):
        window.record_accepted(running)
    window.record_rejected(2, 0.0, full=False)  # a cluster that was being upgraded
    for _ in range(18):
        window.record_finished()
    assert window.limit == 20
    window.record_rejected(5, 0.0)  # too many: it accepts fewer than before
    for _ in range(5):
        window.record_finished()
    assert window.limit < 6


def test_pauses_grow_while_everything_is_rejected() -> None:
    window, pauses = OperationLimit(3), []
    for _ in range(9):
        window.record_rejected(0, 0.0)
        pauses.append(window.resume_after(0.0))
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert window.limit == 1
    window.record_rejected(0, 0.0, at_least=90.0)
    assert window.resume_after(0.0) == 90
    window.record_accepted(1)
    window.record_rejected(0, 0.0)
    assert window.resume_after(0.0) == 0.5


def test_new_operations_are_polled_often() -> None:
    action: Any = None
    assert poll_interval([], 0.0, waiting=False) == 60
    assert poll_interval([PendingOperation("create", action, 0.0)], 0.5, waiting=True) == 0.2
    assert poll_interval([PendingOperation("create", action, 0.0)], 0.5, waiting=False) == 1.0
    assert poll_interval([PendingOperation("create", action, 0.0)], 50.0, waiting=True) == 5.0
    assert (
        poll_interval([PendingOperation("create", action, 0.0), PendingOperation("create", action, 40.0)], 50.0, waiting=False)
        == 1.0
    )
    assert poll_interval([PendingOperation("create", action, 0.0)], 900.0, waiting=False) == 10.0
