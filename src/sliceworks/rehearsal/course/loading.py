"""Load tests in a rehearsal: in real time, by real processes, against a gateway that really runs on this machine.

Behind the gateway stands our own model server, which answers with what it was asked; addresses are free ones of this machine,
whatever the documents say.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, yamls
from sliceworks.base.errors import SliceworksError, TimedOut
from sliceworks.rehearsal.day.record import Check, LoadRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sliceworks.loadtest.listening import Progress
    from sliceworks.loadtest.running import Outcome, Run
    from sliceworks.rehearsal.course.aiming import Aimed

Object = dict[str, Any]
_HOST = "127.0.0.1"
_QUANTILES = ("p50", "p95", "p99")
_SOON, _END = 30.0, 5.0
_SERVER = ("--ttft", "5ms", "--token-time", "1ms", "--quiet")


@dataclass(slots=True)
class Bench:
    """A gateway of a document with servers behind it, and a folder for everything that they write."""

    gateway: Object
    """The document."""
    work: Path
    report: Callable[[str], None]
    _ends: Callable[[], object] = lambda: None
    _stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, tests: tuple[Aimed, ...], folder: Path) -> list[LoadRun]:
        """Run tests one after the other."""
        with ExitStack() as running:
            self.report("the gateway starts")
            url = self._start(running)
            return [self._test(test, folder, url) for test in tests if not self._stopped.is_set()]

    def stop(self) -> None:
        """End what is under way; from any thread."""
        self._stopped.set()
        self._ends()

    def _start(self, running: ExitStack) -> str:
        """Servers for every model, and the gateway before them; returns its address."""
        data = deepcopy(self.gateway)
        models, server, front = data["spec"]["models"], _free_port(), _free_port()
        named = [part for model in models for part in ("--model", str(model["name"]))]
        started = [(running.enter_context(_process(self.work, "servers", "echo", "--port", str(server), *_SERVER, *named)), server)]
        for model in models:
            model.pop("discover", None)
            model["backends"] = [{"kind": "echo", "url": f"http://{_HOST}:{server}"}]
        data["spec"] |= {"listen": {"host": _HOST, "port": front}, "anonymous": True, "keys": []}
        data["spec"].pop("admin", None)
        file = self.work / "gateway.yaml"
        file.write_text(yamls.dump(data))
        started.append((running.enter_context(_process(self.work, "gateway", "run", "--quiet", "-f", str(file))), front))
        for process, port in started:
            self._until_answers(process, port)
        return f"http://{_HOST}:{front}"

    def _until_answers(self, process: subprocess.Popen[bytes], port: int) -> None:
        def decided() -> bool:
            return self._stopped.is_set() or process.poll() is not None or _answers(port)

        if not clock.wait_until(decided, _SOON, every=0.05):
            raise TimedOut(f"nothing answers at {_HOST}:{port} after {_SOON:g} s")
        if process.poll() is not None:
            logs = (line for name in ("servers", "gateway") for line in (self.work / f"{name}.log").read_text().splitlines())
            raise SliceworksError(f"the gateway did not start: {' / '.join(logs)[-300:] or 'it said nothing'}")

    def _test(self, test: Aimed, folder: Path, url: str) -> LoadRun:
        from sliceworks.loadtest import merging, plans, results
        from sliceworks.loadtest.report import writing
        from sliceworks.loadtest.running import Run

        name, place = test.name, self.work / "load-tests" / test.name
        place.mkdir(parents=True)
        plan = plans.make(test.spec, folder, url=url, key="")
        self.report(f"{name}: {plan.schedule.lasts:g} s of real time")
        outcome = clock.run(self._run(Run(plan, place, folder, lambda now: self._tell(name, now))))
        merging.merge(place)
        found = results.conclude(name, plan, outcome, place, {})
        report = place / "report.html"
        report.write_text(writing.rendered(found, place, "html"), encoding="utf-8")
        return replace(_kept(test, found), report=str(report))

    async def _run(self, run: Run) -> Outcome:
        self._ends = partial(asyncio.get_running_loop().call_soon_threadsafe, run.stop, "it was interrupted")
        return await run.run()

    def _tell(self, name: str, now: Progress) -> None:
        self.report(f"{name}: {now.sent} requests sent, {now.ended} answered")


def _kept(test: Aimed, found: Object) -> LoadRun:
    """What is kept of a run."""
    from sliceworks.loadtest.report import words

    summary = found["summary"]
    times = {key: {at: each[at] for at in _QUANTILES if each.get(at) is not None} for key, each in summary["times"].items()}
    kept = [Check(each["text"], words.found(each), bool(each["kept"])) for each in found["objectives"]]
    return LoadRun(
        test.name,
        "a gateway on this machine",
        test.spec.model,
        int(summary["requests"]),
        int(summary["requests"]) - int(summary["succeeded"]),
        float(summary["delivery"]["rateSent"]),
        float(summary["goodput"]),
        {key: each for key, each in times.items() if each},
        (*kept, *(Check("the run counts", problem, kept=False) for problem in found["problems"])),
    )


@contextmanager
def _process(work: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A gateway's command in a process of its own, for a while; what it says is kept in a file."""
    with (work / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "sliceworks", "gateway", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "NO_COLOR": "1"},
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((_HOST, port)) == 0
