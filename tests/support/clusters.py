"""The clusters that the contract suite runs on, with one interface."""

from __future__ import annotations

import base64
import importlib.util
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import yaml
from tests.real.processes import Process, free_port
from tests.support.http import Api

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane


_ABSENT = ("volume-provisioner",)
"""Controllers of the twin that a real control plane does not have: its volumes are created by the tests."""
_REPLACED = ("kube-scheduler", "kube-controller-manager", "jobset", "kueue")
"""Controllers of the twin that the real ones replace on a mixed cluster."""


class Cluster(Protocol):
    """A running cluster: `name` is `twin`, `real` or `mixed`."""

    name: str
    url: str
    authority: Path
    token: str
    kubeconfig: Path

    @property
    def api(self) -> Api:
        """A client with the administrator's token."""
        ...

    def compact(self) -> None:
        """Discard old revisions."""
        ...

    def resident_bytes(self) -> int:
        """The resident memory of the server."""
        ...

    def pass_time(self, seconds: float) -> None:
        """Return when this much time has passed on the cluster's clock."""
        ...

    def stop(self) -> None:
        """Stop the cluster."""
        ...


class RealCluster:
    """etcd, kube-apiserver and kube-controller-manager; `workloads` adds the workload controllers and kube-scheduler."""

    name = "real"

    def __init__(
        self, folder: Path, *, workloads: bool = False, flags: tuple[str, ...] = (), server_flags: tuple[str, ...] = ()
    ) -> None:
        """`flags` are additional flags of kube-controller-manager, and `server_flags` of kube-apiserver."""
        from tests.real.control_plane import ControlPlane
        from tests.real.controllers import CONTROLLERS, WORKLOADS

        controllers = CONTROLLERS + (WORKLOADS if workloads else ())
        self.plane: ControlPlane = ControlPlane(folder, controllers=controllers, flags=flags, server_flags=server_flags)
        if workloads:
            self.plane.start_scheduler()
        self.url, self.authority = self.plane.url, self.plane.authority
        self.token, self.kubeconfig = self.plane.token, self.plane.kubeconfig
        self.api = Api(self.url, self.authority, self.token)

    def compact(self) -> None:
        """Compact etcd."""
        self.plane.compact()

    def resident_bytes(self) -> int:
        """The resident memory of etcd and kube-apiserver."""
        return self.plane.resident_bytes()

    def pass_time(self, seconds: float) -> None:
        """Sleep: the cluster has the clock of the machine."""
        time.sleep(seconds)

    def stop(self) -> None:
        """Stop all processes."""
        self.api.close()
        self.plane.stop()


class TwinCluster:
    """The twin in its own process, with its store in memory."""

    name = "twin"

    def __init__(
        self,
        folder: Path,
        *,
        memory: bool = True,
        workloads: bool = False,
        without: tuple[str, ...] | None = (),
        options: tuple[str, ...] = (),
    ) -> None:
        """`without` names controllers that do not run; None runs all, as version 0.1 does."""
        self.folder, self._port = folder, free_port()
        disabled = () if without is None else ("--without", ",".join((*_ABSENT, *without)))
        self._options = (*(("--memory",) if memory else ()), *(() if workloads else ("--no-workloads",)), *disabled, *options)
        self.url = f"https://127.0.0.1:{self._port}"
        self.process = Process("twin", self._command(), folder / "twin.log", env={**os.environ, "SLICEWORKS_HOME": str(folder)})
        self.kubeconfig = folder / "twins" / "contract" / "kubeconfig"
        self._wait()
        self.authority, self.token = _credentials(self.kubeconfig)
        self.api = Api(self.url, self.authority, self.token)

    def compact(self) -> None:
        """Make the twin discard old revisions."""
        self.api.post("/debug/twin/compact", {}).ok()

    def resident_bytes(self) -> int:
        """The resident memory of the twin's process."""
        return self.process.resident_bytes()

    def pass_time(self, seconds: float) -> None:
        """Advance the twin's clock; needs the option --speed."""
        self.api.post("/debug/twin/advance", {"seconds": seconds}).ok()

    def start(self) -> None:
        """Start the twin again after its process was killed."""
        self.api.close()
        self.api = Api(self.url, self.authority, self.token)
        self.process.start()
        self._wait()

    def _wait(self) -> None:
        self.process.wait_until(lambda: responds(self.url, "/readyz") and self.kubeconfig.exists())

    def stop(self) -> None:
        """Stop the twin."""
        self.api.close()
        self.process.kill()

    def _command(self) -> tuple[str, ...]:
        command = (sys.executable, "-m", "sliceworks", "twin", "start", "--foreground", "--name", "contract")
        return (*command, "--port", str(self._port), *self._options)


class MixedCluster:
    """The twin's API server and nodes with the controllers of `RealCluster`, in real time."""

    name = "mixed"

    def __init__(self, folder: Path, *, workloads: bool = False, flags: tuple[str, ...] = ()) -> None:
        """`flags` are additional flags of kube-controller-manager."""
        from tests.real.controllers import CONTROLLERS, WORKLOADS, Controllers

        self.twin = TwinCluster(folder, workloads=True, without=_REPLACED)
        self.url, self.authority = self.twin.url, self.twin.authority
        self.token, self.kubeconfig, self.api = self.twin.token, self.twin.kubeconfig, self.twin.api
        self.plane = Controllers(folder, self.kubeconfig, self.authority)
        try:
            self.plane.start_controllers(CONTROLLERS + (WORKLOADS if workloads else ()), *flags)
            if workloads:
                self.plane.start_scheduler()
        except BaseException:
            self.stop()
            raise

    def compact(self) -> None:
        """Make the twin discard old revisions."""
        self.twin.compact()

    def resident_bytes(self) -> int:
        """The resident memory of the twin's process."""
        return self.twin.resident_bytes()

    def pass_time(self, seconds: float) -> None:
        """Sleep: the cluster has the clock of the machine."""
        time.sleep(seconds)

    def stop(self) -> None:
        """Stop all processes."""
        self.plane.stop()
        self.twin.stop()


def _credentials(kubeconfig: Path) -> tuple[Path, str]:
    """The CA file and the token of a kubeconfig."""
    config = yaml.load(kubeconfig.read_text(), yaml.CSafeLoader)
    target, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    if "certificate-authority" in target:
        return Path(target["certificate-authority"]), user["token"]
    authority = kubeconfig.with_name("authority-of-tests.crt")
    authority.write_bytes(base64.b64decode(target["certificate-authority-data"]))
    return authority, user["token"]


def responds(url: str, path: str) -> bool:
    """Whether the server answers 200; its certificate is not verified."""
    try:
        with urllib.request.urlopen(url + path, timeout=2, context=ssl._create_unverified_context()) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def twin_available() -> bool:
    """Whether the twin can be imported."""
    return importlib.util.find_spec("sliceworks.cli.main") is not None


def mixed_enabled() -> bool:
    """Whether this run has all cases of workloads with the real controllers on the twin's API."""
    return os.environ.get("SLICEWORKS_MIXED") == "1"


def real_enabled() -> bool:
    """Whether this run includes the real programs."""
    return os.environ.get("SLICEWORKS_REAL") == "1"
