"""ModelServices that are refused: with the line, the field, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sliceworks.base import yamls
from sliceworks.base.errors import InvalidDocument
from sliceworks.serving.checks import checked

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "apiVersion: sliceworks.dev/v1alpha1\nkind: ModelService\nmetadata: {{name: {name}}}\nspec:\n"
VLLM = "  engine: vllm\n  vllm: {{model: {{name: a, source: {source}}}}}\n  accelerator: {{type: {on}}}\n"
SAX = (
    "  engine: saxml\n  accelerator: {{type: {on}}}\n  saxml:\n    adminBucket: sax-admin\n    models:\n"
    "      - name: a\n        class: {kind}\n        checkpoint: {checkpoint}\n"
)
TRITON = "  engine: triton\n  triton: {repository: gs://models/all, models: [{name: a}]}\n"
JETSTREAM = (
    "  engine: jetstream\n  accelerator: {{type: v5litepod-8}}\n  jetstream:\n{more}"
    "    model: {{name: gemma, tokenizer: t, checkpoint: gs://weights/gemma}}\n"
)


def vllm(on: str, source: str = "a/b", more: str = "") -> str:
    return VLLM.format(on=on, source=source) + more


def sax(on: str, kind: str = "Mine", checkpoint: str = "gs://models/a") -> str:
    return SAX.format(on=on, kind=kind, checkpoint=checkpoint)


def refused(tmp_path: Path, text: str, name: str = "served") -> str:
    file = tmp_path / "model.yaml"
    file.write_text(HEAD.format(name=name) + text)
    with pytest.raises(InvalidDocument) as caught:
        checked(yamls.load_one(file, "ModelService"))
    return f"{caught.value.message}; {caught.value.hint}".replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "  engine: tgi\n  accelerator: {type: l4-1}\n",
            ("model.yaml:5", "spec.engine", "'saxml', 'triton', 'jetstream' or 'vllm'"),
        ),
        ("  engine: vllm\n  accelerator: {type: l4-1}\n", ("engine vllm needs vllm:",)),
        (
            TRITON + "  autoscaling: {max: 2}\n  monitoring: null\n",
            ("model.yaml:8", "nobody would read what it scales by", "source: prometheus"),
        ),
        (TRITON + "  vllm: {model: {name: a, source: b}}\n", ("engine triton does not take vllm",)),
        ("  engine: vllm\n  vllm: {model: {name: a, source: b}}\n", ("engine vllm needs an accelerator",)),
        (vllm("l4-3"), ("model.yaml:7", "no accelerator is called 'l4-3'", "l4-2")),
        (vllm("v5litepod-16"), ("model.yaml:7", "vllm serves from one host, v5litepod-16 4x4 has 4", "v5litepod-8")),
        (
            TRITON + "  accelerator: {type: v6e-4}\n",
            ("triton runs on GPUs, v6e-4 has TPUs", "engines on TPUs: saxml, jetstream, vllm"),
        ),
        (sax("l4-1"), ("model.yaml:6", "saxml runs on TPUs, l4-1 has GPUs")),
        (sax("v4-384"), ("model.yaml:6", "Sax does not know slices of 4x4x12")),
        (sax("v6e-4"), ("Sax has no name for the chips of v6e-4", "it knows v4, v5e")),
        (
            sax("v5litepod-8", "LLaMA70BFP16TPUv5e"),
            ("model.yaml:11", "class LLaMA70BFP16TPUv5e is laid out for 16 chips, v5litepod-8 has 8", "take v5litepod-16"),
        ),
        (
            sax("v5litepod-16", "LLaMA70BFP16TPUv5e16"),
            ("model.yaml:11", "Sax 1.1 has no class LLaMA70BFP16TPUv5e16", "take LLaMA70BFP16TPUv5e, or servers of a later one"),
        ),
        (sax("v5litepod-8", "LLaMA70BInt8TPUv5e8"), ("Sax 1.1 has no class LLaMA70BInt8TPUv5e8", "with spec.image")),
        (
            sax("v5litepod-1", "LLaMA13B") + "        convert: {source: gs://models/meta, image: 'c:1', memory: 160G}\n",
            ("model.yaml:13", "LLaMA13B loads weights in eight bits, and the converter writes sixteen", "convert.quantize"),
        ),
        (
            sax("v5litepod-16", "LLaMA70BFP16TPUv5e") + "        convert: {source: gs://models/meta, image: 'c:1', memory: 220G}\n",
            ("model.yaml:13", "converting a takes about 552 GB of memory, it may have 220G"),
        ),
        (
            sax("v5litepod-4", checkpoint="None") + "        convert: {source: gs://models/meta, image: 'c:1'}\n",
            ("a converted checkpoint needs a folder of a bucket",),
        ),
        (
            vllm("l4-1", "meta-llama/Llama-3.1-70B-Instruct"),
            ("model.yaml:6", "the weights of a take about 130 GiB, l4-1 has 24 GiB", "quantized"),
        ),
        (vllm("v6e-1", "a/Mixtral-8x7B"), ("take about 104 GiB, v6e-1 has 32 GiB",)),
        (vllm("l4-1", "x/y", "  args: [1]\n"), ("model.yaml:8", "spec.args[0]")),
        (JETSTREAM.format(more="    loader: {model: g}\n"), ("model.yaml:8", "the loader needs a bucket", "jetstream.bucket")),
        (
            JETSTREAM.format(more="    loader: {model: g}\n    bucket: others\n"),
            ("model.yaml:10", "the loader fills gs://others, the checkpoint is read from gs://weights/gemma"),
        ),
        (sax("v5litepod-4", checkpoint="models/a"), ("model.yaml:12", "must be a folder of a bucket such as gs://models/llama")),
        (TRITON + "  image: tritonserver\n", ("model.yaml:7", "spec.image", "an image with a tag or a digest")),
        (TRITON + "  autoscaling: {min: 3, max: 2}\n", ("model.yaml:7", "min 3 is more than max 2")),
        (sax("v5litepod-4") + "  autoscaling: {max: 2}\n", ("model.yaml:13", "Sax has no gauge to scale by")),
        (TRITON + "  gatway: {image: 'g:1'}\n", ("model.yaml:7", "unknown field spec.gatway; did you mean gateway?")),
        (TRITON + "  route: {via: istio, hosts: [a], exposure: public}\n", ("whoever finds the address could call it", "keys")),
        (TRITON + "  route: {via: istio, hosts: [a]}\n", ("Istio's usual gateway may be open to the world", "route.selector")),
        (
            TRITON + "  route: {via: gateway-api, hosts: [a], class: gke-l7-regional-external-managed}\n",
            ("class gke-l7-regional-external-managed is open to the world", "exposure: public"),
        ),
        (
            TRITON + "  gateway: {image: 'g:1', keys: [{name: me, secret: {secret: s}}]}\n"
            "  route: {via: gateway-api, hosts: [a], exposure: public}\n",
            ("model.yaml:8", "keys would travel in the clear", "route.tls"),
        ),
        (vllm("l4-1", more="  route: {via: istio, hosts: [a]}\n"), ("vllm has no keys of its own", "needs a gateway")),
        (vllm("l4-1", more="  accelerator: {type: l4-1}\n"), ("model.yaml:8",)),
        (sax("v5litepod-16") + "  spare: true\n", ("model.yaml:13", "a slice of 4 hosts is replaced host by host")),
        (vllm("l4-2").replace("source: a/b}", "source: a/b}, tensorParallel: 4"), ("l4-2 has 2 chips, not 4",)),
        ("  engine: triton\n  triton: {repository: models, models: [{name: a}]}\n", ("model.yaml:6", "spec.triton.repository")),
        ("  engine: triton\n  triton: {repository: gs://mod/a, models: [{name: a}, {name: a}]}\n", ("a model is named twice: a",)),
        (
            "  engine: triton\n  triton: {repository: /models, models: [{name: a, source: gs://mod/a}]}\n",
            ("models are copied only into a repository in a bucket",),
        ),
    ],
)
def test_one_line_says_what_and_where(tmp_path: Path, text: str, told: tuple[str, ...]) -> None:
    line = refused(tmp_path, text)
    assert all(words in line for words in told), line


def test_names_too_long_for_what_follows_from_them_are_refused(tmp_path: Path) -> None:
    assert "take one of 40 characters at most" in refused(tmp_path, TRITON, "n" * 41)
    assert "model.yaml:3" in refused(tmp_path, TRITON, "a.b")
