"""Edits of a recorded document: an unpublished model is published again with its previous settings."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.model_services import example

from sliceworks.base.errors import UsageError
from sliceworks.serving import publication
from sliceworks.serving.record import Record

Object = dict[str, Any]


def record(document: Object | None = None, name: str = "qwen-vllm-gpu") -> Record:
    service = example(name)
    given = service.model_dump(by_alias=True, exclude_unset=True, mode="json")
    return Record(service, document or given, frozenset(), "uid", "2026-11-15T10:00:00Z")


@pytest.mark.parametrize("annotations", [None, {"note": "mine"}])
def test_replicas_are_restored(annotations: dict[str, str] | None) -> None:
    before = record().document
    if annotations:
        before["metadata"]["annotations"] = annotations
    stopped = publication.remove_model(record(before), "qwen2.5-7b")
    assert stopped["spec"]["replicas"] == 0
    again = publication.remove_model(record(stopped), "qwen2.5-7b")
    model = before["spec"]["vllm"]["model"]
    assert publication.add_model(record(again), model) == before
    assert publication.update_model(record(again), "qwen2.5-7b", {}) == before


@pytest.mark.parametrize("kept", [None, "many"])
def test_unknown_replicas_use_the_default(kept: str | None) -> None:
    document = record().document
    document["spec"]["replicas"] = 0
    if kept:
        document["metadata"]["annotations"] = {"sliceworks.dev/replicas-before": kept}
    assert "replicas" not in publication.update_model(record(document), "qwen2.5-7b", {})["spec"]


def test_new_model_needs_its_own_weights() -> None:
    with pytest.raises(UsageError, match=r"model llama: source is required to replace qwen2\.5-7b") as caught:
        publication.add_model(record(), {"name": "llama"})
    assert caught.value.hint == "set it with --source"
    document = publication.add_model(record(), {"name": "llama", "source": "a/llama"})
    assert document["spec"]["vllm"]["model"] == {"name": "llama", "source": "a/llama"}


def test_sax_model_needs_a_class() -> None:
    with pytest.raises(UsageError, match="model tuned: class is required by engine saxml"):
        publication.add_model(record(name="llama2-7b-saxml"), {"name": "tuned", "checkpoint": "gs://my-models/tuned"})
