"""Invalid ModelServices: the error has the line, the field and a hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.serving.validation import parse_valid

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
        parse_valid(yaml_documents.load_one(file, "ModelService"))
    return f"{caught.value.message}; {caught.value.hint}".replace(f"{tmp_path}/", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "  engine: tgi\n  accelerator: {type: l4-1}\n",
            ("model.yaml:5", "spec.engine", "'saxml', 'triton', 'jetstream' or 'vllm'"),
        ),
        ("  engine: vllm\n  accelerator: {type: l4-1}\n", ("engine vllm requires vllm",)),
        (
            TRITON + "  autoscaling: {max: 2}\n  monitoring: null\n",
            ("model.yaml:8", "autoscaling with source google requires monitoring", "source: prometheus"),
        ),
        (TRITON + "  vllm: {model: {name: a, source: b}}\n", ("vllm is not allowed with engine triton",)),
        ("  engine: vllm\n  vllm: {model: {name: a, source: b}}\n", ("engine vllm requires an accelerator",)),
        (vllm("l4-3"), ("model.yaml:7", "unknown accelerator 'l4-3'", "l4-2")),
        (vllm("v5litepod-16"), ("model.yaml:7", "engine vllm requires a single host, v5litepod-16 4x4 has 4", "v5litepod-8")),
        (
            TRITON + "  accelerator: {type: v6e-4}\n",
            ("engine triton requires GPUs, v6e-4 has TPUs", "engines for TPUs: saxml, jetstream, vllm"),
        ),
        (sax("l4-1"), ("model.yaml:6", "engine saxml requires TPUs, l4-1 has GPUs")),
        (sax("v4-384"), ("model.yaml:6", "Sax does not support the topology 4x4x12")),
        (sax("v6e-4"), ("Sax does not support the chips of v6e-4", "supported: v4, v5e")),
        (
            sax("v5litepod-8", "LLaMA70BFP16TPUv5e"),
            ("model.yaml:11", "LLaMA70BFP16TPUv5e requires 16 chips, v5litepod-8 has 8", "use v5litepod-16"),
        ),
        (
            sax("v5litepod-16", "LLaMA70BFP16TPUv5e16"),
            ("model.yaml:11", "LLaMA70BFP16TPUv5e16 does not exist in Sax 1.1", "use LLaMA70BFP16TPUv5e, or a later release"),
        ),
        (sax("v5litepod-4", "LLaMA7BFP32"), ("model.yaml:11", "LLaMA7BFP32 is not a class of Sax", "did you mean LLaMA7BFP16?")),
        (
            sax("v5litepod-4", "LLaMA7BFP16TPUv5e")
            + "        convert: {source: gs://models/meta, image: 'c:1', args: [--model-size=13b]}\n",
            ("model.yaml:13", "convert.args: --model-size=13b does not match LLaMA7BFP16TPUv5e", "use --model-size=7b"),
        ),
        (sax("v5litepod-4", "Mine"), ("model.yaml:11", "Mine is not a class of Sax", "known: LLaMA7BFP16", "spec.image")),
        (sax("v5litepod-4", "my.module.LLaMA7BFP16"), ("model.yaml:11", "my.module.LLaMA7BFP16 is not a class of Sax")),
        (sax("v5litepod-4", "saxml.server.pax.lm.params.gemma.Gemma2BFP16"), ("does not exist in Sax 1.1", "a later release")),
        (
            sax("v5litepod-1", "LLaMA7B") + "  image: r/sax-model-server:v1.2.0\n",
            ("LLaMA7B does not exist in Sax 1.2", "use LLaMA7BFP16, or an earlier release"),
        ),
        (sax("v5litepod-8", "LLaMA70BInt8TPUv5e8"), ("LLaMA70BInt8TPUv5e8 does not exist in Sax 1.1", "with spec.image")),
        (
            sax("v5litepod-1", "LLaMA13B") + "        convert: {source: gs://models/meta, image: 'c:1', memory: 160G}\n",
            ("model.yaml:13", "LLaMA13B loads 8-bit weights, and the converter writes 16-bit weights", "convert.quantize"),
        ),
        (
            sax("v5litepod-16", "LLaMA70BFP16TPUv5e") + "        convert: {source: gs://models/meta, image: 'c:1', memory: 220G}\n",
            ("model.yaml:13", "must be about 552 GB to convert a, got 220G"),
        ),
        (
            sax("v5litepod-16", "LLaMA70BFP16TPUv5e") + "        convert: {source: gs://models/meta, image: 'c:1', memory: 580G}\n",
            ("model.yaml:13", "spec.saxml.models[0].convert.disk: must be about 276 GB to convert a, got 100Gi", "larger disks"),
        ),
        (
            sax("v5litepod-4", checkpoint="None") + "        convert: {source: gs://models/meta, image: 'c:1'}\n",
            ("must be a folder in Cloud Storage to convert into, got None",),
        ),
        (
            vllm("l4-1", "meta-llama/Llama-3.1-70B-Instruct"),
            ("model.yaml:6", "the weights of a need about 130 GiB, l4-1 has 24 GiB", "quantized"),
        ),
        (vllm("v6e-1", "a/Mixtral-8x7B"), ("need about 104 GiB, v6e-1 has 32 GiB",)),
        (vllm("l4-1", "x/y", "  args: [1]\n"), ("model.yaml:8", "spec.args[0]")),
        (
            JETSTREAM.format(more="    loader: {model: g}\n"),
            ("model.yaml:8", "spec.jetstream.loader: requires a bucket", "jetstream.bucket"),
        ),
        (
            JETSTREAM.format(more="    loader: {model: g}\n    bucket: others\n"),
            ("model.yaml:10", "must be in gs://others, the loader's bucket, got gs://weights/gemma"),
        ),
        (
            sax("v5litepod-4", checkpoint="models/a"),
            ("model.yaml:12", "must be a Cloud Storage URL such as gs://models/llama, got 'models/a'"),
        ),
        (TRITON + "  image: tritonserver\n", ("model.yaml:7", "spec.image", "an image with a tag or a digest")),
        (TRITON + "  autoscaling: {min: 3, max: 2}\n", ("model.yaml:7", "min must be at most max, got 3 and 2")),
        (sax("v5litepod-4") + "  autoscaling: {max: 2}\n", ("model.yaml:13", "spec.autoscaling: not supported with engine saxml")),
        (TRITON + "  gatway: {image: 'g:1'}\n", ("model.yaml:7", "unknown field spec.gatway; did you mean gateway?")),
        (TRITON + "  route: {via: istio, hosts: [a], exposure: public}\n", ("public requires API keys", "keys")),
        (TRITON + "  route: {via: istio, hosts: [a]}\n", ("Istio's default gateway may be public", "route.selector")),
        (
            TRITON + "  route: {via: gateway-api, hosts: [a], class: gke-l7-regional-external-managed}\n",
            ("GatewayClass gke-l7-regional-external-managed is public, but exposure is internal", "exposure: public"),
        ),
        (
            TRITON + "  gateway: {image: 'g:1', keys: [{name: me, secret: {secret: s}}]}\n"
            "  route: {via: gateway-api, hosts: [a], exposure: public}\n",
            ("model.yaml:8", "public requires TLS", "route.tls"),
        ),
        (
            vllm("l4-1", more="  route: {via: istio, hosts: [a]}\n"),
            ("requires a gateway: engine vllm does not check API keys", "set spec.gateway"),
        ),
        (vllm("l4-1", more="  accelerator: {type: l4-1}\n"), ("model.yaml:8",)),
        (
            sax("v5litepod-16") + "  surge: true\n",
            ("model.yaml:13", "spec.surge: not supported for slices with several hosts, got 4 hosts"),
        ),
        (vllm("l4-2").replace("source: a/b}", "source: a/b}, tensorParallel: 4"), ("must be at most 2, the chips of l4-2, got 4",)),
        ("  engine: triton\n  triton: {repository: models, models: [{name: a}]}\n", ("model.yaml:6", "spec.triton.repository")),
        ("  engine: triton\n  triton: {repository: gs://mod/a, models: [{name: a}, {name: a}]}\n", ("duplicate model name: a",)),
        (
            "  engine: triton\n  triton: {repository: /models, models: [{name: a, source: gs://mod/a}]}\n",
            ("requires a repository in Cloud Storage to copy the model into",),
        ),
    ],
)
def test_error_has_line_and_field(tmp_path: Path, text: str, expected: tuple[str, ...]) -> None:
    line = refused(tmp_path, text)
    assert all(words in line for words in expected), line


def test_long_names_are_errors(tmp_path: Path) -> None:
    assert "must be at most 40 characters, got 41" in refused(tmp_path, TRITON, "n" * 41)
    assert "model.yaml:3" in refused(tmp_path, TRITON, "a.b")
