"""Runs of our load generator, and reports on generated records, for bench/loadgen.py.

    python -m bench.harness.loadgen report FOLDER RECORDS
    python -m bench.harness.loadgen memory URL RATE SECONDS

These print figures of one process: seconds and MB of a report; bytes per request of a worker.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sliceworks.base import clock
from sliceworks.loadtest import load_plan, request_log, request_table, results
from sliceworks.loadtest.runner import LocalRunner, Outcome
from sliceworks.specs.load_test import LoadTestSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]


@contextmanager
def backend(chunks: int = 0, interval: float = 0.0) -> Iterator[str]:
    """The URL of a backend on the first core that responds at once or with a stream of chunks."""
    command = [sys.executable, "-m", "bench.harness.instant_backend", str(chunks), str(interval)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            os.sched_setaffinity(process.pid, {0})
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def run(url: str, **fields: Any) -> dict[str, Any]:
    """Run our load generator with one worker; returns its results."""
    spec = LoadTestSpec.model_validate({"target": {"url": url}, "prompts": {"texts": ["hello"]}, **fields})
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        results_folder = Path(folder)
        plan = load_plan.create(spec, results_folder)
        affinity = os.sched_getaffinity(0)
        # This process only monitors the worker: it leaves the worker's core once the run has started.
        runner = LocalRunner(plan, results_folder, results_folder, lambda _: os.sched_setaffinity(0, {0}))
        outcome: Outcome = clock.run(runner.run())
        os.sched_setaffinity(0, affinity)
        request_table.merge_records(results_folder)
        return results.write_results("bench", plan, outcome, results_folder, {})


def unary(url: str, rate: float, seconds: float) -> dict[str, Any]:
    """Requests at a constant rate."""
    return run(url, api="http", http={"path": "/x", "body": "{prompt}"}, stages=[{"constant": rate, "for": seconds}])


def streams(url: str, rate: float, seconds: float) -> dict[str, Any]:
    """Streamed chats at a constant rate."""
    return run(url, model="bench", stages=[{"constant": rate, "for": seconds}])


def closed_loop(url: str, users: int, seconds: float) -> float:
    """Throughput of users who wait for their responses, in requests per second."""
    done = run(url, api="http", http={"path": "/x", "body": "{prompt}"}, stages=[{"users": users, "for": seconds}])
    return float(done["summary"]["requestsPerSecond"])


def is_on_time(done: dict[str, Any]) -> bool:
    """Whether at least 99 % of the requests succeeded and were sent within 5 ms (p99)."""
    summary = done["summary"]
    success = summary["delivery"]["sentRate"] * (1 - summary["errorRate"]) / summary["delivery"]["scheduledRate"]
    return bool(success >= 0.99 and summary["latencies"]["delay"]["p99"] <= 0.005)


def highest_rate(send: Callable[[float], dict[str, Any]], first: float, steps: int) -> float:
    """The highest rate at which requests are sent on time; each step tries 1.5 times the previous rate."""
    best = 0.0
    for step in range(steps):
        rate = round(first * 1.5**step)
        if not is_on_time(send(rate)):
            break
        best = rate
    return best


def memory(url: str, rate: float, seconds: float) -> float:
    """Bytes of memory per request of a worker."""
    command = [sys.executable, "-m", "bench.harness.loadgen", "memory", url, str(rate), str(seconds)]
    return float(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def report(count: int, chunks: int = 0) -> tuple[float, float]:
    """Seconds and MB that tables, statistics and the page of so many records take, in their own process."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        _generate(Path(folder), count, chunks)
        command = [sys.executable, "-m", "bench.harness.loadgen", "report", folder, str(count)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        seconds, megabytes = map(float, done.stdout.split())
        return seconds, megabytes


def _generate(folder: Path, count: int, chunks: int = 0) -> None:
    """Write records as a worker would: a thousand requests per second, lognormal times, `chunks` chunks each."""
    random = np.random.default_rng(1)
    records = np.zeros(count, request_log.DTYPE)
    records["number"] = np.arange(count)
    records["intended"] = np.arange(count) * 1_000_000
    records["sent"] = records["intended"] + random.integers(0, 500_000, count)
    records["first_byte"] = records["first_token"] = records["sent"] + (random.lognormal(-3, 0.5, count) * 1e9).astype(np.int64)
    records["ended"] = records["first_token"] + (random.lognormal(-1, 0.5, count) * 1e9).astype(np.int64)
    records["tokens_in"], records["tokens_out"], records["status"] = 30, 100, 200
    records["chunks"], records["chunks_from"] = chunks, np.arange(count) * chunks
    records.tofile(folder / "worker-0.rows")
    gaps = random.lognormal(-4, 0.3, (count, chunks)) * 1e6
    np.cumsum(gaps, axis=1).astype(np.uint32).tofile(folder / "worker-0.chunks")


def _print_report_cost(folder: Path, count: int) -> None:
    """Write a report and print its seconds and peak MB."""
    from sliceworks.cli import load_test

    fields = {"target": {"url": "http://127.0.0.1:1"}, "model": "x", "prompts": {"texts": ["x"]}}
    spec = LoadTestSpec.model_validate({**fields, "stages": [{"constant": 1000, "for": count / 1000}]})
    started = time.perf_counter()
    plan = load_plan.create(spec, folder)
    request_table.merge_records(folder)
    results.write_results("bench", plan, Outcome(0.0, "", ()), folder, {})
    (folder / "report.html").write_text(load_test.render_report(folder, "html"))
    print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)


def _print_memory_cost(url: str, rate: float, seconds: float) -> None:
    """Send requests and print the bytes per request: the growth after the first third, and the schedule."""
    import gevent
    from tests.real.processes import resident_bytes

    from sliceworks.loadtest.generator.pacer import RunClock
    from sliceworks.loadtest.generator.worker import Worker
    from sliceworks.loadtest.request_log import RecordWriter

    fields = {"target": {"url": url}, "api": "http", "http": {"path": "/x", "body": "x"}}
    spec = LoadTestSpec.model_validate({**fields, "stages": [{"constant": rate, "for": seconds}]})
    sizes: list[int] = []
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        plan = load_plan.create(spec, Path(folder))
        with RecordWriter(Path(folder), "worker-0", 0) as writer:
            worker = Worker(plan, writer, RunClock(time.time_ns()))
            gevent.spawn_later(seconds / 3, lambda: sizes.append(resident_bytes(os.getpid())))
            worker.run()
            sizes.append(resident_bytes(os.getpid()))
    schedule = (plan.schedule.due_times.nbytes + plan.schedule.of_phase.nbytes) / len(plan.schedule.due_times)
    print(schedule + max(sizes[1] - sizes[0], 0) / (rate * seconds * 2 / 3))


if __name__ == "__main__":
    if sys.argv[1] == "report":
        _print_report_cost(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        _print_memory_cost(sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
