"""The clock: virtual, scaled and real time behind the same functions."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.real_time import RealTime

from sliceworks.base import clock
from sliceworks.base.loops import ScaledLoop, VirtualLoop


def test_virtual_week_takes_no_real_time() -> None:
    async def main() -> tuple[float, timedelta]:
        start, first = clock.now(), clock.loop_time()
        await clock.sleep(7 * 24 * 3600)
        return clock.loop_time() - first, clock.now() - start

    elapsed, between = clock.run(main(), virtual=True)
    assert elapsed == pytest.approx(604800)
    assert between == timedelta(days=7)


def test_virtual_timers_of_several_tasks_fire_in_order() -> None:
    async def tick(name: str, interval: float, log: list[tuple[str, str]]) -> None:
        for _ in range(3):
            await clock.sleep(interval)
            log.append((name, clock.timestamp()))

    async def main() -> list[tuple[str, str]]:
        log: list[tuple[str, str]] = []
        await asyncio.gather(tick("slow", 40, log), tick("fast", 25, log))
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


def test_virtual_run_is_reproducible_with_one_seed() -> None:
    async def main() -> list[str]:
        return [clock.uid(), clock.micro_timestamp(), str(clock.rng().random())]

    assert clock.run(main(), virtual=True, seed=7) == clock.run(main(), virtual=True, seed=7)
    assert clock.run(main(), virtual=True, seed=7) != clock.run(main(), virtual=True, seed=8)


def test_virtual_time_supports_timeouts_and_threads() -> None:
    async def main() -> tuple[str, int]:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(90):
                await asyncio.Event().wait()
        return clock.timestamp(), await asyncio.to_thread(sum, [1, 2])

    assert clock.run(main(), virtual=True) == ("2026-01-05T08:01:30Z", 3)


def test_virtual_thread_work_raises_its_error_in_the_caller() -> None:
    async def main() -> None:
        await asyncio.to_thread(int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        clock.run(main(), virtual=True)


def test_virtual_deadlock_is_an_error() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="deadlock"):
        clock.run(main(), virtual=True)


def test_scaled_time_runs_faster_and_can_be_advanced(monkeypatch: pytest.MonkeyPatch) -> None:
    real_time = RealTime(monkeypatch)

    async def main() -> tuple[float, float]:
        first = clock.now()
        await clock.sleep(20)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScaledLoop)
        loop.call_soon(loop.advance, 3600)
        await clock.sleep(3600)
        loop.set_speed(5000)
        await clock.sleep(100)
        return (clock.now() - first).total_seconds(), loop.speed

    passed, speed = clock.run(main(), speed=1000)
    assert passed == pytest.approx(3720)
    assert speed == 5000
    assert real_time.seconds == pytest.approx(20 / 1000 + 100 / 5000)


def test_time_of_a_late_loop_is_as_fast_as_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that the machine does not run for 5 seconds must not find that 20 minutes have passed."""
    real_time = RealTime(monkeypatch)

    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        await clock.sleep(60)
        before = loop.time()
        real_time.seconds += 5
        late = loop.time() - before
        await clock.sleep(60)
        return late, loop.time() - before - late

    late, after = clock.run(main(), speed=240)
    assert 5 <= late < 10
    assert after == pytest.approx(60, abs=0.01)


def test_time_after_the_limit_is_as_fast_as_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    real_time = RealTime(monkeypatch)

    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScaledLoop)
        loop.set_limit(loop.now() + timedelta(seconds=100))
        await clock.sleep(103)
        limited = real_time.seconds
        loop.set_limit(None)
        await clock.sleep(100)
        return limited, real_time.seconds - limited

    limited, unlimited = clock.run(main(), speed=100)
    assert limited == pytest.approx(1 + 3, abs=0.01)
    assert unlimited == pytest.approx(1, abs=0.01)


def test_scaled_time_can_be_paused_and_advanced_while_sockets_work() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScaledLoop)
        fired: list[float] = []
        loop.call_later(0.5, lambda: fired.append(loop.time()))
        loop.pause()
        assert loop.paused
        before = loop.time()
        reader, writer = socket.socketpair()
        reader.setblocking(False)
        for _ in range(3):
            writer.send(b"x")
            await loop.sock_recv(reader, 1)
        reader.close()
        writer.close()
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


def test_tls_handshake_on_scaled_time_has_its_timeout_in_real_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a handshake on a twin with --speed 240 would have a quarter of a second."""
    real_time = RealTime(monkeypatch)
    listener = socket.create_server(("127.0.0.1", 0))

    async def main() -> float:
        with pytest.raises(ConnectionError, match="SSL handshake"):
            await asyncio.open_connection(*listener.getsockname(), ssl=ssl.create_default_context())
        return real_time.seconds

    with listener:
        assert clock.run(main(), speed=240) == pytest.approx(60, abs=5)


@pytest.mark.parametrize("speed", [0, -1, float("inf"), float("nan")])
def test_invalid_speed_is_rejected(speed: float) -> None:
    with pytest.raises(ValueError, match="speed: must be a finite number greater than 0"):
        clock.new_loop(speed=speed)


def test_time_advances_to_a_time_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower gets several lines before its clock has moved: they must not add up."""
    real_time = RealTime(monkeypatch)

    async def main() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScaledLoop)
        for seconds in (100, 200, 150):
            loop.advance_to(loop.start + timedelta(seconds=seconds))
        await clock.sleep(199)
        advanced = real_time.seconds
        await clock.sleep(11)
        return advanced, real_time.seconds

    assert clock.run(main(), speed=2) == pytest.approx((0, 5), abs=0.1)


def test_advance_rejects_negative_seconds() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScaledLoop)
        loop.advance(-1)

    with pytest.raises(ValueError, match="must not be negative, got -1"):
        clock.run(main(), speed=2)


def test_now_is_the_wall_clock_without_a_loop() -> None:
    assert abs((clock.now() - datetime.now(UTC)).total_seconds()) < 60
    assert clock.timestamp().endswith("Z")
    assert abs(clock.since(datetime.fromisoformat(clock.timestamp())).total_seconds()) < 60


def test_rfc3339_formats() -> None:
    value = datetime(2026, 11, 15, 3, 4, 5, 678, tzinfo=UTC)
    assert clock.rfc3339(value) == "2026-11-15T03:04:05Z"
    assert clock.rfc3339_micro(value) == "2026-11-15T03:04:05.000678Z"


def test_uid_is_a_version_4_uuid() -> None:
    uids = {clock.uid() for _ in range(200)}
    assert len(uids) == 200
    assert {(uuid.UUID(uid).version, uuid.UUID(uid).variant) for uid in uids} == {(4, uuid.RFC_4122)}


def test_real_time_runs() -> None:
    async def main() -> float:
        first = clock.loop_time()
        await clock.sleep(0)
        return clock.loop_time() - first

    assert clock.run(main()) < 1


def test_held_virtual_time_waits_for_threads_and_keeps_the_random_sequence() -> None:
    def run_with(uids: int) -> tuple[float, float, list[float]]:
        async def main() -> tuple[float, float, list[float]]:
            loop = asyncio.get_running_loop()
            assert isinstance(loop, VirtualLoop)
            late = asyncio.create_task(clock.sleep(5))
            done = asyncio.Event()
            with loop.hold():
                threading.Thread(target=lambda: loop.call_soon_threadsafe(done.set)).start()
                await done.wait()
                for _ in range(uids):
                    clock.uid()
            held = loop.time()
            await late
            return held, loop.time(), [clock.rng().random() for _ in range(2)]

        return clock.run(main(), virtual=True, seed=3)

    assert run_with(0) == run_with(7)
    assert run_with(0)[:2] == (0.0, 5.0)


def test_held_virtual_time_can_be_advanced() -> None:
    async def main() -> tuple[float, list[str]]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        fired: list[str] = []
        loop.call_later(3, fired.append, "early")
        loop.call_later(30, fired.append, "late")
        with loop.hold():
            loop.advance(10)
            await clock.sleep(10)
            return loop.time(), fired

    assert clock.run(main(), virtual=True) == (10.0, ["early"])


def test_virtual_timers_due_at_the_same_time_fire_in_the_order_they_were_set() -> None:
    def fired(others: int) -> list[int]:
        async def main() -> list[int]:
            loop, numbers = asyncio.get_running_loop(), list[int]()
            for number in range(50):
                for other in range(others):
                    loop.call_later(1 + (number * 7 + other) % 11, numbers.append, -1).cancel()
                loop.call_at(20.0, numbers.append, number)
            await clock.sleep(30)
            return numbers

        return clock.run(main(), virtual=True)

    assert fired(0) == fired(3) == list(range(50))


def test_virtual_sleep_until_a_deadline_does_not_loop() -> None:
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
