"""The load tests of a rehearsal: the gateway that they call reaches nothing outside of this machine."""

from __future__ import annotations

from typing import Any

from sliceworks.base.yaml_documents import Document, load_all
from sliceworks.rehearsal.simulation.load_test import local_gateway
from sliceworks.specs import documents
from sliceworks.specs.gateway import Gateway

GATEWAY = """apiVersion: sliceworks.dev/v1alpha1
kind: Gateway
metadata: {name: front}
spec:
  listen: {host: 0.0.0.0, port: 80, tls: {certFile: a.crt, keyFile: a.key}}
  admin: {key: {env: ADMIN}}
  keys: [{name: team, sha256: "0", models: ["*"]}]
  tracing: {endpoint: "http://collector:4318/v1/traces"}
  models:
  - name: chat
    discovery: {kind: openai, labels: {app: chat}}
  - name: gemma
    maxTokens: 100
    backends: [{kind: openai, url: "http://gemma:8000"}]
"""


def test_gateway_of_a_rehearsal_contacts_only_this_machine() -> None:
    [document] = load_all(GATEWAY, "gateway.yaml")
    local: dict[str, Any] = local_gateway(document.data, 8080, 9000)
    backends = [{"kind": "echo", "url": "http://127.0.0.1:9000"}]
    assert local["spec"] == {
        "listen": {"host": "127.0.0.1", "port": 8080},
        "anonymous": True,
        "keys": [],
        "models": [{"name": "chat", "backends": backends}, {"name": "gemma", "maxTokens": 100, "backends": backends}],
    }
    assert documents.read_as(Document(local, "gateway.yaml", 1, {}), Gateway).spec.models[0].discovery is None
    assert document.data == load_all(GATEWAY, "gateway.yaml")[0].data
