"""Objects made from ModelServices: a cluster takes each of them strictly, and custom kinds by their makers' own definitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.clusters import real_wanted
from tests.support.model_services import EXAMPLES, example
from tests.support.waiting import eventually

from sliceworks.kube.resources import gvk_of
from sliceworks.kube.well_known import well_known
from sliceworks.serving.compile import manifests
from sliceworks.serving.record import reference, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.http import Api

Object = dict[str, Any]
STRICT = {"fieldValidation": "Strict", "dryRun": "All"}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_UNPUBLISHED = {"HealthCheckPolicy", "GCPBackendPolicy"}  # GKE keeps the definitions to itself


def placed(name: str, namespace: str) -> list[Object]:
    """The objects of an example, in a namespace of the case."""
    service = example(name)
    metadata = service.metadata.model_copy(update={"namespace": namespace})
    service = service.model_copy(update={"metadata": metadata})
    made = manifests(service)
    return [write(service, service.model_dump(by_alias=True, mode="json", exclude_unset=True), map(reference, made)), *made]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_built_in_object_is_taken(api: Api, ns: str, name: str) -> None:
    taken = 0
    for each in placed(name, ns):
        resource = well_known(gvk_of(each))
        if resource is not None:
            answer = api.apply(resource.path(ns, each["metadata"]["name"]), each, query=STRICT)
            assert answer.status == 201, f"{each['kind']} {each['metadata']['name']}: {answer.text}"
            assert answer.warnings == []
            taken += 1
    assert taken >= 7


@pytest.fixture
def definitions(api: Api) -> Iterator[dict[str, Object]]:
    """The custom kinds, by group and kind."""
    from tests.real.definitions import serving

    for each in serving():
        api.post(DEFINITIONS, each).ok(201)
    try:
        for each in serving():
            spec = each["spec"]
            for version in (version["name"] for version in spec["versions"] if version["served"]):
                kind = f"/apis/{spec['group']}/{version}/{spec['names']['plural']}"
                eventually(lambda: api.get(kind).status == 200, what=f"{kind} is served")  # noqa: B023
        yield {f"{each['spec']['group']}/{each['spec']['names']['kind']}": each for each in serving()}
    finally:
        for each in serving():
            api.delete(f"{DEFINITIONS}/{each['metadata']['name']}")


@pytest.mark.real
@pytest.mark.skipif(not real_wanted(), reason="reads the definitions from Go modules: SLICEWORKS_REAL=1")
def test_every_custom_object_is_taken(api: Api, ns: str, definitions: dict[str, Object]) -> None:
    taken = set()
    for name in EXAMPLES:
        for each in placed(name, ns):
            group, _, version = each["apiVersion"].rpartition("/")
            if well_known(gvk_of(each)) is not None or each["kind"] in _UNPUBLISHED:
                continue
            plural = definitions[f"{group}/{each['kind']}"]["spec"]["names"]["plural"]
            path = f"/apis/{group}/{version}/namespaces/{ns}/{plural}/{each['metadata']['name']}"
            answer = api.apply(path, each, query=STRICT)
            assert answer.status == 201, f"{each['kind']} {each['metadata']['name']}: {answer.text}"
            each["spec"]["misspelt"] = True
            refused = api.apply(path, each, query=STRICT)
            assert refused.status in (400, 500, 422), "a definition that takes everything proves nothing"
            taken.add((group, each["kind"]))
    assert len(taken) == len(definitions)
