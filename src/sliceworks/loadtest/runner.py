"""Runs a load test with local worker processes: starts them, aggregates their progress, applies the stop rule."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.loadtest.load_target import KEY_VARIABLE, PASSWORD_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.loadtest.load_plan import Plan
    from sliceworks.specs.load_test import StopRule


@dataclass(slots=True)
class Progress:
    """The progress of all workers together."""

    due: int = 0
    sent: int = 0
    ended: int = 0
    failed: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class ClockSkew:
    """Clock differences between workers, in seconds: largest offset, its uncertainty, and drift."""

    senders: int = 0
    apart: float = 0.0
    uncertain: float = 0.0
    drift: float = 0.0

    def include(self, reading: dict[str, int]) -> ClockSkew:
        """Merge the reading of another worker, in nanoseconds."""
        values = {name: max(getattr(self, name), abs(reading.get(name, 0)) / 1e9) for name in ("apart", "uncertain", "drift")}
        return ClockSkew(self.senders + 1, **values)


class Listener:
    """Aggregates the progress of all workers. Calls `on_progress` with it; sets `stopping` when the test must stop."""

    def __init__(self, rule: StopRule, on_progress: Callable[[Progress], None] | None = None) -> None:
        self._rule, self._on_progress = rule, on_progress
        self._latest: dict[int, dict[str, Any]] = {}
        self._history: deque[tuple[float, int, int]] = deque()
        self._finished: set[int] = set()
        self.stopping = asyncio.Event()
        self.why = ""
        self.started = 0.0
        """Start as Unix time; 0 before the first request."""
        self.clocks = ClockSkew()

    def stop(self, why: str) -> None:
        """Stop the test early; the first reason is kept."""
        self.why = self.why or why
        self.stopping.set()

    def is_complete(self, index: int) -> bool:
        """Whether a worker has reported that it finished or stopped as requested."""
        return index in self._finished

    def handle_line(self, index: int, line: dict[str, Any]) -> None:
        """Handle a progress line of a worker."""
        if "begins" in line:
            self.started = line["begins"] / 1e9
            return
        if clock_reading := line.pop("clock", {}):
            self.clocks = self.clocks.include(clock_reading)
        stopped_as_requested = line.pop("stopped", False) and self.stopping.is_set()
        if line.pop("done", False) or stopped_as_requested:
            self._finished.add(index)
        if problem := line.pop("problem", ""):
            self.stop(f"worker {index} cannot write its log: {problem}")
        self._latest[index] = line
        if line["due"]:
            self._update_progress()

    def _update_progress(self) -> None:
        """Aggregate and report the progress, and apply the stop rule."""
        now = Progress()
        for item in self._latest.values():
            now.due, now.sent, now.ended = now.due + item["due"], now.sent + item["sent"], now.ended + item["ended"]
            now.failed += item["failed"]
            now.failures.update(item["failures"])
            now.times += item.pop("times", [])
            now.first += item.pop("first", [])
            now.delay = max(now.delay, item["delay"])
        if self._on_progress is not None:
            self._on_progress(now)
        if why := self._check_stop_rule(now):
            self.stop(why)

    def _check_stop_rule(self, now: Progress) -> str:
        rule, time = self._rule, clock.loop_time()
        self._history.append((time, now.ended, now.failed))
        while self._history[0][0] < time - rule.over and len(self._history) > 1:
            self._history.popleft()
        _, ended, failed = self._history[0]
        ended, failed = (
            (now.ended - ended, now.failed - failed) if time - self._history[0][0] >= rule.over / 2 else (now.ended, now.failed)
        )
        if ended >= rule.at_least and failed / ended >= rule.errors:
            worst = now.failures.most_common(1)[0][0]
            return f"{failed / ended:.0%} of the last {ended:,} requests failed, most of them with {worst}"
        if rule.delay is not None and now.delay > rule.delay:
            return f"requests left {now.delay:.1f} s later than they should"
        return ""


TEST_FILE = "test.json"
INTERRUPTED = "it was interrupted"
"""Reason of a run that the user interrupted."""

_GRACE = 25.0
_MAX_LINE_SIZE = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended: its start as Unix time, and why it stopped early if it did."""

    started: float
    stopped: str
    lost_workers: tuple[int, ...]
    notes: tuple[str, ...] = ()
    """Why workers were lost, as far as known."""
    clocks: ClockSkew = field(default_factory=ClockSkew)

    @property
    def partial(self) -> bool:
        return bool(self.stopped or self.lost_workers)


@dataclass(frozen=True, slots=True)
class LocustOptions:
    """Locust options: CSV files, and the port and password of its web UI."""

    csv: bool = False
    port: int = 0
    password: str = field(default="", repr=False)


class LocalRunner:
    """One load test. Calls `on_progress` with the progress twice a second; `prompts` is the path of downloaded prompts."""

    def __init__(
        self,
        plan: Plan,
        folder: Path,
        files: Path,
        on_progress: Callable[[Progress], None] | None = None,
        locust: LocustOptions | None = None,
        *,
        prompts: Path | None = None,
    ) -> None:
        self._plan, self._folder, self._files, self._prompts = plan, folder, files, prompts
        self._locust = locust or LocustOptions()
        self._listener = Listener(plan.spec.stop, on_progress)
        self._senders: list[asyncio.subprocess.Process] = []

    def stop(self, why: str) -> None:
        """Stop the test early; what was measured is kept."""
        self._listener.stop(why)

    async def run(self) -> Outcome:
        """Run the test and return its outcome."""
        workers = self._plan.spec.workers.count
        paths = {"files": str(self._files), "prompts": str(self._prompts or "")}
        write_test_config(self._folder, self._plan, **paths, csv=self._locust.csv, web=self._locust.port)
        master = await self._master() if workers > 1 else None
        try:
            self._senders = [await self._sender(master) for _ in range(workers)]
            stopper = asyncio.create_task(self._stop_workers())
            await asyncio.gather(*(self._follow(index, process) for index, process in enumerate(self._senders)))
            stopper.cancel()
        finally:
            for process in (*self._senders, *([master[0]] if master else [])):
                await wait_or_kill(process)
        listener = self._listener
        if not listener.started:
            raise not_started_error(listener.why, self._folder)
        lost = tuple(index for index in range(workers) if not listener.is_complete(index))
        return Outcome(listener.started, listener.why, lost, clocks=listener.clocks)

    async def _start(self, *arguments: str) -> asyncio.subprocess.Process:
        with (self._folder / "workers.log").open("ab") as log:
            return await start_process(self._folder, *arguments, key=self._plan.key, password=self._locust.password, log=log)

    async def _master(self) -> tuple[asyncio.subprocess.Process, str]:
        """Start the master of several workers; return it and its port."""
        process = await self._start("--role", "master", "--port", "0")
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            raise not_started_error("", self._folder)
        return process, str(orjson.loads(line)["port"])

    async def _sender(self, master: tuple[asyncio.subprocess.Process, str] | None) -> asyncio.subprocess.Process:
        return await self._start(*(("--role", "worker", "--port", master[1]) if master else ("--role", "local")))

    async def _follow(self, index: int, sender: asyncio.subprocess.Process) -> None:
        """Read a worker's progress lines until it exits."""
        assert sender.stdout is not None
        while line := await sender.stdout.readline():
            self._listener.handle_line(index, orjson.loads(line))
        await sender.wait()

    async def _stop_workers(self) -> None:
        """Stop the workers, not the master: without the master they would drop requests in flight."""
        await self._listener.stopping.wait()
        await asyncio.gather(*map(wait_or_kill, self._senders))


def test_config(plan: Plan) -> dict[str, Any]:
    """The test file of workers, without key and paths."""
    return {"spec": plan.spec.model_dump(by_alias=True), "url": plan.url, "workers": plan.spec.workers.count}


def write_test_config(folder: Path, plan: Plan, **paths: Any) -> None:
    """Write the test file for local workers."""
    config = {**test_config(plan), **paths}
    if plan.spec.target.authority:
        config["spec"]["target"]["authority"] = str(Path(paths["files"], plan.spec.target.authority).resolve())
    (folder / TEST_FILE).write_bytes(orjson.dumps(config))


async def start_process(
    folder: Path, *arguments: str, key: str, password: str = "", log: BinaryIO | None = None
) -> asyncio.subprocess.Process:
    """Start a process of the test: progress on stdout, log on stderr; it stops when stdin closes."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "sliceworks.loadtest.generator", str(folder), *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=log,
        env={**os.environ, KEY_VARIABLE: key, PASSWORD_VARIABLE: password},
        start_new_session=True,  # Ctrl-C goes to us alone: workers stop gracefully
        limit=_MAX_LINE_SIZE,
    )


class NotStarted(SliceworksError):
    """The test ended before the first request; `why` is empty if unknown."""

    why = ""


def not_started_error(why: str, folder: Path) -> NotStarted:
    """The error of a test that never started."""
    if not why:
        return NotStarted("the workers did not start", hint=f"see {folder / 'workers.log'}")
    error = NotStarted(f"the test ended before its first request: {why}")
    error.why = why
    return error


def request_stop(process: asyncio.subprocess.Process) -> None:
    """Tell a process to stop sending and to exit after the last responses."""
    if process.stdin is not None and not process.stdin.is_closing():
        process.stdin.close()


async def wait_or_kill(process: asyncio.subprocess.Process) -> None:
    """Wait for a process to exit, then kill it."""
    request_stop(process)
    try:
        async with asyncio.timeout(_GRACE):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
