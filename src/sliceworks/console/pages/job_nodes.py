"""What a job's page is made of. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import duration
from sliceworks.base.words import counted
from sliceworks.console.nodes import (
    button,
    columns,
    el,
    empty,
    facts,
    heading,
    link,
    panel,
    prose,
    state,
    table,
    tone,
)
from sliceworks.console.views.times import age, ago, between, dollars
from sliceworks.training.words import ENDED, WAITS

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.console.nodes import Node
    from sliceworks.console.views.job import JobView
    from sliceworks.training.hosts import Host
    from sliceworks.training.timeline import Step
    from sliceworks.training.why.answer import Answer, Cause, Release

DONE = {"cancel": "{name} is cancelled.", "restart": "{name} begins again."}
_BAD_STEPS = ("failed", "evicted", "preempted", "to be deactivated")
_GOOD_STEPS = ("completed", "all pods ready", "last pod ready")
_CALM = ("running", "completed")


def nothing(namespace: str, name: str, trouble: str) -> Node:
    """There is no such job, or none any more."""
    words = trouble or f"There is no job {name} in {namespace}."
    hint = None if trouble else "It may have been cancelled, or removed some time after its end."
    return el("div", heading(name, crumb=link("Jobs", "/jobs")), empty(words, hint, icon_name="search_off"))


def top(view: JobView, answer: Answer | None, changes: bool, now: datetime) -> list[Node]:
    """The name, how it stands, what may be done, and why it is where it is."""
    row = view.row
    buttons = _buttons(view) if changes else None
    return [
        heading(row.name, state("ending" if view.going else row.state), buttons, crumb=link("Jobs", "/jobs")),
        _why(view, answer, now),
    ]


def _buttons(view: JobView) -> Node:
    again = None if view.row.state in WAITS else button("Restart", "restart")
    return el("span", again, button("Cancel", "cancel", kind="danger"), cls="buttons", key="buttons")


def question(act: str, view: JobView) -> tuple[str, str]:
    """What to ask before, and what yes is called."""
    name = view.row.name
    if act == "cancel":
        return f"Cancel {name}? It ends now and is removed, with its pods and their logs.", "Cancel the job"
    if view.row.state in ENDED:
        return f"Submit {name} again? It is {view.row.state}; its pods and their logs are removed.", "Submit it again"
    return f"Begin {name} again? Its pods end, and new ones begin from the last checkpoint. It keeps its slices.", "Begin it again"


def sure(words: str, yes: str) -> Node:
    """The question with its two answers."""
    answers = el("div", button("Leave it", "no"), button(yes, "yes", kind="danger"), cls="answers")
    return el("div", el("p", words), answers, cls="sure", role="alertdialog", aria_label=words)


def _why(view: JobView, answer: Answer | None, now: datetime) -> Node:
    """The answer in words; until it is there, what the job says of itself."""
    if answer is None:
        return el(
            "section", el("div", el("div", view.line, cls="summary"), cls="answer idle"), cls="panel", key="why", aria_label="Why"
        )
    kind = "good" if answer.state in _CALM else "bad" if answer.state == "failed" else "wait"
    causes = [_cause(each) for each in answer.causes]
    ahead = (
        el("p", f"It is number {answer.ahead.position} of {answer.ahead.total} in the queue.", cls="cause")
        if answer.ahead
        else None
    )
    frees = [el("li", _release(each, now)) for each in answer.releases[:4]]
    rest = el("div", el("h3", "What would free capacity"), el("ul", frees), cls="cause") if frees else None
    unseen = el("p", "Could not be seen: ", "; ".join(answer.unseen), ".", cls="note") if answer.unseen else None
    body = el("div", el("div", answer.summary, cls="summary"), causes, ahead, rest, unseen, cls=f"answer {kind}")
    return el("section", body, cls="panel", key="why", aria_label="Why", aria_live="polite")


def _cause(cause: Cause) -> Node:
    """What is in the way and what to do; where that was read is there for whoever wants to know."""
    said = el("div", f"“{cause.said}”", cls="breaks") if cause.said and cause.said not in cause.words else None
    seen = el("div", "; ".join(map(str, cause.seen_in)), cls="breaks") if cause.seen_in else None
    read = el("details", el("summary", "Where this was read"), seen, said, cls="note") if said or seen else None
    words = el("div", prose(cause.words))
    return el(
        "div", words, el("div", prose(cause.remedy), cls="remedy"), read, cls="cause", key=f"{cause.kind.name}{cause.words[:40]}"
    )


def _release(release: Release, now: datetime) -> str:
    who = f"{release.amount} when {release.who} ends"
    if release.when is None:
        return f"{who}; {release.why or 'nobody knows when'}"
    left = (release.when - now).total_seconds()
    return f"{who}, {f'in {duration.human(left)}' if left > 0 else 'which is late'} ({release.why})"


def parts(view: JobView, now: datetime) -> Node:
    """What it is, its life, its hosts and what was told."""
    return columns(
        [panel("About", _about(view, now)), panel("Life", el("ol", [_step(each, now) for each in view.steps], cls="line"))],
        [panel("Hosts", _hosts(view, now), note=_hosts_note(view)), panel("Events", _told(view, now), note="the latest")],
    )


def _about(view: JobView, now: datetime) -> Node:
    row = view.row
    queue = [link(row.queue, f"/queues#{view.leads_to}"), f", priority {row.priority or 'none'}"] if row.queue else "none"
    kind = f"{row.slices} × {row.type}, " if row.type else ""
    size = f"{kind}{counted(row.hosts, 'host')}, {counted(row.chips, 'chip')}"
    return facts(
        (
            ("State", row.state if row.state in WAITS else view.line),
            ("Namespace", row.namespace),
            ("Queue", queue),
            ("Slices", f"{size}, {view.capacity}" if view.capacity else size),
            ("Cost", f"{dollars(row.usd)} an hour while it runs" if row.usd is not None else "unknown"),
            ("Image", el("code", view.image)),
            ("Restarts", f"{row.restarts}, {view.restarts_allowed} allowed"),
            ("Submitted", [ago(row.created, now), " ago"]),
            ("Ran" if row.ended else "Runs for", between(row.began, row.ended, now) if row.began else None),
        )
    )


def _step(step: Step, now: datetime) -> Node:
    kind = "bad" if step.what in _BAD_STEPS else "good" if step.what in _GOOD_STEPS else "wait" if "wait" in step.what else ""
    after = f"+{duration.human(step.after)}" if step.after else ""
    when = el(
        "span", el("time", f"{age(step.at, now)} ago", datetime=step.at, title=step.at), f"  {after}" if after else None, cls="when"
    )
    said = el("div", step.said, cls="said") if step.said else None
    return el("li", el("span", step.what, cls="what"), when, said, cls=kind, key=f"{step.what}{step.source}")


def _hosts_note(view: JobView) -> str:
    ready = sum(host.ready for host in view.hosts)
    return f"{ready} of {len(view.hosts) + view.more_hosts} ready" + (f", {view.more_hosts} more" if view.more_hosts else "")


def _hosts(view: JobView, now: datetime) -> Node:
    if not any(host.pod for host in view.hosts):
        return empty("It has no pods yet.", "They are made when its queue lets it through.", icon_name="dns")
    return el("div", [_host(each, now) for each in view.hosts], cls="hosts", role="list")


def _host(host: Host, now: datetime) -> Node:
    kind = (
        "good" if host.ready or host.state == "succeeded" else "bad" if "exit code" in host.state or host.state == "failed" else ""
    )
    word = "ready" if host.ready else host.state
    times = f" · {host.restarts} restarts" if host.restarts else ""
    where = el("div", host.node or "no node", cls="node", title=host.node)
    name = el("div", host.label, el("span", age(host.since, now) if host.since else ""), cls="name")
    return el(
        "div", name, el("div", f"{word}{times}"), where, cls=f"host {kind or tone(host.state)}", key=host.label, role="listitem"
    )


def _told(view: JobView, now: datetime) -> Node:
    if not view.told:
        return empty("Nothing was told.", "Clusters forget events after an hour.", icon_name="notifications_none")
    rows = [
        (
            f"{each.at}{each.name}{each.reason}",
            (
                ago(each.at, now),
                el("b", each.reason),
                el(
                    "span",
                    each.message,
                    f" (×{each.times})" if each.times > 1 else None,
                    el("div", each.name, cls="note"),
                    cls="breaks",
                ),
            ),
        )
        for each in view.told
    ]
    return table(("Age", "Event", "Message"), rows, caption="Events")
