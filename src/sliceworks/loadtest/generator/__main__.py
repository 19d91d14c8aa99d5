"""`python -m sliceworks.loadtest.generator FOLDER --role local|master|worker`: one process of a test.

The folder holds `test.json`: the document, the target and the number of workers. The key is in an environment variable.
A worker writes a JSON line with its progress to stdout twice a second. It stops sending when stdin has a line or is closed.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gevent
import orjson
from gevent.fileobject import FileObject
from locust.runners import WorkerRunner

from sliceworks.base import sockets
from sliceworks.loadtest import load_plan
from sliceworks.loadtest.generator import pacer
from sliceworks.loadtest.generator.locust_environment import Assignment, create_environment
from sliceworks.loadtest.load_target import KEY_VARIABLE, PASSWORD_VARIABLE
from sliceworks.specs.load_test import LoadTestSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

GRACE = 10.0
_REPORT_INTERVAL = 0.5
_BEGIN, _READY = "begin", "set"
_START_DELAY = 500_000_000
"""Nanoseconds from the start signal to the start of the test: time for all workers to receive it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one process of the test."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--role", choices=["local", "master", "worker"], default="local")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=5557)
    options = parser.parse_args(arguments)
    del sys.argv[1:]  # Locust's web UI would parse our arguments
    sockets.raise_open_files_limit()
    config = orjson.loads((options.folder / "test.json").read_bytes())
    spec = LoadTestSpec.model_validate(config["spec"])
    prompts = Path(config["prompts"]).read_bytes() if config.get("prompts") else None
    plan = load_plan.create(
        spec, Path(config["files"]), url=config["url"], key=os.environ.pop(KEY_VARIABLE, ""), downloaded=prompts
    )
    job = Assignment(plan, options.folder, workers=config["workers"], csv=config["csv"], web=config["web"])
    return {"local": _local, "master": _master, "worker": _worker}[options.role](job, options)


def _local(job: Assignment, _options: argparse.Namespace) -> int:
    """Run the whole test in this process."""
    environment = create_environment(job)
    runner = environment.create_local_runner()
    end = _start_outputs(job, environment)
    job.begins = time.perf_counter_ns() + job.clock.offset + _START_DELAY
    runner.start(1, spawn_rate=1)
    code = _follow(job, runner)
    end()
    return code


def _worker(job: Assignment, options: argparse.Namespace) -> int:
    """Run one worker's share, on the master's signal."""
    locust = create_environment(job)
    exit_on_stop = gevent.spawn(_exit_on_stop)  # Locust retries for minutes to reach a master
    runner = locust.create_worker_runner(options.host, options.port)

    def on_begin(environment: Any, msg: Any) -> None:
        job.begins = msg.data

    runner.register_message(_BEGIN, on_begin)
    time_client = pacer.TimeClient(runner)
    job.clock = time_client.query()
    exit_on_stop.kill()
    runner.send_message(_READY)
    return _follow(job, runner, time_client)


def _master(job: Assignment, options: argparse.Namespace) -> int:
    """Wait for all workers and send the start signal."""
    environment = create_environment(job)
    port = options.port or _free_port(options.host)
    runner = environment.create_master_runner(options.host, port)
    _write_line({"port": port})
    offset, ready = job.clock.offset, set[str]()
    pacer.serve_time(runner, lambda: time.perf_counter_ns() + offset)
    runner.register_message(_READY, lambda msg, **_: ready.add(msg.node_id))
    end = _start_outputs(job, environment)
    stopping = gevent.spawn(_wait_for_stop)
    while len(ready) < job.workers and not stopping.ready():
        gevent.sleep(0.05)
    runner.send_message(_BEGIN, time.perf_counter_ns() + offset + _START_DELAY)
    runner.start(job.workers, spawn_rate=job.workers)
    while not stopping.ready():
        gevent.sleep(_REPORT_INTERVAL)
    end()
    runner.quit()
    return 0


def _start_outputs(job: Assignment, environment: Any) -> Callable[[], None]:
    """Start Locust's web UI and CSV files if requested; call the returned function at the end."""
    if not job.csv and not job.web:
        return lambda: None
    from sliceworks.loadtest.generator import locust_environment

    if job.web:
        locust_environment.serve_web_ui(environment, job.web, os.environ.pop(PASSWORD_VARIABLE))
    end: Callable[[], None] = locust_environment.write_csv(environment, job.folder) if job.csv else lambda: None
    return end


def _follow(job: Assignment, runner: Any, time_client: pacer.TimeClient | None = None) -> int:
    """Report progress until the test is done or stopped."""
    stopping = gevent.spawn(_wait_for_stop)
    reported_start = False
    while not job.done.wait(_REPORT_INTERVAL):
        if job.worker is not None:
            if not reported_start:
                reported_start = True
                _write_line({"begins": job.begins})
            _write_line({**job.worker.tally.report(), "problem": job.flush()})
        if stopping.ready():
            if job.worker is not None:
                job.worker.stop(GRACE)
            break
    if job.worker is not None:
        job.done.wait(GRACE)
        stopped = job.worker.stopped
        _write_line(
            {
                **job.worker.tally.report(),
                "done": job.finished and not stopped,
                "stopped": stopped,
                "clock": _clock(job, time_client),
            }
        )
    if isinstance(runner, WorkerRunner):
        runner._send_stats()  # flush Locust's counts, which it sends to the master only every few seconds
        gevent.sleep(0.2)
    runner.quit()
    return 0


def _clock(job: Assignment, time_client: pacer.TimeClient | None) -> dict[str, int]:
    """Clock offset from the master, its uncertainty and its drift, in nanoseconds."""
    if time_client is None:
        return {}
    offset = pacer.local_offset().offset - job.clock.offset
    try:
        reading = time_client.query()
    except TimeoutError:
        return {"apart": offset, "uncertain": job.clock.uncertain}
    # What exceeds the uncertainty of both readings is drift.
    change = abs(reading.offset - job.clock.offset) - job.clock.uncertain - reading.uncertain
    return {"apart": offset, "uncertain": job.clock.uncertain, "drift": max(change, 0)}


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _wait_for_stop() -> None:
    """Return when stdin says stop or is closed."""
    FileObject(sys.stdin.fileno(), "rb", close=False).readline()


def _exit_on_stop() -> None:
    """Exit before the start: there is nothing to save."""
    _wait_for_stop()
    os._exit(0)


def _write_line(data: dict[str, Any]) -> None:
    sys.stdout.buffer.write(orjson.dumps(data) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
