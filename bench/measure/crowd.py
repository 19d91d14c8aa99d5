"""Models that speak and people who listen to them, all on cores that are not the proxy's: how late each token comes.

Each member is a process on a core of its own, with a model and listeners in it: apart they would spend half a core on taking turns.
Where there are two cores, there is one member. Members are asked line by line, in JSON: to open streams, to listen, to hang up.
Each waits for the others: a hundred who hang up at once take a proxy some milliseconds, and whoever still listens hears that.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import orjson
from bench.measure.http_load import Streams

from sliceworks.base import clock
from sliceworks.serving.gateway.echo import server as echo_server
from sliceworks.serving.gateway.echo.engine import Settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_MOST = 8


@dataclass(frozen=True, slots=True)
class Heard:
    """What all listeners together heard."""

    late: list[float]
    """How late each token was, in seconds."""
    joined: int
    """How many came in the same piece as another."""


class Crowd:
    """All members. `ports` are those of their models."""

    def __init__(self, cores: Sequence[int], model: str, token_time: float) -> None:
        given = orjson.dumps({"model": model, "token_time": token_time}).decode()
        self._members = [_started(core, given) for core in cores[:_MOST]]
        self.ports = [int(self._said(member)["port"]) for member in self._members]

    def _said(self, member: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert member.stdout is not None
        line = member.stdout.readline()
        if not line:
            raise RuntimeError("a process with models and listeners ended early")
        found: dict[str, Any] = orjson.loads(line)
        return found

    def listen(self, ports: Sequence[int], sent: bytes, count: int, seconds: float) -> Heard:
        """So many streams at once, of these servers in turn. All listen at the same time: those who come and go are heard."""
        number = len(self._members)
        shares = (count // number + (place < count % number) for place in range(number))
        self._ask({"port": ports[place % len(ports)], "count": share, "sent": sent.decode()} for place, share in enumerate(shares))
        found = self._ask({"seconds": seconds} for _ in self._members)
        self._ask({} for _ in self._members)
        return Heard([late for each in found for late in each["late"]], sum(each["joined"] for each in found))

    def _ask(self, questions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ask each member something, all at once."""
        for member, question in zip(self._members, questions, strict=True):
            assert member.stdin is not None
            member.stdin.write(orjson.dumps({**question, "among": len(self._members)}) + b"\n")
            member.stdin.flush()
        return [self._said(member) for member in self._members]

    def stop(self) -> None:
        """End them: each does when nobody asks any more."""
        for member in self._members:
            member.communicate()


def _started(core: int, given: str) -> subprocess.Popen[bytes]:
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        return subprocess.Popen([sys.executable, __file__, given], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    finally:
        os.sched_setaffinity(0, own)


async def _member(model: str, token_time: float) -> None:
    server, port = await echo_server.start(Settings(models=(model,), token_time=token_time, stamps=True, records=0))
    _say({"port": port})
    while asked := await _asked():
        streams = Streams(asked["port"], asked["sent"].encode(), apart=0.001 * asked["among"])
        await streams.open(asked["count"])
        _say({})
        await streams.listen((await _asked())["seconds"])
        _say({"late": streams.late, "joined": streams.joined})
        await _asked()
        streams.close()
        _say({})
    await server.stop(0)


async def _asked() -> dict[str, Any]:
    """The next question: empty when nobody asks any more."""
    line = await asyncio.to_thread(sys.stdin.buffer.readline)
    found: dict[str, Any] = orjson.loads(line or b"{}")
    return found


def _say(what: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(what) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    clock.run(_member(**orjson.loads(sys.argv[1])))
