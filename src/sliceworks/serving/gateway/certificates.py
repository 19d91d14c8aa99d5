"""The certificate that the gateway's port shows, and whose certificates it asks clients for: renewed while it listens."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from sliceworks.specs.gateway import Tls


class Certificates:
    """`context` is for the port, once and for all; each new line gets what the files held when they were last looked at."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self.context = self._newest = _read(tls)
        # Trust in an authority cannot be taken out of a context, so that each line is handed the newest one.
        self.context.sni_callback = self._hand_over

    def renew(self) -> None:
        """Look at the files again; what cannot be used changes nothing."""
        self._newest = _read(self._tls)

    def _hand_over(self, line: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext) -> None:
        line.context = self._newest


def _read(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except ssl.SSLError as error:
        words = f"the certificate cannot be used: it must be PEM, and {tls.key} its key ({error.reason or error})"
        raise InvalidDocument(words, place=tls.certificate) from error
    except OSError as error:
        raise InvalidDocument(
            f"the certificate cannot be used, or {tls.key} its key: {error.strerror}", place=tls.certificate
        ) from error
    if tls.client_authority:
        _ask_clients(context, tls.client_authority)
    return context


def _ask_clients(context: ssl.SSLContext, authority: str) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    # A line that is taken up again would show no certificate.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET
    try:
        context.load_verify_locations(authority)
    except (OSError, ssl.SSLError) as error:
        raise InvalidDocument(f"the authority of clients cannot be used: {error}", place=authority) from error
