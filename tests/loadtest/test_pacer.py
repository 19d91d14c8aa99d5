"""The pacer runs steps at their times, never early, and waiting does not block reads."""

from __future__ import annotations

import gc
from time import perf_counter_ns, process_time_ns, time_ns

import gevent
from gevent import socket

from sliceworks.loadtest.generator.pacer import NEVER_DUE, Pacer, RunClock, low_jitter

MILLISECOND = 1_000_000


class Steps:
    """Scheduled times, and when each step ran."""

    def __init__(self, due_times: list[int]) -> None:
        self.left, self.taken = list(due_times), list[tuple[int, int]]()

    def __call__(self) -> int:
        self.taken.append((self.left.pop(0), perf_counter_ns()))
        return self.left[0] if self.left else NEVER_DUE


def test_steps_run_in_order_and_never_early() -> None:
    begins = perf_counter_ns() + 5 * MILLISECOND
    due_times = [begins + n * MILLISECOND // 2 for n in range(30)] + [begins + 40 * MILLISECOND]
    steps = Steps(due_times)
    pacer = Pacer(perf_counter_ns, steps)
    pacer.begin(due_times[0])
    assert pacer.done.wait(90)
    assert [moment for moment, _ in steps.taken] == due_times
    assert all(taken >= moment for moment, taken in steps.taken)


def test_late_pacer_still_reads() -> None:
    steps = Steps(list(range(100)))
    pacer = Pacer(lambda: 1_000, steps)
    pacer.due = 0
    pacer.catch_up()
    assert 0 < len(steps.taken) < 100
    while pacer.due != NEVER_DUE:
        pacer.catch_up()
    assert len(steps.taken) == 100
    assert pacer.due == NEVER_DUE


def test_no_step_runs_after_stop() -> None:
    now, steps = 0, Steps([20 * MILLISECOND])
    pacer = Pacer(lambda: now, steps)
    pacer.begin(steps.left[0])
    gevent.sleep(0.001)
    pacer.stop()
    assert pacer.done.wait(90)
    now = 30 * MILLISECOND
    gevent.sleep(0.03)
    assert steps.taken == []


def test_failed_step_ends_the_pacer() -> None:
    steps = Steps([])
    pacer = Pacer(perf_counter_ns, steps)
    pacer.begin(perf_counter_ns())
    assert pacer.done.wait(90)
    assert isinstance(pacer.problem, IndexError)


def test_waiting_does_not_block_reads() -> None:
    """gevent's own way to yield polls sockets every five milliseconds, which would falsify response times.

    Time is CPU time of this process, because other processes may use the rest.
    """
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
    server.join(30)
    other.close()
    assert turns > 100


def test_run_clock_counts_from_the_start() -> None:
    assert RunClock(time_ns() + 10**12).now() < 0
    watch = RunClock(time_ns() + 10 * MILLISECOND)
    assert watch.wait(0, lambda: False)
    assert watch.now() >= 0
    assert not watch.wait(watch.now() + 10**12, lambda: True)


def test_garbage_collector_is_restored() -> None:
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    try:
        with low_jitter():
            assert gc.get_threshold()[0] > 700
            assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == (700, 10, 10)
        assert gc.get_freeze_count() == 0
    finally:
        gc.set_threshold(*before)
