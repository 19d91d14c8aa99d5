"""The kinds that the controller brings along, as a cluster takes them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.embedded import Embedded, on_twin

from sliceworks.controllers.graphs import names, revisions
from sliceworks.controllers.graphs.controller import install
from sliceworks.kube.client import Client

Object = dict[str, Any]
GRAPHS = "/apis/kro.run/v1alpha1/resourcegraphdefinitions"


def graph(**schema: Any) -> Object:
    body = {"apiVersion": "v1alpha1", "kind": "Shop", **schema}
    typed = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition"}
    return {**typed, "metadata": {"name": "shop"}, "spec": {"schema": body, "resources": []}}


def test_definitions_are_served_and_default() -> None:
    async def main(twin: Embedded) -> None:
        await install(Client(twin.cluster.transport()))
        made = await twin.do("POST", GRAPHS, graph())
        assert made["spec"]["schema"]["group"] == "kro.run"
        assert made["spec"]["schema"]["scope"] == "Namespaced"
        status, refused = await twin.ask("PATCH", f"{GRAPHS}/shop", {"spec": {"schema": {"kind": "Stall"}}})
        assert status == 422
        assert "kind is immutable" in refused["message"]

    on_twin(main)


@pytest.mark.parametrize("schema", [{"kind": "shop"}, {"apiVersion": "1"}, {"scope": "Planet"}])
def test_definition_that_cannot_be(schema: Object) -> None:
    async def main(twin: Embedded) -> None:
        await install(Client(twin.cluster.transport()))
        assert (await twin.ask("POST", GRAPHS, graph(**schema)))[0] == 422

    on_twin(main)


def test_older_spellings_are_taken() -> None:
    async def main(twin: Embedded) -> None:
        await install(Client(twin.cluster.transport()))
        body = graph(apiVersion="kro.run/v1alpha1")
        external = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": None, "name": "there", "namespace": "default"}
        body["spec"]["resources"] = [{"id": "settings", "externalRef": external}]
        made = await twin.do("POST", GRAPHS, body)
        assert made["spec"]["resources"][0]["externalRef"]["name"] == "there"

    on_twin(main)


def test_revisions_do_not_change() -> None:
    async def main(twin: Embedded) -> None:
        await install(Client(twin.cluster.transport()))
        made = await twin.do("POST", GRAPHS, graph())
        path = f"/apis/{names.GRAPH_REVISION.api_version}/graphrevisions"
        await twin.do("POST", path, revisions.snapshot(made, 3, "abc"))
        status, refused = await twin.ask("PATCH", f"{path}/shop-r00003", {"spec": {"revision": 4}})
        assert status == 422
        assert "spec is immutable" in refused["message"]
        found = await twin.do("GET", f"{path}?fieldSelector=spec.snapshot.name=shop")
        assert [item["metadata"]["name"] for item in found["items"]] == ["shop-r00003"]

    on_twin(main)


def test_revision_names() -> None:
    assert revisions.revision_name("shop", 7) == "shop-r00007"
    long = revisions.revision_name("x" * 250, 123456)
    assert len(long) <= 253
    assert "-r123456-" in long
    assert revisions.revision_name("x" * 249 + ".", 123456) != long
