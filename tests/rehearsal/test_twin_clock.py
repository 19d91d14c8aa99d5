"""The clock of a twin never goes back, and every process that is attached to a twin follows it."""

from __future__ import annotations

import asyncio
import os
import signal
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest
from tests.support.real_time import RealTime

from sliceworks.base import clock
from sliceworks.base.loops import ScaledLoop
from sliceworks.base.transport import Request, Response
from sliceworks.cli import main
from sliceworks.kube import open_client
from sliceworks.kube.resources import CONFIG_MAP
from sliceworks.platform import twin_clock, twin_home
from sliceworks.twin.clock_control import ClockControl

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from sliceworks.kube.client import Client

pytestmark = pytest.mark.usefixtures("own_home")


def start(*arguments: str) -> None:
    assert main.run(["twin", "start", "--no-workloads", "--quiet", *arguments]) == 0


@pytest.fixture
def home() -> Iterator[twin_home.Home]:
    yield twin_home.find("default")
    main.run(["twin", "stop", "--quiet"])


def now(kubeconfig: Path) -> datetime:
    async def read() -> datetime:
        async with open_client(kubeconfig) as client:
            return (await twin_clock.get(client)).now

    return clock.run(read())


def create_config_map(kubeconfig: Path) -> datetime:
    """Create a ConfigMap and return when that was."""

    async def create() -> datetime:
        async with open_client(kubeconfig) as client:
            obj: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}
            await client.create(obj)
            result = await client.get(CONFIG_MAP, "a", "default")
            return datetime.fromisoformat(result["metadata"]["creationTimestamp"])

    return clock.run(create())


def end(home: twin_home.Home, *, kill: bool) -> None:
    if not kill:
        assert main.run(["twin", "stop", "--quiet"]) == 0
        return
    pid = home.owner_pid()
    os.kill(pid, signal.SIGKILL)
    assert clock.wait_until(lambda: home.owner_pid() != pid, 90)


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("speed", [(), ("--speed", "600"), ("--speed", "0.5")])
def test_time_does_not_go_back_when_a_twin_restarts(home: twin_home.Home, speed: tuple[str, ...], kill: bool) -> None:
    start("--speed", "600")
    assert main.run(["twin", "advance", "2h", "--quiet"]) == 0
    created = create_config_map(home.kubeconfig)
    assert created - clock.now() > timedelta(hours=1)
    end(home, kill=kill)
    start(*speed)
    assert now(home.kubeconfig) >= created


def test_ages_and_status_of_a_fast_twin_are_valid(home: twin_home.Home, capsys: pytest.CaptureFixture[str]) -> None:
    start("--speed", "600")
    create_config_map(home.kubeconfig)
    assert main.run(["twin", "advance", "2h", "--quiet"]) == 0
    clock.run(_set_speed(home.kubeconfig, 60))
    capsys.readouterr()
    assert main.run(["twin", "status"]) == 0
    row = capsys.readouterr().out.splitlines()[1].split()
    assert "60x" in row
    assert row[-1].endswith("s"), "the age of the process, not of its clock"


async def _set_speed(kubeconfig: Path, speed: float) -> None:
    async with open_client(kubeconfig) as client:
        await twin_clock.update(client, speed=speed)


def test_an_attached_process_follows_the_twin(home: twin_home.Home) -> None:
    """What `controller run --twin` runs on: the twin is advanced, paused and sped up from outside."""
    start("--speed", "1")

    async def attached() -> None:
        before, slept = clock.now(), asyncio.create_task(clock.sleep(3600))
        await asyncio.to_thread(main.run, ["twin", "advance", "1h", "--quiet"])
        await slept
        assert clock.now() - before >= timedelta(hours=1)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScaledLoop)
        async with open_client(home.kubeconfig) as client:
            await twin_clock.update(client, speed=50)
            while loop.speed != 50:
                await asyncio.to_thread(lambda: None)
            await twin_clock.update(client, paused=True)
            while not loop.paused:
                await asyncio.to_thread(lambda: None)
            stands = await twin_clock.get(client)
            assert abs((clock.now() - stands.now).total_seconds()) < 50
            assert (await twin_clock.get(client)).now == stands.now
            await twin_clock.update(client, paused=False)
            while loop.paused:
                await asyncio.to_thread(lambda: None)

    twin_clock.run_on_twin_clock(attached, home.kubeconfig)


class StoppedTwin:
    """A client of a twin that sends its time once and then no more, as on a machine that is too busy to run it."""

    async def exchange(self, _request: Request, *, stream: bool) -> Response:
        assert stream
        return Response(200, {}, stream=self._lines())

    async def _lines(self) -> AsyncIterator[bytes]:
        state = {"now": clock.rfc3339_micro(clock.now()), "speed": 100, "paused": False, "interval": 0.2}
        yield orjson.dumps(state) + b"\n"
        await asyncio.Event().wait()


def test_an_attached_process_does_not_run_ahead_of_a_stopped_twin(monkeypatch: pytest.MonkeyPatch) -> None:
    real_time = RealTime(monkeypatch)

    async def attached() -> float:
        async with twin_clock.follow(cast("Client", StoppedTwin())):
            await clock.sleep(60)
        return real_time.seconds

    # Until the next line is due, time passes at full speed.
    assert clock.run(attached(), speed=100) == pytest.approx(0.3 + 30, abs=0.1)


def test_a_twin_sends_its_time_in_regular_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    real_time = RealTime(monkeypatch)

    async def watch() -> list[float]:
        control = ClockControl(None, on_speed=lambda _: None)
        response = await control.paths["debug/twin/clock/watch"](Request("GET", "/debug/twin/clock/watch"))
        assert response.stream is not None
        times = []
        async for _ in response.stream:
            times.append(real_time.seconds)
            if len(times) == 4:
                break
        return times

    assert clock.run(watch(), speed=100) == pytest.approx([0, 0.2, 0.4, 0.6], abs=0.01)
