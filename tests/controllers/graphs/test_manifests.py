"""The CRDs that the controller installs."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin

from sliceworks.controllers.graphs import revisions, well_known
from sliceworks.controllers.graphs.controller import install
from sliceworks.kube.client import Client

Object = dict[str, Any]
GRAPHS = "/apis/kro.run/v1alpha1/resourcegraphdefinitions"


def graph(**schema: Any) -> Object:
    body = {"apiVersion": "v1alpha1", "kind": "Shop", **schema}
    typed = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition"}
    return {**typed, "metadata": {"name": "shop"}, "spec": {"schema": body, "resources": []}}


def test_crds_serve_defaults() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await install(Client(twin.cluster.transport()))
        created = await twin.do("POST", GRAPHS, graph())
        assert created["spec"]["schema"]["group"] == "kro.run"
        assert created["spec"]["schema"]["scope"] == "Namespaced"
        status, refused = await twin.ask("PATCH", f"{GRAPHS}/shop", {"spec": {"schema": {"kind": "Stall"}}})
        assert status == 422
        assert "kind is immutable" in refused["message"]

    run_on_twin(main)


@pytest.mark.parametrize("schema", [{"kind": "shop"}, {"apiVersion": "1"}, {"scope": "Planet"}])
def test_crd_rejects_invalid_schema(schema: Object) -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await install(Client(twin.cluster.transport()))
        assert (await twin.ask("POST", GRAPHS, graph(**schema)))[0] == 422

    run_on_twin(main)


def test_deprecated_forms_are_accepted() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await install(Client(twin.cluster.transport()))
        body = graph(apiVersion="kro.run/v1alpha1")
        external = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": None, "name": "there", "namespace": "default"}
        body["spec"]["resources"] = [{"id": "settings", "externalRef": external}]
        created = await twin.do("POST", GRAPHS, body)
        assert created["spec"]["resources"][0]["externalRef"]["name"] == "there"

    run_on_twin(main)


def test_revisions_are_immutable() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await install(Client(twin.cluster.transport()))
        created = await twin.do("POST", GRAPHS, graph())
        path = f"/apis/{well_known.GRAPH_REVISION.api_version}/graphrevisions"
        await twin.do("POST", path, revisions.build_revision(created, 3, "abc"))
        status, refused = await twin.ask("PATCH", f"{path}/shop-r00003", {"spec": {"revision": 4}})
        assert status == 422
        assert "spec is immutable" in refused["message"]
        result = await twin.do("GET", f"{path}?fieldSelector=spec.snapshot.name=shop")
        assert [item["metadata"]["name"] for item in result["items"]] == ["shop-r00003"]

    run_on_twin(main)


def test_revision_names() -> None:
    assert revisions.revision_name("shop", 7) == "shop-r00007"
    long = revisions.revision_name("x" * 250, 123456)
    assert len(long) <= 253
    assert "-r123456-" in long
    assert revisions.revision_name("x" * 249 + ".", 123456) != long
