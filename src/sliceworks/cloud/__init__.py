"""The client of Google's REST APIs. Public names are imported at first use, google-auth by the first request.

credentials      fixed tokens and application default credentials
session          requests with credentials, retries and errors
metadata_server  project, cluster and zone of the VM
container        node pools and operations of a GKE cluster
storage          Cloud Storage objects
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.imports import lazy_exports

if TYPE_CHECKING:
    from sliceworks.cloud.container import Container
    from sliceworks.cloud.credentials import Token
    from sliceworks.cloud.session import Session

__getattr__, __dir__ = lazy_exports(__name__, {"container": ("Container",), "credentials": ("Token",), "session": ("Session",)})

__all__ = ["Container", "Session", "Token"]
