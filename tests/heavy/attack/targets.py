"""The processes that are attacked, and a twin that is not."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.real.processes import Process, free_port

from sliceworks.base import yaml_documents

_SLICEWORKS = (sys.executable, "-m", "sliceworks")
_BYTECODE = Path(sys.prefix) / "pycache"
TWIN, CONTROL = "attacked", "control"


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass
class Targets:
    """A twin with controllers, a console, a gateway with a backend, and an idle twin."""

    folder: Path
    ports: dict[str, int] = field(default_factory=dict)
    processes: dict[str, Process] = field(default_factory=dict)
    console_url: str = ""

    def __enter__(self) -> Targets:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes.values()):
            process.kill()

    def _start(self) -> None:
        # As installed: a process that compiles modules while it serves is slower than any user's.
        self.environment = {**os.environ, "SLICEWORKS_HOME": str(self.folder), "PYTHONPYCACHEPREFIX": str(_BYTECODE)}
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for name in (TWIN, CONTROL):
            self._run(name, "twin", "start", "--foreground", "--name", name, "--port", str(self._port(name)))
        backend, admin = self._port("backend"), self._port("admin")
        self._run("backend", "gateway", "echo", "--port", str(backend), "--model", "*", "--token-time", "50ms", "-q")
        self.document = self.folder / "gateway.yaml"
        (self.folder / "admin-key").write_text("admin")
        self.gateway = {
            "listen": {"port": self._port("gateway")},
            "admin": {"port": admin, "key": {"file": str(self.folder / "admin-key")}},
            "keys": [{"name": "a", "secret": {"file": str(self._secret("ka"))}, "models": ["m"]}],
            "limits": {"maxTokens": 10_000},
            "models": [
                {"name": name, "backends": [{"kind": "echo", "url": f"http://127.0.0.1:{backend}"}]} for name in ("m", "secret")
            ],
        }
        self.write_gateway()
        self._run("gateway", "gateway", "run", "-f", str(self.document))
        self._run("console", "console", f"--twin={TWIN}", "--port", str(self._port("console")))
        probes = f"127.0.0.1:{self._port('controllers')}"
        options = ("--project", "p", "--location", "us-central1-a", "--cluster", "c", "--metrics-bind-address", "0")
        self._run("controllers", "controller", "run", "graphs", f"--twin={TWIN}", "--health-probe-bind-address", probes, *options)

    def _secret(self, value: str) -> Path:
        file = self.folder / f"secret-{value}"
        file.write_text(value)
        return file

    def _port(self, name: str) -> int:
        self.ports[name] = free_port()
        return self.ports[name]

    def _run(self, name: str, *command: str) -> None:
        process = Process(name, [*_SLICEWORKS, *command], self.folder / f"{name}.log", env=self.environment)
        self.processes[name] = process
        process.wait_until(lambda: listens(self.ports[name]))

    def write_gateway(self, text: str | None = None) -> None:
        """Replace the gateway's document, by a valid one without `text`."""
        head: dict[str, Any] = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "g"}}
        new = self.folder / "gateway.new"
        new.write_text(yaml_documents.dump({**head, "spec": self.gateway}) if text is None else text)
        new.replace(self.document)

    def token(self) -> str:
        return (self.folder / "twins" / TWIN / "token").read_text().strip()

    def restart_twin(self) -> None:
        """Kill the twin, as `kill -9` does, and start it again at its port."""
        process = self.processes[TWIN]
        process.kill()
        process.start()
        process.wait_until(lambda: listens(self.ports[TWIN]))

    def children(self) -> list[str]:
        """The commands of all processes that run with the folder of the attack."""
        listed = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True, check=True).stdout
        return [line for line in listed.splitlines() if str(self.folder) in line]
