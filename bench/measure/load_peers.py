"""Other load generators against the same server: stock Locust, wrk, and NVIDIA's AIPerf from an environment in the cache.

What they really sent is told by the server: when requests came, against the even schedule that was asked for.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import orjson

from sliceworks.base import progress

_LOCUST = """
from locust import FastHttpUser, task, {wait}
class Asker(FastHttpUser):
    wait_time = {wait}({amount})
    @task
    def ask(self):
        self.client.post("/x", data="hello")
"""
_PACED_USERS = 200
_AIPERF = "aiperf==0.13.0"
_WORDS = {
    "tokenizer.json": {
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "hello": 1, "word": 2}, "unk_token": "[UNK]"},
    },
    "tokenizer_config.json": {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "eos_token": "[UNK]"},
}
"""A tokenizer as small as can be: AIPerf counts tokens while it sends, and would fetch one."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What came to the server: how many a second, and how late against an even schedule, p99 in milliseconds; and what the one who
    sent them says of the time to the first byte or token that counts, p50 and p99 in milliseconds. The server answers at once."""

    rate: float
    late: float
    said: tuple[float, float] | None = None

    def __str__(self) -> str:
        said = f"; it says {self.said[0]:,.2f} and {self.said[1]:,.2f} ms (p50, p99)" if self.said else ""
        return f"{self.rate:,.0f}/s came, {self.late:,.2f} ms late (p99){said}"


def arrivals(url: str, rate: float, seconds: float) -> Arrivals | None:
    """What came since this was last asked; None when nothing did. The earliest of all, against its moment, counts as on time."""
    with urlopen(f"{url}/arrivals", timeout=30) as answer:
        moments = np.sort(np.frombuffer(answer.read(), np.float64))
    if not len(moments):
        return None
    moments -= moments[0]
    apart = moments - np.arange(len(moments)) / rate
    return Arrivals(float((moments < seconds).sum()) / seconds, float(np.quantile(apart - apart.min(), 0.99)) * 1000)


def locust(url: str, seconds: float, users: int, wait: str = "constant", amount: float = 0) -> float:
    """Requests per second of Locust's own FastHttpUser."""
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        file = Path(folder) / "locustfile.py"
        file.write_text(_LOCUST.format(wait=wait, amount=amount))
        command = [sys.executable, "-m", "locust", "-f", str(file), "--headless", "--host", url, "--users", str(users)]
        command += ["--spawn-rate", "1000", "--run-time", f"{max(round(seconds), 1)}s", "--json", "--loglevel", "ERROR"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        (found,) = orjson.loads(done.stdout)
        return float(found["num_requests"]) / seconds


def paced_locust(url: str, rate: float, seconds: float) -> Arrivals | None:
    """Locust's own way to hold a rate: many users, each of whom asks so often."""
    arrivals(url, rate, seconds)
    locust(url, seconds, _PACED_USERS, "constant_throughput", rate / _PACED_USERS)
    return arrivals(url, rate, seconds)


def wrk(url: str, seconds: float, users: int) -> float | None:
    """Requests per second of wrk, written in C; None where it is not installed."""
    program = shutil.which("wrk")
    if program is None:
        return None
    command = [program, "-t1", f"-c{users}", f"-d{max(round(seconds), 1)}s", f"{url}/x"]
    found = re.search(r"Requests/sec:\s+([0-9.]+)", subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return float(found[1]) if found else None


def aiperf(url: str, rate: float, seconds: float, *, stream: bool) -> Arrivals | None:
    """Chats at an even rate, from AIPerf with one worker; None where it cannot be installed, or did not come to its end."""
    program = _aiperf()
    if program is None:
        return None
    arrivals(url, rate, seconds)
    with tempfile.TemporaryDirectory(prefix="sliceworks-bench-") as folder:
        for name, content in _WORDS.items():
            (Path(folder) / name).write_bytes(orjson.dumps(content))
        prompts = Path(folder) / "prompts.jsonl"
        prompts.write_text('{"text": "hello"}\n')
        command = [str(program), "profile", "--model", "bench", "--url", url, "--endpoint-type", "chat", "--tokenizer", folder]
        command += ["--input-file", str(prompts), "--custom-dataset-type", "single_turn", "--ui", "none", "--workers-max", "1"]
        command += ["--request-rate", f"{rate:g}", "--request-rate-mode", "constant", "--request-count", f"{rate * seconds:.0f}"]
        command += ["--no-server-metrics", "--no-gpu-telemetry", "--artifact-dir", f"{folder}/artifacts", *_streaming(stream)]
        if problem := _ended(command, 90 + 6 * seconds):
            progress.say(f"AIPerf did not come to its end: {problem}")
        came, figures = arrivals(url, rate, seconds), Path(folder) / "artifacts" / "profile_export_aiperf.json"
        if came is None or not figures.exists():
            return came
        times = orjson.loads(figures.read_bytes())["time_to_first_token" if stream else "request_latency"]
        return replace(came, said=(times["p50"], times["p99"]))


def _ended(command: list[str], patience: float) -> str:
    """Run something that starts processes of its own, and leave none of them behind; why it did not come to its end."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            code = process.wait(patience)
        except subprocess.TimeoutExpired:
            code = None
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return "" if code == 0 else f"it took longer than {patience:.0f} s" if code is None else f"exit code {code}"


def _streaming(stream: bool) -> list[str]:
    return ["--streaming"] if stream else []


def _aiperf() -> Path | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "sliceworks" / "bench" / "aiperf"
    if not (folder / "ready").exists():
        progress.say("installing AIPerf into the cache: minutes, once")
        try:
            venv.create(folder, with_pip=True)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", _AIPERF]
            subprocess.run(pip, check=True)
            (folder / "ready").touch()
        except (OSError, subprocess.CalledProcessError) as error:
            progress.say(f"AIPerf cannot be installed and is left out: {error}")
            return None
    return folder / "bin" / "aiperf"
