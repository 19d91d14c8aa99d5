"""Google's metadata server: what a machine of Google's, or a pod on it, knows about where it is."""

from __future__ import annotations

import os
from dataclasses import dataclass

import aiohttp

_TIMEOUT = aiohttp.ClientTimeout(total=2)
_PATHS = {
    "project": "project/project-id",
    "cluster": "instance/attributes/cluster-name",
    "location": "instance/attributes/cluster-location",
    "zone": "instance/zone",
}


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Project, cluster, its location, and the machine's zone; empty where the server does not tell."""

    project: str = ""
    cluster: str = ""
    location: str = ""
    zone: str = ""


async def whereabouts(host: str = "") -> Whereabouts:
    """Ask the metadata server; nothing is known where there is none."""
    host = host or os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    found: dict[str, str] = {}
    async with aiohttp.ClientSession(timeout=_TIMEOUT, headers={"metadata-flavor": "Google"}) as session:
        for name, path in _PATHS.items():
            try:
                async with session.get(f"http://{host}/computeMetadata/v1/{path}") as answer:
                    if answer.status == 200 and answer.headers.get("metadata-flavor") == "Google":
                        found[name] = (await answer.text()).strip().rpartition("/")[2]
            except (aiohttp.ClientError, OSError, TimeoutError):
                break
    return Whereabouts(**found)
