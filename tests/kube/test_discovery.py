"""Discovery: aggregated and legacy endpoints, and refresh when a resource is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.scripted_transport import Answer, Scripted, answer

from sliceworks.base import clock
from sliceworks.base.errors import NotAcceptable, NotFound, ServiceUnavailable
from sliceworks.kube.client import Client
from sliceworks.kube.resources import GVK

if TYPE_CHECKING:
    from sliceworks.base.transport import Request, Response


def entry(resource: str, kind: str, *, scope: str = "Namespaced", **more: Any) -> dict[str, Any]:
    return {"resource": resource, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": scope, **more}


CORE = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {
            "metadata": {},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        entry("events", "Event", shortNames=["ev"], singularResource="event", verbs=["list"]),
                        entry("nodes", "Node", scope="Cluster", subresources=[{"subresource": "status"}], singularResource="node"),
                    ],
                }
            ],
        }
    ],
}
GROUPS = {
    "kind": "APIGroupDiscoveryList",
    "items": [
        {"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "resources": [entry("events", "Event")]}]},
        {
            "metadata": {"name": "example.com"},
            "versions": [
                {"version": "v2", "resources": [entry("things", "Thing", categories=["all"])]},
                {"version": "v1", "resources": [entry("things", "Thing"), {"resource": "half", "scope": "Cluster"}]},
            ],
        },
    ],
}
OLD: dict[str, dict[str, Any]] = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {
        "kind": "APIGroupList",
        "groups": [
            {
                "name": "example.com",
                "versions": [{"version": "v1"}, {"version": "v2"}],
                "preferredVersion": {"version": "v2"},
            },
            {"name": "away.example.com", "versions": [{"version": "v1"}]},
        ],
    },
    "/api/v1": {
        "groupVersion": "v1",
        "resources": [
            {"name": "nodes", "singularName": "node", "namespaced": False, "kind": "Node", "verbs": ["get"], "shortNames": ["no"]},
            {"name": "nodes/status", "singularName": "", "namespaced": False, "kind": "Node", "verbs": ["get"]},
        ],
    },
    "/apis/example.com/v1": {
        "groupVersion": "example.com/v1",
        "resources": [{"name": "things", "namespaced": True, "kind": "Thing"}],
    },
    "/apis/example.com/v2": {
        "groupVersion": "example.com/v2",
        "resources": [{"name": "things", "namespaced": True, "kind": "Thing"}],
    },
}


def aggregated(request: Request) -> Response:
    assert "APIGroupDiscoveryList" in request.headers["accept"]
    return answer(CORE if request.path == "/api" else GROUPS)


def legacy(request: Request) -> Answer:
    if request.path == "/apis/away.example.com/v1":
        return ServiceUnavailable("away")
    return answer(OLD[request.path])


def not_acceptable(request: Request) -> Answer:
    return NotAcceptable("no") if "apidiscovery" in request.headers["accept"] else legacy(request)


def test_aggregated_discovery_takes_two_requests() -> None:
    async def main() -> None:
        transport = Scripted(handler=aggregated)
        discovery = Client(transport).discovery
        node = await discovery.by_gvk(GVK("", "v1", "Node"))
        assert (node.plural, node.namespaced, node.subresources) == ("nodes", False, ("status",))
        assert len(await discovery.resources()) == 5
        assert [group.versions for group in await discovery.groups()] == [("v1",), ("v1",), ("v2", "v1")]
        assert len(transport.requests) == 2

    clock.run(main(), virtual=True)


@pytest.mark.parametrize("handler", [legacy, not_acceptable])
def test_legacy_endpoints_give_the_same_resources(handler: Any) -> None:
    async def main() -> None:
        discovery = Client(Scripted(handler=handler)).discovery
        node = await discovery.find("no")
        assert (node.plural, node.namespaced, node.subresources) == ("nodes", False, ("status",))
        assert (await discovery.find("things")).version == "v2"
        assert (await discovery.by_gvk(GVK("example.com", "v1", "Thing"))).version == "v1"
        assert "away.example.com" in [group.name for group in await discovery.groups()]

    clock.run(main(), virtual=True)


@pytest.mark.parametrize(
    ("name", "api_version", "plural"),
    [
        ("ev", "v1", "events"),
        ("Event", "v1", "events"),
        ("events.events.k8s.io", "events.k8s.io/v1", "events"),
        ("things", "example.com/v2", "things"),
        ("things.example.com", "example.com/v2", "things"),
        ("things.v1.example.com", "example.com/v1", "things"),
        ("thing", "example.com/v2", "things"),
    ],
)
def test_find_accepts_the_names_of_kubectl(name: str, api_version: str, plural: str) -> None:
    result = clock.run(Client(Scripted(handler=aggregated)).discovery.find(name), virtual=True)
    assert (result.api_version, result.plural) == (api_version, plural)


def test_missing_kind_refreshes_the_cache() -> None:
    async def main() -> None:
        transport = Scripted(handler=aggregated)
        discovery = Client(transport).discovery
        with pytest.raises(NotFound, match='the server doesn\'t have a resource type "gadgets"'):
            await discovery.find("gadgets")
        assert len(transport.requests) == 2
        with pytest.raises(NotFound, match=r'no matches for kind "Gadget" in version "example.com/v1"'):
            await discovery.by_gvk(GVK("example.com", "v1", "Gadget"))
        assert len(transport.requests) == 4

    clock.run(main(), virtual=True)


def test_kinds_of_objects_are_discovered() -> None:
    async def main() -> None:
        client = Client(Scripted(handler=aggregated))
        obj = await client.resource_of({"apiVersion": "example.com/v1", "kind": "Thing"})
        assert obj.path("ml") == "/apis/example.com/v1/namespaces/ml/things"

    clock.run(main(), virtual=True)
