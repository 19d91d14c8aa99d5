"""A running twin from outside: move its time on, and have a scenario happen to it.

Waiting is asked of the twin itself: a scenario keeps its times whatever the speed of the twin, and while its time is moved on.
"""

from __future__ import annotations

from datetime import datetime
from random import Random
from typing import TYPE_CHECKING

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


def advance(kubeconfig: Path, seconds: float) -> str:
    """Move a twin's time on; returns what its clock shows then."""

    async def main() -> str:
        async with open_client(kubeconfig) as client:
            return await _ask(client, "advance", seconds, _LONGEST_JUMP)

    return clock.run(main())


def now(kubeconfig: Path) -> datetime:
    """What a twin's clock shows."""

    async def main() -> str:
        async with open_client(kubeconfig) as client:
            return await _ask(client, "sleep", 0.0, _LONGEST_WAIT)

    return datetime.fromisoformat(clock.run(main()))


def inject(kubeconfig: Path, scenario: Scenario, folder: Path, told: Callable[[Happening], None]) -> None:
    """Have a scenario happen to a twin; returns when it is over."""

    async def main() -> None:
        async with open_client(kubeconfig) as client:

            async def sleep(seconds: float) -> None:
                await _ask(client, "sleep", seconds, _LONGEST_WAIT)

            await play(plan(scenario, folder, Random(scenario.spec.seed)), client, sleep, told=told)

    clock.run(main())


async def _ask(client: Client, what: str, seconds: float, most: float) -> str:
    """Let a twin wait or move on, in pieces that no connection gives up on."""
    shown = ""
    while True:
        piece = min(seconds, most)
        body = orjson.dumps({"seconds": piece})
        answer = await client.send(Request("POST", f"/debug/twin/{what}", (), {"content-type": "application/json"}, body))
        shown = str(answer.get("now"))
        seconds -= piece
        if seconds <= 0:
            return shown
