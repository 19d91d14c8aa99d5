"""The metadata server of a Google VM: its project, cluster and zone."""

from __future__ import annotations

import os
from dataclasses import dataclass

from sliceworks.base.errors import Unreachable
from sliceworks.base.http_transport import HttpTransport
from sliceworks.base.transport import Request

_TIMEOUT = 2.0
_FLAVOR = "metadata-flavor"
_PATHS = {
    "project": "project/project-id",
    "cluster": "instance/attributes/cluster-name",
    "location": "instance/attributes/cluster-location",
    "zone": "instance/zone",
}


@dataclass(frozen=True, slots=True)
class InstanceMetadata:
    """Project, cluster, cluster location and zone of the VM; unknown values are empty."""

    project: str = ""
    cluster: str = ""
    location: str = ""
    zone: str = ""


async def read_metadata(host: str = "") -> InstanceMetadata:
    """Read the metadata server; all values are empty if there is none."""
    host = host or os.environ.get("GCE_METADATA_HOST") or "metadata.google.internal"
    values: dict[str, str] = {}
    transport = HttpTransport(f"http://{host}", proxy="", read_seconds=_TIMEOUT)
    try:
        for name, path in _PATHS.items():
            response = await transport.send(Request("GET", f"/computeMetadata/v1/{path}", headers={_FLAVOR: "Google"}))
            if response.status == 200 and response.headers.get(_FLAVOR) == "Google":
                values[name] = response.body.decode().strip().rpartition("/")[2]
    except Unreachable:
        pass
    finally:
        await transport.close()
    return InstanceMetadata(**values)
