"""Where things are: paths of resources, locations, and the zones of a region."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.twin.cloud.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Mapping

ANY = "-"
_LOCATION = re.compile(r"([a-z]+-[a-z]+[0-9]{1,2})(-(?:ai[0-9]{1,2})?[a-z])?")  # us-central1-a, us-central1-ai1a
_LETTERS = {"us-east1": "bcd", "europe-west1": "bcd", "us-central2": "b"}
"""The zones of regions that do not begin with a, b and c."""


def location_path(params: Mapping[str, str]) -> str:
    """`projects/p/locations/l` of a call, whose location must be one."""
    location = params["location"]
    if location != ANY and not _LOCATION.fullmatch(location):
        raise invalid(f'Location "{location}" does not exist.')
    return f"projects/{params['project']}/locations/{location}"


def cluster_path(params: Mapping[str, str]) -> str:
    """`projects/p/locations/l/clusters/c` of a call."""
    return f"{location_path(params)}/clusters/{params['cluster']}"


def is_zone(location: str) -> bool:
    """Whether a location is a zone, and not a region."""
    found = _LOCATION.fullmatch(location)
    return found is not None and bool(found[2])


def region_of(location: str) -> str:
    """The region of a zone; a region is its own."""
    found = _LOCATION.fullmatch(location)
    return found[1] if found else location


def zones_of(location: str) -> list[str]:
    """The zones that a cluster at a location has nodes in, unless it names others."""
    return [location] if is_zone(location) else [f"{location}-{letter}" for letter in _LETTERS.get(location, "abc")]


def project_of(path: str) -> str:
    """The project of a path."""
    return path.split("/")[1]


def location_of(path: str) -> str:
    """The location of a path."""
    return path.split("/")[3]
