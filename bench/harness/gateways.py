"""Gateways under test and the echo model behind them, each a process on one core: ours, nginx and LiteLLM's proxy."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.harness import machine
from bench.harness.http_load import KEY
from tests.real.processes import cpu_seconds, free_port, resident_bytes

from sliceworks.base import progress, yaml_documents

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL = "bench"
_CORES = sorted(os.sched_getaffinity(0))
GATEWAY_CORE, CLIENT_CORE = _CORES[0], _CORES[-1]
OTHER_CORES = _CORES[:0:-1] or _CORES
"""All cores but the gateway's, if there are several; the most distant first, because neighbours may be hyperthreads of one core."""
_BACKEND_CORE = OTHER_CORES[1] if len(OTHER_CORES) > 1 else CLIENT_CORE
_NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; master_process off;
events {{ worker_connections 8192; }}
http {{
  access_log off; client_max_body_size 64m; client_body_buffer_size 1m; keepalive_requests 1000000000;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream model {{ least_conn; {servers} keepalive 512; keepalive_requests 1000000000; }}
  server {{ listen 127.0.0.1:{port} backlog=4096;
    location / {{ proxy_pass http://model; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; }} }}
}}
"""


class ServerProcess:
    """A process that listens on a port."""

    def __init__(self, name: str, command: Sequence[str], port: int, folder: Path, *, core: int, timeout: float = 60.0) -> None:
        self.name, self.port = name, port
        self._log = (folder / f"{name}.log").open("wb")
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "LITELLM_LOG": "ERROR", "LITELLM_MASTER_KEY": KEY}
        own = os.sched_getaffinity(0)
        # A child process inherits the CPU affinity of its parent.
        os.sched_setaffinity(0, {core})
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)
        os.sched_setaffinity(0, own)
        self._wait(timeout, folder / f"{name}.log")

    def _wait(self, timeout: float, log: Path) -> None:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"{self.name} did not start to listen:\n{log.read_text(errors='replace')[-2000:]}")

    def cpu_seconds(self) -> float:
        """CPU time used so far."""
        return cpu_seconds(self._process.pid)

    def resident_bytes(self) -> int:
        """Resident memory."""
        return resident_bytes(self._process.pid)

    def stop(self) -> None:
        """Stop it."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


Starter = Callable[..., ServerProcess | None]
"""Starts a gateway in front of backends at these ports; returns None if it is not installed."""


def echo(folder: Path, *options: str) -> ServerProcess:
    """Start the echo model."""
    port = free_port()
    command = [sys.executable, "-m", "sliceworks", "gateway", "echo", "--port", str(port), "--model", MODEL, "--records", "0"]
    return ServerProcess("echo", [*command, *options], port, folder, core=_BACKEND_CORE)


def ours(folder: Path, *backends: int) -> ServerProcess:
    """Start our gateway; it requires an API key."""
    port = free_port()
    spec = {
        "listen": {"port": port},
        "keys": [{"name": "bench", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}],
        "models": [{"name": MODEL, "backends": [{"kind": "openai", "url": f"http://127.0.0.1:{backend}"} for backend in backends]}],
    }
    head = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "bench"}}
    file = folder / "gateway.yaml"
    file.write_text(yaml_documents.dump({**head, "spec": spec}))
    command = [sys.executable, "-m", "sliceworks", "gateway", "run", "-f", str(file)]
    return ServerProcess("ours", command, port, folder, core=GATEWAY_CORE)


def relay(folder: Path, backend: int) -> ServerProcess:
    """Start a relay that only copies bytes."""
    port = free_port()
    command = [sys.executable, str(Path(__file__).parent / "relay.py"), str(port), str(backend)]
    return ServerProcess("relay", command, port, folder, core=GATEWAY_CORE)


def nginx(folder: Path, *backends: int) -> ServerProcess | None:
    """Start nginx as a plain proxy, without keys, models or limits."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        progress.say("nginx is not installed; skipping it")
        return None
    port = free_port()
    servers = " ".join(f"server 127.0.0.1:{backend};" for backend in backends)
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, servers=servers, port=port))
    return ServerProcess(
        "nginx", [program, "-c", str(folder / "nginx.conf"), "-e", str(folder / "start.log")], port, folder, core=GATEWAY_CORE
    )


def litellm(folder: Path, backend: int) -> ServerProcess | None:
    """Start LiteLLM's proxy with one worker; it is installed into the cache once."""
    try:
        program = machine.install("litellm", "litellm[proxy]")
    except (OSError, subprocess.CalledProcessError) as error:
        progress.say(f"cannot install LiteLLM; skipping it: {error}")
        return None
    port = free_port()
    parameters = {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{backend}/v1", "api_key": "none"}
    (folder / "litellm.yaml").write_text(yaml_documents.dump({"model_list": [{"model_name": MODEL, "litellm_params": parameters}]}))
    options = ["--config", str(folder / "litellm.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    return ServerProcess("litellm", [str(program), *options, "--num_workers", "1"], port, folder, core=GATEWAY_CORE, timeout=180)
