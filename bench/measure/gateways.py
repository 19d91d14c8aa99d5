"""What is measured, each a process on a core of its own: the echo model, our gateway, nginx, and LiteLLM's proxy."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure.http_load import KEY
from tests.real.processes import cpu_seconds, free_port, resident_bytes

from sliceworks.base import progress, yamls

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL = "bench"
_CORES = sorted(os.sched_getaffinity(0))
OURS, THEIRS = _CORES[0], _CORES[-1]
"""The core of what is measured, and that of everything else."""
OTHERS = _CORES[:0:-1] or _CORES
"""All cores that are not of what is measured, where there are several; the farthest first: neighbours may be halves of one."""
_MODELS = OTHERS[1] if len(OTHERS) > 1 else THEIRS
"""The core of the model that requests are for: its own, where there are enough."""
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


class Running:
    """A process that listens at a port."""

    def __init__(self, name: str, command: Sequence[str], port: int, folder: Path, *, core: int, patience: float = 60.0) -> None:
        self.name, self.port = name, port
        self._log = (folder / f"{name}.log").open("wb")
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "LITELLM_LOG": "ERROR", "LITELLM_MASTER_KEY": KEY}
        own = os.sched_getaffinity(0)
        # A process has the core of the one that starts it.
        os.sched_setaffinity(0, {core})
        self._process = subprocess.Popen(command, stdout=self._log, stderr=self._log, env=environment)
        os.sched_setaffinity(0, own)
        self._wait(patience, folder / f"{name}.log")

    def _wait(self, patience: float, log: Path) -> None:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and self._process.poll() is None:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
                return
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"{self.name} does not listen:\n{log.read_text(errors='replace')[-2000:]}")

    def cpu_seconds(self) -> float:
        """The time of processors that it has used."""
        return cpu_seconds(self._process.pid)

    def resident_bytes(self) -> int:
        """The memory that it holds."""
        return resident_bytes(self._process.pid)

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


Maker = Callable[..., Running | None]
"""Starts one in front of models at these ports, or says that it is not there."""


def echo(folder: Path, *options: str) -> Running:
    """The echo model."""
    port = free_port()
    command = [sys.executable, "-m", "sliceworks", "gateway", "echo", "--port", str(port), "--model", MODEL, "--records", "0"]
    return Running("echo", [*command, *options], port, folder, core=_MODELS)


def ours(folder: Path, *models: int) -> Running:
    """Our gateway, asking for a key."""
    import hashlib

    port = free_port()
    spec = {
        "listen": {"port": port},
        "keys": [{"name": "bench", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}],
        "models": [{"name": MODEL, "backends": [{"kind": "openai", "url": f"http://127.0.0.1:{model}"} for model in models]}],
    }
    head = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "bench"}}
    file = folder / "gateway.yaml"
    file.write_text(yamls.dump({**head, "spec": spec}))
    command = [sys.executable, "-m", "sliceworks", "gateway", "run", "-f", str(file)]
    return Running("ours", command, port, folder, core=OURS)


def nginx(folder: Path, *models: int) -> Running | None:
    """nginx as a plain proxy, where it is installed: it knows nothing of keys, models and limits."""
    program = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        progress.say("nginx is not installed: it is left out")
        return None
    port = free_port()
    servers = " ".join(f"server 127.0.0.1:{model};" for model in models)
    (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, servers=servers, port=port))
    return Running("nginx", [program, "-c", str(folder / "nginx.conf"), "-e", str(folder / "start.log")], port, folder, core=OURS)


def litellm(folder: Path, model: int) -> Running | None:
    """LiteLLM's proxy with one worker, from an environment of its own in the cache."""
    program = _litellm()
    if program is None:
        return None
    port = free_port()
    parameters = {"model": f"openai/{MODEL}", "api_base": f"http://127.0.0.1:{model}/v1", "api_key": "none"}
    (folder / "litellm.yaml").write_text(yamls.dump({"model_list": [{"model_name": MODEL, "litellm_params": parameters}]}))
    places = ["--config", str(folder / "litellm.yaml"), "--host", "127.0.0.1", "--port", str(port)]
    return Running("litellm", [str(program), *places, "--num_workers", "1"], port, folder, core=OURS, patience=180)


def _litellm() -> Path | None:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "sliceworks" / "bench" / "litellm"
    program = folder / "bin" / "litellm"
    if not (folder / "ready").exists():
        progress.say("installing LiteLLM into the cache: minutes, once")
        try:
            venv.create(folder, with_pip=True)
            pip = [
                str(folder / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "litellm[proxy]",
            ]
            subprocess.run(pip, check=True)
            (folder / "ready").touch()
        except (OSError, subprocess.CalledProcessError) as error:
            progress.say(f"LiteLLM cannot be installed and is left out: {error}")
            return None
    return program
