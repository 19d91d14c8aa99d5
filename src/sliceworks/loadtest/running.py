"""Runs a test: starts the senders, follows them, ends them when something is wrong, and keeps what was measured."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from sliceworks.base.errors import SliceworksError
from sliceworks.loadtest.generator.keys import KEY, PASSWORD
from sliceworks.loadtest.listening import Clocks, Listener

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.loadtest.listening import Progress
    from sliceworks.loadtest.plans import Plan

TEST = "test.json"
INTERRUPTED = "it was interrupted"
"""Why a run ended early that somebody has ended."""
_GRACE = 25.0
_LINE = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: in seconds of the wall clock when it began, and why it ended early if it did."""

    began: float
    stopped: str
    lost_workers: tuple[int, ...]
    notes: tuple[str, ...] = ()
    """What became of those that were lost, where it is known."""
    clocks: Clocks = field(default_factory=Clocks)

    @property
    def partial(self) -> bool:
        return bool(self.stopped or self.lost_workers)


@dataclass(frozen=True, slots=True)
class Locust:
    """What is wanted of Locust's own: its CSV files in the run's folder, and its pages at a port, for a password."""

    csv: bool = False
    port: int = 0
    password: str = field(default="", repr=False)


class Run:
    """One test. `told` is called twice a second with how it stands; `prompts` is where those are that came from a bucket."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        files: Path,
        told: Callable[[Progress], None] | None = None,
        locust: Locust | None = None,
        *,
        prompts: Path | None = None,
    ) -> None:
        self._plan, self._folder, self._files, self._prompts = plan, folder, files, prompts
        self._locust = locust or Locust()
        self._listener = Listener(plan.spec.stop, told)
        self._senders: list[asyncio.subprocess.Process] = []

    def stop(self, why: str) -> None:
        """End it early; what has been measured is kept."""
        self._listener.stop(why)

    async def run(self) -> Outcome:
        """From the first request to the last row."""
        workers = self._plan.spec.workers.count
        where = {"files": str(self._files), "prompts": str(self._prompts or "")}
        write_test(self._folder, self._plan, **where, csv=self._locust.csv, web=self._locust.port)
        master = await self._master() if workers > 1 else None
        try:
            self._senders = [await self._sender(master) for _ in range(workers)]
            ender = asyncio.create_task(self._end_when_told())
            await asyncio.gather(*(self._follow(index, each) for index, each in enumerate(self._senders)))
            ender.cancel()
        finally:
            for each in (*self._senders, *([master[0]] if master else [])):
                await ended(each)
        heard = self._listener
        if not heard.began:
            raise not_started(heard.why, self._folder)
        lost = tuple(index for index in range(workers) if not heard.came_to_its_end(index))
        return Outcome(heard.began, heard.why, lost, clocks=heard.clocks)

    async def _start(self, *arguments: str) -> asyncio.subprocess.Process:
        with (self._folder / "senders.log").open("ab") as log:
            return await start(self._folder, *arguments, key=self._plan.key, password=self._locust.password, log=log)

    async def _master(self) -> tuple[asyncio.subprocess.Process, str]:
        """The one who brings several senders together, and its port."""
        process = await self._start("--role", "master", "--port", "0")
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise not_started("", self._folder)
        return process, str(orjson.loads(line)["port"])

    async def _sender(self, master: tuple[asyncio.subprocess.Process, str] | None) -> asyncio.subprocess.Process:
        return await self._start(*(("--role", "worker", "--port", master[1]) if master else ("--role", "local")))

    async def _follow(self, index: int, sender: asyncio.subprocess.Process) -> None:
        """Take what a sender tells, until it has ended."""
        assert sender.stdout is not None
        while line := await sender.stdout.readline():
            self._listener.hear(index, orjson.loads(line))
        await sender.wait()

    async def _end_when_told(self) -> None:
        """Tell the senders alone: a master that goes first ends them at once, without the answers that are under way."""
        await self._listener.stopping.wait()
        await asyncio.gather(*map(ended, self._senders))


def test_of(plan: Plan) -> dict[str, Any]:
    """What a sender has to know, but for the key and for where things are."""
    return {"spec": plan.spec.model_dump(by_alias=True), "url": plan.url, "workers": plan.spec.workers.count}


def write_test(folder: Path, plan: Plan, **where: Any) -> None:
    """The test as the senders of this machine read it."""
    told = {**test_of(plan), **where}
    if plan.spec.target.authority:
        told["spec"]["target"]["authority"] = str(Path(where["files"], plan.spec.target.authority).resolve())
    (folder / TEST).write_bytes(orjson.dumps(told))


async def start(
    folder: Path, *arguments: str, key: str, password: str = "", log: BinaryIO | None = None
) -> asyncio.subprocess.Process:
    """A process of a test: it speaks on stdout, writes its log to stderr, and stops when its stdin ends."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sliceworks.loadtest.generator", str(folder), *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=log,
        env={**os.environ, KEY: key, PASSWORD: password},
        start_new_session=True,  # Ctrl-C is for us: the senders are told to end in their own way
        limit=_LINE,
    )


class NotStarted(SliceworksError):
    """Nothing was sent, so there is nothing to keep. `why` is empty where nobody knows."""

    why = ""


def not_started(why: str, folder: Path) -> NotStarted:
    """What to say of a test that never began."""
    if not why:
        return NotStarted("the senders did not start", hint=f"look at {folder / 'senders.log'}")
    found = NotStarted(f"the test ended before its first request: {why}")
    found.why = why
    return found


def tell_stop(process: asyncio.subprocess.Process) -> None:
    """It sends nothing more, and ends when the last answers are there."""
    if process.stdin is not None and not process.stdin.is_closing():
        process.stdin.close()


async def ended(process: asyncio.subprocess.Process) -> None:
    """Let it end by itself; make it when it does not."""
    tell_stop(process)
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
