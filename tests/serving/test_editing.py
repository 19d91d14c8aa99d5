"""Changes of a recorded document: what a model that is taken away and published again finds as it was."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.model_services import example

from sliceworks.base.errors import UsageError
from sliceworks.serving import editing
from sliceworks.serving.record import Record

Object = dict[str, Any]


def record(document: Object | None = None, name: str = "qwen-vllm-gpu") -> Record:
    service = example(name)
    given = service.model_dump(by_alias=True, exclude_unset=True, mode="json")
    return Record(service, document or given, frozenset(), "uid", "2026-11-15T10:00:00Z")


@pytest.mark.parametrize("annotations", [None, {"note": "mine"}])
def test_servers_come_back_as_many_as_there_were(annotations: dict[str, str] | None) -> None:
    before = record().document
    if annotations:
        before["metadata"]["annotations"] = annotations
    stopped = editing.without_model(record(before), "qwen2.5-7b")
    assert stopped["spec"]["replicas"] == 0
    again = editing.without_model(record(stopped), "qwen2.5-7b")
    model = before["spec"]["vllm"]["model"]
    assert editing.with_model(record(again), model) == before
    assert editing.changed_model(record(again), "qwen2.5-7b", {}) == before


@pytest.mark.parametrize("kept", [None, "many"])
def test_how_many_is_the_default_where_nobody_knows(kept: str | None) -> None:
    document = record().document
    document["spec"]["replicas"] = 0
    if kept:
        document["metadata"]["annotations"] = {"sliceworks.dev/replicas-before": kept}
    assert "replicas" not in editing.changed_model(record(document), "qwen2.5-7b", {})["spec"]


def test_a_model_of_another_name_has_weights_of_its_own() -> None:
    with pytest.raises(UsageError, match=r"the servers have the weights of qwen2\.5-7b") as caught:
        editing.with_model(record(), {"name": "llama"})
    assert caught.value.hint == "say where they are with --source"
    document = editing.with_model(record(), {"name": "llama", "source": "a/llama"})
    assert document["spec"]["vllm"]["model"] == {"name": "llama", "source": "a/llama"}


def test_a_model_of_sax_has_a_class() -> None:
    with pytest.raises(UsageError, match="Sax wants to know what tuned is"):
        editing.with_model(record(name="llama2-7b-saxml"), {"name": "tuned", "checkpoint": "gs://my-models/tuned"})
