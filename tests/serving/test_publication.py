"""Edits of a recorded document: an unpublished model is published again with its previous settings."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.model_services import example

from sliceworks.base import clock
from sliceworks.base.errors import TimedOut, Unreachable, UsageError
from sliceworks.serving import publication, service_endpoint
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


_METRICS = 'vllm:num_requests_waiting{model_name="llama2-7b"} 0\nvllm:num_requests_waiting{model_name="tuned"} 0\n'


def _gateway_pod(name: str) -> Object:
    conditions = [{"type": "Ready", "status": "True"}]
    return {"metadata": {"name": name, "labels": {}}, "status": {"podIP": "127.0.0.2", "conditions": conditions}}


async def _publish(
    monkeypatch: pytest.MonkeyPatch, responses: list[str | Exception], change: tuple[str, str]
) -> tuple[list[str], float]:
    """Publish to a service with two gateway servers that respond with these metrics, one after the other; the last one repeats."""

    async def do_nothing(*_: Any) -> None:
        """The rollout has its own tests."""

    class Rollout:
        def __init__(self, *_: Any) -> None: ...

        prepare = follow = do_nothing

        async def apply(self, *_: Any) -> Record:
            return record(name="llama2-7b-saxml")

    async def list_all(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(items=[_gateway_pod("gateway-0"), _gateway_pod("gateway-1")])

    async def read_all(*_: Any) -> bytes:
        response = responses.pop(0) if len(responses) > 1 else responses[0]
        if isinstance(response, Exception):
            raise response
        return response.encode()

    monkeypatch.setattr(publication, "Rollout", Rollout)
    monkeypatch.setattr(publication, "_unpublish", do_nothing)
    monkeypatch.setattr(service_endpoint, "read_all", read_all)
    before = record(name="llama2-7b-saxml")
    client: Any = SimpleNamespace(list_all=list_all)
    edited = (before.service, {**before.document, "changed": True})
    notes = await publication.publish(client, before, edited, change, report=lambda _: None, timeout=60)
    return notes, clock.loop_time()


def test_publishing_waits_until_every_gateway_server_has_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    responses: list[str | Exception] = [_METRICS, "", _METRICS, Unreachable("stopped"), _METRICS]
    notes, seconds = clock.run(_publish(monkeypatch, responses, ("load", "tuned")), virtual=True)
    assert (notes, seconds) == ([], 2)
    notes, seconds = clock.run(_publish(monkeypatch, [_METRICS, _METRICS, ""], ("unload", "tuned")), virtual=True)
    assert (notes, seconds) == ([], 1)
    with pytest.raises(TimedOut, match="pod/gateway-0 does not serve model tuned"):
        clock.run(_publish(monkeypatch, [""], ("load", "tuned")), virtual=True)


def test_publishing_notes_a_gateway_that_does_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    notes, seconds = clock.run(_publish(monkeypatch, [Unreachable("simulated")], ("load", "tuned")), virtual=True)
    assert (notes, seconds) == (["No gateway server responds; the gateway reloads its configuration within about a minute."], 0)
