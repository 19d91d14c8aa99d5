"""Numbers that are read from the gateway's state when somebody asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.serving.gateway.app import Application
    from sliceworks.serving.gateway.calls import Served
    from sliceworks.serving.gateway.servers import Server


def watch(application: Application) -> None:
    """Have them among the gateway's numbers."""

    def servers(read: Callable[[Server], float], join: Callable[[list[float]], float]) -> Callable[[], dict[str, float]]:
        def told() -> dict[str, float]:
            """By address: several models may have the same server."""
            found: dict[str, list[float]] = {}
            for server in application.state.servers:
                found.setdefault(server.name, []).append(read(server))
            return {name: join(values) for name, values in found.items()}

        return told

    def models(read: Callable[[Served], float]) -> Callable[[], dict[str, float]]:
        return lambda: {name: read(served) for name, served in application.state.models.items()}

    def running(served: Served) -> float:
        return sum(server.outstanding for server in served.group.servers)

    add = application.measures.registry.gauges
    add("vllm:num_requests_running", "Requests that servers are at work on.", "model_name", models(running))
    add("vllm:num_requests_waiting", "Requests that wait for a server.", "model_name", models(lambda served: served.group.waiting))
    add("sliceworks_gateway_backend_up", "Whether a server is well.", "backend", servers(lambda server: server.well, min))
    circuits = servers(lambda server: server.circuit_open, max)
    add("sliceworks_gateway_backend_circuit_open", "Whether its circuit is.", "backend", circuits)
    add("sliceworks_gateway_backend_outstanding", "Requests it has.", "backend", servers(lambda server: server.outstanding, sum))
    add("sliceworks_gateway_backend_connections", "Lines to it.", "backend", servers(lambda server: server.pool.open, sum))
    application.measures.registry.gauge("sliceworks_gateway_under_way", "Calls under way.", lambda: application.relay.under_way)
