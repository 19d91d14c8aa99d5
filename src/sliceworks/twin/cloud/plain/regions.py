"""Regions and zones of Compute Engine, and what of each kind may be had in a region."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.container.places import region_of, zones_of
from sliceworks.twin.cloud.errors import GoogleError
from sliceworks.twin.cloud.plain.operations import link
from sliceworks.twin.cloud.routes import Call, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Obj = dict[str, Any]
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]{1,2}(?![-a-z0-9])")


def routes(quotas: Callable[[str, str], list[Obj]]) -> Iterator[Route]:
    """They are only read. `quotas` knows those of a project in a region."""

    def region(call: Call) -> Obj:
        return {**_region(call), "quotas": quotas(call.params["project"], call.params["region"])}

    yield Route("GET", "projects/{project}/zones", "zones.list", _zones, "compute.zones.list")
    yield Route("GET", "projects/{project}/zones/{zone}", "zones.get", _zone, "compute.zones.get")
    yield Route("GET", "projects/{project}/regions/{region}", "regions.get", region, "compute.regions.get")


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
