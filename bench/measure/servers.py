"""The two sides of the comparison, each as processes of its own: the twin as users run it, and the real etcd and kube-apiserver."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from tests.real.build import module_folder
from tests.real.control_plane import CONTROLLERS, WORKLOADS, ControlPlane
from tests.real.processes import PATIENCE, free_port, resident_bytes
from tests.real.programs import PROGRAMS

if TYPE_CHECKING:
    from pathlib import Path

_STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
_UNLIMITED = ("--kube-api-qps=10000", "--kube-api-burst=20000")


class Server(Protocol):
    """A running server: how long it took to be ready, how to reach it, what it holds."""

    name: str
    kubeconfig: Path
    seconds_to_ready: float

    def resident_bytes(self) -> int:
        """Its memory, all processes together."""
        ...

    def stop(self) -> None:
        """End it."""
        ...


class Twin:
    """`sliceworks twin start --foreground` in a home of its own, durable; with workloads if the other side has them."""

    name = "twin"

    def __init__(self, folder: Path, *, profile: Path | None = None, workloads: bool = False) -> None:
        folder.mkdir()
        port = free_port()
        runner = ["-m", "cProfile", "-o", str(profile)] if profile else []
        command = [
            sys.executable,
            *runner,
            "-m",
            "sliceworks",
            "twin",
            "start",
            "--foreground",
            "--name",
            "bench",
            "--port",
            str(port),
            *(() if workloads else ("--no-workloads",)),
        ]
        env = {**os.environ, "SLICEWORKS_HOME": str(folder)}
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        started = time.monotonic()
        with (folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
        try:
            self._wait(f"https://127.0.0.1:{port}/readyz", folder / "log")
        except BaseException:
            self._process.kill()
            raise
        self.seconds_to_ready = time.monotonic() - started
        self.kubeconfig = folder / "twins" / "bench" / "kubeconfig"

    def _wait(self, url: str, log: Path) -> None:
        tls = ssl._create_unverified_context()
        deadline = time.monotonic() + PATIENCE
        while not _ready(url, tls):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the twin does not start:\n{log.read_text()}")
            time.sleep(0.005)

    def resident_bytes(self) -> int:
        """The twin is one process."""
        return resident_bytes(self._process.pid)

    def stop(self) -> None:
        """End it in an orderly way, so that a profile is written."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Real:
    """etcd without fsync and kube-apiserver. Without workloads no controller manager, which would only take time from them; with
    workloads a whole control plane, and KWOK to play its nodes."""

    name = "real"

    def __init__(self, folder: Path, *, workloads: bool = False) -> None:
        folder.mkdir()
        self._plane = _with_workloads(folder) if workloads else ControlPlane(folder, controllers=())
        self.seconds_to_ready = time.monotonic() - self._plane.processes["etcd"].started
        self.kubeconfig = self._plane.kubeconfig

    def resident_bytes(self) -> int:
        """etcd and kube-apiserver together."""
        return self._plane.resident_bytes()

    def stop(self) -> None:
        """End both."""
        self._plane.stop()


def _with_workloads(folder: Path) -> ControlPlane:
    """Controllers, scheduler and KWOK, none of them held back by the rate of requests that they allow themselves."""
    plane = ControlPlane(folder, controllers=(*CONTROLLERS, *WORKLOADS), flags=_UNLIMITED)
    try:
        plane.start_scheduler(*_UNLIMITED)
        stages = module_folder(PROGRAMS["kwok"], "sigs.k8s.io/kwok") / "kustomize" / "stage"
        files = [f"--config={file}" for folder in _STAGES for file in sorted((stages / folder).glob("[np]o*.yaml"))]
        nodes = ("--manage-all-nodes=true", "--cidr=10.0.0.0/16", "--node-ip=127.0.0.1", "--node-lease-duration-seconds=40")
        plane.run("kwok", f"--kubeconfig={plane.kubeconfig}", *files, *nodes)
    except BaseException:
        plane.stop()
        raise
    return plane


def _ready(url: str, tls: ssl.SSLContext) -> bool:
    with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=2, context=tls) as response:
        return bool(response.status == 200)
    return False
