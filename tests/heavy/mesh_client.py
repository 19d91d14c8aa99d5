"""Calls through an Envoy from outside the mesh, by HTTP and gRPC."""

from __future__ import annotations

import http.client
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.heavy.mesh_istio import Proxy

INFER, CALL = "/v2/models/densenet_onnx/infer", "/inference.GRPCInferenceService/ModelInfer"


class EnvoyClient:
    """Calls through an Envoy."""

    def __init__(self, proxy: Proxy, host: str, port: int = 8080) -> None:
        self.proxy, self.port, self.host = proxy, port, host

    def send(self, path: str = INFER, *, key: str = "", host: str = "") -> tuple[int, str]:
        """Send a POST on a new connection."""
        line = http.client.HTTPConnection(self.proxy.address, self.port, timeout=60)
        try:
            line.request("POST", path, b"{}", {"Host": host or self.host, **({"Authorization": f"Bearer {key}"} if key else {})})
            answer = line.getresponse()
            return answer.status, answer.read().decode()
        finally:
            line.close()

    def leads_to_both(self) -> bool:
        """Whether both versions answer without failures."""
        try:
            return self.many(60).keys() == {"stable", "canary"}
        except OSError:
            return False  # it does not listen yet

    def many(self, count: int) -> Counter[str]:
        """The server of each response, or its error."""
        return Counter(text if status == 200 else str(status) for status, text in (self.send() for _ in range(count)))

    def call(self, count: int = 1, method: str = CALL, *, body: bytes = b"", key: str = "") -> Counter[str]:
        """The same by gRPC, all on one connection."""
        result: Counter[str] = Counter()
        with grpc.insecure_channel(f"{self.proxy.address}:{self.port}", options=[("grpc.default_authority", self.host)]) as channel:
            called: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
            for _ in range(count):
                try:
                    result[called(body, timeout=20, metadata=(("authorization", f"Bearer {key}"),) if key else None).decode()] += 1
                except grpc.RpcError as error:
                    result[error.code().name] += 1
        return result

    @contextmanager
    def load(self) -> Iterator[Counter[str]]:
        """Send requests until the block ends."""
        seen: Counter[str] = Counter()
        ending = threading.Event()

        def work() -> None:
            while not ending.wait(0.01):
                seen.update(self.many(1))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            ending.set()
            thread.join()
