"""Patterns of custom resources: users write them, so none may block or break the API server."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from sliceworks.base import clock
from sliceworks.base.transport import Request
from sliceworks.twin.cluster import Cluster

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def _definition(pattern: str) -> dict[str, Any]:
    spec = {"type": "object", "properties": {"name": {"type": "string", "pattern": pattern}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "tests", "singular": "test", "kind": "Test", "listKind": "TestList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "tests.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]},
    }


async def _post(cluster: Cluster, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    headers = {"authorization": f"Bearer {cluster.token}", "content-type": "application/json"}
    response = await cluster.api.handle(Request("POST", path, (), headers, orjson.dumps(body)))
    return response.status, orjson.loads(response.body)


@pytest.mark.parametrize("pattern", ["(a+)+$", "^([a-z0-9]+(-[a-z0-9]+)*)+$"])
def test_pattern_with_nested_repetition_answers_at_once(pattern: str) -> None:
    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            assert (await _post(cluster, DEFINITIONS, _definition(pattern)))[0] == 201
            await clock.sleep(1)
            value = "a" * 40 + "!"
            body = {"apiVersion": "example.com/v1", "kind": "Test", "metadata": {"name": "one"}, "spec": {"name": value}}
            started = time.process_time()
            status, answer = await _post(cluster, "/apis/example.com/v1/tests", body)
            assert time.process_time() - started < 60  # backtracking takes days
            assert (status, answer["reason"]) == (422, "Invalid")
            assert f"spec.name in body should match '{pattern}'" in answer["message"]

    clock.run(main(), virtual=True, seed=1)


def test_deeply_nested_pattern_is_invalid() -> None:
    async def main() -> None:
        async with Cluster(workloads=False) as cluster:
            status, answer = await _post(cluster, DEFINITIONS, _definition("(" * 20_000 + ")" * 20_000))
            assert (status, answer["reason"]) == (422, "Invalid")
            assert (
                "must be a valid regular expression, but isn't: error parsing regexp: expression nests too deeply"
                in answer["message"]
            )

    clock.run(main(), virtual=True, seed=1)
