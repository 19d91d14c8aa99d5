"""How the target of a load test is found in the records, Services, pods and Secrets of a cluster."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.load_tests import spec
from tests.support.model_services import FOLDER, read

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument, SliceworksError, UsageError
from sliceworks.cli import load_test
from sliceworks.kube.client import Client
from sliceworks.kube.resources import NAMESPACE, POD
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
    created = read(f"{head}spec: {{engine: {engine}, {text}}}")
    return records.to_config_map(created, created.model_dump(by_alias=True, mode="json", exclude_unset=True), [])


def load_test_spec(**fields: Any) -> LoadTestSpec:
    """A test whose API and model are taken from the service."""
    given = spec(**{"target": {"modelService": {"name": "chat", "namespace": "models"}}, **fields}).model_dump(
        by_alias=True, exclude_unset=True
    )
    if "model" not in fields:
        del given["model"]
    return type(spec()).model_validate(given)


async def build(client: Client, record: Object, address: str, name: str) -> None:
    """Create the record and one ready server behind its Service."""
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


def find_endpoint(
    record: Object, test: LoadTestSpec, *, address: str = "10.0.0.7", name: str = "gateway", inside: bool = True
) -> Any:
    async def main() -> load_test.ServiceEndpoint:
        async with Cluster(workloads=False) as twin:
            client = Client(twin.transport())
            await build(client, record, address, name)
            return await load_test.find_service(client, test, Path(), "", inside=inside)

    return clock.run(main(), virtual=True)


def test_pods_use_the_gateway_service_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(load_test.KEY_VARIABLE, raising=False)
    at = find_endpoint(service("vllm", f"{VLLM}, {FRONT}"), load_test_spec())
    assert (at.url, at.namespace, at.key) == ("http://gateway.models.svc:8080", "models", "mine")
    assert (at.spec.api, at.spec.model) == ("openai-chat", "tiny")


def test_local_process_is_addressed_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(load_test.KEY_VARIABLE, "another")
    at = find_endpoint(service("vllm", f"{VLLM}, {FRONT}"), load_test_spec(), address="127.5.0.1", inside=False)
    assert (at.url, at.key) == ("http://127.5.0.1:8080", "another")


def test_external_client_uses_the_route() -> None:
    at = find_endpoint(service("vllm", f"{VLLM}, {FRONT}, {ROUTE}"), load_test_spec(), inside=False)
    assert at.url == "https://models.example.com"


def test_missing_route_is_an_error_with_a_hint() -> None:
    with pytest.raises(SliceworksError, match="chat has no address outside the cluster") as caught:
        find_endpoint(service("vllm", f"{VLLM}, {FRONT}"), load_test_spec(), inside=False)
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
def test_engine_without_gateway_uses_its_own_api(engine: str, text: str, fields: Object, api: str) -> None:
    at = find_endpoint(service(engine, text), load_test_spec(**fields), name="chat")
    assert (at.spec.api, at.spec.model, at.key) == (api, "tiny", "")


def test_ambiguous_model_is_an_error() -> None:
    record = service("triton", "triton: {repository: /models, models: [{name: one}, {name: two}]}")
    with pytest.raises(InvalidDocument, match="chat serves one, two"):
        find_endpoint(record, load_test_spec(), name="chat")
    assert find_endpoint(record, load_test_spec(model="two"), name="chat").spec.model == "two"
    with pytest.raises(UsageError, match="model service chat has no model 'tow'"):
        find_endpoint(record, load_test_spec(model="tow"), name="chat")


@pytest.mark.parametrize(
    ("front", "problem"),
    [
        ("keys: [{name: a, secret: {secret: none}}]", "reading the gateway key from secret/none in models failed"),
        ("keys: [{name: a, secret: {secret: keys, key: other}}]", "failed: no key 'other' in it"),
        (f"keys: [{{name: a, sha256: {'a' * 64}}}]", "gateway gateway requires a key"),
    ],
)
def test_missing_key_is_an_error(monkeypatch: pytest.MonkeyPatch, front: str, problem: str) -> None:
    monkeypatch.delenv(load_test.KEY_VARIABLE, raising=False)
    with pytest.raises(SliceworksError, match=problem) as caught:
        find_endpoint(service("vllm", f"{VLLM}, gateway: {{image: 'gateway:1', {front}}}"), load_test_spec())
    assert load_test.KEY_VARIABLE in caught.value.hint


def test_url_target_needs_api_and_model() -> None:
    densenet = load_test_spec(target={"modelService": {"file": "densenet-triton.yaml"}}, infer={"inputs": []})
    decided = load_test.merge_service_document(densenet, FOLDER)
    assert (decided.api, decided.model) == ("oip-infer", "densenet_onnx")
    with pytest.raises(InvalidDocument, match="model is required"):
        load_test.merge_service_document(load_test_spec(), FOLDER)
