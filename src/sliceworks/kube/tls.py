"""TLS for a connection: whom to trust, and the certificate to show."""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from sliceworks.kube.connection import Certificate, Connection


def ssl_context(connection: Connection, certificate: Certificate | None) -> ssl.SSLContext:
    """The context for one cluster and identity."""
    context = ssl.create_default_context()
    if connection.ca is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(cadata=connection.ca.decode())
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise SliceworksError(f"the certificate authority of {connection.server} is no PEM certificate") from error
    if connection.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        _load(context, certificate, connection.server)
    return context


def _load(context: ssl.SSLContext, certificate: Certificate, server: str) -> None:
    # Python reads certificates from files alone: this one lives for a moment, readable by its owner only.
    handle, name = tempfile.mkstemp(prefix="sliceworks-", suffix=".pem")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(certificate.certificate + b"\n" + certificate.key)
        context.load_cert_chain(name)
    except ssl.SSLError as error:
        raise SliceworksError(f"the client certificate for {server} and its key do not fit together") from error
    finally:
        Path(name).unlink()
