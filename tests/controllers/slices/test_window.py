"""How many operations at once: found out, kept to, and tried anew; and how often to look."""

from __future__ import annotations

from typing import Any

from sliceworks.controllers.slices.flights import Flight, poll_after
from sliceworks.controllers.slices.window import Window


def test_it_grows_until_it_is_refused() -> None:
    window, running = Window(3), 0
    while running < 30:
        assert window.free(running, 0.0) > 0
        running += 1
        window.accepted(running)
    window.refused(30, 10.0)
    assert window.limit == 30
    assert window.free(29, 10.1) == 0
    assert window.resumes(10.1) is not None
    assert window.free(29, 11.0) == 1


def test_an_end_makes_room_at_once_and_a_little_more() -> None:
    window = Window(3)
    window.refused(4, 0.0)
    for _ in range(4):
        window.finished()
    assert window.resumes(0.0) is None
    assert 4.5 < window.limit < 5.1
    assert window.free(4, 0.0) in (0, 1)


def test_it_comes_back_fast_to_what_was_taken_before() -> None:
    window = Window(3)
    for running in range(1, 21):
        window.accepted(running)
    window.refused(2, 0.0, full=False)  # a cluster that was being upgraded
    for _ in range(18):
        window.finished()
    assert window.limit == 20
    window.refused(5, 0.0)  # too many: it does not take as many as before
    for _ in range(5):
        window.finished()
    assert window.limit < 6


def test_pauses_grow_while_nothing_is_taken() -> None:
    window, pauses = Window(3), []
    for _ in range(9):
        window.refused(0, 0.0)
        pauses.append(window.resumes(0.0))
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert window.limit == 1
    window.refused(0, 0.0, at_least=90.0)
    assert window.resumes(0.0) == 90
    window.accepted(1)
    window.refused(0, 0.0)
    assert window.resumes(0.0) == 0.5


def test_young_operations_are_looked_at_often() -> None:
    action: Any = None
    assert poll_after([], 0.0, waiting=False) == 60
    assert poll_after([Flight("create", action, 0.0)], 0.5, waiting=True) == 0.2
    assert poll_after([Flight("create", action, 0.0)], 0.5, waiting=False) == 1.0
    assert poll_after([Flight("create", action, 0.0)], 50.0, waiting=True) == 5.0
    assert poll_after([Flight("create", action, 0.0), Flight("create", action, 40.0)], 50.0, waiting=False) == 1.0
    assert poll_after([Flight("create", action, 0.0)], 900.0, waiting=False) == 10.0
