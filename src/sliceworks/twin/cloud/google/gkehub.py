"""GKE Hub: memberships of clusters in a fleet, and features of the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.names import numeric_id
from sliceworks.twin.cloud.core.collection import ResourceType, name_from_query, with_name_and_times
from sliceworks.twin.cloud.core.service import ServiceSpec

if TYPE_CHECKING:
    from sliceworks.twin.cloud.core.routes import Call

Obj = dict[str, Any]
_LOCATION = "projects/{project}/locations/{location}"


def _membership(call: Call, path: str) -> Obj:
    return {"state": {"code": "READY"}, "uniqueId": numeric_id(path.rpartition("/")[2])}


def _feature(call: Call, path: str) -> Obj:
    return {"resourceState": {"state": "ACTIVE"}, "state": {"state": {"code": "OK"}}}


def _fill_feature(call: Call, path: str, body: Obj, before: Obj | None) -> Obj:
    """An empty spec of a membership removes it: so the google provider deletes a feature membership."""
    specs = {name: spec for name, spec in (body.get("membershipSpecs") or {}).items() if spec}
    filled: Obj = with_name_and_times(_feature)(call, path, body, before)
    return {**filled, "membershipSpecs": specs} if "membershipSpecs" in body else filled


SERVICE = ServiceSpec("gkehub", "v1", "google.cloud.gkehub.v1.Membership")
RESOURCES = (
    ResourceType(
        "memberships",
        _LOCATION,
        "Membership",
        "gkehub.memberships",
        list_key="resources",
        get_name=name_from_query("membershipId"),
        fill=with_name_and_times(_membership),
        has_update_mask=True,
    ),
    ResourceType(
        "features",
        _LOCATION,
        "Feature",
        "gkehub.features",
        list_key="resources",
        get_name=name_from_query("featureId"),
        exists="fleet-feature-singleton",
        fill=_fill_feature,
        has_update_mask=True,
    ),
)
