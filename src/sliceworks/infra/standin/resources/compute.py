"""Networks and what is in them."""

from __future__ import annotations

from sliceworks.infra.standin.kinds import Rest
from sliceworks.infra.standin.mapping import Names

_GLOBAL = "projects/{project}/global"
_REGIONAL = "projects/{project}/regions/{region}"

KINDS = {
    "google_compute_network": Rest(
        api="compute",
        collection=f"{_GLOBAL}/networks",
        path=f"{_GLOBAL}/networks/{{name}}",
        id=f"{_GLOBAL}/networks/{{name}}",
        fixed=("name", "project", "auto_create_subnetworks", "description"),
        names=Names(
            renamed={"routing_mode": "routingConfig.routingMode", "gateway_ipv4": "gatewayIPv4"},
            local=frozenset({"delete_default_routes_on_create", "project"}),
        ),
        operations="compute",
    ),
    "google_compute_subnetwork": Rest(
        api="compute",
        collection=f"{_REGIONAL}/subnetworks",
        path=f"{_REGIONAL}/subnetworks/{{name}}",
        id=f"{_REGIONAL}/subnetworks/{{name}}",
        fixed=("name", "project", "region", "network"),
        names=Names(
            renamed={"secondary_ip_range": "secondaryIpRanges"},
            local=frozenset({"project", "region", "send_secondary_ip_range_if_empty"}),
        ),
        operations="compute",
    ),
}
