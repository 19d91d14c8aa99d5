"""Where the target of a load test is found: in the records, Services, pods and Secrets of a cluster."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.load_tests import spec
from tests.support.model_services import FOLDER, read

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument, SliceworksError, UsageError
from sliceworks.cli import load_targets
from sliceworks.kube.client import Client
from sliceworks.kube.well_known import NAMESPACE, POD
from sliceworks.serving import record as records
from sliceworks.twin.cluster import Cluster

if TYPE_CHECKING:
    from sliceworks.specs.load_test import LoadTestSpec

Object = dict[str, Any]
FRONT = (
    "gateway: {image: 'gateway:1', keys: [{name: a, secret: {secret: keys}, models: [other]}, {name: b, secret: {secret: keys}}]}"
)
ROUTE = "route: {via: gateway-api, hosts: [models.example.com], tls: cert}"
JETSTREAM = (
    "jetstream: {model: {name: tiny, maxtextName: gemma-2b, tokenizer: assets/t, checkpoint: gs://models/gemma}}, "
    "accelerator: {type: v5litepod-4}"
)
VLLM = "vllm: {model: {name: tiny, source: a/tiny}}, accelerator: {type: l4-1}"


def service(engine: str, text: str) -> Object:
    head = "apiVersion: sliceworks.dev/v1alpha1\nkind: ModelService\nmetadata: {name: chat, namespace: models}\n"
    made = read(f"{head}spec: {{engine: {engine}, {text}}}")
    return records.write(made, made.model_dump(by_alias=True, mode="json", exclude_unset=True), [])


def asked(**fields: Any) -> LoadTestSpec:
    """A test that leaves API and model to the service."""
    given = spec(**{"target": {"modelService": {"name": "chat", "namespace": "models"}}, **fields}).model_dump(
        by_alias=True, exclude_unset=True
    )
    if "model" not in fields:
        del given["model"]
    return type(spec()).model_validate(given)


async def build(client: Client, record: Object, address: str, name: str) -> None:
    """The record, and one server that is ready behind the Service that is asked."""
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "models"}}, resource=NAMESPACE)
    await client.create(record)
    front: Object = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "models"}}
    await client.create({**front, "spec": {"selector": {"app": "chat"}, "ports": [{"port": 8080}]}})
    pod: Object = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "models", "labels": {"app": "chat"}}}
    await client.create({**pod, "spec": {"containers": [{"name": "c", "image": "i:1"}]}})
    ready = {"podIP": address, "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    await client.patch(POD, "p", {"status": ready}, "models", subresource="status")
    secret: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "models"}}
    await client.create({**secret, "data": {"token": base64.b64encode(b"mine\n").decode()}})


def found(record: Object, test: LoadTestSpec, *, address: str = "10.0.0.7", name: str = "gateway", inside: bool = True) -> Any:
    async def main() -> load_targets.Found:
        async with Cluster(workloads=False) as twin:
            client = Client(twin.transport())
            await build(client, record, address, name)
            return await load_targets.find(client, test, Path(), "", inside=inside)

    return clock.run(main(), virtual=True)


def test_pods_ask_the_gateway_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(load_targets.KEY, raising=False)
    at = found(service("vllm", f"{VLLM}, {FRONT}"), asked())
    assert (at.url, at.namespace, at.key) == ("http://gateway.models.svc:8080", "models", "mine")
    assert (at.spec.api, at.spec.model) == ("openai-chat", "tiny")


def test_what_is_a_process_of_this_machine_is_asked_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(load_targets.KEY, "another")
    at = found(service("vllm", f"{VLLM}, {FRONT}"), asked(), address="127.5.0.1", inside=False)
    assert (at.url, at.key) == ("http://127.5.0.1:8080", "another")


def test_others_ask_by_the_route() -> None:
    at = found(service("vllm", f"{VLLM}, {FRONT}, {ROUTE}"), asked(), inside=False)
    assert at.url == "https://models.example.com"


def test_without_a_route_the_way_in_is_told() -> None:
    with pytest.raises(SliceworksError, match="chat has no address outside its cluster") as caught:
        found(service("vllm", f"{VLLM}, {FRONT}"), asked(), inside=False)
    assert "--on cluster" in caught.value.hint
    assert "kubectl port-forward -n models service/gateway 8080:8080" in caught.value.hint


@pytest.mark.parametrize(
    ("engine", "text", "fields", "api"),
    [
        ("vllm", VLLM, {}, "openai-chat"),
        (
            "jetstream",
            JETSTREAM,
            {},
            "jetstream",
        ),
        ("triton", "triton: {repository: /models, models: [{name: tiny}]}", {}, "oip-generate"),
        ("triton", "triton: {repository: /models, models: [{name: tiny}]}", {"infer": {"inputs": []}}, "oip-infer"),
        ("vllm", VLLM, {"api": "openai-completions"}, "openai-completions"),
    ],
)
def test_an_engine_without_a_gateway_is_asked_in_its_own_way(engine: str, text: str, fields: Object, api: str) -> None:
    at = found(service(engine, text), asked(**fields), name="chat")
    assert (at.spec.api, at.spec.model, at.key) == (api, "tiny", "")


def test_which_of_several_models_must_be_said() -> None:
    record = service("triton", "triton: {repository: /models, models: [{name: one}, {name: two}]}")
    with pytest.raises(InvalidDocument, match="chat serves one, two"):
        found(record, asked(), name="chat")
    assert found(record, asked(model="two"), name="chat").spec.model == "two"
    with pytest.raises(UsageError, match="chat does not serve 'tow'"):
        found(record, asked(model="tow"), name="chat")


@pytest.mark.parametrize(
    ("front", "problem"),
    [
        ("keys: [{name: a, secret: {secret: none}}]", "the key in secret/none of models cannot be read"),
        ("keys: [{name: a, secret: {secret: keys, key: other}}]", "cannot be read: it has no 'other'"),
        (f"keys: [{{name: a, sha256: {'a' * 64}}}]", "the gateway gateway asks for a key"),
    ],
)
def test_a_key_that_cannot_be_found_is_told(monkeypatch: pytest.MonkeyPatch, front: str, problem: str) -> None:
    monkeypatch.delenv(load_targets.KEY, raising=False)
    with pytest.raises(SliceworksError, match=problem) as caught:
        found(service("vllm", f"{VLLM}, gateway: {{image: 'gateway:1', {front}}}"), asked())
    assert load_targets.KEY in caught.value.hint


def test_a_document_says_api_and_model_where_the_address_is_given() -> None:
    densenet = asked(target={"modelService": {"file": "densenet-triton.yaml"}}, infer={"inputs": []})
    decided = load_targets.from_file(densenet, FOLDER)
    assert (decided.api, decided.model) == ("oip-infer", "densenet_onnx")
    with pytest.raises(InvalidDocument, match="model is required"):
        load_targets.from_file(asked(), FOLDER)
