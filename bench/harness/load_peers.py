"""Peers of our load generator against the same backend: stock Locust, wrk, and NVIDIA's AIPerf, installed into the cache.

The backend records arrival times, which are compared with the constant rate that was requested.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import orjson
from bench.harness import machine

from sliceworks.base import progress

_LOCUST = """
from locust import FastHttpUser, task, {wait}
class BenchUser(FastHttpUser):
    wait_time = {wait}({amount})
    @task
    def post(self):
        self.client.post("/x", data="hello")
"""
_CONSTANT_RATE_USERS = 200
_AIPERF = "aiperf==0.13.0"
_TOKENIZER = {
    "tokenizer.json": {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1, "word": 2}, "unk_token": "[UNK]"},
    },
    "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "eos_token": "[UNK]"},
}
"""A minimal tokenizer: AIPerf counts tokens, and would download one."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Requests that arrived at the backend: their rate, and their delay relative to a constant rate (p99, ms).

    `reported` is the latency to the first byte or token that the load generator reports (p50 and p99, ms); the backend responds at
    once.
    """

    rate: float
    delay: float
    reported: tuple[float, float] | None = None

    def __str__(self) -> str:
        reported = f"; reported latency {self.reported[0]:,.2f} ms (p50), {self.reported[1]:,.2f} ms (p99)" if self.reported else ""
        return f"{self.rate:,.0f}/s arrived, {self.delay:,.2f} ms late (p99){reported}"


def arrivals(url: str, rate: float, seconds: float) -> Arrivals | None:
    """Arrivals since the last call, or None. The earliest request relative to its schedule counts as on time."""
    with urlopen(f"{url}/arrivals", timeout=30) as response:
        times = np.sort(np.frombuffer(response.read(), np.float64))
    if not len(times):
        return None
    times -= times[0]
    delays = times - np.arange(len(times)) / rate
    return Arrivals(float((times < seconds).sum()) / seconds, float(np.quantile(delays - delays.min(), 0.99)) * 1000)


def locust(url: str, seconds: float, users: int, wait: str = "constant", amount: float = 0) -> float:
    """Throughput of stock Locust with FastHttpUser, in requests per second."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        file = Path(folder) / "locustfile.py"
        file.write_text(_LOCUST.format(wait=wait, amount=amount))
        command = [sys.executable, "-m", "locust", "-f", str(file), "--headless", "--host", url, "--users", str(users)]
        command += ["--spawn-rate", "1000", "--run-time", f"{max(round(seconds), 1)}s", "--json", "--loglevel", "ERROR"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        (statistics,) = orjson.loads(done.stdout)
        return float(statistics["num_requests"]) / seconds


def constant_rate_locust(url: str, rate: float, seconds: float) -> Arrivals | None:
    """Locust at a constant rate: many users with `constant_throughput`."""
    arrivals(url, rate, seconds)
    locust(url, seconds, _CONSTANT_RATE_USERS, "constant_throughput", rate / _CONSTANT_RATE_USERS)
    return arrivals(url, rate, seconds)


def wrk(url: str, seconds: float, users: int) -> float | None:
    """Throughput of wrk in requests per second; None if it is not installed."""
    program = shutil.which("wrk")
    if program is None:
        return None
    command = [program, "-t1", f"-c{users}", f"-d{max(round(seconds), 1)}s", f"{url}/x"]
    match = re.search(r"Requests/sec:\s+([0-9.]+)", subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return float(match[1]) if match else None


def aiperf(url: str, rate: float, seconds: float, *, stream: bool) -> Arrivals | None:
    """Chats at a constant rate from AIPerf with one worker; None if it cannot be installed or sent nothing."""
    try:
        program = machine.install("aiperf", _AIPERF)
    except (OSError, subprocess.CalledProcessError) as error:
        progress.say(f"cannot install AIPerf; skipping it: {error}")
        return None
    arrivals(url, rate, seconds)
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        for name, content in _TOKENIZER.items():
            (Path(folder) / name).write_bytes(orjson.dumps(content))
        prompts = Path(folder) / "prompts.jsonl"
        prompts.write_text('{"text": "hello"}\n')
        command = [str(program), "profile", "--model", "bench", "--url", url, "--endpoint-type", "chat", "--tokenizer", folder]
        command += ["--input-file", str(prompts), "--custom-dataset-type", "single_turn", "--ui", "none", "--workers-max", "1"]
        command += ["--request-rate", f"{rate:g}", "--request-rate-mode", "constant", "--request-count", f"{rate * seconds:.0f}"]
        command += [
            "--no-server-metrics",
            "--no-gpu-telemetry",
            "--artifact-dir",
            f"{folder}/artifacts",
            *(["--streaming"] if stream else []),
        ]
        if problem := _run(command, 90 + 6 * seconds):
            progress.say(f"AIPerf did not finish: {problem}")
        arrived, figures = arrivals(url, rate, seconds), Path(folder) / "artifacts" / "profile_export_aiperf.json"
        if arrived is None or not figures.exists():
            return arrived
        latency = orjson.loads(figures.read_bytes())["time_to_first_token" if stream else "request_latency"]
        return replace(arrived, reported=(latency["p50"], latency["p99"]))


def _run(command: list[str], timeout: float) -> str:
    """Run a program and kill the processes that it leaves behind; returns the reason if it failed."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            code = None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return "" if code == 0 else f"timeout after {timeout:.0f} s" if code is None else f"exit code {code}"
