"""The kinds that a live cluster has."""

from __future__ import annotations

from tests.support.embedded import Embedded, on_twin

from sliceworks.controllers.graphs.served_kinds import ServedKinds, described
from sliceworks.kube.client import Client
from sliceworks.kube.resources import Resource
from sliceworks.kube.well_known import DEPLOYMENT


def test_kind_is_what_its_server_says() -> None:
    async def main(twin: Embedded) -> None:
        client = Client(twin.cluster.transport())
        found = await described(client, DEPLOYMENT)
        assert found is not None
        assert (found.api_version, found.kind, found.plural, found.namespaced) == ("apps/v1", "Deployment", "deployments", True)
        spec = found.schema.properties["spec"]
        assert spec.properties["replicas"].type == "integer"
        assert spec.properties["template"].properties["spec"].properties["containers"].type == "array"
        kinds = ServedKinds()
        kinds.add(found)
        assert kinds.find("apps/v1", "Deployment") is found
        assert kinds.find("apps/v1", "Nothing") is None
        assert list(kinds.names()) == [("apps/v1", "Deployment")]

    on_twin(main)


def test_kind_that_its_server_does_not_describe() -> None:
    async def main(twin: Embedded) -> None:
        nothing = Resource("apps", "v1", "Nothing", "nothings")
        assert await described(Client(twin.cluster.transport()), nothing) is None

    on_twin(main)
