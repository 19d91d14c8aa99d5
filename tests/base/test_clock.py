"""The clock: virtual time jumps, sped-up time runs, and both say the same things as real time."""

from __future__ import annotations

import asyncio
import selectors
import socket
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from sliceworks.base import clock


def test_a_virtual_week_takes_no_time() -> None:
    async def main() -> tuple[float, timedelta]:
        began, first = clock.now(), clock.loop_time()
        await clock.sleep(7 * 24 * 3600)
        return clock.loop_time() - first, clock.now() - began

    real = time.monotonic()
    elapsed, between = clock.run(main(), virtual=True)
    assert elapsed == pytest.approx(604800)
    assert between == timedelta(days=7)
    assert time.monotonic() - real < 2


def test_virtual_timers_fire_in_order_whoever_set_them() -> None:
    async def ticking(name: str, every: float, log: list[tuple[str, str]]) -> None:
        for _ in range(3):
            await clock.sleep(every)
            log.append((name, clock.timestamp()))

    async def main() -> list[tuple[str, str]]:
        log: list[tuple[str, str]] = []
        await asyncio.gather(ticking("slow", 40, log), ticking("fast", 25, log))
        return log

    start = datetime(2026, 11, 15, tzinfo=UTC)
    assert clock.run(main(), virtual=True, start=start) == [
        ("fast", "2026-11-15T00:00:25Z"),
        ("slow", "2026-11-15T00:00:40Z"),
        ("fast", "2026-11-15T00:00:50Z"),
        ("fast", "2026-11-15T00:01:15Z"),
        ("slow", "2026-11-15T00:01:20Z"),
        ("slow", "2026-11-15T00:02:00Z"),
    ]


def test_the_same_seed_gives_the_same_run() -> None:
    async def main() -> list[str]:
        return [clock.uid(), clock.micro_timestamp(), str(clock.randomness().random())]

    assert clock.run(main(), virtual=True, seed=7) == clock.run(main(), virtual=True, seed=7)
    assert clock.run(main(), virtual=True, seed=7) != clock.run(main(), virtual=True, seed=8)


def test_virtual_timeouts_and_thread_work() -> None:
    async def main() -> tuple[str, int]:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(90):
                await asyncio.Event().wait()
        return clock.timestamp(), await asyncio.to_thread(sum, [1, 2])

    assert clock.run(main(), virtual=True) == ("2026-01-05T08:01:30Z", 3)


def test_an_error_in_thread_work_is_the_callers() -> None:
    async def main() -> None:
        await asyncio.to_thread(int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        clock.run(main(), virtual=True)


def test_waiting_for_nothing_is_an_error_not_a_hang() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="never comes"):
        clock.run(main(), virtual=True)


def test_time_runs_faster_and_can_be_moved_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own clock is one that stands while nobody waits: how busy the machine is shows nowhere."""
    real = 0.0

    class Waits(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            nonlocal real
            real += timeout or 0.0
            return super().select(0)

    async def main() -> tuple[float, float]:
        first = clock.now()
        await clock.sleep(20)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, clock.ScaledLoop)
        loop.call_soon(loop.advance, 3600)
        await clock.sleep(3600)
        loop.set_speed(5000)
        await clock.sleep(100)
        return (clock.now() - first).total_seconds(), loop.speed

    monkeypatch.setattr("sliceworks.base.loops.time", SimpleNamespace(monotonic=lambda: real))
    monkeypatch.setattr("sliceworks.base.loops.selectors", SimpleNamespace(DefaultSelector=Waits))
    passed, speed = clock.run(main(), speed=1000)
    assert passed == pytest.approx(3720)
    assert speed == 5000
    assert real == pytest.approx(20 / 1000 + 100 / 5000)


def test_time_can_be_paused_while_sockets_go_on_and_be_moved_on_meanwhile() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, clock.ScaledLoop)
        fired: list[float] = []
        loop.call_later(0.5, lambda: fired.append(loop.time()))
        loop.pause()
        assert loop.paused
        before = loop.time()
        mine, yours = socket.socketpair()
        mine.setblocking(False)
        for _ in range(3):
            yours.send(b"x")
            await loop.sock_recv(mine, 1)
        mine.close()
        yours.close()
        assert loop.time() == before
        assert not fired
        loop.advance(2)
        await clock.sleep(2)
        assert fired
        assert abs(loop.time() - before - 2) < 0.001
        loop.pause(False)
        await clock.sleep(10)
        return fired

    assert len(clock.run(main(), speed=1000)) == 1


@pytest.mark.parametrize("speed", [0, -1, float("inf"), float("nan")])
def test_an_impossible_speed_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="a speed is a number above 0"):
        clock.new_loop(speed=speed)


def test_time_does_not_run_backwards() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, clock.ScaledLoop)
        loop.advance(-1)

    with pytest.raises(ValueError, match="backwards"):
        clock.run(main(), speed=2)


def test_the_wall_clock_where_no_loop_runs() -> None:
    assert abs((clock.now() - datetime.now(UTC)).total_seconds()) < 1
    assert clock.timestamp().endswith("Z")
    assert abs(clock.since(datetime.fromisoformat(clock.timestamp())).total_seconds()) < 2


def test_how_moments_are_written() -> None:
    moment = datetime(2026, 11, 15, 3, 4, 5, 678, tzinfo=UTC)
    assert clock.rfc3339(moment) == "2026-11-15T03:04:05Z"
    assert clock.rfc3339_micro(moment) == "2026-11-15T03:04:05.000678Z"


def test_uids_are_uuids_of_version_four() -> None:
    found = {clock.uid() for _ in range(200)}
    assert len(found) == 200
    assert {(uuid.UUID(text).version, uuid.UUID(text).variant) for text in found} == {(4, uuid.RFC_4122)}


def test_real_time_runs_too() -> None:
    async def main() -> float:
        first = clock.loop_time()
        await clock.sleep(0)
        return clock.loop_time() - first

    assert clock.run(main()) < 1


def test_time_that_is_held_waits_for_threads_and_leaves_chance_alone() -> None:
    def draws(real_work: int) -> tuple[float, float, list[float]]:
        async def main() -> tuple[float, float, list[float]]:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, clock.VirtualLoop)
            late = asyncio.create_task(clock.sleep(5))
            done = asyncio.Event()
            with loop.held():
                threading.Thread(target=lambda: loop.call_soon_threadsafe(done.set)).start()
                await done.wait()
                for _ in range(real_work):
                    clock.uid()
            held = loop.time()
            await late
            return held, loop.time(), [clock.randomness().random() for _ in range(2)]

        return clock.run(main(), virtual=True, seed=3)

    assert draws(0) == draws(7)
    assert draws(0)[:2] == (0.0, 5.0)


def test_time_that_is_held_can_be_let_pass_a_little() -> None:
    async def main() -> tuple[float, list[str]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, clock.VirtualLoop)
        heard: list[str] = []
        loop.call_later(3, heard.append, "early")
        loop.call_later(30, heard.append, "late")
        with loop.held():
            loop.let_pass(10)
            await clock.sleep(10)
            return loop.time(), heard

    assert clock.run(main(), virtual=True) == (10.0, ["early"])


def test_virtual_timers_of_one_moment_fire_in_the_order_in_which_they_were_set() -> None:
    def heard(others: int) -> list[int]:
        async def main() -> list[int]:
            loop, found = asyncio.get_running_loop(), list[int]()
            for number in range(50):
                for other in range(others):
                    loop.call_later(1 + (number * 7 + other) % 11, found.append, -1).cancel()
                loop.call_at(20.0, found.append, number)
            await clock.sleep(30)
            return found

        return clock.run(main(), virtual=True)

    assert heard(0) == heard(3) == list(range(50))


def test_whoever_waits_for_a_virtual_moment_gets_there() -> None:
    async def main() -> int:
        due, rounds = clock.loop_time() + 60, 0
        await clock.sleep(60 - 4e-7)
        while clock.loop_time() < due:
            rounds += 1
            assert rounds < 10
            await clock.sleep(due - clock.loop_time())
        assert clock.loop_time() < due + 1e-5
        return rounds

    assert clock.run(main(), virtual=True) == 1
