"""Steps are taken at their moments, never before them, and nobody who waits keeps others from reading."""

from __future__ import annotations

import gc
from time import perf_counter_ns, process_time_ns, time_ns

import gevent
from gevent import socket

from sliceworks.loadtest.generator.pacing import FAR, Pacer, Watch, undisturbed

MILLISECOND = 1_000_000


class Steps:
    """Moments, and when the step of each was taken."""

    def __init__(self, moments: list[int]) -> None:
        self.left, self.taken = list(moments), list[tuple[int, int]]()

    def __call__(self) -> int:
        self.taken.append((self.left.pop(0), perf_counter_ns()))
        return self.left[0] if self.left else FAR


def test_steps_are_taken_in_order_and_never_early() -> None:
    begins = perf_counter_ns() + 5 * MILLISECOND
    moments = [begins + n * MILLISECOND // 2 for n in range(30)] + [begins + 40 * MILLISECOND]
    steps = Steps(moments)
    pacer = Pacer(perf_counter_ns, steps)
    pacer.begin(moments[0])
    assert pacer.done.wait(30)
    assert [moment for moment, _ in steps.taken] == moments
    assert all(taken >= moment for moment, taken in steps.taken)


def test_whoever_is_far_behind_still_reads() -> None:
    steps = Steps(list(range(100)))
    pacer = Pacer(lambda: 1_000, steps)
    pacer.due = 0
    pacer.catch_up()
    assert 0 < len(steps.taken) < 100
    while pacer.due != FAR:
        pacer.catch_up()
    assert len(steps.taken) == 100
    assert pacer.due == FAR


def test_nothing_is_taken_after_the_stop() -> None:
    now, steps = 0, Steps([20 * MILLISECOND])
    pacer = Pacer(lambda: now, steps)
    pacer.begin(steps.left[0])
    gevent.sleep(0.001)
    pacer.stop()
    assert pacer.done.wait(1)
    now = 30 * MILLISECOND
    gevent.sleep(0.03)
    assert steps.taken == []


def test_a_step_that_fails_is_the_last() -> None:
    steps = Steps([])
    pacer = Pacer(perf_counter_ns, steps)
    pacer.begin(perf_counter_ns())
    assert pacer.done.wait(5)
    assert isinstance(pacer.problem, IndexError)


def test_waiting_does_not_keep_others_from_reading() -> None:
    """The loop's own way to let others go first looks at sockets once in five milliseconds: times of answers are wrong by that.
    Time is what this process has of the processor: others may have the rest."""
    one, other = socket.socketpair()

    def answer() -> None:
        while data := other.recv(1):
            other.sendall(data)

    begins = process_time_ns()
    steps = Steps([begins + n * MILLISECOND for n in range(60)])
    pacer = Pacer(process_time_ns, steps)
    server = gevent.spawn(answer)
    pacer.begin(steps.left[0])
    turns = 0
    while not pacer.done.is_set():
        one.sendall(b"x")
        one.recv(1)
        turns += 1
    one.close()
    server.join(5)
    other.close()
    assert turns > 100


def test_a_watch_tells_time_from_the_beginning() -> None:
    assert Watch(time_ns() + 10**12).now() < 0
    watch = Watch(time_ns() + 10 * MILLISECOND)
    assert watch.wait(0, lambda: False)
    assert watch.now() >= 0
    assert not watch.wait(watch.now() + 10**12, lambda: True)


def test_the_collector_comes_back_afterwards() -> None:
    before = gc.get_threshold()
    with undisturbed():
        assert gc.get_threshold()[0] > before[0]
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
