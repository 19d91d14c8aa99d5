"""Load tests of a rehearsal: real processes in real time against a gateway on this machine.

The gateway's backends are echo servers. All listen on free local ports, whatever addresses the documents contain.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, yaml_documents
from sliceworks.base.errors import SliceworksError, TimedOut
from sliceworks.rehearsal.record import CheckResult, LoadTestRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sliceworks.loadtest.runner import LocalRunner, Outcome, Progress
    from sliceworks.platform.document_set import ResolvedLoadTest

Object = dict[str, Any]
_HOST = "127.0.0.1"
_QUANTILES = ("p50", "p95", "p99")
_START_TIMEOUT, _STOP_TIMEOUT = 30.0, 5.0
_SERVER_FLAGS = ("--ttft", "5ms", "--token-time", "1ms", "--quiet")


@dataclass(slots=True)
class LoadTestRunner:
    """Runs a gateway with echo backends, and load tests against it; writes to `work`."""

    gateway: Object
    """The Gateway document."""
    work: Path
    report: Callable[[str], None]
    _stop_running: Callable[[], object] = lambda: None
    _stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, tests: tuple[ResolvedLoadTest, ...], folder: Path) -> list[LoadTestRecord]:
        """Run the load tests in order."""
        with ExitStack() as running:
            self.report("starting the gateway")
            url = self._start(running)
            return [self._test(test, folder, url) for test in tests if not self._stopped.is_set()]

    def stop(self) -> None:
        """Stop the running test; may be called from any thread."""
        self._stopped.set()
        self._stop_running()

    def _start(self, running: ExitStack) -> str:
        """Start the backends and the gateway; returns its URL."""
        server_port, gateway_port, file = _free_port(), _free_port(), self.work / "gateway.yaml"
        file.write_text(yaml_documents.dump(local_gateway(self.gateway, gateway_port, server_port)))
        model_flags = [part for model in self.gateway["spec"]["models"] for part in ("--model", str(model["name"]))]
        commands = (
            ("servers", server_port, ("echo", "--port", str(server_port), *_SERVER_FLAGS, *model_flags)),
            ("gateway", gateway_port, ("run", "--quiet", "-f", str(file))),
        )
        started = [(running.enter_context(_process(self.work, name, *command)), port) for name, port, command in commands]
        for process, port in started:
            self._wait_until_listening(process, port)
        return f"http://{_HOST}:{gateway_port}"

    def _wait_until_listening(self, process: subprocess.Popen[bytes], port: int) -> None:
        def decided() -> bool:
            return self._stopped.is_set() or process.poll() is not None or _is_listening(port)

        if not clock.wait_until(decided, _START_TIMEOUT, interval=0.05):
            raise TimedOut(f"no answer from {_HOST}:{port} within {_START_TIMEOUT:g} s")
        if process.poll() is not None:
            logs = (line for name in ("servers", "gateway") for line in (self.work / f"{name}.log").read_text().splitlines())
            raise SliceworksError(f"the gateway did not start: {' / '.join(logs)[-300:] or 'no output'}")

    def _test(self, test: ResolvedLoadTest, folder: Path, url: str) -> LoadTestRecord:
        from sliceworks.loadtest import load_plan, request_table, results
        from sliceworks.loadtest.report import renderer
        from sliceworks.loadtest.runner import LocalRunner

        name, output = test.name, self.work / "load-tests" / test.name
        output.mkdir(parents=True)
        plan = load_plan.create(test.spec, folder, url=url, key="")
        self.report(f"{name}: {plan.schedule.duration:g} s of real time")
        outcome = clock.run(self._run(LocalRunner(plan, output, folder, lambda now: self._report_progress(name, now))))
        request_table.merge_records(output)
        test_results = results.write_results(name, plan, outcome, output, {})
        report = output / "report.html"
        report.write_text(renderer.render(test_results, output, "html"), encoding="utf-8")
        return replace(_record(test, test_results), report=str(report))

    async def _run(self, run: LocalRunner) -> Outcome:
        self._stop_running = partial(asyncio.get_running_loop().call_soon_threadsafe, run.stop, "it was interrupted")
        return await run.run()

    def _report_progress(self, name: str, now: Progress) -> None:
        self.report(f"{name}: {now.sent} requests sent, {now.ended} completed")


def local_gateway(document: Object, port: int, server_port: int) -> Object:
    """The Gateway document with one backend on this machine; it contacts no cluster and no collector, and needs no key."""
    spec = {name: value for name, value in document["spec"].items() if name not in ("admin", "tracing")}
    backends = [{"kind": "echo", "url": f"http://{_HOST}:{server_port}"}]
    models = [{name: value for name, value in model.items() if name != "discovery"} for model in spec["models"]]
    spec |= {"models": [{**model, "backends": backends} for model in models]}
    return {**document, "spec": {**spec, "listen": {"host": _HOST, "port": port}, "anonymous": True, "keys": []}}


def _record(test: ResolvedLoadTest, results: Object) -> LoadTestRecord:
    """The record of a load test."""
    from sliceworks.loadtest.report import formatter

    summary = results["summary"]
    times = {
        key: {at: values[at] for at in _QUANTILES if values.get(at) is not None} for key, values in summary["latencies"].items()
    }
    objectives = [
        CheckResult(objective["text"], formatter.format_value(objective), bool(objective["met"]))
        for objective in results["objectives"]
    ]
    return LoadTestRecord(
        test.name,
        "a gateway on this machine",
        test.spec.model,
        int(summary["requests"]),
        int(summary["requests"]) - int(summary["succeeded"]),
        float(summary["delivery"]["sentRate"]),
        float(summary["goodput"]),
        {key: values for key, values in times.items() if values},
        (*objectives, *(CheckResult("the run counts", problem, passed=False) for problem in results["problems"])),
    )


@contextmanager
def _process(work: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a `sliceworks gateway` command while the context is open; logs its output to a file."""
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
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((_HOST, port)) == 0
