"""One model service, drawn: addresses, parts, health, live latency, and a box to try a prompt in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicegui import context, ui

from sliceworks.base.errors import SliceworksError
from sliceworks.console import knowing
from sliceworks.console.model_looks import LOOK_EVERY, Models
from sliceworks.console.nodes import button, choice, el, empty, facts, grid, heading, link, panel, prose, state, table
from sliceworks.console.prompts import LENGTHS, Prompt
from sliceworks.console.registry import page_of
from sliceworks.console.tree import Tree
from sliceworks.console.views import models
from sliceworks.console.views.times import ago, dollars
from sliceworks.loadtest.report.words import time

if TYPE_CHECKING:
    from sliceworks.console.here import Here
    from sliceworks.console.nodes import Child, Node
    from sliceworks.console.views.latencies import Latency
    from sliceworks.console.views.models import Details
    from sliceworks.serving.record import Record


@page_of("model", title="Model", path="/models/{namespace}/{name}", parent="models")
def model_page(here: Here) -> None:
    """One service."""
    _Model(here).draw()


class _Model:
    """One browser's look at a service."""

    def __init__(self, here: Here) -> None:
        self._here = here
        self._name, self._namespace = here.arguments["name"], here.arguments["namespace"]
        self._known = here.world.once(Models)
        self._record: Record | None = None
        self._details: Details | None = None
        self._trouble = ""
        self._asked = Prompt()

    def draw(self) -> None:
        """Now, and again every few seconds."""
        self._tree = Tree(on_act=self._act, on_field=self._asked.hear)
        self._show()
        ui.timer(LOOK_EVERY, self._look)
        context.client.on_disconnect(self._asked.stop)

    async def _look(self) -> None:
        try:
            self._record = await self._known.record(self._name, self._namespace)
            self._details = models.details(await self._known.seen(self._record))
            self._trouble = ""
            await self._known.look()
        except SliceworksError as error:
            self._trouble, self._details = knowing.said(error), None
        self._show()

    def _show(self) -> None:
        self._tree.show(*self._nodes())

    def _nodes(self) -> list[Node]:
        crumb, found = link("Models", "/models"), self._details
        if found is None:
            hint = link("All models", "/models") if self._trouble else None
            return [heading(self._name, crumb=crumb), empty(self._trouble or "Reading it …", hint, icon_name="psychology")]
        return [
            heading(self._name, state(found.service.state, found.service.tone), crumb=crumb),
            el(
                "div",
                self._causes(found) if found.causes else None,
                left_to_do(found) if found.left else None,
                self._latency(found),
                el("div", self._try(found), self._about(found), cls="beside even"),
                grid(*_parts(found)),
                cls="stack",
                key="parts",
            ),
        ]

    def _causes(self, found: Details) -> Node:
        causes = [
            el("div", prose(what), el("div", prose(remedy), cls="remedy") if remedy else None, cls="cause")
            for what, remedy in found.causes
        ]
        return panel("Why it is not ready", el("div", causes, cls="answer"), key="why")

    def _about(self, found: Details) -> Node:
        service = found.service
        pairs: tuple[tuple[str, Child], ...] = (
            ("Engine", service.engine),
            ("Models", ", ".join(service.models)),
            ("Runs on", service.on),
            ("Servers ready", f"{service.ready} of {service.wanted}"),
            ("Gateway", service.gateway or "none"),
            ("List price", f"{dollars(service.usd)} an hour" if service.usd is not None else "unknown"),
            ("Outside", el("code", found.outside) if found.outside else None),
            ("Age", ago(service.created, self._here.world.now())),
        )
        return panel("Service", facts(pairs), key="about")

    def _latency(self, found: Details) -> Node:
        gateway = self._known.gateways.get((self._namespace, found.service.gateway))
        if not found.service.gateway:
            told: Node = el(
                "p", "It has no gateway, which would measure it. Give the document a gateway to see its latency.", cls="note"
            )
            return panel("Latency", told, key="latency")
        if gateway is None or gateway.trouble:
            said = gateway.trouble if gateway else "its numbers are not read yet"
            return panel("Latency", el("p", f"Not known: {said}.", cls="note"), key="latency")
        rows = [(model, (model, *_figures(gateway.latency(model)))) for model in found.service.models]
        columns = ("Model", "Requests/s", "Errors", "First token p50", "p99", "Whole p50", "p99", "At work", "Waiting")
        servers = gateway.readings[-1].backends() if gateway.readings else {}
        well = [el("li", el("code", name), " ", state("healthy" if up else "unhealthy"), key=name) for name, up in servers.items()]
        shown = table(columns, rows, numbers=tuple(range(1, 9)), caption="Latency by model")
        return panel(
            "Latency", shown, el("ul", well, cls="plain"), note="the last ten seconds, as the gateway measures it", key="latency"
        )

    def _try(self, found: Details) -> Node:
        asked = self._asked
        if found.shut:
            return panel("Try a prompt", el("p", found.shut, cls="note"), key="try")
        served = found.service.models
        asked.model = asked.model if asked.model in served else served[0]
        running = asked.running
        text = el(
            "textarea",
            data_field="prompt",
            rows=3,
            placeholder="Ask something",
            aria_label="Prompt",
            cls="field",
            key="prompt",
            value=asked.prompt,
        )
        key = el(
            "label",
            el("span", "Key"),
            el("input", type="password", data_field="key", autocomplete="off", value=asked.key),
            key="key",
        )
        press = button("Stop", "stop", kind="danger") if running else button("Send", "send", kind="main")
        return panel(
            "Try a prompt",
            text,
            el(
                "div",
                choice("Model", "model", [(each, each) for each in served], asked.model),
                choice("At most", "longest", [(str(each), f"{each} tokens") for each in LENGTHS], asked.longest),
                key,
                press,
                el("span", asked.told, cls="count", role="status"),
                cls="tools",
            ),
            el("pre", asked.answer or " ", cls="log reply", aria_live="polite", aria_label="Answer", tabindex="0")
            if asked.begun
            else None,
            note="sent through the gateway as models invoke does; nothing of it is kept",
            key="try",
        )

    async def _act(self, pressed: str) -> None:
        if pressed == "stop":
            self._asked.stop()
        elif self._record is not None and self._asked.prompt.strip() and not self._asked.running:
            record = self._record
            self._asked.start(
                lambda: self._known.ask(record, self._asked.model, self._asked.prompt, **self._asked.wishes()), self._show
            )
        self._show()


def left_to_do(found: Details) -> Node:
    """What the last deployment has not done, and who does it."""
    steps = el("ul", [el("li", el("code", each), key=each) for each in found.left], cls="plain")
    command = f"`sliceworks models deploy -f FILE -n {found.service.namespace}`"
    finish = el("div", prose(f"{command} waits for what must come before, and does it."), cls="remedy")
    return panel("Left to do", el("div", el("div", steps, finish, cls="cause"), cls="answer"), key="left")


def _parts(found: Details) -> list[Node]:
    parts = [(each.name, (each.name, each.count, state(each.state, models.TONES.get(each.state, "idle")))) for each in found.parts]
    places = [(f"{each.name}:{each.port}", (each.name, each.port, el("code", each.address))) for each in found.addresses]
    pods = [(name, (name, state(how), node or "–")) for name, how, node in found.pods]
    none = el("p", "None.", cls="note")
    return [
        panel("Parts", table(("Part", "Ready", "State"), parts, caption="Parts"), key="parts"),
        panel("Addresses in the cluster", table(("Service", "Port", "Address"), places, caption="Addresses"), key="places"),
        panel("Pods", table(("Pod", "State", "Node"), pods, caption="Pods") if pods else none, key="pods"),
    ]


def _figures(found: Latency | None) -> tuple[str, ...]:
    if found is None:
        return ("–",) * 8
    first, whole = found.first or (None, None), found.whole or (None, None)
    asked = f"{found.rate:.3g}", f"{found.errors:.1%}" if found.rate else "–"
    return (*asked, *map(time, first), *map(time, whole), str(found.running), str(found.waiting))
