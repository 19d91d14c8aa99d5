"""Resource paths, locations and zones, and the names that GKE generates."""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.twin.cloud.core.exceptions import refuse

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
ANY_LOCATION = "-"
_LOCATION = re.compile(r"([a-z]+-[a-z]+[0-9]{1,2})(-(?:ai[0-9]{1,2})?[a-z])?")  # us-central1-a, us-central1-ai1a
_ZONE_LETTERS = {"us-east1": "bcd", "europe-west1": "bcd", "us-central2": "b"}
"""Regions whose zones are not a, b and c."""
_MAX_NAME = 32
"""Maximum length of the cluster and node pool part of an instance name."""
_MIN_POOL_NAME = 16
_SUFFIX_CHARACTERS = string.ascii_lowercase + string.digits


def location_path(params: Mapping[str, str]) -> str:
    """`projects/p/locations/l` of a call; raises INVALID_ARGUMENT for an invalid location."""
    location = params["location"]
    if location != ANY_LOCATION and not _LOCATION.fullmatch(location):
        raise refuse("location", location=location)
    return f"projects/{params['project']}/locations/{location}"


def cluster_path(params: Mapping[str, str]) -> str:
    """`projects/p/locations/l/clusters/c` of a call."""
    return f"{location_path(params)}/clusters/{params['cluster']}"


def is_zone(location: str) -> bool:
    """Whether a location is a zone rather than a region."""
    match = _LOCATION.fullmatch(location)
    return match is not None and bool(match[2])


def region_of(location: str) -> str:
    """The region of a zone or region."""
    match = _LOCATION.fullmatch(location)
    return match[1] if match else location


def zones_of(location: str) -> list[str]:
    """The default zones of a cluster at a location."""
    return [location] if is_zone(location) else [f"{location}-{letter}" for letter in _ZONE_LETTERS.get(location, "abc")]


def check_zones(zones: Iterable[str], location: str) -> list[str]:
    """Return unique zones; raises INVALID_ARGUMENT for one outside the region of a location."""
    region = region_of(location)
    for zone in zones:
        if not is_zone(zone) or region_of(zone) != region:
            raise refuse("zone-of-region", zone=zone, region=region)
    return list(dict.fromkeys(zones))


def project_of(path: str) -> str:
    """The project of a path."""
    return path.split("/")[1]


def location_of(path: str) -> str:
    """The location of a path."""
    return path.split("/")[3]


def instance_group_name(cluster: str, pool: str, group_hash: str) -> str:
    """`gke-CLUSTER-POOL-HASH` with long names truncated."""
    pool = pool[: max(_MIN_POOL_NAME, _MAX_NAME - len(cluster))]
    cluster = cluster[: _MAX_NAME - len(pool)]
    return f"gke-{cluster.rstrip('-')}-{pool.rstrip('-')}-{group_hash}"


def new_hash() -> str:
    """Eight hexadecimal digits that identify an instance group."""
    return f"{clock.rng().getrandbits(32):08x}"


def new_suffixes(count: int, taken: set[str]) -> list[str]:
    """Generate unique suffixes of instance names and add them to `taken`."""
    suffixes: list[str] = []
    while len(suffixes) < count:
        suffix = "".join(clock.rng().choices(_SUFFIX_CHARACTERS, k=4))
        if suffix not in taken:
            taken.add(suffix)
            suffixes.append(suffix)
    return suffixes


def new_operation_name() -> str:
    """`operation-MILLISECONDS-UUID`."""
    return f"operation-{int(clock.now().timestamp() * 1000)}-{clock.uid()}"


def instance_group_url(project: str, zone: str, base: str) -> str:
    """The Compute API URL of the managed instance group of a node pool in a zone."""
    return f"https://www.googleapis.com/compute/v1/projects/{project}/zones/{zone}/instanceGroupManagers/{base}-grp"
