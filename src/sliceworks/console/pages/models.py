"""The models page: model services with their status and latency."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from sliceworks.base.errors import SliceworksError
from sliceworks.console import cluster_cache
from sliceworks.console.components import el, empty, format_usd, heading, link, panel, state, table, time_ago, warning
from sliceworks.console.model_loader import POLL_INTERVAL, ModelLoader
from sliceworks.console.page import Tree, register_page
from sliceworks.loadtest.report.formatter import format_seconds

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.components import Child, Node
    from sliceworks.console.page import PageContext
    from sliceworks.console.views.latency_view import Latency
    from sliceworks.console.views.model_view import Service

_COLUMNS = (
    "Service",
    "Namespace",
    "Engine",
    "Models",
    "Accelerator",
    "Ready",
    "State",
    "Requests/s",
    "TTFT p50",
    "p99",
    "USD/h",
    "Age",
)


@register_page("models", title="Models", icon="psychology", key="m")
def models_page(context: PageContext) -> None:
    """The models page."""
    loader = context.cache.compute(ModelLoader)
    tree = Tree()
    problem = ""

    def draw() -> list[Node]:
        head = heading("Models")
        warnings = [warning(item) for item in [*([problem] if problem else []), *loader.broken]]
        if loader.services is None:
            return [head, empty(problem or "Loading model services …", icon_name="psychology")]
        if not loader.services:
            hint = ["Deploy one: ", el("code", "sliceworks models deploy -f model.yaml")]
            return [head, *warnings, empty("No model services found.", hint, icon_name="psychology")]
        return [
            head,
            *warnings,
            panel("Services", _services(loader, context.cache.now()), note="latency over the last ten seconds"),
        ]

    async def refresh() -> None:
        nonlocal problem
        try:
            await loader.refresh()
            problem = ""
        except SliceworksError as error:
            problem = cluster_cache.format_error(error)
        tree.show(draw())

    tree.show(draw())
    ui.timer(POLL_INTERVAL, refresh)


def _services(loader: ModelLoader, now: datetime) -> Node:
    rows = [(f"{service.namespace}/{service.name}", _row(service, loader, now)) for service in loader.services or ()]
    return table(_COLUMNS, rows, numbers=(5, 7, 8, 9, 10, 11), caption="Model services")


def _row(service: Service, loader: ModelLoader, now: datetime) -> tuple[Child, ...]:
    gateway = loader.gateways.get((service.namespace, service.gateway))
    measured = [latency for model in service.models if gateway and (latency := gateway.latency(model))]
    busiest = max(measured, key=lambda latency: latency.rate, default=None)
    return (
        link(service.name, f"/models/{service.namespace}/{service.name}"),
        service.namespace,
        service.engine,
        ", ".join(service.models),
        service.on,
        f"{service.ready} of {service.desired}",
        state(service.state, service.tone),
        f"{sum(latency.rate for latency in measured):.3g}" if measured else "–",
        *format_latency(busiest),
        format_usd(service.usd) if service.usd is not None else "–",
        time_ago(service.created, now),
    )


def format_latency(latency: Latency | None) -> tuple[str, str]:
    """Time to first token at p50 and p99; end-to-end latency for responses that do not stream."""
    spread = (latency.first or latency.whole) if latency else None
    return (format_seconds(spread[0]), format_seconds(spread[1])) if spread else ("–", "–")
