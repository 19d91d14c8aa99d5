"""The machine that runs a benchmark: its description, its steal time, and tools that are installed into the cache once.

Steal time is CPU time that the hypervisor or other processes took from our cores. Latencies of a few milliseconds are meaningful
only where it is small. A guest cannot read all of it from the kernel, so a busy loop watches the clock.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sliceworks.base import progress

_THRESHOLD = 0.001
"""Seconds. The loop only reads the clock, so a longer gap between two readings is time in which it did not run."""


def describe() -> dict[str, Any]:
    """CPU model, cores available to this process, memory and versions, as stored with results."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    system = f"{platform.system()} {platform.machine()}"
    return {"cpu": _cpu(), "cores": cores, "memoryGB": round(memory / 1e9), "system": system, "python": platform.python_version()}


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor())


@dataclass(frozen=True, slots=True)
class StealTime:
    """Steal time of some cores."""

    share: float
    """Of the elapsed time, the mean of all cores."""
    longest: float
    """In seconds."""

    def __str__(self) -> str:
        return f"steal time {self.share:.1%} of its cores, longest {self.longest * 1000:.0f} ms"


def measure_steal_time(cores: list[int], seconds: float) -> StealTime:
    """Run a busy loop on all cores at once and add up the gaps."""
    processes = [subprocess.Popen([sys.executable, __file__, str(core), str(seconds)], stdout=subprocess.PIPE) for core in cores]
    gaps = [float(gap) for process in processes for gap in process.communicate()[0].split()]
    return StealTime(sum(gaps) / (seconds * len(cores)), max(gaps, default=0.0))


def _gaps(seconds: float) -> list[float]:
    gaps: list[float] = []
    now = time.perf_counter()
    end = now + seconds
    while now < end:
        before, now = now, time.perf_counter()
        if now - before > _THRESHOLD:
            gaps.append(now - before)
    return gaps


def install(name: str, requirement: str) -> Path:
    """Install a peer from PyPI into its own environment in the cache, once; returns the path of its program.

    Raises OSError or CalledProcessError if it cannot be installed.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "sliceworks" / "bench" / name
    if not (folder / "ready").exists():
        progress.say(f"installing {requirement} into the cache (once, takes minutes)")
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", requirement]
        subprocess.run(pip, check=True)
        (folder / "ready").touch()
    return folder / "bin" / name


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[1])})
    sys.stdout.write(" ".join(f"{gap:.6f}" for gap in _gaps(float(sys.argv[2]))))
