"""How an answer to "why" is shown: a page for people, wrapped to the terminal, and plain data for programs."""

from __future__ import annotations

import shutil
import textwrap
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, duration, tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from sliceworks.training.why.answer import Ahead, Answer, Cause, Release

_WIDEST, _NARROWEST = 110, 40


def page(answer: Answer, width: int = 0) -> str:
    """The page, each line ended. Width 0 is that of the terminal."""
    room = max(min(width or shutil.get_terminal_size((100, 24)).columns, _WIDEST), _NARROWEST)
    lines = [*_wrapped(answer.summary, room)]
    said = ""
    for number, cause in enumerate(answer.causes, start=1):
        lines += ["", *_cause(cause, number if len(answer.causes) > 1 else 0, room, quoted=cause.said != said)]
        said = cause.said
    if answer.ahead is not None:
        lines += ["", *_ahead(answer.ahead)]
    if answer.releases:
        lines += [
            "",
            "What would free capacity:",
            *(f"  {line}" for each in answer.releases for line in _wrapped(_release(each), room - 2)),
        ]
    if answer.progress:
        lines += ["", *(f"{name}: {text}" for name, text in answer.progress)]
    if answer.unseen:
        lines += ["", "Could not be seen:", *(f"  {line}" for each in answer.unseen for line in _wrapped(each, room - 2))]
    return "".join(f"{line}\n" for line in lines)


def _cause(cause: Cause, number: int, room: int, *, quoted: bool) -> Iterator[str]:
    first = f"{number}. " if number else ""
    indent = " " * len(first)
    yield from _wrapped(cause.words, room, first, indent)
    if cause.said and quoted and cause.said not in cause.words:
        yield from _wrapped(f"“{tables.cell(cause.said)}”", room, f"{indent}  said    ", f"{indent}          ")
    for number_seen, each in enumerate(cause.seen_in):
        label = "seen in" if not number_seen else "       "
        yield from _wrapped(str(each), room, f"{indent}  {label} ", f"{indent}          ")
    yield from _wrapped(cause.remedy, room, f"{indent}  do      ", f"{indent}          ")


def _ahead(ahead: Ahead) -> Iterator[str]:
    yield f"It is number {ahead.position} of {ahead.total} in the queue{':' if ahead.first else '.'}"
    if ahead.first:
        rows = [(f"  {number}", each, each.priority, _age(each.since)) for number, each in enumerate(ahead.first, start=1)]
        yield from tables.render(("  #", "job", "priority", "waits"), rows).splitlines()
    rest = ahead.position - 1 - len(ahead.first)
    if rest > 0:
        yield f"  and {rest} more"


def _release(release: Release) -> str:
    if release.when is None:
        return f"{release.amount} when {release.who} ends; {release.why or 'nobody knows when'}"
    left = (release.when - clock.now()).total_seconds()
    when = f"in {duration.human(left)}" if left > 0 else f"since {duration.human(-left)} ago: it is late"
    return f"{release.amount} when {release.who} ends, {when} ({_time(release.when)}, {release.why})"


def _time(moment: datetime) -> str:
    return clock.rfc3339(moment)


def _age(since: datetime | None) -> str:
    return duration.human(max(clock.since(since).total_seconds(), 0)) if since else "unknown"


def _wrapped(text: str, room: int, first: str = "", rest: str = "") -> list[str]:
    return textwrap.wrap(
        text, room, initial_indent=first, subsequent_indent=rest or " " * len(first), break_long_words=False, break_on_hyphens=False
    ) or [first.rstrip()]


def data(answer: Answer) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "namespace": answer.namespace,
        "name": answer.name,
        "state": answer.state,
        "summary": answer.summary,
        "causes": [
            {
                "cause": each.kind.name,
                "layer": each.kind.layer,
                "words": each.words,
                "said": each.said or None,
                "seenIn": [
                    {"kind": one.kind, "namespace": one.namespace or None, "name": one.name, "field": one.field}
                    for one in each.seen_in
                ],
                "remedy": each.remedy,
            }
            for each in answer.causes
        ],
        "ahead": None
        if answer.ahead is None
        else {
            "position": answer.ahead.position,
            "total": answer.ahead.total,
            "first": [{"namespace": one.namespace, "name": one.name, "priority": one.priority} for one in answer.ahead.first],
        },
        "releases": [
            {
                "namespace": each.who.namespace,
                "name": each.who.name,
                "amount": each.amount,
                "when": _time(each.when) if each.when else None,
                "why": each.why or None,
            }
            for each in answer.releases
        ],
        "progress": dict(answer.progress),
        "unseen": list(answer.unseen),
    }
