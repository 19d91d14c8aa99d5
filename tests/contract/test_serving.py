"""Objects rendered from ModelServices: a cluster accepts each strictly, custom kinds with the CRDs of their projects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.clusters import real_enabled
from tests.support.model_services import EXAMPLES, example
from tests.support.polling import eventually

from sliceworks.kube.resources import find_builtin, gvk_of
from sliceworks.serving.compiler import manifests
from sliceworks.serving.record import reference, to_config_map

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.http import Api

Object = dict[str, Any]
STRICT = {"fieldValidation": "Strict", "dryRun": "All"}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_UNPUBLISHED = {"HealthCheckPolicy", "GCPBackendPolicy"}  # Google does not publish the CRDs of GKE


def example_objects(name: str, namespace: str) -> list[Object]:
    """The objects of an example, in the test's namespace."""
    service = example(name)
    metadata = service.metadata.model_copy(update={"namespace": namespace})
    service = service.model_copy(update={"metadata": metadata})
    created = manifests(service)
    return [
        to_config_map(service, service.model_dump(by_alias=True, mode="json", exclude_unset=True), map(reference, created)),
        *created,
    ]


@pytest.mark.parametrize("name", EXAMPLES)
def test_built_in_objects_are_accepted(api: Api, ns: str, name: str) -> None:
    taken = 0
    for obj in example_objects(name, ns):
        resource = find_builtin(gvk_of(obj))
        if resource is not None:
            response = api.apply(resource.path(ns, obj["metadata"]["name"]), obj, query=STRICT)
            assert response.status == 201, f"{obj['kind']} {obj['metadata']['name']}: {response.text}"
            assert response.warnings == []
            taken += 1
    assert taken >= 7


@pytest.fixture
def definitions(api: Api) -> Iterator[dict[str, Object]]:
    """The custom kinds by group and kind."""
    from tests.real.definitions import serving

    for item in serving():
        api.post(DEFINITIONS, item).ok(201)
    try:
        for item in serving():
            spec = item["spec"]
            for version in (version["name"] for version in spec["versions"] if version["served"]):
                kind = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
                eventually(lambda: api.get(kind).status == 200, what=f"{kind} is served")  # noqa: B023
        yield {f"{item['spec']['group']}/{item['spec']['names']['kind']}": item for item in serving()}
    finally:
        for item in serving():
            api.delete(f"{DEFINITIONS}/{item['metadata']['name']}")


@pytest.mark.real
@pytest.mark.skipif(not real_enabled(), reason="reads the definitions from Go modules: SLICEWORKS_REAL=1")
def test_custom_objects_are_accepted(api: Api, ns: str, definitions: dict[str, Object]) -> None:
    taken = set()
    for name in EXAMPLES:
        for obj in example_objects(name, ns):
            group, _, version = obj["apiVersion"].rpartition("/")
            if find_builtin(gvk_of(obj)) is not None or obj["kind"] in _UNPUBLISHED:
                continue
            plural = definitions[f"{group}/{obj['kind']}"]["spec"]["names"]["plural"]
            path = f"/apis/{group}/{version}/namespaces/{ns}/{plural}/{obj['metadata']['name']}"
            response = api.apply(path, obj, query=STRICT)
            assert response.status == 201, f"{obj['kind']} {obj['metadata']['name']}: {response.text}"
            obj["spec"]["misspelt"] = True
            refused = api.apply(path, obj, query=STRICT)
            assert refused.status in (400, 500, 422), "a definition that takes everything proves nothing"
            taken.add((group, obj["kind"]))
    assert len(taken) == len(definitions)
