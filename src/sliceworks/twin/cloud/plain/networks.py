"""Compute Engine, as far as networks go: networks, subnets, routers, policies, and which zones there are."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import itertools
import re
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.twin.cloud.container.places import project_of, region_of, zones_of
from sliceworks.twin.cloud.container.yard import places
from sliceworks.twin.cloud.errors import GoogleError, invalid
from sliceworks.twin.cloud.plain.operations import ComputeOperations, link
from sliceworks.twin.cloud.plain.service import PlainService
from sliceworks.twin.cloud.plain.shelves import Kind, Shelf, number, stamp
from sliceworks.twin.cloud.routes import Call, Route
from sliceworks.twin.cloud.state import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]{1,2}(?![-a-z0-9])")
_GLOBAL, _REGIONAL = "projects/{project}/global", "projects/{project}/regions/{region}"


class Compute:
    """Networks and what hangs on them."""

    def __init__(self, store: Store) -> None:
        self._pools = Table(store, "container/nodePools", "NodePool")
        self.operations = ComputeOperations(store, "compute")
        self.networks = Shelf(store, self._kind("networks", _GLOBAL, "Network", _network, guarded=self._network_used))
        self.subnetworks = Shelf(store, self._kind("subnetworks", _REGIONAL, "Subnetwork", self._subnetwork))
        self.routers = Shelf(store, self._kind("routers", _REGIONAL, "Router", _router))
        self.policies = Shelf(store, self._kind("resourcePolicies", _REGIONAL, "ResourcePolicy", _policy))
        self.addresses = Shelf(store, self._kind("addresses", _REGIONAL, "Address", _address))
        self.firewalls = Shelf(store, self._kind("firewalls", _GLOBAL, "Firewall", _firewall))

    def _kind(self, plural: str, parent: str, message: str, filled: Any, guarded: Any = lambda path: None) -> Kind:
        return Kind(
            "compute", plural, parent, message, f"compute.{plural}", self.operations, "items", filled=filled, guarded=guarded
        )

    def service(self) -> PlainService:
        """The API."""
        return PlainService("compute", "v1", self._routes())

    def _routes(self) -> Iterator[Route]:
        for shelf in (self.networks, self.subnetworks, self.routers, self.policies, self.addresses, self.firewalls):
            yield from shelf.routes()
        yield from self.operations.routes()
        one = f"{_REGIONAL}/subnetworks/{{subnetworks}}"
        may = "compute.subnetworks"
        yield Route(
            "POST",
            f"{one}/expandIpCidrRange",
            "subnetworks.expandIpCidrRange",
            self._expand,
            f"{may}.expandIpCidrRange",
            "SubnetworksExpandIpCidrRangeRequest",
        )
        yield Route(
            "POST",
            f"{one}/setPrivateIpGoogleAccess",
            "subnetworks.setPrivateIpGoogleAccess",
            self.subnetworks.change,
            f"{may}.setPrivateIpGoogleAccess",
            "SubnetworksSetPrivateIpGoogleAccessRequest",
        )
        groups = "projects/{project}/zones/{zone}/instanceGroupManagers"
        yield Route("GET", groups, "instanceGroupManagers.list", self._groups, "compute.instanceGroupManagers.list")
        yield Route("GET", f"{groups}/{{group}}", "instanceGroupManagers.get", self._group, "compute.instanceGroupManagers.get")
        yield Route("GET", "projects/{project}/zones", "zones.list", _zones, "compute.zones.list")
        yield Route("GET", "projects/{project}/zones/{zone}", "zones.get", _zone, "compute.zones.get")
        yield Route("GET", "projects/{project}/regions/{region}", "regions.get", _region, "compute.regions.get")

    def _groups(self, call: Call) -> Obj:
        """The groups that node pools' machines are in: how many nodes a pool has is read from these."""
        found = list(self._of_pools(call))
        return {"kind": "compute#instanceGroupManagerList", "id": "groups", **({"items": found} if found else {})}

    def _group(self, call: Call) -> Obj:
        found = next((each for each in self._of_pools(call) if each["name"] == call.params["group"]), None)
        if found is None:
            raise GoogleError("NOT_FOUND", f"The resource '{call.params['group']}' was not found")
        return found

    def _of_pools(self, call: Call) -> Iterator[Obj]:
        zone = call.params["zone"]
        for pool in self._pools.all():
            if project_of(pool.parent) != call.params["project"]:
                continue
            for url in pool.body.get("instanceGroupUrls") or ():
                if f"/zones/{zone}/" in url:
                    yield {
                        "kind": "compute#instanceGroupManager",
                        "id": number(url),
                        "name": url.rpartition("/")[2],
                        "zone": link(call, f"projects/{call.params['project']}/zones/{zone}"),
                        "selfLink": url,
                        "instanceGroup": url.replace("/instanceGroupManagers/", "/instanceGroups/"),
                        "targetSize": sum(place.zone == zone for place in places(pool)),
                        "status": {"isStable": True},
                    }

    def _subnetwork(self, call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
        path = f"projects/{call.params['project']}/regions/{call.params['region']}/subnetworks/{name}"
        network = _path(str(body.get("network") or (before or {}).get("network") or ""))
        project, _, short = network.removeprefix("projects/").partition("/global/networks/")
        if self.networks.at(f"projects/{project}/global", short) is None:
            raise GoogleError("NOT_FOUND", f"The resource '{network}' was not found")
        ranges = _ranges(body)
        for (first, one), (second, other) in itertools.combinations(ranges.items(), 2):
            if one.overlaps(other):
                raise invalid(f"Invalid value for field '{second}': '{other}'. It overlaps with {first} '{one}'.")
        self._free(network, path, ranges)
        primary = ranges["ipCidrRange"]
        made = {
            "kind": "compute#subnetwork",
            "id": number(path),
            "creationTimestamp": (before or {}).get("creationTimestamp") or stamp(),
            "purpose": "PRIVATE",
            "stackType": "IPV4_ONLY",
            "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
            "privateIpGoogleAccess": False,
            **body,
            "name": name,
            "network": link(call, network),
            "region": link(call, f"projects/{call.params['project']}/regions/{call.params['region']}"),
            "gatewayAddress": str(primary.network_address + 1),
            "selfLink": link(call, path),
        }
        return {**made, "fingerprint": _fingerprint(made)}

    def _free(self, network: str, path: str, ranges: dict[str, ipaddress.IPv4Network]) -> None:
        """Subnets of one network share no address."""
        for document in self.subnetworks.everything():
            if _path(document.body["network"]) != network or _path(document.body["selfLink"]) == path:
                continue
            for other in _ranges(document.body).values():
                for field, given in ranges.items():
                    if given.overlaps(other):
                        raise invalid(
                            f"Invalid IPCidrRange: {given} conflicts with existing subnetwork '{document.name}' ({field})."
                        )

    def _network_used(self, path: str) -> GoogleError | None:
        for shelf in (self.subnetworks, self.routers, self.firewalls):
            for document in shelf.everything():
                if _path(document.body.get("network", "")) == path:
                    user = _path(document.body["selfLink"])
                    said = f"The network resource '{path}' is already being used by '{user}'"
                    return GoogleError("INVALID_ARGUMENT", said, reason="resourceInUseByAnotherResource")
        return None

    def _expand(self, call: Call) -> Obj:
        document = self.subnetworks.found(call)
        wanted = _parsed("ipCidrRange", call.body.get("ipCidrRange"))
        present = _parsed("ipCidrRange", document.body["ipCidrRange"])
        if not present.subnet_of(wanted) or present == wanted:
            raise invalid(f"Invalid value for field 'ipCidrRange': '{wanted}'. It must contain {present} and be larger.")
        document.body = self._subnetwork(call, document.name, {**document.body, "ipCidrRange": str(wanted)}, document.body)
        self.subnetworks.put(document)
        return self.operations.answer(call, self.subnetworks.path(call), document.body, "expandIpCidrRange")


def _network(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
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


def _router(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
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
        "network": link(call, _path(str(body["network"]))) if body.get("network") else "",
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


_policy = _regional("resourcePolicies", "resourcePolicy", {"status": "READY"})
_address = _regional(
    "addresses", "address", {"status": "RESERVED", "addressType": "EXTERNAL", "networkTier": "PREMIUM", "address": "203.0.113.10"}
)


def _firewall(call: Call, name: str, body: Obj, before: Obj | None) -> Obj:
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
        "network": link(call, _path(str(body.get("network") or ""))),
        "selfLink": link(call, path),
    }


def _ranges(body: Obj) -> dict[str, ipaddress.IPv4Network]:
    found = {"ipCidrRange": _parsed("ipCidrRange", body.get("ipCidrRange"))}
    for index, secondary in enumerate(body.get("secondaryIpRanges") or ()):
        field = f"secondaryIpRanges[{index}].ipCidrRange"
        found[field] = _parsed(field, secondary.get("ipCidrRange"))
    return found


def _parsed(field: str, text: Any) -> ipaddress.IPv4Network:
    try:
        return ipaddress.IPv4Network(str(text))
    except ValueError as error:
        raise invalid(f"Invalid value for field '{field}': '{text}'. Must be a CIDR address range.") from error


def _path(address: str) -> str:
    """The part of an address from `projects/` on."""
    _, found, rest = address.partition("projects/")
    return found + rest


def _fingerprint(body: Obj) -> str:
    return base64.b64encode(hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()[:8]).decode()


def _zones(call: Call) -> Obj:
    wanted = _REGION.findall(call.query.get("filter", ""))
    names = [zone for region in dict.fromkeys(wanted) for zone in zones_of(region)]
    return {"kind": "compute#zoneList", "id": "zones", "items": [_zone_body(call, zone) for zone in names]}


def _zone(call: Call) -> Obj:
    if call.params["zone"] not in zones_of(region_of(call.params["zone"])):
        raise GoogleError(
            "NOT_FOUND", f"The resource 'projects/{call.params['project']}/zones/{call.params['zone']}' was not found"
        )
    return _zone_body(call, call.params["zone"])


def _zone_body(call: Call, zone: str) -> Obj:
    at = f"projects/{call.params['project']}"
    region = link(call, f"{at}/regions/{region_of(zone)}")
    return {"kind": "compute#zone", "name": zone, "status": "UP", "region": region, "selfLink": link(call, f"{at}/zones/{zone}")}


def _region(call: Call) -> Obj:
    at, region = f"projects/{call.params['project']}", call.params["region"]
    mine = [link(call, f"{at}/zones/{zone}") for zone in zones_of(region)]
    return {
        "kind": "compute#region",
        "name": region,
        "status": "UP",
        "zones": mine,
        "selfLink": link(call, f"{at}/regions/{region}"),
    }
