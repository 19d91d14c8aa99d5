"""The gateway's port for gRPC: with TLS as the other port has it, also when certificates are renewed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from sliceworks.base.errors import SliceworksError
from sliceworks.serving.gateway.passage import Passage

if TYPE_CHECKING:
    from sliceworks.serving.gateway.app import Application
    from sliceworks.specs.gateway import Tls


class Shown:
    """The certificate that the port shows, and whose certificates it asks clients for: as its files were when last looked at."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self.renew()

    def renew(self) -> None:
        """Look at the files again."""
        tls = self._tls
        pair = (Path(tls.key).read_bytes(), Path(tls.certificate).read_bytes())
        authority = Path(tls.client_authority).read_bytes() if tls.client_authority else None
        self._now = grpc.ssl_server_certificate_configuration([pair], authority)

    def credentials(self) -> Any:
        """For a port. Every new line is shown what is newest."""
        asked = bool(self._tls.client_authority)
        return grpc.dynamic_ssl_server_credentials(self._now, lambda: self._now, require_client_authentication=asked)


@dataclass(frozen=True, slots=True)
class Listening:
    """The gRPC port."""

    server: grpc.aio.Server
    passage: Passage
    port: int
    shown: Shown | None

    async def stop(self, grace: float) -> None:
        """Finish what is under way, and let go of the servers."""
        await self.server.stop(grace)
        await self.passage.close()


async def start(application: Application, host: str, port: int, tls: Tls | None) -> Listening:
    """Begin to listen."""
    # The library ends its threads when Python collects the last server or channel, and waits there until no call is under way: for
    # ever where a server was not stopped. So it stays for as long as the process does.
    grpc.aio.init_grpc_aio()
    most = application.state.spec.caps.body
    options = [("grpc.max_receive_message_length", most), ("grpc.max_send_message_length", most), ("grpc.so_reuseport", 0)]
    passage, shown = Passage(application), Shown(tls) if tls is not None else None
    server = grpc.aio.server(handlers=[passage], options=options)
    address = f"{host}:{port}"
    try:
        bound = server.add_secure_port(address, shown.credentials()) if shown is not None else server.add_insecure_port(address)
    except RuntimeError as error:
        # The library says no more, but to the log.
        remedy = "choose another listen.grpcPort, or end what listens there"
        raise SliceworksError(f"nothing can listen at {address} for gRPC: is the port in use?", hint=remedy) from error
    await server.start()
    return Listening(server, passage, bound, shown)
