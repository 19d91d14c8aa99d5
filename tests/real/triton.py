"""A real Triton Inference Server on the CPU: the one of nvidia-pytriton, with its Python backend.

Its packages conflict with the project's, so they are in a separate environment in the cache, with Triton's clients. `python()`
returns its interpreter.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import urllib.error
import urllib.request
import venv
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.real.build import locked
from tests.real.processes import PATIENCE, free_port
from tests.real.programs import cache_folder

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PACKAGES = ("nvidia-pytriton==0.7.0", "tritonclient[grpc,http]==2.73.0", "numpy==1.26.4", "protobuf==6.33.6")
_CONFIG = """
name: "{name}"
backend: "python"
max_batch_size: 0
{transaction}
input [{inputs}]
output [{outputs}]
instance_group [{{ kind: KIND_CPU, count: 1 }}]
"""
_ADD = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        answers = []
        for request in requests:
            a, b = (pb_utils.get_input_tensor_by_name(request, name).as_numpy() for name in ("A", "B"))
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("SUM", (a + b).astype(np.float32))]))
        return answers
"""
_SPEAK = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            text = pb_utils.get_input_tensor_by_name(request, "text_input").as_numpy().reshape(-1)[0].decode()
            sender = request.get_response_sender()
            for word in text.split():
                tensor = pb_utils.Tensor("text_output", np.array([word.encode()], dtype=object))
                sender.send(pb_utils.InferenceResponse([tensor]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


@dataclass(frozen=True, slots=True)
class Triton:
    """A running Triton."""

    http: int
    grpc: int
    metrics: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http}"


def python() -> Path:
    """The interpreter of the environment with Triton and its clients, created on first use."""
    folder = cache_folder() / f"triton-{PACKAGES[0].partition('==')[2]}-{sys.version_info[0]}.{sys.version_info[1]}"
    result = folder / "bin" / "python"
    if not (folder / "ready").exists():
        with locked(folder):
            if not (folder / "ready").exists():
                _install(folder)
    return result


def _install(folder: Path) -> None:
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
    subprocess.run(pip, check=True)
    server = home(folder)
    stub = server / "python_backend_stubs" / f"{sys.version_info[0]}.{sys.version_info[1]}" / "triton_python_backend_stub"
    shutil.copy(stub, server / "backends" / "python" / stub.name)
    (folder / "ready").touch()


def home(folder: Path) -> Path:
    """The server's folder in that environment."""
    return next(folder.glob("lib/python*/site-packages/pytriton/tritonserver"))


def repository(folder: Path) -> Path:
    """A model repository: `add` sums two tensors, `speak` streams a string word by word."""
    number = '{{ name: "{}" data_type: TYPE_FP32 dims: [-1] }}'
    text = '{{ name: "{}" data_type: TYPE_STRING dims: [1] }}'
    _model(folder, "add", _ADD, f"{number.format('A')}, {number.format('B')}", number.format("SUM"))
    decoupled = "model_transaction_policy { decoupled: True }"
    _model(folder, "speak", _SPEAK, text.format("text_input"), text.format("text_output"), transaction=decoupled)
    return folder


def _model(folder: Path, name: str, code: str, inputs: str, outputs: str, *, transaction: str = "") -> None:
    (folder / name / "1").mkdir(parents=True)
    (folder / name / "1" / "model.py").write_text(code)
    config = _CONFIG.format(name=name, inputs=inputs, outputs=outputs, transaction=transaction)
    (folder / name / "config.pbtxt").write_text(config)


@contextmanager
def running(models: Path, log: Path) -> Iterator[Triton]:
    """Run a Triton with a repository."""
    interpreter = python()
    server = home(interpreter.parents[1])
    triton = Triton(free_port(), free_port(), free_port())
    libraries = os.pathsep.join([str(sysconfig.get_config_var("LIBDIR")), os.environ.get("LD_LIBRARY_PATH", "")])
    environment = {**os.environ, "LD_LIBRARY_PATH": libraries, "PATH": f"{interpreter.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [
        str(server / "bin" / "tritonserver"), f"--model-repository={models}", f"--backend-directory={server / 'backends'}",
        f"--http-port={triton.http}", f"--grpc-port={triton.grpc}", f"--metrics-port={triton.metrics}",
        "--http-address=127.0.0.1", "--grpc-address=127.0.0.1", "--model-control-mode=explicit", "--load-model=*",
        "--allow-gpu-metrics=false", "--http-thread-count=2",
    ]  # fmt: skip
    with log.open("wb") as written, subprocess.Popen(command, env=environment, stdout=written, stderr=written) as process:
        try:
            ready = clock.wait_until(lambda: process.poll() is not None or _is_ready(triton), PATIENCE, interval=0.1)
            assert ready, log.read_text()
            assert process.poll() is None, log.read_text()
            yield triton
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def _is_ready(triton: Triton) -> bool:
    try:
        with urllib.request.urlopen(f"{triton.url}/v2/health/ready", timeout=2) as response:
            return bool(response.status == 200)
    except (OSError, urllib.error.URLError):
        return False
