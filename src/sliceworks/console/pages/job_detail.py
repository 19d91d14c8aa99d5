"""The page of one training job: diagnosis, timeline, hosts, events and logs."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from nicegui import ui

from sliceworks.base import clock, duration
from sliceworks.base.errors import NotFound, SliceworksError
from sliceworks.base.names import pluralize
from sliceworks.console.components import (
    button,
    columns,
    el,
    empty,
    facts,
    format_age,
    format_elapsed,
    format_usd,
    heading,
    link,
    panel,
    prose,
    state,
    time_ago,
    tone,
)
from sliceworks.console.kinds import EVENTS, JOBSETS
from sliceworks.console.page import Tree, register_page
from sliceworks.console.pages.job_logs import LogPanel
from sliceworks.console.views.job_view import KINDS, build_job_view
from sliceworks.training import lifecycle
from sliceworks.training.diagnosis.analysis import diagnose
from sliceworks.training.diagnosis.collection import collect_evidence
from sliceworks.training.status import FINISHED_STATES, PENDING_STATES

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.cluster_cache import Changes
    from sliceworks.console.components import Node
    from sliceworks.console.page import PageContext
    from sliceworks.console.views.incidents import EventRow
    from sliceworks.console.views.job_view import JobView
    from sliceworks.training.diagnosis.model import Cause, Diagnosis, QuotaRelease
    from sliceworks.training.status import Host
    from sliceworks.training.timeline import TimelineEntry

DONE = {"cancel": "Cancelled {name}.", "restart": "Restarted {name}."}
_HEALTHY_STATES = ("running", "completed")


def job_not_found(namespace: str, name: str, problem: str) -> Node:
    """The page of a job that does not exist."""
    words = problem or f"Job {namespace}/{name} not found."
    hint = None if problem else "It may have been cancelled, or deleted after it finished."
    return el("div", heading(name, crumb=link("Jobs", "/jobs")), empty(words, hint, icon_name="search_off"))


def job_header(view: JobView, answer: Diagnosis | None, changes: bool, now: datetime) -> list[Node]:
    """The name, state, actions and diagnosis."""
    row = view.row
    buttons = _buttons(view) if changes else None
    return [
        heading(row.name, state("deleting" if view.is_deleting else row.state), buttons, crumb=link("Jobs", "/jobs")),
        _why(view, answer, now),
    ]


def _buttons(view: JobView) -> Node:
    restart = None if view.row.state in PENDING_STATES else button("Restart", "restart")
    return el("span", restart, button("Cancel", "cancel", kind="danger"), cls="buttons", key="buttons")


def confirmation(act: str, view: JobView) -> tuple[str, str]:
    """The question and the label of the confirm button."""
    name = view.row.name
    if act == "cancel":
        return f"Cancel {name}? The JobSet, its pods and their logs are deleted.", "Cancel the job"
    if view.row.state in FINISHED_STATES:
        return f"Submit {name} again? It is {view.row.state}; its pods and their logs are deleted.", "Submit again"
    return f"Restart {name}? Its pods are replaced and resume from the last checkpoint. It keeps its slices.", "Restart"


def confirm_dialog(words: str, yes: str) -> Node:
    """The confirmation dialog."""
    answers = el("div", button("Back", "no"), button(yes, "yes", kind="danger"), cls="answers")
    return el("div", el("p", words), answers, cls="sure", role="alertdialog", aria_label=words)


def _why(view: JobView, answer: Diagnosis | None, now: datetime) -> Node:
    """The diagnosis; until it is computed, the status line of the job."""
    if answer is None:
        return el(
            "section", el("div", el("div", view.line, cls="summary"), cls="answer idle"), cls="panel", key="why", aria_label="Why"
        )
    kind = "good" if answer.state in _HEALTHY_STATES else "bad" if answer.state == "failed" else "wait"
    causes = [_cause(cause) for cause in answer.causes]
    ahead = (
        el("p", f"Position {answer.ahead.position} of {answer.ahead.total} in the queue.", cls="cause") if answer.ahead else None
    )
    frees = [el("li", _release(release, now)) for release in answer.releases[:4]]
    rest = el("div", el("h3", "What would free capacity"), el("ul", frees), cls="cause") if frees else None
    unseen = (
        el("p", "Could not be read: ", "; ".join(answer.unreadable).rstrip("."), ".", cls="note") if answer.unreadable else None
    )
    body = el("div", el("div", answer.summary, cls="summary"), causes, ahead, rest, unseen, cls=f"answer {kind}")
    return el("section", body, cls="panel", key="why", aria_label="Why", aria_live="polite")


def _cause(cause: Cause) -> Node:
    """A cause with its remedy; its sources are collapsed."""
    message = el("div", f"“{cause.reported}”", cls="breaks") if cause.reported and cause.reported not in cause.message else None
    sources = el("div", "; ".join(map(str, cause.sources)), cls="breaks") if cause.sources else None
    read = el("details", el("summary", "Sources"), sources, message, cls="note") if message or sources else None
    words = el("div", prose(cause.message))
    return el(
        "div", words, el("div", prose(cause.remedy), cls="remedy"), read, cls="cause", key=f"{cause.kind.name}{cause.message[:40]}"
    )


def _release(release: QuotaRelease, now: datetime) -> str:
    message = f"{release.amount} when {release.job} ends"
    if release.expected_at is None:
        return f"{message}; {release.basis or 'end time unknown'}"
    left = (release.expected_at - now).total_seconds()
    return f"{message}, {f'in {duration.human(left)}' if left > 0 else 'overdue'} ({release.basis})"


def job_panels(view: JobView, now: datetime) -> Node:
    """Facts, timeline, hosts and events of a job."""
    return columns(
        [panel("About", _about(view, now)), panel("Timeline", el("ol", [_step(step, now) for step in view.steps], cls="line"))],
        [panel("Hosts", _hosts(view, now), note=view.hosts_note), panel("Events", _events(view, now), note="latest")],
    )


def _about(view: JobView, now: datetime) -> Node:
    row = view.row
    queue = [link(row.queue, f"/queues#{view.cluster_queue}"), f", priority {row.priority or 'none'}"] if row.queue else "none"
    kind = f"{row.slices} × {row.type}, " if row.type else ""
    size = f"{kind}{pluralize(row.hosts, 'host')}, {pluralize(row.chips, 'chip')}"
    return facts(
        (
            ("State", row.state if row.state in PENDING_STATES else view.line),
            ("Namespace", row.namespace),
            ("Queue", queue),
            ("Slices", f"{size}, {view.capacity}" if view.capacity else size),
            ("Cost", f"{format_usd(row.usd)} per hour while it runs" if row.usd is not None else "unknown"),
            ("Image", el("code", view.image)),
            ("TensorBoard", _external("Vertex AI TensorBoard", view.tensorboard)),
            ("Logs", [link("on this page", "#logs"), *([", ", _external("Cloud Logging", view.logs)] if view.logs else [])]),
            ("Restarts", f"{row.restarts}, {view.restarts_allowed} allowed"),
            ("Submitted", [time_ago(row.created, now), " ago"]),
            ("Ran" if row.ended else "Running for", format_elapsed(row.started, row.ended, now) if row.started else None),
        )
    )


def _external(words: str, url: str) -> Node | None:
    """A link to another site, opened in a new tab."""
    return link(words, url, target="_blank", rel="noopener") if url else None


def _step(step: TimelineEntry, now: datetime) -> Node:
    after = f"+{duration.human(step.after)}" if step.after else ""
    when = el(
        "span",
        el("time", f"{format_age(step.at, now)} ago", datetime=step.at, title=step.at),
        f"  {after}" if after else None,
        cls="when",
    )
    message = el("div", step.reported, cls="message") if step.reported else None
    return el("li", el("span", step.event, cls="what"), when, message, cls=step.outcome, key=f"{step.event}{step.source}")


def _hosts(view: JobView, now: datetime) -> Node:
    if not any(host.pod for host in view.hosts):
        if view.row.state in FINISHED_STATES:
            return empty("No pods left.", "They were deleted after the job, or with their nodes.", icon_name="dns")
        return empty("No pods yet.", "Pods are created when the queue admits the job.", icon_name="dns")
    ended = view.row.state in FINISHED_STATES
    return el(
        "div",
        [_host(item, now, ended=ended, lost=view.lost_hosts.get(item.node, "")) for item in view.hosts],
        cls="hosts",
        role="list",
    )


def _host(host: Host, now: datetime, *, ended: bool, lost: str) -> Node:
    """A host; `lost` says what has happened to its machine, whatever its pod was when it was last heard of."""
    is_over = host.state in ("succeeded", "failed")
    has_failed = "exit code" in host.state or host.state == "failed" or (bool(lost) and not is_over)
    kind = "bad" if has_failed else "good" if host.ready or is_over else ""
    word = "pod deleted" if ended and not host.pod else lost if lost and not is_over else "ready" if host.ready else host.state
    times = f" · {host.restarts} restarts" if host.restarts else ""
    where = el("div", host.node or "no node", cls="node", title=host.node)
    name = el("div", host.label, el("span", format_age(host.since, now) if host.since else ""), cls="name")
    return el(
        "div", name, el("div", f"{word}{times}"), where, cls=f"host {kind or tone(host.state)}", key=host.label, role="listitem"
    )


def _events(view: JobView, now: datetime) -> Node:
    if not view.events:
        return empty("No events.", "Clusters delete events after an hour.", icon_name="notifications_none")
    return el("ol", [_event(item, now) for item in view.events], cls="line")


def _event(event: EventRow, now: datetime) -> Node:
    when = el(
        "span", time_ago(event.at, now), f" ago · {event.name}", f" (×{event.times})" if event.times > 1 else None, cls="when"
    )
    message = el("div", event.message, cls="message") if event.message else None
    return el("li", el("span", event.reason, cls="what"), when, message, key=f"{event.name}{event.reason}")


Object = dict[str, Any]
_DIAGNOSE_INTERVAL = 3.0  # seconds
_RESTART_SECONDS = 120.0


@register_page("job", title="Job", path="/jobs/{namespace}/{name}", parent="jobs")
def job(context: PageContext) -> None:
    """The page of one job."""
    _JobPage(context).draw()


class _JobPage:
    """The page of a job in one browser."""

    def __init__(self, context: PageContext) -> None:
        self._context = context
        self._namespace, self._name = context.arguments["namespace"], context.arguments["name"]
        self._answer: Diagnosis | None = None
        self._events: list[Object] = []
        self._refreshed_at = -_DIAGNOSE_INTERVAL
        self._is_refreshing = False
        self._stale = True

    def draw(self) -> None:
        """Draw the header and diagnosis, the panels and the logs."""
        self._top = Tree(on_act=self._act)
        self._parts = Tree()
        self._logs = LogPanel(self._context.cache, self._namespace)
        self._context.live(self._show, *KINDS)
        ui.timer(0.5, self._refresh)

    def _show(self, changes: Changes) -> None:
        cache = self._context.cache
        view = build_job_view(cache, self._namespace, self._name, self._events)
        if view is None:
            problem = cache.table(JOBSETS).problem
            self._top.show(job_not_found(self._namespace, self._name, problem))
            self._parts.show()
            return
        self._stale = self._stale or self._touched(changes)
        self._top.show(*job_header(view, self._answer, self._context.allow_changes, cache.now()))
        self._parts.show(job_panels(view, cache.now()))
        self._logs.offer(view.hosts)

    def _touched(self, changes: Changes) -> bool:
        """Whether the job itself has changed; changes of other jobs refresh the diagnosis less often."""
        return any(
            key.namespace == self._namespace and key.name.startswith(self._name) for keys in changes.values() for key in keys
        )

    async def _refresh(self) -> None:
        """Refresh the diagnosis and events when they are stale; at most one refresh runs at a time."""
        elapsed = clock.loop_time() - self._refreshed_at
        if self._is_refreshing or elapsed < (_DIAGNOSE_INTERVAL if self._stale else 5 * _DIAGNOSE_INTERVAL):
            return
        self._is_refreshing, self._stale, self._refreshed_at = True, False, clock.loop_time()
        try:
            with suppress(SliceworksError):
                self._answer, self._events = await asyncio.gather(self._diagnose(), self._list_events())
                self._show({})
        finally:
            self._is_refreshing = False

    async def _diagnose(self) -> Diagnosis | None:
        cache = self._context.cache
        try:
            evidence = await collect_evidence(cache.client, self._namespace, self._name, container=self._context.console.container)
        except NotFound:
            return None
        return diagnose(replace(evidence, now=cache.now()))

    async def _list_events(self) -> list[Object]:
        """Normal events of the job: the cache keeps warnings only."""
        fields = f"involvedObject.kind=JobSet,involvedObject.name={self._name}"
        return (await self._context.cache.client.list(EVENTS, self._namespace, fields=fields, limit=100)).items

    async def _act(self, act: str) -> None:
        jobset = self._context.cache.table(JOBSETS).get(self._name, self._namespace)
        if jobset is None or act not in DONE:
            return
        view = build_job_view(self._context.cache, self._namespace, self._name)
        if view is not None and await _confirm(act, view):
            await self._context.change(lambda: self._apply(act, jobset, view), DONE[act].format(name=self._name))

    async def _apply(self, act: str, jobset: Object, view: JobView) -> None:
        client = self._context.cache.client
        if act == "cancel":
            await lifecycle.cancel(client, jobset)
        elif view.row.state in FINISHED_STATES:
            full_jobset = await client.get(JOBSETS, self._name, self._namespace)
            await lifecycle.resubmit(client, full_jobset, _RESTART_SECONDS)
        else:
            await lifecycle.restart(client, jobset)


async def _confirm(act: str, view: JobView) -> bool:
    """Ask the user to confirm."""
    question, yes = confirmation(act, view)
    with ui.dialog() as dialog, ui.card():
        Tree(confirm_dialog(question, yes), on_act=lambda pressed: dialog.submit(pressed == "yes"))
    answer = await dialog
    dialog.delete()
    return bool(answer)
