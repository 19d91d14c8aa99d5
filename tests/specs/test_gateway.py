"""Gateway documents are accepted or rejected as a whole; errors have a field and a reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sliceworks.base import yaml_documents
from sliceworks.specs import documents
from sliceworks.specs.gateway import Gateway

ROOT = Path(__file__).parents[2]
MODEL = {"name": "m", "backends": [{"kind": "openai", "url": "http://x:8000"}]}


def problems(**spec: Any) -> list[str]:
    head = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "Gateway", "metadata": {"name": "g"}}
    text = yaml_documents.dump({**head, "spec": {"anonymous": True, "models": [MODEL], **spec}})
    return [problem.message for problem in documents.check(yaml_documents.load_all(text, "g.yaml")[0])[1]]


def test_minimal_document() -> None:
    assert problems() == []


@pytest.mark.parametrize("file", sorted((ROOT / "examples" / "gateways").glob("*.yaml")), ids=lambda file: file.name)
def test_examples_are_valid(file: Path) -> None:
    for document in yaml_documents.load_path(file):
        assert isinstance(documents.read(document), Gateway)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"anonymous": False}, "keys: required, unless anonymous is true"),
        ({"models": []}, "spec.models: "),
        ({"models": [MODEL, MODEL]}, "duplicate model name: m"),
        ({"models": [{**MODEL, "aliases": ["m"]}]}, "duplicate model name: m"),
        ({"models": [{"name": "m"}]}, "backends or discovery is required"),
        ({"models": [{"name": "m m", "backends": MODEL["backends"]}]}, "must be a model name without spaces"),
        (
            {"models": [{"name": "m", "backends": [{"kind": "openai", "url": "x:8000"}]}]},
            "url must be an HTTP URL such as http://gemma:8000",
        ),
        *(
            ({"models": [{"name": "m", "backends": [{"kind": "openai", "url": url}]}]}, f"http://gemma:8000, got '{url}'")
            for url in ("http://x:99999", "http://x:http", "http://x:0", "http://a..b:80", f"http://{'a' * 64}.b")
        ),
        ({"models": [{"name": "m", "backends": [{"kind": "sax", "url": "http://x"}]}]}, "must be a path such as /sax/test/llama7b"),
        ({"models": [{"name": "m", "backends": [{"kind": "vllm", "url": "http://x"}]}]}, "kind"),
        (
            {"models": [{**MODEL, "discovery": {"kind": "triton", "labels": {"a": "b"}}}]},
            "all backends of a model must have the same kind, got openai and triton",
        ),
        ({"keys": [{"name": "a", "sha256": "abc"}]}, "must be the SHA-256 digest of the key"),
        ({"keys": [{"name": "a"}]}, "exactly one of sha256 and secret is required"),
        ({"keys": [{"name": "a", "secret": {"file": "/f", "env": "E"}}]}, "exactly one of file and env is required"),
        ({"limits": {"maxBodySize": "lots"}}, "limits.maxBodySize"),
        ({"timeouts": {"firstToken": "-1s"}}, "must not be negative"),
        ({"retries": {"retryRatio": 2}}, "retries.retryRatio"),
        ({"caps": {}}, "unknown field spec.caps"),
    ],
)
def test_errors_name_the_field_and_the_reason(spec: dict[str, Any], says: str) -> None:
    result = problems(**spec)
    assert result
    assert says in result[0]
    assert result[0].startswith("g.yaml:")
