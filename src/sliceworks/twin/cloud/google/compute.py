"""Compute Engine: networks, their resources, images, resource policies, regions, zones and instance groups."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks import catalog
from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.base.names import numeric_id
from sliceworks.catalog import gke_rules, lookup
from sliceworks.twin.cloud.core.collection import Collection, ResourceType
from sliceworks.twin.cloud.core.document_store import Table
from sliceworks.twin.cloud.core.exceptions import GoogleError, enforce, invalid_argument, refuse
from sliceworks.twin.cloud.core.operations import ComputeOperations, self_link
from sliceworks.twin.cloud.core.routes import Call, Route
from sliceworks.twin.cloud.core.service import RestService
from sliceworks.twin.cloud.google.container.gke_state import instances, pool_path
from sliceworks.twin.cloud.google.container.resource_names import location_of, project_of, region_of, zones_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.twin.cloud.core.document_store import Document
    from sliceworks.twin.cloud.core.service import ServiceContext
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_GLOBAL, _REGIONAL = "projects/{project}/global", "projects/{project}/regions/{region}"
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]{1,2}(?![-a-z0-9])")


def create(context: ServiceContext) -> list[RestService]:
    """Create the service."""
    return [RestService("compute", "v1", Compute(context.store, context.quotas).routes())]


def _common_fields(call: Call, path: str, kind: str, before: Obj | None) -> Obj:
    return {
        "kind": f"compute#{kind}",
        "id": numeric_id(path),
        "creationTimestamp": (before or {}).get("creationTimestamp") or clock.timestamp(),
        "name": path.rpartition("/")[2],
        "selfLink": self_link(call, path),
        **({"region": _region_link(call)} if "region" in call.params else {}),
    }


def _region_link(call: Call) -> str:
    return self_link(call, _REGIONAL.format_map(call.params))


def fill_network(call: Call, path: str, body: Obj, before: Obj | None) -> Obj:
    """A network with its output fields."""
    routing = {key: value for key, value in (body.get("routingConfig") or {}).items() if key != "deleteBgpAlwaysCompareMed"}
    return {
        "autoCreateSubnetworks": False,
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        "mtu": 1460,
        **body,
        **_common_fields(call, path, "network", before),
        "routingConfig": {"routingMode": "REGIONAL", **routing},
        "selfLinkWithId": self_link(call, f"projects/{call.params['project']}/global/networks/{numeric_id(path)}"),
    }


def fill_router(call: Call, path: str, body: Obj, before: Obj | None) -> Obj:
    """A router with its output fields."""
    nats = [
        {"type": "PUBLIC", "endpointTypes": ["ENDPOINT_TYPE_VM"], "autoNetworkTier": "PREMIUM", **nat}
        for nat in body.get("nats") or ()
    ]
    return {
        **body,
        **({"nats": nats} if nats else {}),
        **_common_fields(call, path, "router", before),
        "network": self_link(call, resource_path(str(body["network"]))) if body.get("network") else "",
    }


def _fill_regional(kind: str, defaults: Obj) -> Any:
    def fill(call: Call, path: str, body: Obj, before: Obj | None) -> Obj:
        return {**defaults, **body, **_common_fields(call, path, kind, before)}

    return fill


fill_resource_policy = _fill_regional("resourcePolicy", {"status": "READY"})
fill_address = _fill_regional(
    "address", {"status": "RESERVED", "addressType": "EXTERNAL", "networkTier": "PREMIUM", "address": "203.0.113.10"}
)
_IMAGE_SOURCES = ("sourceDisk", "sourceImage", "sourceSnapshot", "rawDisk")


def fill_image(call: Call, path: str, body: Obj, before: Obj | None) -> Obj:
    """An image with its output fields, without content; raises INVALID_ARGUMENT if it has no source."""
    if not any(body.get(source) for source in _IMAGE_SOURCES):
        sources = ", ".join(f"'resource.{source}'" for source in _IMAGE_SOURCES)
        raise invalid_argument(f"Invalid value for field 'resource': one of {sources} is required.")
    return {"status": "READY", "sourceType": "RAW", "diskSizeGb": "10", **body, **_common_fields(call, path, "image", before)}


def fill_firewall(call: Call, path: str, body: Obj, before: Obj | None) -> Obj:
    """A firewall rule with its output fields."""
    return {
        "direction": "INGRESS",
        "priority": 1000,
        "disabled": False,
        **body,
        **_common_fields(call, path, "firewall", before),
        "network": self_link(call, resource_path(str(body.get("network") or ""))),
    }


def resource_path(url: str) -> str:
    """The part of a URL from `projects/` on."""
    _, separator, rest = url.partition("projects/")
    return separator + rest


class Subnetworks:
    """The subnetworks of all networks."""

    def __init__(self, store: Store, networks: Collection, operations: ComputeOperations) -> None:
        self._networks, self._operations = networks, operations
        self._clusters = Table(store, "container/clusters", "Cluster")
        resource = ResourceType(
            "subnetworks",
            _REGIONAL,
            "Subnetwork",
            "compute.subnetworks",
            "items",
            fill=self.fill,
            check_delete=self._check_unused,
        )
        self.collection = Collection(store, "compute", resource, operations)

    def routes(self) -> Iterator[Route]:
        """The standard methods, expandIpCidrRange and setPrivateIpGoogleAccess."""
        yield from self.collection.routes()
        item, permissions = f"{_REGIONAL}/subnetworks/{{subnetworks}}", "compute.subnetworks"
        for verb, handler in (("expandIpCidrRange", self.expand), ("setPrivateIpGoogleAccess", self.collection.update)):
            request = f"Subnetworks{verb[0].upper()}{verb[1:]}Request"
            yield Route("POST", f"{item}/{verb}", f"subnetworks.{verb}", handler, f"{permissions}.{verb}", request)

    def fill(self, call: Call, path: str, body: Obj, before: Obj | None) -> Obj:
        """A subnetwork with its output fields; raises GoogleError if its network does not exist or its range is in use."""
        network = resource_path(str(body.get("network") or (before or {}).get("network") or ""))
        project, _, short = network.removeprefix("projects/").partition("/global/networks/")
        if self._networks.find(f"projects/{project}/global", short) is None:
            raise GoogleError("NOT_FOUND", f"The resource '{network}' was not found")
        ranges = ip_ranges(body)
        if before is not None and call.method != "subnetworks.expandIpCidrRange":
            self._check_change(path, before, body)
        enforce(*gke_rules.check_overlaps(ranges))
        self._check_conflicts(network, path, ranges)
        subnetwork = {
            "purpose": "PRIVATE",
            "stackType": "IPV4_ONLY",
            "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
            "privateIpGoogleAccess": False,
            **body,
            **_common_fields(call, path, "subnetwork", before),
            "network": self_link(call, network),
            "gatewayAddress": str(ranges["ipCidrRange"].network_address + 1),
        }
        return {**subnetwork, "fingerprint": fingerprint(subnetwork)}

    def _check_conflicts(self, network: str, path: str, ranges: dict[str, ipaddress.IPv4Network]) -> None:
        """Raise INVALID_ARGUMENT if another subnetwork of the network uses an address of these ranges."""
        for document in self.collection.all():
            if resource_path(document.body["network"]) != network or resource_path(document.body["selfLink"]) == path:
                continue
            for other in ip_ranges(document.body).values():
                for field, cidr in ranges.items():
                    if cidr.overlaps(other):
                        raise refuse("subnetwork-conflict", range=cidr, subnetwork=document.name, field=field)

    def _check_change(self, path: str, before: Obj, body: Obj) -> None:
        """Raise INVALID_ARGUMENT if an update changes the primary range, changes a secondary one, or removes one in use."""
        if body["ipCidrRange"] != before["ipCidrRange"]:
            raise refuse("primary-range", range=body["ipCidrRange"], current=before["ipCidrRange"])
        old, new = secondary_ranges(before), secondary_ranges(body)
        enforce(gke_rules.check_secondary_change(old, new))
        for name in old.keys() - new.keys():
            for cluster, names in self._users(path):
                if name in names:
                    raise refuse("secondary-range-in-use", range=name, subnetwork=path, user=cluster)

    def _check_unused(self, path: str) -> GoogleError | None:
        user = next((cluster for cluster, _ in self._users(path)), None)
        return refuse("subnetwork-in-use", subnetwork=path, user=user) if user else None

    def _users(self, path: str) -> Iterator[tuple[str, set[str]]]:
        """The clusters in a subnetwork, each with the names of its secondary ranges."""
        for cluster in self._clusters.all():
            if (cluster.body.get("networkConfig") or {}).get("subnetwork") == path:
                policy = cluster.body.get("ipAllocationPolicy") or {}
                names = {policy.get(field) for field in ("clusterSecondaryRangeName", "servicesSecondaryRangeName")}
                yield f"{cluster.parent}/clusters/{cluster.name}", {name for name in names if name}

    def expand(self, call: Call) -> Obj:
        """Replace the primary range by a larger one that contains it."""
        document, path = self.collection.get_document(call), self.collection.path(call)
        cidr = parse_range("ipCidrRange", call.body.get("ipCidrRange"))
        current = parse_range("ipCidrRange", document.body["ipCidrRange"])
        if not current.subnet_of(cidr) or current == cidr:
            raise refuse("primary-range", range=cidr, current=current)
        document.body = self.fill(call, path, {**document.body, "ipCidrRange": str(cidr)}, document.body)
        self.collection.put(document)
        return self._operations.respond(call, path, document.body, "expandIpCidrRange")


def ip_ranges(body: Obj) -> dict[str, ipaddress.IPv4Network]:
    """The primary and secondary ranges of a subnetwork by field path."""
    ranges = {"ipCidrRange": parse_range("ipCidrRange", body.get("ipCidrRange"))}
    for index, secondary in enumerate(body.get("secondaryIpRanges") or ()):
        field = f"secondaryIpRanges[{index}].ipCidrRange"
        ranges[field] = parse_range(field, secondary.get("ipCidrRange"))
    return ranges


def secondary_ranges(body: Obj) -> dict[str, str]:
    """The secondary ranges of a subnetwork by name."""
    return {str(item.get("rangeName")): str(item.get("ipCidrRange")) for item in body.get("secondaryIpRanges") or ()}


def parse_range(field: str, value: Any) -> ipaddress.IPv4Network:
    """Parse a CIDR range; raises INVALID_ARGUMENT."""
    try:
        return ipaddress.IPv4Network(str(value))
    except ValueError as error:
        raise invalid_argument(f"Invalid value for field '{field}': '{value}'. Must be a CIDR address range.") from error


def fingerprint(body: Obj) -> str:
    """A hash of the fields of a resource."""
    return base64.b64encode(hashlib.sha256(orjson.dumps(body, option=orjson.OPT_SORT_KEYS)).digest()[:8]).decode()


def region_routes(quotas: Callable[[str, str], list[Obj]]) -> Iterator[Route]:
    """Read-only regions and zones; `quotas` returns the quotas of a project in a region."""

    def get_region(call: Call) -> Obj:
        return {**_region(call), "quotas": quotas(call.params["project"], call.params["region"])}

    yield Route("GET", "projects/{project}/zones", "zones.list", _list_zones, "compute.zones.list")
    yield Route("GET", "projects/{project}/zones/{zone}", "zones.get", _get_zone, "compute.zones.get")
    yield Route("GET", _REGIONAL, "regions.get", get_region, "compute.regions.get")
    path = "projects/{project}/zones/{zone}/machineTypes/{machine}"
    yield Route("GET", path, "machineTypes.get", _get_machine_type, "compute.machineTypes.get")


def _list_zones(call: Call) -> Obj:
    regions = _REGION.findall(call.query.get("filter", ""))
    names = [zone for region in dict.fromkeys(regions) for zone in zones_of(region)]
    return {"kind": "compute#zoneList", "id": "zones", "items": [_zone(call, zone) for zone in names]}


def _get_zone(call: Call) -> Obj:
    if call.params["zone"] not in zones_of(region_of(call.params["zone"])):
        raise GoogleError(
            "NOT_FOUND", f"The resource 'projects/{call.params['project']}/zones/{call.params['zone']}' was not found"
        )
    return _zone(call, call.params["zone"])


def _get_machine_type(call: Call) -> Obj:
    """Return a machine type of a zone that offers it, according to the catalog."""
    zone, name = _get_zone(call)["name"], call.params["machine"]
    path = f"projects/{call.params['project']}/zones/{zone}/machineTypes/{name}"
    try:
        machine = catalog.find_machine(name)
        enforce(gke_rules.check_machine_zone(name, zone, lookup.find_by_machine(name)))
    except (SliceworksError, GoogleError) as error:
        raise GoogleError("NOT_FOUND", f"The resource '{path}' was not found") from error
    return {
        "kind": "compute#machineType",
        "id": numeric_id(path),
        "name": name,
        "zone": zone,
        "guestCpus": machine.listed_cpu or machine.cpu,
        "memoryMb": int(machine.memory * 1024),
        "selfLink": self_link(call, path),
    }


class Reservations:
    """The reservations of the cloud's settings, read-only."""

    def __init__(self, store: Store) -> None:
        self._settings = Table(store, "settings", "CloudSettings")

    def routes(self) -> Iterator[Route]:
        """reservations.get."""
        path = "projects/{project}/zones/{zone}/reservations/{reservation}"
        yield Route("GET", path, "reservations.get", self._get, "compute.reservations.get")

    def _get(self, call: Call) -> Obj:
        params, document = call.params, self._settings.get("", "container")
        path = f"projects/{params['project']}/zones/{params['zone']}/reservations/{params['reservation']}"
        for item in (document.body.get("reservations") or ()) if document else ():
            places = (("name", "reservation"), ("zone", "zone"), ("project", "project"))
            if all(item.get(key) in (None, "", params[name]) for key, name in places):
                properties = {"machineType": item.get("machineType") or ""}
                return {
                    "kind": "compute#reservation",
                    "id": numeric_id(path),
                    "name": params["reservation"],
                    "zone": self_link(call, f"projects/{params['project']}/zones/{params['zone']}"),
                    "status": "READY",
                    "specificReservationRequired": True,
                    "specificReservation": {"count": str(int(item.get("nodes") or 0)), "instanceProperties": properties},
                    "selfLink": self_link(call, path),
                }
        raise GoogleError("NOT_FOUND", f"The resource '{path}' was not found")


def _zone(call: Call, zone: str) -> Obj:
    project = f"projects/{call.params['project']}"
    region = self_link(call, f"{project}/regions/{region_of(zone)}")
    return {
        "kind": "compute#zone",
        "name": zone,
        "status": "UP",
        "region": region,
        "selfLink": self_link(call, f"{project}/zones/{zone}"),
    }


def _region(call: Call) -> Obj:
    project, region = f"projects/{call.params['project']}", call.params["region"]
    zones = [self_link(call, f"{project}/zones/{zone}") for zone in zones_of(region)]
    return {
        "kind": "compute#region",
        "name": region,
        "status": "UP",
        "zones": zones,
        "selfLink": self_link(call, f"{project}/regions/{region}"),
    }


class InstanceGroups:
    """The managed instance groups of node pools, read-only."""

    def __init__(self, store: Store) -> None:
        self._pools = Table(store, "container/nodePools", "NodePool")
        self._indexed: set[tuple[str, str]] = set()
        self._pool_keys: dict[str, tuple[str, str]] = {}
        """Cache: the key of the node pool of each group, because provisioners poll single groups."""

    def routes(self) -> Iterator[Route]:
        """instanceGroupManagers.list and instanceGroupManagers.get."""
        collection, permissions = "projects/{project}/zones/{zone}/instanceGroupManagers", "compute.instanceGroupManagers"
        yield Route("GET", collection, "instanceGroupManagers.list", self._list, f"{permissions}.list")
        yield Route("GET", f"{collection}/{{group}}", "instanceGroupManagers.get", self._get, f"{permissions}.get")

    def _list(self, call: Call) -> Obj:
        groups = list(self._groups(call))
        return {"kind": "compute#instanceGroupManagerList", "id": "groups", **({"items": groups} if groups else {})}

    def _get(self, call: Call) -> Obj:
        name = call.params["group"]
        key = self._pool_key(name)
        pool = self._pools.get(*key) if key else None
        group = next((group for group in self._groups(call, [pool] if pool else ()) if group["name"] == name), None)
        if group is None:
            raise GoogleError("NOT_FOUND", f"The resource '{name}' was not found")
        return group

    def _pool_key(self, group: str) -> tuple[str, str] | None:
        """The key of a group's node pool. New node pools are indexed first, then all, because groups can change."""
        pool_keys = set(self._pools.keys()) if group not in self._pool_keys else set()
        for keys in (pool_keys - self._indexed, pool_keys):
            if group in self._pool_keys:
                break
            for key in keys:
                pool = self._pools.get(*key)
                urls = (pool.body.get("instanceGroupUrls") if pool else None) or ()
                self._pool_keys.update({url.rpartition("/")[2]: key for url in urls})
        self._indexed |= pool_keys
        return self._pool_keys.get(group)

    def _groups(self, call: Call, pools: Iterable[Document] | None = None) -> Iterator[Obj]:
        zone = call.params["zone"]
        for pool in self._pools.all() if pools is None else pools:
            if project_of(pool.parent) != call.params["project"]:
                continue
            for url in pool.body.get("instanceGroupUrls") or ():
                if f"/zones/{zone}/" in url:
                    yield {
                        "kind": "compute#instanceGroupManager",
                        "id": numeric_id(url),
                        "name": url.rpartition("/")[2],
                        "zone": self_link(call, f"projects/{call.params['project']}/zones/{zone}"),
                        "selfLink": url,
                        "instanceGroup": url.replace("/instanceGroupManagers/", "/instanceGroups/"),
                        "targetSize": sum(instance.zone == zone for instance in instances(pool)),
                        "status": {"isStable": True},
                    }


class Compute:
    """Networks and the resources that use them."""

    def __init__(self, store: Store, quotas: Callable[[str, str], list[Obj]]) -> None:
        self._store = store
        self._quotas = quotas
        self._operations = ComputeOperations(store, "compute")
        self._instance_groups = InstanceGroups(store)
        self._reservations = Reservations(store)
        self._networks = self._collection("networks", _GLOBAL, "Network", fill=fill_network, check_delete=self._check_unused)
        self._subnetworks = Subnetworks(store, self._networks, self._operations)
        self._routers = self._collection("routers", _REGIONAL, "Router", fill=fill_router)
        self._policies = self._collection(
            "resourcePolicies", _REGIONAL, "ResourcePolicy", fill=fill_resource_policy, check_delete=self._check_unused_policy
        )
        self._pools = Table(store, "container/nodePools", "NodePool")
        self._addresses = self._collection("addresses", _REGIONAL, "Address", fill=fill_address)
        self._firewalls = self._collection("firewalls", _GLOBAL, "Firewall", fill=fill_firewall)
        self._images = self._collection("images", _GLOBAL, "Image", fill=fill_image)

    def _collection(self, plural: str, parent: str, message: str, **hooks: Any) -> Collection:
        resource = ResourceType(plural, parent, message, f"compute.{plural}", "items", **hooks)
        return Collection(self._store, "compute", resource, self._operations)

    def routes(self) -> Iterator[Route]:
        """All routes of the service."""
        for collection in (self._networks, self._routers, self._policies, self._addresses, self._firewalls, self._images):
            yield from collection.routes()
        yield from self._subnetworks.routes()
        yield from self._operations.routes()
        yield from self._instance_groups.routes()
        yield from region_routes(self._quotas)
        yield from self._reservations.routes()

    def _check_unused(self, path: str) -> GoogleError | None:
        for collection in (self._subnetworks.collection, self._routers, self._firewalls):
            for document in collection.all():
                if resource_path(document.body.get("network", "")) == path:
                    return refuse("network-in-use", network=path, user=resource_path(document.body["selfLink"]))
        return None

    def _check_unused_policy(self, path: str) -> GoogleError | None:
        project, region, name = path.split("/")[1], path.split("/")[3], path.rpartition("/")[2]
        for pool in self._pools.all():
            used = str((pool.body.get("placementPolicy") or {}).get("policyName") or "").rpartition("/")[2]
            if used == name and project_of(pool.parent) == project and region_of(location_of(pool.parent)) == region:
                return refuse("resource-policy-in-use", policy=path, user=pool_path(pool))
        return None
