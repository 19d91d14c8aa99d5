"""UI components as plain data: pure functions from values to nodes that the browser renders."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from sliceworks.base import duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Node: TypeAlias = str | list[Any]
Child: TypeAlias = "Node | int | float | Iterable[Node | None] | None"

# The tone (color) of each state.
_TONES = {
    "good": ("running", "ready", "completed", "succeeded", "active", "open", "applied", "healthy", "live", "in sync"),
    "wait": ("queued", "suspended", "pending", "waiting", "stopped", "unscheduled", "unschedulable", "drained", "full", "drifted"),
    "bad": (
        "failed",
        "error",
        "lost",
        "unhealthy",
        "broken",
        "refused",
        "not ready",
        "crashloopbackoff",
        "errimagepull",
        "imagepullbackoff",
    ),
    "busy": (
        "starting",
        "restarting",
        "creating",
        "updating",
        "deleting",
        "repairing",
        "in progress",
        "containercreating",
    ),
}

_TONE_OF = {word: tone for tone, words in _TONES.items() for word in words}


def el(tag: str, *children: Child, key: str = "", cls: str = "", **attributes: str | float | bool | None) -> Node:
    """An element. `cls` is its class; `_` in attribute names becomes `-`; None and False attributes are omitted."""
    attrs: dict[str, Any] = {"class": cls} if cls else {}
    if key:
        attrs["key"] = key
    for name, value in attributes.items():
        if value is not None and value is not False:
            attrs[name.rstrip("_").replace("_", "-")] = "" if value is True else value
    return [tag, attrs, *flat(children)]


def flat(children: Iterable[Child]) -> list[Node]:
    """Flatten children: None is omitted, numbers become strings, nested iterables are expanded."""
    result: list[Node] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            result.append(child)
        elif isinstance(child, int | float):
            result.append(f"{child:g}")
        elif _is_element(child):
            result.append(child)  # type: ignore[arg-type]
        else:
            result += flat(child)
    return result


def _is_element(child: object) -> bool:
    return isinstance(child, list) and len(child) > 1 and isinstance(child[0], str) and isinstance(child[1], dict)


def tone(word: str) -> str:
    """The tone of a state: good, wait, bad or busy; idle if unknown."""
    return _TONE_OF.get(word.lower(), "idle")


def state(word: str, kind: str = "", **more: str) -> Node:
    """A state with its color."""
    return el("span", word, cls=f"state {kind or tone(word)}", **more)


def link(text: Child, to: str, **more: str) -> Node:
    """A link to another page of the console."""
    return el("a", text, href=to, **more)


def icon(name: str) -> Node:
    """A Material icon, hidden from screen readers."""
    return el("i", name, cls="q-icon material-icons", aria_hidden="true")


def prose(text: str) -> list[Node]:
    """Text in which backquoted parts become code."""
    parts = text.split("`")
    return [el("code", part) if number % 2 else part for number, part in enumerate(parts) if part]


def button(text: str, act: str, *, kind: str = "", **more: str) -> Node:
    """A button that sends `act` to the page. `kind` is main, danger or quiet."""
    return el("button", text, cls=f"plain-button {kind}".rstrip(), type="button", data_act=act, **more)


def drawing(svg: str, *, cls: str = "", key: str = "") -> Node:
    """An SVG, inserted as is: the caller must have escaped its strings."""
    return el("div", cls=cls, key=key, innerHTML=svg)


def choice(label: str, field: str, options: Iterable[tuple[str, str]], chosen: str) -> Node:
    """A selector with (value, label) options; sends the selected value to the page as `field`."""
    shown = [el("option", words, value=value, selected=value == chosen) for value, words in options]
    return el("label", el("span", label), el("select", shown, data_field=field, value=chosen), key=field)


def search(label: str, field: str, text: str) -> Node:
    """A search box that sends its value while the user types."""
    named = {"placeholder": label, "aria_label": label, "value": text, "key": field}
    return el("input", type="search", data_field=field, data_search=True, **named)


def heading(title: str, *beside: Child, crumb: Node | None = None) -> Node:
    """The heading of a page."""
    before = el("span", crumb, " /", cls="crumb") if crumb else None
    return el("div", before, el("h1", title, tabindex="-1"), *beside, cls="head", key="head")


def panel(title: str, *children: Child, note: Child = None, wide: bool = False, key: str = "", tools: Child = None) -> Node:
    """A section of a page with a heading."""
    top = el("div", el("h2", title), tools, el("span", note, cls="note") if note is not None else None, cls="title")
    return el("section", top, *children, cls="panel wide" if wide else "panel", key=key or title, aria_label=title)


def grid(*children: Child) -> Node:
    """Panels side by side, as many as fit."""
    return el("div", *children, cls="grid")


def columns(*stacks: Child) -> Node:
    """Stacks of panels side by side."""
    return el(
        "div", [el("div", stack, cls="stack", key=str(number)) for number, stack in enumerate(stacks)], cls="grid", key="columns"
    )


def stat(label: str, value: str, note: Child = None) -> Node:
    """A key figure."""
    return el(
        "div",
        el("div", label, cls="label"),
        el("div", value, cls="value"),
        el("div", note, cls="note") if note is not None else None,
        cls="stat",
        key=label,
    )


def stats(*children: Child) -> Node:
    """Key figures in a row."""
    return el("div", *children, cls="stats", key="stats")


def meter(
    what: Child,
    used: float,
    total: float | None,
    *,
    borrowed: float = 0,
    lent: float = 0,
    unit: str = "",
    key: str = "",
    note: str = "",
) -> Node:
    """A usage bar. `used` includes `borrowed`; `lent` is in use by others."""
    full = max(total or 0, used, used + lent) or 1
    parts = [("own", used - borrowed), ("borrowed", borrowed), ("lent", lent)]
    shares = [el("i", cls=name, style=f"width:{100 * amount / full:.2f}%") for name, amount in parts if amount > 0]
    much = f" of {format_amount(total)}" if total is not None else ""
    label = f"{format_amount(used)}{much}{f' {unit}' if unit else ''}"
    loans = "".join(f", {format_amount(count)} {word}" for count, word in ((borrowed, "borrowed"), (lent, "lent")) if count > 0)
    beside = el(
        "span",
        el("b", format_amount(used)),
        much,
        f" {unit}" if unit else None,
        loans or None,
        el("small", f" {note}") if note else None,
        cls="much",
    )
    name = what if isinstance(what, str) else key
    bar = el("div", shares, cls="bar", role="meter", aria_label=name, aria_valuemin=0, aria_valuemax=full, aria_valuenow=used)
    bar[1]["aria-valuetext"] = label + loans  # type: ignore[index]
    return el("div", el("span", what, cls="what"), beside, bar, cls="meter", key=key or (what if isinstance(what, str) else ""))


def format_amount(value: float | None) -> str:
    """A formatted number: 1,024 or 2.5."""
    if value is None:
        return "?"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def legend(*entries: tuple[str, str]) -> Node:
    """The legend of the colors of meters."""
    return el("div", [el("span", el("i", cls=cls), words) for cls, words in entries], cls="legend", aria_hidden="true")


def empty(title: str, hint: Child = None, *, icon_name: str = "inbox") -> Node:
    """A placeholder for missing content, with a hint."""
    return el("div", icon(icon_name), el("b", title), el("span", hint) if hint is not None else None, cls="empty", key="empty")


def warning(*words: Child) -> Node:
    """A warning above the content."""
    return el("div", *words, cls="warning", role="status")


def facts(pairs: Iterable[tuple[str, Child]]) -> Node:
    """A list of names and values; empty values are omitted."""
    shown = [(name, value) for name, value in pairs if value not in (None, "", [])]
    return el("dl", [(el("dt", name), el("dd", value)) for name, value in shown], cls="facts")


def table(
    columns: Sequence[str], rows: Iterable[tuple[str, Sequence[Child]]], *, numbers: Sequence[int] = (), caption: str = ""
) -> Node:
    """A table of keyed rows. `numbers` are the indexes of right-aligned columns."""
    right = dict.fromkeys(numbers, "number")
    head = el("thead", el("tr", [el("th", name, scope="col", cls=right.get(place, "")) for place, name in enumerate(columns)]))
    body = [
        el("tr", [el("td", cell, cls=right.get(place, ""), data_label=columns[place]) for place, cell in enumerate(cells)], key=key)
        for key, cells in rows
    ]
    label = el("caption", caption, cls="hidden-words") if caption else None
    return el("div", el("table", label, head, el("tbody", body), cls="rows"), cls="scroll")


def format_age(timestamp: str, now: datetime) -> str:
    """The age in the format of kubectl, or a dash if unknown."""
    if not timestamp:
        return "–"
    return duration.human(max((now - datetime.fromisoformat(timestamp)).total_seconds(), 0))


def time_ago(timestamp: str, now: datetime) -> Node:
    """The age, with the time as its tooltip."""
    return el("time", format_age(timestamp, now), datetime=timestamp, title=timestamp) if timestamp else "–"


def format_elapsed(first: str, last: str, now: datetime) -> str:
    """The elapsed time until `last`, or until now."""
    if not first:
        return "–"
    end = datetime.fromisoformat(last) if last else now
    return duration.human(max((end - datetime.fromisoformat(first)).total_seconds(), 0))


def format_usd(usd: float | None) -> str:
    """A formatted amount of USD."""
    if usd is None:
        return "unknown"
    return f"${usd:,.0f}" if usd >= 100 else f"${usd:,.2f}"
