"""The transport to a Kubernetes API, with its credentials, and open_client for a kubeconfig context."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sliceworks.base.http_transport import HttpTransport
from sliceworks.kube import kubeconfig
from sliceworks.kube.client import Client
from sliceworks.kube.connection import ssl_context

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from sliceworks.base.retry import Retry
    from sliceworks.base.transport import Request, Response
    from sliceworks.kube.connection import Certificate, Connection
    from sliceworks.kube.rest import OnWarning


class HttpsTransport(HttpTransport):
    """Sends requests with credentials; after a 401, once more with fresh ones. A new client certificate opens a new pool."""

    def __init__(self, connection: Connection, *, user_agent: str = "sliceworks") -> None:
        super().__init__(
            connection.server,
            user_agent=user_agent,
            tls_server_name=connection.tls_server_name,
            proxy=connection.proxy_url or None,
            compress=connection.compress,
            hint="check that the cluster is running and that the server address is correct",
        )
        self._connection = connection
        self._credentials = connection.credentials
        self._certificate: Certificate | None = None

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        """Send one request with credentials."""
        response = await self._send_authenticated(request, stream)
        if response.status == 401 and await self._credentials.invalidate():
            response = await self._send_authenticated(request, stream)
        return response

    async def _send_authenticated(self, request: Request, stream: bool) -> Response:
        headers = {**await self._credentials.headers(), **request.headers}
        # Await this last: a request that finds a new certificate closes the pool that others were about to use.
        certificate = await self._credentials.certificate()
        if certificate != self._certificate:
            self._certificate = certificate
            await self._close_connections()
        return await super().send(replace(request, headers=headers), stream=stream)

    def _tls_context(self) -> ssl.SSLContext:
        return ssl_context(self._connection, self._certificate)


def open_client(
    path: str | Path | None = None,
    context: str | None = None,
    *,
    namespace: str = "",
    field_manager: str = "sliceworks",
    retry: Retry | None = None,
    on_warning: OnWarning | None = None,
) -> Client:
    """A client for a kubeconfig context, or for the cluster of the current pod. No request is sent yet."""
    connection = kubeconfig.connect(path, context)
    return Client(
        HttpsTransport(connection, user_agent=field_manager),
        namespace=namespace or connection.namespace,
        field_manager=field_manager,
        retry=retry,
        on_warning=on_warning,
    )
