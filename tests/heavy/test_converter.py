"""The Job that converts a checkpoint, with the locked packages of the converter image and Google's gcloud, on a twin's bucket.

Sax's converter is not published: a module with the same flags and the same calls to JAX and Paxml takes its place.
Paxml 1.4.0 wrote the recorded descriptions.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.real.build import locked
from tests.support.clusters import TwinCluster
from tests.support.model_services import example

from sliceworks.serving.compiler import manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(1800)
ROOT = Path(__file__).parents[2]
LOCK = ROOT / "deploy" / "requirements" / "converter.txt"
BUCKET = "my-project-saxml-models"
STAND_IN = """
import argparse
import pathlib

import jax
import numpy as np
from jax.experimental import pjit
from paxml import checkpoints, train_states
from praxis import py_utils

parser = argparse.ArgumentParser()
for flag in ("--base-model-path", "--pax-model-path", "--model-size"):
    parser.add_argument(flag, required=True)
asked = parser.parse_args()
assert sorted(pathlib.Path(asked.base_model_path).glob("*.pth")), "nothing to convert"
weights = {"lm": {"final_ln": {"scale": np.ones((4,), np.float16)}}}
states = train_states.TrainState(step=0, mdl_vars={"params": weights}, opt_states={})
with jax.sharding.Mesh(py_utils.create_device_mesh([1, 1, 1]), ["replica", "data_mdl2", "mdl"]):
    whole = pjit.pjit(lambda each: each, in_shardings=None, out_shardings=None)(states)
checkpoints.save_checkpoint(whole, asked.pax_model_path, checkpoint_type=checkpoints.CheckpointType.GDA)
"""


SCALE = {"_array_metadata_tag": True, "dtype": "float16", "is_optax_masked_node": False, "unpadded_shape": [4]}
METADATA = {"version": 1.1, "train_state_metadata": {"mdl_vars": {"params": {"lm": {"final_ln": {"scale": SCALE}}}}}}
ARRAY = {
    "chunks": [4],
    "compressor": {"id": "zstd", "level": 1},
    "dimension_separator": ".",
    "dtype": "<f2",
    "fill_value": None,
    "filters": None,
    "order": "C",
    "shape": [4],
    "zarr_format": 2,
}


@pytest.fixture(scope="module")
def python() -> Path:
    """The image's version of Python with its packages, in the cache; without torch, which Sax's converter uses."""
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sliceworks" / "heavy" / "converter"
    folder, mark = cache / digest, cache / digest / "whole"
    with locked(cache):
        if not mark.exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([_python(), "-m", "venv", str(folder)], check=True)
            pip = (
                str(folder / "bin" / "python"),
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--timeout=180",
            )
            flags = ("--no-deps", "--only-binary", ":all:", "--require-hashes", "--requirement", str(LOCK))
            subprocess.run([*pip, *flags], check=True)
            mark.touch()
    return folder / "bin" / "python"


def _python() -> str:
    kept = sorted(Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv").glob("versions/3.13.*/bin/python3.13"))
    result = kept[-1] if kept else shutil.which("python3.13")
    assert result, "the image has Python 3.13: python3.13 not found"
    return str(result)


@pytest.fixture
def twin(tmp_path: Path) -> Iterator[TwinCluster]:
    cluster = TwinCluster(tmp_path)
    yield cluster
    cluster.stop()


class Storage:
    """The buckets of a twin."""

    def __init__(self, twin: TwinCluster) -> None:
        self.url = orjson.loads((twin.kubeconfig.parent / "ready.json").read_bytes())["cloud"]
        self.token = twin.token

    def ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        headers = {"authorization": f"Bearer {self.token}", "content-type": "application/json"}
        request = urllib.request.Request(self.url + path, data=body, method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=20) as response:
            return orjson.loads(response.read())

    def put(self, name: str, content: bytes) -> None:
        self.ask("POST", f"/upload/storage/v1/b/{BUCKET}/o?uploadType=media&name={urllib.parse.quote(name, safe='')}", content)

    def names(self) -> set[str]:
        return {item["name"] for item in self.ask("GET", f"/storage/v1/b/{BUCKET}/o")["items"]}


def test_checkpoint_is_converted_once(python: Path, twin: TwinCluster, tmp_path: Path) -> None:
    storage = Storage(twin)
    storage.ask("POST", "/storage/v1/b?project=my-project", orjson.dumps({"name": BUCKET}))
    for name in ("consolidated.00.pth", "params.json"):
        storage.put(f"meta/llama-2-7b/{name}", b"weights")
    first = convert(python, storage, tmp_path)
    assert first.returncode == 0, first.stdout
    created = {name.removeprefix("llama2-7b/") for name in storage.names() if name.startswith("llama2-7b/")}
    folders = {name.rpartition("/")[0] for name in created if "/" in name}
    assert "checkpoint_00000000/state/mdl_vars.params.lm.final_ln.scale" in folders
    assert {f"{folder}/commit_success.txt" for folder in folders} <= created
    checkpoint = next(tmp_path.rglob("checkpoint_00000000"))
    assert orjson.loads((checkpoint / "metadata" / "metadata").read_bytes()) == METADATA
    assert orjson.loads((checkpoint / "state" / "mdl_vars.params.lm.final_ln.scale" / ".zarray").read_bytes()) == ARRAY
    again = convert(python, storage, tmp_path)
    assert again.returncode == 0, again.stdout
    assert "already converted" in again.stdout


def convert(python: Path, storage: Storage, work: Path) -> subprocess.CompletedProcess[str]:
    """Run the script of the example's Job with the Job's variables, and a local folder for its volume."""
    gcloud = shutil.which("gcloud")
    assert gcloud, "the Job copies with gcloud, and there is none here"
    (job,) = [obj for obj in manifests(example("llama2-7b-saxml")) if "-convert-" in obj["metadata"]["name"]]
    container = job["spec"]["template"]["spec"]["containers"][0]
    module = work / "sources" / "saxml" / "tools" / "convert_llama_ckpt.py"
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text(STAND_IN)
    reported = {variable["name"]: variable["value"].replace("/tmp", str(work)) for variable in container["env"]}
    cloud = {
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{storage.url}/storage/v1/",
        "CLOUDSDK_AUTH_ACCESS_TOKEN": storage.token,
        "CLOUDSDK_CORE_PROJECT": "my-project",
    }
    path = f"{python.parent}:{Path(gcloud).parent}:/usr/bin:/bin"
    *shell, script = container["command"]
    return subprocess.run(
        [*shell, script.replace("/checkpoints", f"{work}/checkpoints")],
        env={**reported, **cloud, "PATH": path, "PYTHONPATH": f"{ROOT / 'deploy' / 'converter'}:{work / 'sources'}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=600,
    )
