"""What bench/loadgen.py measures with: runs of ours, and reports on rows that nobody had to send."""

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
from sliceworks.loadtest import merging, plans, results, rows
from sliceworks.loadtest.running import Outcome, Run
from sliceworks.specs.load_test import LoadTestSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
USERS = 16


@contextmanager
def server(pieces: int = 0, gap: float = 0.0) -> Iterator[str]:
    """The address of a server that answers at once, or piece by piece; it has the first core."""
    command = [sys.executable, "-m", "bench.measure.answerer", str(pieces), str(gap)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            os.sched_setaffinity(process.pid, {0})
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def ours(url: str, **fields: Any) -> dict[str, Any]:
    """One run of ours with one sender; what it comes to."""
    given = {"target": {"url": url}, "prompts": {"texts": ["hello"]}, **fields}
    spec = LoadTestSpec.model_validate(given)
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        place = Path(folder)
        plan = plans.make(spec, place)
        own = os.sched_getaffinity(0)
        # Whoever follows the sender has no part in sending: it steps aside once that has begun.
        outcome: Outcome = clock.run(Run(plan, place, place, lambda _: os.sched_setaffinity(0, {0})).run())
        os.sched_setaffinity(0, own)
        merging.merge(place)
        return results.conclude("bench", plan, outcome, place, {})


def unary(url: str, rate: float, seconds: float) -> dict[str, Any]:
    """Requests at an even rate, answered at once."""
    return ours(url, api="http", http={"path": "/x", "body": "{prompt}"}, stages=[{"constant": rate, "for": seconds}])


def streams(url: str, rate: float, seconds: float) -> dict[str, Any]:
    """Chats at an even rate, answered piece by piece."""
    return ours(url, model="bench", stages=[{"constant": rate, "for": seconds}])


def closed(url: str, seconds: float) -> float:
    """Requests per second of users who wait for their answers."""
    run = ours(url, api="http", http={"path": "/x", "body": "{prompt}"}, stages=[{"users": USERS, "for": seconds}])
    return float(run["summary"]["requestsPerSecond"])


def held(run: dict[str, Any]) -> bool:
    """Whether nearly all left, nearly all of them on time."""
    summary = run["summary"]
    good = summary["delivery"]["rateSent"] * (1 - summary["errorRate"]) / summary["delivery"]["rateAsked"]
    return bool(good >= 0.99 and summary["times"]["delay"]["p99"] <= 0.005)


def highest(run: Callable[[float], dict[str, Any]], first: float, steps: int) -> float:
    """The highest of some rates, each half as much again as the one before, at which requests still leave on time."""
    best = 0.0
    for step in range(steps):
        rate = round(first * 1.5**step)
        if not held(run(rate)):
            break
        best = rate
    return best


def memory(url: str, rate: float, seconds: float) -> float:
    """Bytes that a sender's memory grows by with each request."""
    command = [sys.executable, "-m", "bench.measure.growing", url, str(rate), str(seconds)]
    return float(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


def reported(count: int, pieces: int = 0) -> tuple[float, float]:
    """Seconds and megabytes that the tables, the figures and the page of so many rows take, in a process of their own."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        _invent(Path(folder), count, pieces)
        command = [sys.executable, "-m", "bench.measure.loadgen", folder, str(count)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        seconds, megabytes = map(float, done.stdout.split())
        return seconds, megabytes


def _invent(folder: Path, count: int, pieces: int = 0) -> None:
    """Rows as a sender would have left them: a thousand a second, and lognormal times; so many pieces each."""
    random = np.random.default_rng(1)
    found = np.zeros(count, rows.DTYPE)
    found["number"] = np.arange(count)
    found["intended"] = np.arange(count) * 1_000_000
    found["sent"] = found["intended"] + random.integers(0, 500_000, count)
    found["first_byte"] = found["first_token"] = found["sent"] + (random.lognormal(-3, 0.5, count) * 1e9).astype(np.int64)
    found["ended"] = found["first_token"] + (random.lognormal(-1, 0.5, count) * 1e9).astype(np.int64)
    found["tokens_in"], found["tokens_out"], found["status"] = 30, 100, 200
    found["pieces"], found["pieces_from"] = pieces, np.arange(count) * pieces
    found.tofile(folder / "worker-0.rows")
    gaps = random.lognormal(-4, 0.3, (count, pieces)) * 1e6
    np.cumsum(gaps, axis=1).astype(np.uint32).tofile(folder / "worker-0.pieces")


def _report(folder: Path, count: int) -> None:
    from sliceworks.cli import load_runs

    given = {"target": {"url": "http://127.0.0.1:1"}, "model": "x", "prompts": {"texts": ["x"]}}
    spec = LoadTestSpec.model_validate({**given, "stages": [{"constant": 1000, "for": count / 1000}]})
    began = time.perf_counter()
    plan = plans.make(spec, folder)
    merging.merge(folder)
    results.conclude("bench", plan, Outcome(0.0, "", ()), folder, {})
    (folder / "report.html").write_text(load_runs.rendered(folder, "html"))
    print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000)


if __name__ == "__main__":
    _report(Path(sys.argv[1]), int(sys.argv[2]))
