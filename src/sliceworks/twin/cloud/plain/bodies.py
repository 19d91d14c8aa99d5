"""What Compute Engine makes of what it is asked for: networks, routers, policies, addresses and firewalls as it shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.plain.operations import link
from sliceworks.twin.cloud.plain.shelves import number, stamp

if TYPE_CHECKING:
    from sliceworks.twin.cloud.routes import Call

Obj = dict[str, Any]


def network(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
    path = f"projects/{call.params['project']}/global/networks/{name}"
    return {
        "kind": "compute#network",
        "id": number(path),
        "creationTimestamp": (before or {}).get("creationTimestamp") or stamp(),
        "autoCreateSubnetworks": False,
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        "mtu": 1460,
        **body,
        "routingConfig": {"routingMode": "REGIONAL", **_without(body.get("routingConfig") or {}, "deleteBgpAlwaysCompareMed")},
        "name": name,
        "selfLink": link(call, path),
        "selfLinkWithId": link(call, f"projects/{call.params['project']}/global/networks/{number(path)}"),
    }


def router(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
    path = f"projects/{call.params['project']}/regions/{call.params['region']}/routers/{name}"
    nats = [
        {"type": "PUBLIC", "endpointTypes": ["ENDPOINT_TYPE_VM"], "autoNetworkTier": "PREMIUM", **nat}
        for nat in body.get("nats") or ()
    ]
    return {
        "kind": "compute#router",
        "id": number(path),
        "creationTimestamp": (before or {}).get("creationTimestamp") or stamp(),
        **body,
        **({"nats": nats} if nats else {}),
        "name": name,
        "network": link(call, path_of(str(body["network"]))) if body.get("network") else "",
        "region": link(call, f"projects/{call.params['project']}/regions/{call.params['region']}"),
        "selfLink": link(call, path),
    }


def _without(body: Obj, field: str) -> Obj:
    """Fields that ask for something once are no part of what is there afterwards."""
    return {key: value for key, value in body.items() if key != field}


def _regional(plural: str, kind: str, added: Obj) -> Any:
    def filled(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
        path = f"projects/{call.params['project']}/regions/{call.params['region']}/{plural}/{name}"
        return {
            "kind": f"compute#{kind}",
            "id": number(path),
            "creationTimestamp": (before or {}).get("creationTimestamp") or stamp(),
            **added,
            **body,
            "name": name,
            "region": link(call, f"projects/{call.params['project']}/regions/{call.params['region']}"),
            "selfLink": link(call, path),
        }

    return filled


policy = _regional("resourcePolicies", "resourcePolicy", {"status": "READY"})
address = _regional(
    "addresses", "address", {"status": "RESERVED", "addressType": "EXTERNAL", "networkTier": "PREMIUM", "address": "203.0.113.10"}
)


def firewall(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
    path = f"projects/{call.params['project']}/global/firewalls/{name}"
    return {
        "kind": "compute#firewall",
        "id": number(path),
        "creationTimestamp": (before or {}).get("creationTimestamp") or stamp(),
        "direction": "INGRESS",
        "priority": 1000,
        "disabled": False,
        **body,
        "name": name,
        "network": link(call, path_of(str(body.get("network") or ""))),
        "selfLink": link(call, path),
    }


def path_of(address: str) -> str:
    """The part of an address from `projects/` on."""
    _, found, rest = address.partition("projects/")
    return found + rest
