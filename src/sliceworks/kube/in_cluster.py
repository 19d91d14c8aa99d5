"""The connection of a program that runs in a pod: its service account."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.base.errors import SliceworksError
from sliceworks.kube.connection import Connection, TokenFile, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def is_in_cluster(environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT) -> bool:
    """Whether this program runs in a pod that has a service account."""
    return bool(environ.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").exists()


def in_cluster(environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT) -> Connection:
    """The connection that the kubelet prepared."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise SliceworksError("this is not a pod: KUBERNETES_SERVICE_HOST is not set")
    namespace = folder / "namespace"
    return Connection(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        credentials=TokenFile(folder / "token"),
        namespace=read_file(namespace, "namespace").decode().strip() if namespace.exists() else "default",
        ca=read_file(folder / "ca.crt", "certificate authority"),
    )
