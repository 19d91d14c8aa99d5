"""Compute Engine: networks, subnetworks, routers, addresses, firewalls."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudNotFound
from sliceworks.infra.provider import conversion
from sliceworks.infra.provider.conversion import FieldNames
from sliceworks.infra.provider.rest_resource import Resource, RestResource, fill_template, wait_for_operation

if TYPE_CHECKING:
    from sliceworks.infra.provider.rest_resource import ProviderConfig
    from sliceworks.infra.provider.schema import Block

Object = dict[str, Any]
_GLOBAL = "projects/{project}/global"
_REGIONAL = "projects/{project}/regions/{region}"
_PLACE = frozenset({"project", "region"})


def _regional(plural: str) -> RestResource:
    return RestResource("compute", f"{_REGIONAL}/{plural}/{{name}}", FieldNames(local=_PLACE), operations="compute")


class Subnetwork(RestResource):
    """A subnetwork. Its primary range has a method of its own, which only accepts a larger range that contains it."""

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Expand the primary range, then update the other fields."""
        old, new = prior.get("ip_cidr_range"), planned.get("ip_cidr_range")
        if old != new:
            path = "/" + fill_template(self.path, prior) + "/expandIpCidrRange"
            operation = await settings.session("compute").call("POST", path, {"ipCidrRange": new})
            await wait_for_operation(settings, "compute", "compute", prior, operation)
        return await super().update(settings, block, {**prior, "ip_cidr_range": new}, planned)


def find_shrunk_range(prior: Object, planned: Object) -> list[str]:
    """A primary range that does not contain the old one replaces the subnetwork."""
    old, new = prior.get("ip_cidr_range"), planned.get("ip_cidr_range")
    if not isinstance(old, str) or not isinstance(new, str) or old == new:
        return []
    return [] if ipaddress.IPv4Network(old).subnet_of(ipaddress.IPv4Network(new)) else ["ip_cidr_range"]


class RouterNat(Resource):
    """A NAT of a router: an entry of a list that is always written as a whole."""

    _router = _REGIONAL + "/routers/{router:last}"
    _names = FieldNames(
        renamed={"subnetwork": "subnetworks", "nat64_subnetwork": "nat64Subnetworks"},
        local=frozenset({"project", "region", "router"}),
    )

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Add the entry."""
        await self._write(settings, planned, conversion.to_api_body(block, planned, self._names))
        return await self.read(settings, block, planned)

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object:
        """Read the entry."""
        router = await settings.session("compute").call("GET", "/" + fill_template(self._router, known))
        entry = next((nat for nat in router.get("nats") or () if nat["name"] == known["name"]), None)
        if entry is None:
            raise CloudNotFound(f"NAT {known['name']} not found")
        state = conversion.to_state(block, entry, known, self._names)
        return {**state, "id": fill_template("{project}/{region}/{router:last}/{name}", known)}

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Replace the entry of this name."""
        return await self.create(settings, block, planned)

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Remove the entry."""
        await self._write(settings, prior, None)

    async def _write(self, settings: ProviderConfig, state: Object, entry: Object | None) -> None:
        path = "/" + fill_template(self._router, state)
        session = settings.session("compute")
        router = await session.call("GET", path)
        others = [nat for nat in router.get("nats") or () if nat["name"] != state["name"]]
        operation = await session.call("PATCH", path, {"nats": others if entry is None else [*others, entry]})
        await wait_for_operation(settings, "compute", "compute", state, operation)


async def zones(settings: ProviderConfig, block: Block, config: Object) -> Object:
    """The data source of a region's zones."""
    region, name = config.get("region") or settings.region, config.get("project") or settings.project
    response = await settings.session("compute").call("GET", f"/projects/{name}/zones", query={"filter": f"(region eq .*{region})"})
    return {
        "id": f"projects/{name}/regions/{region}",
        "project": name,
        "region": region,
        "status": config.get("status"),
        "names": sorted(item["name"] for item in response.get("items") or ()),
    }


RESOURCES: dict[str, Resource] = {
    "google_compute_network": RestResource(
        "compute",
        f"{_GLOBAL}/networks/{{name}}",
        FieldNames(
            renamed={"routing_mode": "routingConfig.routingMode", "gateway_ipv4": "gatewayIPv4"},
            local=frozenset({"delete_default_routes_on_create", "project"}),
        ),
        operations="compute",
    ),
    "google_compute_subnetwork": Subnetwork(
        "compute",
        f"{_REGIONAL}/subnetworks/{{name}}",
        FieldNames(renamed={"secondary_ip_range": "secondaryIpRanges"}, local=_PLACE | {"send_secondary_ip_range_if_empty"}),
        operations="compute",
    ),
    "google_compute_router": _regional("routers"),
    "google_compute_router_nat": RouterNat(),
    "google_compute_resource_policy": _regional("resourcePolicies"),
    "google_compute_address": _regional("addresses"),
    "google_compute_firewall": RestResource(
        "compute",
        f"{_GLOBAL}/firewalls/{{name}}",
        FieldNames(renamed={"allow": "allowed", "deny": "denied"}, local=frozenset({"project"})),
        operations="compute",
    ),
}
DATA_SOURCES = {"google_compute_zones": zones}
REPLACEMENTS = {"google_compute_subnetwork": find_shrunk_range}
