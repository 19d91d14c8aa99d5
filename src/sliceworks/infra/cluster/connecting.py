"""The way into the cluster that Terraform has made: its address and authority from the stage's outputs, a token of Google's.

No kubeconfig is read or written.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.kube.client import Client
from sliceworks.kube.connection import Connection
from sliceworks.kube.https import HttpsTransport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.cloud.credentials import Credentials
    from sliceworks.kube.connection import Certificate


@dataclass(frozen=True, slots=True)
class FromTheCloud:
    """Who somebody is to Google, told to a cluster of Google's."""

    cloud: Credentials

    async def headers(self) -> Mapping[str, str]:
        """The header with the token."""
        return await self.cloud.headers()

    async def certificate(self) -> Certificate | None:
        """None: the token is enough."""
        return None

    async def renew(self) -> bool:
        """Have another token before the next try."""
        self.cloud.refused()
        return True


def connect(cluster: Mapping[str, Any], credentials: Credentials) -> Client:
    """A client for the cluster of stage 2's outputs. Nothing is sent before its first request."""
    address = str(cluster["endpoint"])
    authority = base64.b64decode(cluster["ca_certificate"]) if cluster.get("ca_certificate") else None
    connection = Connection(
        server=address if "://" in address else f"https://{address}", credentials=FromTheCloud(credentials), ca=authority
    )
    return Client(HttpsTransport(connection, user_agent="sliceworks"), field_manager="sliceworks")
