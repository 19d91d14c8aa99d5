"""The page of one model service: endpoints, workloads, latency and a prompt form."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypedDict

from nicegui import ui

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.console import cluster_cache
from sliceworks.console.components import (
    button,
    choice,
    el,
    empty,
    facts,
    format_usd,
    grid,
    heading,
    link,
    panel,
    prose,
    state,
    table,
    time_ago,
)
from sliceworks.console.model_loader import POLL_INTERVAL, ModelLoader
from sliceworks.console.page import Tree, register_page
from sliceworks.console.views import model_view
from sliceworks.loadtest.report.formatter import format_seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from sliceworks.console.components import Child, Node
    from sliceworks.console.page import PageContext
    from sliceworks.console.views.latency_view import Latency
    from sliceworks.console.views.model_view import Details
    from sliceworks.serving.record import Record

MAX_TOKENS_CHOICES = (32, 128, 512, 2048)
_REDRAW_INTERVAL = 0.1  # seconds, while a response streams
_MAX_RESPONSE_CHARS = 200_000


class SamplingOptions(TypedDict):
    """Options of a request: the maximum number of tokens and the API key."""

    max_tokens: int
    key: str


class PromptForm:
    """The prompt form: its fields and the response received so far."""

    def __init__(self) -> None:
        self.prompt = self.key = self.model = self.answer = self.status = ""
        self.max_tokens = str(MAX_TOKENS_CHOICES[1])
        self.started = False
        self._task: asyncio.Task[None] | None = None
        self._showing: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def set_field(self, field: str, value: str) -> None:
        """Store the value of a form field."""
        if field in ("prompt", "key", "model", "max_tokens"):
            setattr(self, field, value)

    def sampling_options(self) -> SamplingOptions:
        """The options to send with the prompt."""
        return {"max_tokens": int(self.max_tokens) if self.max_tokens.isdigit() else MAX_TOKENS_CHOICES[1], "key": self.key}

    def stop(self) -> None:
        """Cancel the request."""
        if self._task is not None:
            self._task.cancel()

    def start(self, stream: Callable[[], AsyncIterator[str]], show: Callable[[], None]) -> None:
        """Send the prompt; `show` is called repeatedly while the response streams."""
        self.answer, self.status, self.started = "", "waiting for the first token …", True
        self._task = asyncio.create_task(self._run(stream))
        client = ui.context.client

        async def keep_showing() -> None:
            with client:
                while self.running:
                    show()
                    await clock.sleep(_REDRAW_INTERVAL)
                show()

        self._showing = asyncio.create_task(keep_showing())

    async def _run(self, stream: Callable[[], AsyncIterator[str]]) -> None:
        started, first, chunks = clock.loop_time(), 0.0, 0
        try:
            async for chunk in stream():
                first = first or clock.loop_time() - started
                chunks += 1
                self.answer = (self.answer + chunk)[:_MAX_RESPONSE_CHARS]
                self.status = f"first token after {format_seconds(first)}, {chunks} chunks"
            self.status = (
                f"done: first token after {format_seconds(first)}, {chunks} chunks in {format_seconds(clock.loop_time() - started)}"
            )
        except SliceworksError as error:
            self.status = f"{error.message}{f': {error.hint}' if error.hint else ''}"
        except asyncio.CancelledError:
            self.status = f"stopped after {chunks} chunks"


@register_page("model", title="Model", path="/models/{namespace}/{name}", parent="models")
def model_page(context: PageContext) -> None:
    """The page of one model service."""
    _ModelPage(context).draw()


class _ModelPage:
    """The page of a model service in one browser."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._name, self._namespace = context.arguments["name"], context.arguments["namespace"]
        self._loader = context.cache.compute(ModelLoader)
        self._record: Record | None = None
        self._details: Details | None = None
        self._trouble = ""
        self._form = PromptForm()

    def draw(self) -> None:
        """Draw the page, and redraw it periodically."""
        self._tree = Tree(on_act=self._act, on_field=self._form.set_field)
        self._show()
        ui.timer(POLL_INTERVAL, self._poll)
        ui.context.client.on_disconnect(self._form.stop)

    async def _poll(self) -> None:
        try:
            self._record = await self._loader.record(self._name, self._namespace)
            self._details = model_view.details(await self._loader.details(self._record))
            self._trouble = ""
            await self._loader.refresh()
        except SliceworksError as error:
            self._trouble, self._details = cluster_cache.format_error(error), None
        self._show()

    def _show(self) -> None:
        self._tree.show(*self._nodes())

    def _nodes(self) -> list[Node]:
        crumb, details = link("Models", "/models"), self._details
        if details is None:
            hint = link("All models", "/models") if self._trouble else None
            return [heading(self._name, crumb=crumb), empty(self._trouble or "Loading …", hint, icon_name="psychology")]
        return [
            heading(self._name, state(details.service.state, details.service.tone), crumb=crumb),
            el(
                "div",
                self._causes(details) if details.causes else None,
                pending_steps(details) if details.pending else None,
                self._latency(details),
                el("div", self._try(details), self._about(details), cls="beside even"),
                grid(*_parts(details)),
                cls="stack",
                key="parts",
            ),
        ]

    def _causes(self, details: Details) -> Node:
        causes = [
            el("div", prose(what), el("div", prose(remedy), cls="remedy") if remedy else None, cls="cause")
            for what, remedy in details.causes
        ]
        return panel("Not ready", el("div", causes, cls="answer"), key="why")

    def _about(self, details: Details) -> Node:
        service = details.service
        pairs: tuple[tuple[str, Child], ...] = (
            ("Engine", service.engine),
            ("Models", ", ".join(service.models)),
            ("Runs on", service.on),
            ("Replicas ready", f"{service.ready} of {service.desired}"),
            ("Gateway", service.gateway or "none"),
            ("On-demand price", f"{format_usd(service.usd)} per hour" if service.usd is not None else "unknown"),
            ("External URL", el("code", details.external_url) if details.external_url else None),
            ("Age", time_ago(service.created, self._context.cache.now())),
        )
        return panel("Service", facts(pairs), key="about")

    def _latency(self, details: Details) -> Node:
        gateway = self._loader.gateways.get((self._namespace, details.service.gateway))
        if not details.service.gateway:
            note: Node = el(
                "p", "Latency is measured by a gateway. Add a gateway to the ModelService document to see it.", cls="note"
            )
            return panel("Latency", note, key="latency")
        if gateway is None or gateway.problem:
            reason = gateway.problem if gateway else "gateway metrics not read yet"
            return panel("Latency", el("p", f"Unknown: {reason}.", cls="note"), key="latency")
        rows = [(model, (model, *_figures(gateway.latency(model)))) for model in details.service.models]
        columns = ("Model", "Requests/s", "Errors", "TTFT p50", "p99", "E2E p50", "p99", "Running", "Waiting")
        backends = gateway.samples[-1].backends() if gateway.samples else {}
        health = [
            el("li", el("code", name), " ", state("healthy" if up else "unhealthy"), key=name) for name, up in backends.items()
        ]
        shown = table(columns, rows, numbers=tuple(range(1, 9)), caption="Latency by model")
        return panel(
            "Latency", shown, el("ul", health, cls="plain"), note="last ten seconds, measured by the gateway", key="latency"
        )

    def _try(self, details: Details) -> Node:
        form = self._form
        if details.unavailable:
            return panel("Try a prompt", el("p", details.unavailable, cls="note"), key="try")
        served = details.service.models
        form.model = form.model if form.model in served else served[0]
        running = form.running
        text = el(
            "textarea",
            data_field="prompt",
            rows=3,
            placeholder="Prompt",
            aria_label="Prompt",
            cls="field",
            key="prompt",
            value=form.prompt,
        )
        key = el(
            "label",
            el("span", "API key"),
            el("input", type="password", data_field="key", autocomplete="off", value=form.key),
            key="key",
        )
        press = button("Stop", "stop", kind="danger") if running else button("Send", "send", kind="main")
        return panel(
            "Try a prompt",
            text,
            el(
                "div",
                choice("Model", "model", [(item, item) for item in served], form.model),
                choice(
                    "Max tokens",
                    "max_tokens",
                    [(str(max_tokens_choice), f"{max_tokens_choice} tokens") for max_tokens_choice in MAX_TOKENS_CHOICES],
                    form.max_tokens,
                ),
                key,
                press,
                el("span", form.status, cls="count", role="status"),
                cls="tools",
            ),
            el("pre", form.answer or " ", cls="log reply", aria_live="polite", aria_label="Response", tabindex="0")
            if form.started
            else None,
            note="sent through the gateway like sliceworks models invoke; not stored",
            key="try",
        )

    async def _act(self, pressed: str) -> None:
        if pressed == "stop":
            self._form.stop()
        elif self._record is not None and self._form.prompt.strip() and not self._form.running:
            record = self._record
            self._form.start(
                lambda: self._loader.send_prompt(record, self._form.model, self._form.prompt, **self._form.sampling_options()),
                self._show,
            )
        self._show()


def pending_steps(details: Details) -> Node:
    """The steps that the last deployment did not complete, and the command that does."""
    steps = el("ul", [el("li", el("code", item), key=item) for item in details.pending], cls="plain")
    command = f"`sliceworks models deploy -f FILE -n {details.service.namespace}`"
    finish = el("div", prose(f"{command} waits for the prerequisites and completes these steps."), cls="remedy")
    return panel("Pending steps", el("div", el("div", steps, finish, cls="cause"), cls="answer"), key="left")


def _parts(details: Details) -> list[Node]:
    parts = [
        (part.name, (part.name, part.count, state(part.state, model_view.TONES.get(part.state, "idle"))))
        for part in details.workloads
    ]
    endpoints = [
        (f"{endpoint.name}:{endpoint.port}", (endpoint.name, endpoint.port, el("code", endpoint.address)))
        for endpoint in details.endpoints
    ]
    pods = [(name, (name, state(how), node or "–")) for name, how, node in details.pods]
    none = el("p", "None.", cls="note")
    return [
        panel("Workloads", table(("Workload", "Ready", "State"), parts, caption="Workloads"), key="parts"),
        panel("Endpoints in the cluster", table(("Service", "Port", "Address"), endpoints, caption="Endpoints"), key="places"),
        panel("Pods", table(("Pod", "State", "Node"), pods, caption="Pods") if pods else none, key="pods"),
    ]


def _figures(latency: Latency | None) -> tuple[str, ...]:
    if latency is None:
        return ("–",) * 8
    first, whole = latency.first or (None, None), latency.whole or (None, None)
    requests = f"{latency.rate:.3g}", f"{latency.errors:.1%}" if latency.rate else "–"
    return (*requests, *map(format_seconds, first), *map(format_seconds, whole), str(latency.running), str(latency.waiting))
