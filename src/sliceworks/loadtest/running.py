"""Runs a test: starts the senders, follows them, ends them when something is wrong, and keeps what was measured."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.loadtest.generator.keys import KEY, PASSWORD

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sliceworks.loadtest.plans import Plan
    from sliceworks.specs.load_test import StopRule

_GRACE = 25.0
_LINE = 16 * 1024 * 1024


@dataclass(slots=True)
class Progress:
    """All senders together, so far."""

    due: int = 0
    sent: int = 0
    ended: int = 0
    failed: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: in seconds of the wall clock when it began, and why it ended early if it did."""

    began: float
    stopped: str
    lost_workers: tuple[int, ...]

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
    """One test. `told` is called twice a second with how it stands."""

    def __init__(
        self, plan: Plan, folder: Path, files: Path, told: Callable[[Progress], None] | None = None, locust: Locust | None = None
    ) -> None:
        self._plan, self._folder, self._files, self._told = plan, folder, files, told
        self._locust = locust or Locust()
        self._latest: dict[int, dict[str, Any]] = {}
        self._stop = asyncio.Event()
        self._why = ""
        self._began = 0.0
        self._history: deque[tuple[float, int, int]] = deque()
        self._senders: list[asyncio.subprocess.Process] = []

    def stop(self, why: str) -> None:
        """End it early; what has been measured is kept."""
        self._why = self._why or why
        self._stop.set()

    async def run(self) -> Outcome:
        """From the first request to the last row."""
        workers = self._plan.spec.workers.count
        told = {"spec": self._plan.spec.model_dump(by_alias=True), "url": self._plan.url, "workers": workers}
        told |= {"files": str(self._files), "csv": self._locust.csv, "web": self._locust.port}
        (self._folder / "test.json").write_bytes(orjson.dumps(told))
        master = await self._master() if workers > 1 else None
        try:
            self._senders = [await self._sender(index, master) for index in range(workers)]
            ender = asyncio.create_task(self._end_when_told(master))
            codes = await asyncio.gather(*(self._follow(index, each) for index, each in enumerate(self._senders)))
            ender.cancel()
        finally:
            for each in (*self._senders, *([master[0]] if master else [])):
                await _ended(each)
        if not self._began:
            raise SliceworksError("the senders did not start", hint=f"look at {self._folder / 'senders.log'}")
        return Outcome(self._began, self._why, tuple(index for index, whole in enumerate(codes) if not whole))

    async def _start(self, *arguments: str) -> asyncio.subprocess.Process:
        environment = {**os.environ, KEY: self._plan.key, PASSWORD: self._locust.password}
        with (self._folder / "senders.log").open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "sliceworks.loadtest.generator", str(self._folder), *arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env=environment,
                start_new_session=True,  # Ctrl-C is for us: the senders are told to end in their own way
                limit=_LINE,
            )

    async def _master(self) -> tuple[asyncio.subprocess.Process, str]:
        """The one who brings several senders together, and its port."""
        process = await self._start("--role", "master", "--port", "0")
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise SliceworksError("the senders did not start", hint=f"look at {self._folder / 'senders.log'}")
        return process, str(orjson.loads(line)["port"])

    async def _sender(self, index: int, master: tuple[asyncio.subprocess.Process, str] | None) -> asyncio.subprocess.Process:
        return await self._start(*(("--role", "worker", "--port", master[1]) if master else ("--role", "local")))

    async def _follow(self, index: int, sender: asyncio.subprocess.Process) -> bool:
        """Take what a sender tells; whether it came to its own end."""
        assert sender.stdout is not None
        whole = False
        while line := await sender.stdout.readline():
            told = orjson.loads(line)
            if "begins" in told:
                self._began = told["begins"] / 1e9
                continue
            whole = bool(told.pop("done", False))
            if problem := told.pop("problem", ""):
                self.stop(f"sender {index} cannot write its rows: {problem}")
            self._latest[index] = told
            if told["due"]:
                self._judge()
        await sender.wait()
        return whole

    def _judge(self) -> None:
        """Put all together, tell it, and see whether to go on."""
        now = Progress()
        for each in self._latest.values():
            now.due, now.sent, now.ended = now.due + each["due"], now.sent + each["sent"], now.ended + each["ended"]
            now.failed += each["failed"]
            now.failures.update(each["failures"])
            now.times += each.pop("times", [])
            now.first += each.pop("first", [])
            now.delay = max(now.delay, each["delay"])
        if self._told is not None:
            self._told(now)
        rule = self._plan.spec.stop
        if why := self._too_bad(now, rule):
            self.stop(why)

    def _too_bad(self, now: Progress, rule: StopRule) -> str:
        moment = clock.loop_time()
        self._history.append((moment, now.ended, now.failed))
        while self._history[0][0] < moment - rule.over and len(self._history) > 1:
            self._history.popleft()
        _, ended, failed = self._history[0]
        ended, failed = (
            (now.ended - ended, now.failed - failed) if moment - self._history[0][0] >= rule.over / 2 else (now.ended, now.failed)
        )
        if ended >= rule.at_least and failed / ended >= rule.errors:
            worst = now.failures.most_common(1)[0][0]
            return f"{failed / ended:.0%} of the last {ended:,} requests failed, most of them with {worst}"
        if rule.delay is not None and now.delay > rule.delay:
            return f"requests left {now.delay:.1f} s later than they should"
        return ""

    async def _end_when_told(self, master: tuple[asyncio.subprocess.Process, str] | None) -> None:
        await self._stop.wait()
        for each in (*self._senders, *([master[0]] if master else [])):
            _tell_stop(each)


def _tell_stop(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None and not process.stdin.is_closing():
        process.stdin.close()


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Let it end by itself; make it when it does not."""
    _tell_stop(process)
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
