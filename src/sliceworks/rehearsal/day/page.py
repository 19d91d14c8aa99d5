"""A day as one HTML file: no server, no network, pictures that answer to mouse and keys, and a table behind each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.pages import Safe, file, page, tag
from sliceworks.rehearsal.day import charts, sections
from sliceworks.rehearsal.day.view import view

if TYPE_CHECKING:
    from sliceworks.rehearsal.day.record import Day

_SCRIPTS = ("moments.js", "rows.js", "timeline.js", "steering.js", "chips.js")
_PARTS = (
    ("timeline", "Time line"),
    ("wrong", "What went wrong"),
    ("chips", "Chips"),
    ("waiting", "Waiting"),
    ("cost", "Cost"),
    ("loads", "Load tests"),
    ("expected", "Expected and found"),
)


def render(day: Day) -> str:
    """The whole page."""
    data = view(day)
    loads = sections.loads(day)
    links = [tag("a", title, href=f"#{name}") for name, title in _PARTS if name != "loads" or loads is not None]
    body = [
        Safe(file(__package__, "patterns.svg")),
        sections.header(day),
        tag("nav", *links, aria_label="Parts of this page"),
        charts.timeline(day, data),
        sections.incidents(day),
        charts.chips(day),
        charts.waiting(day),
        charts.cost(day),
        *([loads] if loads is not None else ()),
        sections.expected(day),
    ]
    script = "\n".join(file(__package__, name) for name in _SCRIPTS)
    return page(f"{day.name}: a rehearsed day", body, data=data, style=file(__package__, "page.css"), script=script)
