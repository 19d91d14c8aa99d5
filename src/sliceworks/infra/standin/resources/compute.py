"""Networks and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudNotFound
from sliceworks.infra.standin import mapping
from sliceworks.infra.standin.kinds import Kind, Rest, fill, finished
from sliceworks.infra.standin.mapping import Names

if TYPE_CHECKING:
    from sliceworks.infra.standin.schemas import Block
    from sliceworks.infra.standin.settings import Settings

Object = dict[str, Any]
_GLOBAL = "projects/{project}/global"
_REGIONAL = "projects/{project}/regions/{region}"
_PLACE = frozenset({"project", "region"})


def _regional(plural: str, fixed: tuple[str, ...] = (), names: Names | None = None) -> Rest:
    return Rest(
        api="compute",
        collection=f"{_REGIONAL}/{plural}",
        path=f"{_REGIONAL}/{plural}/{{name}}",
        id=f"{_REGIONAL}/{plural}/{{name}}",
        fixed=("name", "project", "region", *fixed),
        names=names or Names(local=_PLACE),
        operations="compute",
    )


class RouterNat:
    """A NAT of a router: an entry of its list, which is written as a whole."""

    fixed = ("name", "project", "region", "router")
    filled_in: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    _router = _REGIONAL + "/routers/{router:last}"
    _names = Names(
        renamed={"subnetwork": "subnetworks", "nat64_subnetwork": "nat64Subnetworks"},
        local=frozenset({"project", "region", "router"}),
    )

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """A new entry."""
        await self._write(settings, planned, mapping.body(block, planned, self._names))
        return await self._there(settings, block, planned)

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """The entry, if the router has it."""
        try:
            router = await settings.session("compute").call("GET", "/" + fill(self._router, known))
        except CloudNotFound:
            return None
        found = next((each for each in router.get("nats") or () if each["name"] == known["name"]), None)
        if found is None:
            return None
        state = mapping.state(block, found, known, self._names)
        return {**state, "id": fill("{project}/{region}/{router:last}/{name}", known)}

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """Another entry of the same name."""
        await self._write(settings, planned, mapping.body(block, planned, self._names))
        return await self._there(settings, block, planned)

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Take the entry out."""
        try:
            await self._write(settings, prior, None)
        except CloudNotFound:
            return

    async def _there(self, settings: Settings, block: Block, planned: Object) -> Object:
        found = await self.read(settings, block, planned)
        if found is None:
            raise CloudNotFound(f"the NAT {planned['name']} is not there")
        return found

    async def _write(self, settings: Settings, state: Object, entry: Object | None) -> None:
        path = "/" + fill(self._router, state)
        session = settings.session("compute")
        router = await session.call("GET", path)
        others = [each for each in router.get("nats") or () if each["name"] != state["name"]]
        operation = await session.call("PATCH", path, {"nats": others if entry is None else [*others, entry]})
        await finished(settings, "compute", "compute", state, operation)


async def zones(settings: Settings, block: Block, config: Object) -> Object:
    """The data source of a region's zones."""
    region, name = config.get("region") or settings.region, config.get("project") or settings.project
    found = await settings.session("compute").call("GET", f"/projects/{name}/zones", query={"filter": f"(region eq .*{region})"})
    return {
        "id": f"projects/{name}/regions/{region}",
        "project": name,
        "region": region,
        "status": config.get("status"),
        "names": sorted(each["name"] for each in found.get("items") or ()),
    }


KINDS: dict[str, Kind] = {
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
    "google_compute_subnetwork": _regional(
        "subnetworks",
        ("network",),
        Names(renamed={"secondary_ip_range": "secondaryIpRanges"}, local=_PLACE | {"send_secondary_ip_range_if_empty"}),
    ),
    "google_compute_router": _regional("routers", ("network",)),
    "google_compute_router_nat": RouterNat(),
    "google_compute_resource_policy": _regional("resourcePolicies", ("workload_policy", "group_placement_policy", "description")),
    "google_compute_address": _regional("addresses", ("address", "address_type", "network_tier")),
    "google_compute_firewall": Rest(
        api="compute",
        collection=f"{_GLOBAL}/firewalls",
        path=f"{_GLOBAL}/firewalls/{{name}}",
        id=f"{_GLOBAL}/firewalls/{{name}}",
        fixed=("name", "project", "network", "direction"),
        names=Names(renamed={"allow": "allowed", "deny": "denied"}, local=frozenset({"project"})),
        operations="compute",
    ),
}
DATA_SOURCES = {"google_compute_zones": zones}
