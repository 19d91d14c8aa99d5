"""A real JetStream server with its mock engine: the published package, in a separate environment in the cache.

The package requires older libraries and tokenizers that the mock engine does not use: those are not installed, and their imports
are two empty classes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grpc
from tests.real.build import locked
from tests.real.processes import Process, free_port
from tests.real.programs import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERSION = "0.2.2"
LIBRARIES = (
    "jax==0.4.30", "jaxlib==0.4.30", "numpy==1.26.4", "grpcio==1.85.1", "protobuf==5.29.6", "absl-py", "msgpack", "shortuuid",
    "prometheus-client", "tiktoken", "rich", "pyyaml", "typing_extensions",
)  # fmt: skip
ALONE = (f"google-jetstream=={VERSION}", "flax==0.8.5")
_STUB = "class Vocabulary: ...\nclass SentencePieceVocabulary(Vocabulary): ...\n"
SERVICE = "/jetstream_proto.Orchestrator/"


def python() -> Path:
    """The interpreter of JetStream's environment, created on first use."""
    folder = cache_folder() / f"jetstream-{VERSION}-{sys.version_info[0]}.{sys.version_info[1]}"
    if not (folder / "ready").exists():
        with locked(folder):
            if not (folder / "ready").exists():
                _install(folder)
    return folder / "bin" / "python"


def _install(folder: Path) -> None:
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *LIBRARIES], check=True)
    subprocess.run([*pip, "--no-deps", *ALONE], check=True)
    stub = next(folder.glob("lib/python*/site-packages")) / "seqio"
    stub.mkdir(exist_ok=True)
    (stub / "__init__.py").touch()
    (stub / "vocabularies.py").write_text(_STUB)
    (folder / "ready").touch()


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run a server; yields its address."""
    port = free_port()
    command = [str(python()), "-m", "jetstream.core.implementations.mock.server", "--port", str(port)]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    process = Process("jetstream", command, folder / "jetstream.log", env=environment)
    try:
        process.wait_until(lambda: _is_live(port))
        yield f"127.0.0.1:{port}"
    finally:
        process.kill()


def _is_live(port: int) -> bool:
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        check: Any = channel.unary_unary(f"{SERVICE}HealthCheck")
        try:
            return bool(check(b"", timeout=2) == b"\x08\x01")
        except grpc.RpcError:
            return False
