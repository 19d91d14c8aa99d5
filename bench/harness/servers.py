"""API servers under test, each in its own processes: the twin, the real etcd and kube-apiserver, and a twin with its cloud."""

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

import orjson
from tests.real.build import module_folder
from tests.real.control_plane import ControlPlane
from tests.real.controllers import CONTROLLERS, WORKLOADS
from tests.real.processes import PATIENCE, free_port, resident_bytes
from tests.real.programs import PROGRAMS

from sliceworks.base.transport import Request
from sliceworks.kube.https import open_client

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube.client import Client

PROJECT, LOCATION, CLUSTER, ZONE = "bench", "us-central1", "bench", "us-central1-a"
_STAGES = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
_UNLIMITED = ("--kube-api-qps=10000", "--kube-api-burst=20000")


def installed_environment(home: Path) -> dict[str, str]:
    """The environment of commands and servers: Python's bytecode is cached, as after an installation."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"} | {"SLICEWORKS_HOME": str(home)}


class Server(Protocol):
    """A running API server."""

    name: str
    kubeconfig: Path
    seconds_to_ready: float

    def resident_bytes(self) -> int:
        """Resident memory of all its processes."""
        ...

    def stop(self) -> None:
        """Stop it."""
        ...


class TwinServer:
    """`sliceworks twin start --foreground` with its own home and on-disk storage; `workloads` starts scheduler and controllers."""

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
        env = installed_environment(folder)
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
        while not _is_ready(url, tls):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the twin did not start:\n{log.read_text()}")
            time.sleep(0.005)

    def resident_bytes(self) -> int:
        """Resident memory; the twin is one process."""
        return resident_bytes(self._process.pid)

    def stop(self) -> None:
        """Stop it with SIGTERM, so that a profile is written."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class ControlPlaneServer:
    """etcd without fsync and kube-apiserver; `workloads` adds controller manager, scheduler, and KWOK for the nodes."""

    name = "real"

    def __init__(self, folder: Path, *, workloads: bool = False) -> None:
        folder.mkdir()
        self._plane = _start_with_workloads(folder) if workloads else ControlPlane(folder, controllers=())
        self.seconds_to_ready = time.monotonic() - self._plane.processes["etcd"].started
        self.kubeconfig = self._plane.kubeconfig

    def resident_bytes(self) -> int:
        """Resident memory of etcd and kube-apiserver."""
        return self._plane.resident_bytes()

    def stop(self) -> None:
        """Stop all processes."""
        self._plane.stop()


class TwinDaemon:
    """`sliceworks twin start --memory` with its own home, and its cloud."""

    def __init__(self, folder: Path) -> None:
        self._env = installed_environment(folder)
        self._call("start", "--memory", "--quiet")
        self.home = folder / "twins" / "default"
        self.cloud = str(orjson.loads((self.home / "ready.json").read_bytes())["cloud"])
        self.token = (self.home / "token").read_text().strip()

    def _call(self, verb: str, *options: str) -> None:
        command = [sys.executable, "-m", "sliceworks", "twin", verb, *options]
        subprocess.run(command, env=self._env, check=True, stdout=subprocess.DEVNULL)

    @property
    def environment(self) -> dict[str, str]:
        """The environment in which commands and controllers use this twin."""
        names = {"GCP_PROJECT_ID": PROJECT, "GCP_CLUSTER": CLUSTER, "GCP_CLUSTER_LOCATION": LOCATION, "GCP_ZONE": ZONE}
        return {**self._env, **names}

    def stop(self) -> None:
        """Stop it."""
        self._call("stop", "--quiet")

    def client(self) -> Client:
        """A client of its cluster."""
        return open_client(self.home / "kubeconfig")

    async def configure(self, client: Client, *, operations: int, seconds: float) -> None:
        """Set how many concurrent operations the cloud accepts, and how long each takes (half of it to create, half to boot)."""
        cluster = {"project": PROJECT, "location": LOCATION, "name": CLUSTER}
        times = {"createNodePool": seconds / 2, "boot": seconds / 2, "deleteNodePool": seconds}
        settings = {"clusters": [cluster], "operations": operations, "seconds": times}
        body = orjson.dumps({"set": {"container": settings}})
        await client.send(Request("POST", "/debug/twin/cloud", (), {"content-type": "application/json"}, body))


def _start_with_workloads(folder: Path) -> ControlPlane:
    """A control plane with controllers, scheduler and KWOK, without client-side rate limits."""
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


def _is_ready(url: str, tls: ssl.SSLContext) -> bool:
    with suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=2, context=tls) as response:
        return bool(response.status == 200)
    return False
