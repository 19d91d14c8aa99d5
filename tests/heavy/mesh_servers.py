"""Model servers with configured behaviour: HTTP and gRPC at Triton's ports, each on its own address."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

import grpc

HTTP, GRPC = 8000, 8001
_METHOD = "/inference.GRPCInferenceService/"


class ModelServer:
    """`name` is in every response, `status` is its status; `hang_up` closes a connection at that point."""

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self.status, self.hang_up, self.code = 200, "", grpc.StatusCode.OK
        self.seen: list[str] = []
        handler = type("Handler", (_Handler,), {"owner": self})
        self._http = _Quiet((address, HTTP), handler)
        self._grpc = grpc.server(ThreadPoolExecutor(8))
        self._grpc.add_generic_rpc_handlers((_Calls(self),))
        self._grpc.add_insecure_port(f"{address}:{GRPC}")
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        self._grpc.start()

    def ready(self) -> bool:
        """Ready from the start."""
        return True

    def stop(self) -> None:
        """Stop it immediately."""
        self._http.shutdown()
        self._http.server_close()
        self._grpc.stop(None)


class _Quiet(ThreadingHTTPServer):
    """Does not log closed connections: proxies close them."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the error."""


class _Handler(BaseHTTPRequestHandler):
    """`?chunks=3&every=1` streams."""

    protocol_version = "HTTP/1.1"
    owner: ClassVar[ModelServer]

    def do_GET(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        owner, query = self.owner, parse_qs(urlsplit(self.path).query)
        owner.seen.append(self.path)
        if owner.hang_up == "before":
            self.close_connection = True
            return
        chunks, every = int(query.get("chunks", ["0"])[0]), float(query.get("every", ["0"])[0])
        if not chunks:
            time.sleep(every)
            self._whole(owner)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(chunks):
            self._chunk(f"data: {owner.name} {number}\n\n".encode())
            if owner.hang_up == "after":
                self.close_connection = True
                return
            time.sleep(every)
        self._chunk(b"")

    def _whole(self, owner: ModelServer) -> None:
        body = owner.name.encode()
        self.send_response(owner.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (as the library names it)
        """Log nothing."""


class _Calls(grpc.GenericRpcHandler):
    """Every method answers with the name; `Stream…` three times."""

    def __init__(self, owner: ModelServer) -> None:
        self._owner = owner

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        method = handler_call_details.method
        if not method.startswith(_METHOD):
            return None
        self._owner.seen.append(method)
        if method.startswith(f"{_METHOD}Stream"):
            return grpc.unary_stream_rpc_method_handler(lambda _, __: iter([self._owner.name.encode()] * 3))
        return grpc.unary_unary_rpc_method_handler(self._answer)

    def _answer(self, _: bytes, context: grpc.ServicerContext) -> bytes:
        if self._owner.code is not grpc.StatusCode.OK:
            context.abort(self._owner.code, "as configured")
        return self._owner.name.encode()
