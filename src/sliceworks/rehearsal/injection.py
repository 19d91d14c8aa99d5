"""A running twin from outside: move its time on or stop it, and have a scenario happen to it.

Waiting is asked of the twin itself: a scenario keeps its times whatever the speed of the twin, and while its time is moved on.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.kube.connect import open_client
from sliceworks.kube.transport import Request
from sliceworks.rehearsal.scenarios import Happening, plan, play

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sliceworks.kube.client import Client
    from sliceworks.specs.scenario import Scenario

_LONGEST_WAIT, _LONGEST_JUMP = 10.0, 3600.0
_JSON = {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Pace:
    """A twin's clock: what it shows, how fast it runs, whether it stands still. Without a speed it is the machine's own."""

    now: datetime
    speed: float | None
    paused: bool


async def pace(client: Client) -> Pace:
    """How a twin's time runs. NotFound where the cluster is no twin."""
    return _read(await client.send(Request("GET", "/debug/twin/clock")))


async def set_pace(client: Client, *, speed: float | None = None, paused: bool | None = None) -> Pace:
    """Let a twin's time run faster or slower, stand still or go on."""
    wanted = {name: value for name, value in (("speed", speed), ("paused", paused)) if value is not None}
    return _read(await client.send(Request("POST", "/debug/twin/clock", (), _JSON, orjson.dumps(wanted))))


async def move_on(client: Client, seconds: float) -> str:
    """Move a twin's time on; returns what its clock shows then."""
    return await _ask(client, "advance", seconds, _LONGEST_JUMP)


async def happen(client: Client, scenario: Scenario, folder: Path, told: Callable[[Happening], None]) -> None:
    """Have a scenario happen to a twin; returns when it is over."""

    async def sleep(seconds: float) -> None:
        await _ask(client, "sleep", seconds, _LONGEST_WAIT)

    await play(plan(scenario, folder, Random(scenario.spec.seed)), client, sleep, told=told)


def advance(kubeconfig: Path, seconds: float) -> str:
    """`move_on`, by a twin's kubeconfig."""

    async def main() -> str:
        async with open_client(kubeconfig) as client:
            return await move_on(client, seconds)

    return clock.run(main())


def pace_now(kubeconfig: Path) -> Pace:
    """`pace`, by a twin's kubeconfig."""

    async def main() -> Pace:
        async with open_client(kubeconfig) as client:
            return await pace(client)

    return clock.run(main())


def inject(kubeconfig: Path, scenario: Scenario, folder: Path, told: Callable[[Happening], None]) -> None:
    """`happen`, by a twin's kubeconfig."""

    async def main() -> None:
        async with open_client(kubeconfig) as client:
            await happen(client, scenario, folder, told)

    clock.run(main())


def _read(answer: dict[str, Any]) -> Pace:
    return Pace(datetime.fromisoformat(str(answer["now"])), answer.get("speed"), bool(answer.get("paused")))


async def _ask(client: Client, what: str, seconds: float, most: float) -> str:
    """Let a twin wait or move on, in pieces that no connection gives up on."""
    shown = ""
    while True:
        piece = min(seconds, most)
        body = orjson.dumps({"seconds": piece})
        answer = await client.send(Request("POST", f"/debug/twin/{what}", (), _JSON, body))
        shown = str(answer.get("now"))
        seconds -= piece
        if seconds <= 0:
            return shown
