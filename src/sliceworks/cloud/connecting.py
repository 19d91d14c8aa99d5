"""Opens the container API of a cluster, at Google or at an endpoint of one's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from sliceworks.cloud.container import ENDPOINT, Container
from sliceworks.cloud.credentials import Token
from sliceworks.cloud.session import Session

if TYPE_CHECKING:
    from sliceworks.cloud.credentials import Credentials

_VERSION = re.compile(r"/v[0-9]+(?:(?:alpha|beta)[0-9]+)?$")


def open_container(
    project: str, location: str, cluster: str, *, endpoint: str = "", token: str = "", impersonate: str = ""
) -> Container:
    """A client for one cluster's node pools; whoever opens it closes its session. Nothing is sent before its first request.

    `endpoint` may be written as Terraform has it, with the API's path and version: `http://127.0.0.1:8080/container/v1/`.
    """
    base, prefix = split_endpoint(endpoint or ENDPOINT)
    return Container(Session(base, credentials(token, impersonate)), project, location, cluster, prefix=prefix)


def split_endpoint(endpoint: str) -> tuple[str, str]:
    """The host of an endpoint, and the path before the version."""
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc}", _VERSION.sub("", parts.path.rstrip("/"))


def credentials(token: str = "", impersonate: str = "") -> Credentials:
    """A token that is given, or what Google's own tools would find here."""
    if token:
        return Token(token)
    from sliceworks.cloud.google_credentials import GoogleCredentials

    return GoogleCredentials(impersonate)
