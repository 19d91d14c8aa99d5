"""Model services, drawn: what is served on what, how it stands, and how fast it answers just now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import ui

from sliceworks.base.errors import SliceworksError
from sliceworks.console import knowing
from sliceworks.console.model_looks import LOOK_EVERY, Models
from sliceworks.console.nodes import el, empty, heading, link, panel, state, table, warning
from sliceworks.console.registry import page_of
from sliceworks.console.tree import Tree
from sliceworks.console.views.times import ago, dollars
from sliceworks.loadtest.report.words import time

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.here import Here
    from sliceworks.console.nodes import Child, Node
    from sliceworks.console.views.latencies import Latency
    from sliceworks.console.views.models import Service

_COLUMNS = (
    "Service",
    "Namespace",
    "Engine",
    "Models",
    "On",
    "Ready",
    "State",
    "Requests/s",
    "First token p50",
    "p99",
    "USD/h",
    "Age",
)


@page_of("models", title="Models", icon="psychology", key="m")
def models_page(here: Here) -> None:
    """All services."""
    known = here.world.once(Models)
    tree = Tree()
    trouble = ""

    def draw() -> list[Node]:
        head = heading("Models")
        told = [warning(each) for each in [*([trouble] if trouble else []), *known.broken]]
        if known.services is None:
            return [head, empty(trouble or "Reading model services …", icon_name="psychology")]
        if not known.services:
            hint = ["Deploy one: ", el("code", "sliceworks models deploy -f model.yaml")]
            return [head, *told, empty("No model is served here.", hint, icon_name="psychology")]
        return [head, *told, panel("Services", _services(known, here.world.now()), note="latency of the last ten seconds")]

    async def look() -> None:
        nonlocal trouble
        try:
            await known.look()
            trouble = ""
        except SliceworksError as error:
            trouble = knowing.said(error)
        tree.show(draw())

    tree.show(draw())
    ui.timer(LOOK_EVERY, look)


def _services(known: Models, now: datetime) -> Node:
    rows = [(f"{each.namespace}/{each.name}", _row(each, known, now)) for each in known.services or ()]
    return table(_COLUMNS, rows, numbers=(5, 7, 8, 9, 10, 11), caption="Model services")


def _row(each: Service, known: Models, now: datetime) -> tuple[Child, ...]:
    gateway = known.gateways.get((each.namespace, each.gateway))
    measured = [found for model in each.models if gateway and (found := gateway.latency(model))]
    busiest = max(measured, key=lambda found: found.rate, default=None)
    return (
        link(each.name, f"/models/{each.namespace}/{each.name}"),
        each.namespace,
        each.engine,
        ", ".join(each.models),
        each.on,
        f"{each.ready} of {each.wanted}",
        state(each.state, each.tone),
        f"{sum(found.rate for found in measured):.3g}" if measured else "–",
        *times(busiest),
        dollars(each.usd) if each.usd is not None else "–",
        ago(each.created, now),
    )


def times(found: Latency | None) -> tuple[str, str]:
    """The first token at p50 and p99; of answers that come whole, the whole."""
    spread = (found.first or found.whole) if found else None
    return (time(spread[0]), time(spread[1])) if spread else ("–", "–")
