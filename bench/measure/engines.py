"""Graph engines as processes, each on a control plane of its own: kro with its defaults, kro tuned, and ours."""

from __future__ import annotations

import re
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.real.build import build
from tests.real.control_plane import ControlPlane
from tests.real.processes import Process, cpu_seconds, free_port
from tests.real.programs import PROGRAMS
from tests.support import kro as real_kro

if TYPE_CHECKING:
    from pathlib import Path

TUNED = (
    "--dynamic-controller-concurrent-reconciles=32",
    "--client-qps=0",
    "--dynamic-controller-rate-limiter-rate-limit=100000",
    "--dynamic-controller-rate-limiter-burst-limit=100000",
    "--instance-requeue-interval=1s",
    "--rgd-progress-requeue-delay=200ms",
)
_REQUESTS = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_READS = frozenset({"GET", "LIST", "WATCH", "WATCHLIST", "CONNECT"})


@dataclass(frozen=True, slots=True)
class Calls:
    """Requests that a server has answered, about the objects of the load."""

    all: float
    writes: float

    def __sub__(self, other: Calls) -> Calls:
        return Calls(self.all - other.all, self.writes - other.writes)


class Engine:
    """One engine with its control plane."""

    def __init__(self, name: str, folder: Path, flags: tuple[str, ...] = ()) -> None:
        folder.mkdir()
        self.name = name
        self._folder, self._flags = folder, flags
        self.plane = ControlPlane(folder, controllers=())
        self.process: Process | None = None

    def start(self) -> None:
        """Start it and wait until it is ready. The kinds that kro needs must be there."""
        probes = f"127.0.0.1:{free_port()}"
        common = (
            f"--kubeconfig={self.plane.kubeconfig}",
            "--metrics-bind-address=0",
            f"--health-probe-bind-address={probes}",
            *self._flags,
        )
        if self.name == "ours":
            command = (sys.executable, "-m", "sliceworks", "controller", "run", "graphs", *common)
        else:
            command = (str(build(PROGRAMS["kro"])), *common)
        self.process = Process(self.name, command, self._folder / f"{self.name}.log")
        self.process.wait_until(lambda: _answers(f"http://{probes}/readyz"))

    def resident_bytes(self) -> int:
        """The memory of the engine alone."""
        assert self.process is not None
        return self.process.resident_bytes()

    def cpu_seconds(self) -> float:
        """The time that the engine has worked so far."""
        assert self.process is not None
        return cpu_seconds(self.process.pid)

    @staticmethod
    def calls(resources: frozenset[str], page: str) -> Calls:
        """The requests about these resources in a page of the server's metrics."""
        every = writes = 0.0
        for labels, value in _REQUESTS.findall(page):
            found = dict(_LABEL.findall(labels))
            if found.get("resource") in resources and found.get("verb") not in ("WATCH", "WATCHLIST"):
                every += float(value)
                if found.get("verb") not in _READS:
                    writes += float(value)
        return Calls(every, writes)

    def stop(self) -> None:
        """End everything."""
        if self.process is not None:
            self.process.kill()
        self.plane.stop()


def kro_definitions() -> list[dict[str, object]]:
    """The definitions that kro needs before it starts."""
    return [real_kro.load(path) for path in sorted((real_kro.folder() / "helm" / "crds").glob("*.yaml"))]


def _answers(url: str) -> bool:
    with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=2) as response:
        return bool(response.status == 200)
    return False
