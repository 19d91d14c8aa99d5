"""A client for the cluster a person means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.kube import kubeconfig
from sliceworks.kube.client import Client
from sliceworks.kube.https import HttpsTransport

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.kube.backoff import Retry
    from sliceworks.kube.sender import OnWarning


def open_client(
    path: str | Path | None = None,
    context: str | None = None,
    *,
    namespace: str = "",
    field_manager: str = "sliceworks",
    retry: Retry | None = None,
    on_warning: OnWarning | None = None,
) -> Client:
    """A client for a context of a kubeconfig, or for the cluster this runs in. Nothing is sent before its first request."""
    connection = kubeconfig.connect(path, context)
    return Client(
        HttpsTransport(connection, user_agent=field_manager),
        namespace=namespace or connection.namespace,
        field_manager=field_manager,
        retry=retry,
        on_warning=on_warning,
    )
