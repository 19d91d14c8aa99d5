"""A real vLLM on the CPU with a tiny random model that is created here: no model hub is used.

Its packages conflict with the project's, so they are in a separate environment in the cache, in the versions of `vllm.txt`. It is
started with the arguments and variables of our manifests, and an additional address.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
import venv
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.real.build import locked
from tests.real.processes import Process, free_port
from tests.support.model_services import service

from sliceworks.base import clock
from sliceworks.serving.compiler import manifests

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = "0.27.0"
MODULE = "vllm.entrypoints.openai.api_server"
CONTEXT = 4096
ROOM = {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
"""Variables for a CPU."""
_PACKAGES = Path(__file__).with_name("vllm.txt")
_STARTS_WITHIN, _ENDS_WITHIN = 300, 60
_MODEL = """
import sys

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

folder = sys.argv[1]
words = Tokenizer(models.BPE())
words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
words.decoder = decoders.ByteLevel()
special, letters = ["<s>", "</s>", "<user>", "<model>"], pre_tokenizers.ByteLevel.alphabet()
trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=special, initial_alphabet=letters)
words.train_from_iterator(["a slice serves a model to whoever has a key, and the model says what it likes"], trainer)
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>", pad_token="</s>")
tokenizer.chat_template = "{% for each in messages %}<user>{{ each['content'] }}{% endfor %}<model>"
tokenizer.save_pretrained(folder)
torch.manual_seed(7)
sizes = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "max_position_embeddings": 4096}
heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32}
ends = {"bos_token_id": tokenizer.bos_token_id, "eos_token_id": tokenizer.eos_token_id}
LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **sizes, **heads, **ends)).save_pretrained(folder)
"""


@dataclass(slots=True)
class Vllm:
    """A running vLLM."""

    port: int
    process: Process

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def is_healthy(self) -> bool:
        """Whether its health check succeeds."""
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def terminate(self) -> None:
        """Send SIGTERM, as a node does to a terminating pod."""
        os.kill(self.process.pid, signal.SIGTERM)

    def number(self, name: str) -> float:
        """The sum of one of its metrics."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.partition("{")[0] == name)


def folder() -> Path:
    """The folder of its environment, named by its inputs."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sliceworks" / "heavy" / "vllm"
    made_of = hashlib.sha256(_PACKAGES.read_bytes() + _MODEL.encode()).hexdigest()[:12]
    return base / f"{VERSION}-{sys.version_info[0]}.{sys.version_info[1]}-{made_of}"


def python() -> Path:
    """Its interpreter; the environment and the model are created on first use."""
    place = folder()
    if not (place / "ready").exists():
        with locked(place):
            if not (place / "ready").exists():
                _install(place)
    return place / "bin" / "python"


def _install(place: Path) -> None:
    venv.create(place, with_pip=True)
    interpreter = str(place / "bin" / "python")
    pip = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir", "--no-deps"]
    subprocess.run([*pip, "--requirement", str(_PACKAGES)], check=True)
    subprocess.run([interpreter, "-c", _MODEL, str(place / "model")], check=True)
    (place / "ready").touch()


def rendered(more: str = "") -> dict[str, Any]:
    """The container of our manifests for the tiny model; `more` are additional fields of the spec."""
    model = f"model: {{name: tiny, source: {folder() / 'model'}}}, maxModelLen: {CONTEXT}, maxNumSeqs: 8, dtype: float32"
    text = f"vllm: {{{model}}}, accelerator: {{type: l4-1}}, drainTimeout: 30s, args: [--enforce-eager]{more}"
    [created] = [obj for obj in manifests(service("vllm", text)) if obj["kind"] == "Deployment"]
    container: dict[str, Any] = created["spec"]["template"]["spec"]["containers"][0]
    return container


def environment(home: Path) -> dict[str, str]:
    """The variables of our manifests and those for a CPU; `home` is the scratch folder."""
    reported = {variable["name"]: str(variable["value"]) for variable in rendered()["env"] if "value" in variable}
    return {"PATH": os.environ["PATH"], **reported, **ROOM, "HOME": str(home), "HF_HOME": str(home / "huggingface")}


@contextmanager
def running(home: Path, port: int = 0) -> Iterator[Vllm]:
    """Run a vLLM with the tiny model."""
    port = port or free_port()
    command = ["setsid", str(python()), "-m", MODULE, *rendered()["args"], "--host=127.0.0.1", f"--port={port}"]
    process = Process("vllm", command, home / "vllm.log", env=environment(home))
    result = Vllm(port, process)
    try:
        process.wait_until(result.is_healthy, _STARTS_WITHIN)
        yield result
    finally:
        _end(process)


def _end(process: Process) -> None:
    """Stop it: it stops its engine on SIGTERM, but a killed server leaves its engine, so the whole process group is killed."""
    if process.alive():
        os.kill(process.pid, signal.SIGTERM)
        clock.wait_until(lambda: not process.alive(), _ENDS_WITHIN)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.kill()
