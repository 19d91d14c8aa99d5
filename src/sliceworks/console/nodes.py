"""What a page is made of, as plain data: pure functions from facts to nodes. The browser draws them and changes only what differs.

    panel("Queues", meter("team-a", 24, 32), note="chips")

A node is a text, or a list of a tag, its attributes and its children. Texts are texts: nothing in them is read as markup. A child
with a `key` keeps its place in the browser, and the focus that is on it, when others come and go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Node: TypeAlias = str | list[Any]
Child: TypeAlias = "Node | int | float | Iterable[Node | None] | None"

# What a word about something's state means to whoever looks at it.
_TONES = {
    "good": ("running", "ready", "completed", "succeeded", "active", "open", "applied", "healthy", "live", "in sync"),
    "wait": ("queued", "suspended", "pending", "waiting", "stopped", "unscheduled", "unschedulable", "drained", "full", "drifted"),
    "bad": ("failed", "error", "lost", "unhealthy", "broken", "refused", "not ready"),
    "busy": (
        "starting",
        "restarting",
        "creating",
        "updating",
        "deleting",
        "ending",
        "repairing",
        "in progress",
        "containercreating",
    ),
}
_TONE_OF = {word: tone for tone, words in _TONES.items() for word in words}


def el(tag: str, *children: Child, key: str = "", cls: str = "", **attributes: str | float | bool | None) -> Node:
    """One element. `cls` is its class; in names of attributes `_` stands for `-`; what is None or False is left out."""
    found: dict[str, Any] = {"class": cls} if cls else {}
    if key:
        found["key"] = key
    for name, value in attributes.items():
        if value is not None and value is not False:
            found[name.rstrip("_").replace("_", "-")] = "" if value is True else value
    return [tag, found, *flat(children)]


def flat(children: Iterable[Child]) -> list[Node]:
    """Children one by one: what is None is left out, numbers become texts, groups are opened."""
    found: list[Node] = []
    for child in children:
        if child is None:
            continue
        if isinstance(child, str):
            found.append(child)
        elif isinstance(child, int | float):
            found.append(f"{child:g}")
        elif _is_element(child):
            found.append(child)  # type: ignore[arg-type]
        else:
            found += flat(child)
    return found


def _is_element(child: object) -> bool:
    return isinstance(child, list) and len(child) > 1 and isinstance(child[0], str) and isinstance(child[1], dict)


def tone(word: str) -> str:
    """good, wait, bad or busy; idle for words that say nothing of the kind."""
    return _TONE_OF.get(word.lower(), "idle")


def state(word: str, kind: str = "", **more: str) -> Node:
    """A word about how something stands, with its colour."""
    return el("span", word, cls=f"state {kind or tone(word)}", **more)


def link(text: Child, to: str, **more: str) -> Node:
    """To another page of ours."""
    return el("a", text, href=to, **more)


def icon(name: str) -> Node:
    """One of the Material icons; nothing to a reader of the screen."""
    return el("i", name, cls="q-icon material-icons", aria_hidden="true")


def prose(text: str) -> list[Node]:
    """Words with commands in them: what stands between back quotes is code."""
    parts = text.split("`")
    return [el("code", part) if number % 2 else part for number, part in enumerate(parts) if part]


def button(text: str, act: str, *, kind: str = "", **more: str) -> Node:
    """What is pressed: `act` is told to the page. `kind` is main, danger or quiet."""
    return el("button", text, cls=f"plain-button {kind}".rstrip(), type="button", data_act=act, **more)


def drawing(svg: str, *, cls: str = "", key: str = "") -> Node:
    """A picture that is markup already: whoever made it has made every text in it safe."""
    return el("div", cls=cls, key=key, innerHTML=svg)


def choice(label: str, field: str, options: Iterable[tuple[str, str]], chosen: str) -> Node:
    """One of several: (value, words). What is chosen is told to the page under the field's name."""
    shown = [el("option", words, value=value, selected=value == chosen) for value, words in options]
    return el("label", el("span", label), el("select", shown, data_field=field, value=chosen), key=field)


def search(label: str, field: str, text: str) -> Node:
    """Words to look for, told while they are typed."""
    named = {"placeholder": label, "aria_label": label, "value": text, "key": field}
    return el("input", type="search", data_field=field, data_search=True, **named)


def heading(title: str, *beside: Child, crumb: Node | None = None) -> Node:
    """The one heading of a page."""
    before = el("span", crumb, " /", cls="crumb") if crumb else None
    return el("div", before, el("h1", title, tabindex="-1"), *beside, cls="head", key="head")


def panel(title: str, *children: Child, note: Child = None, wide: bool = False, key: str = "", tools: Child = None) -> Node:
    """A part of a page under its own heading."""
    top = el("div", el("h2", title), tools, el("span", note, cls="note") if note is not None else None, cls="title")
    return el("section", top, *children, cls="panel wide" if wide else "panel", key=key or title, aria_label=title)


def grid(*children: Child) -> Node:
    """Panels beside each other, as many as there is room for."""
    return el("div", *children, cls="grid")


def columns(*each: Child) -> Node:
    """Stacks of panels beside each other: each as high as it is."""
    return el("div", [el("div", one, cls="stack", key=str(number)) for number, one in enumerate(each)], cls="grid", key="columns")


def stat(label: str, value: str, note: Child = None, unit: str = "") -> Node:
    """One number that matters."""
    shown = el("div", value, el("small", f" {unit}") if unit else None, cls="value")
    return el(
        "div",
        el("div", label, cls="label"),
        shown,
        el("div", note, cls="note") if note is not None else None,
        cls="stat",
        key=label,
    )


def stats(*children: Child) -> Node:
    """Numbers in a row."""
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
    """How much of a whole is used. What is borrowed is part of what is used; `lent` is not ours to use."""
    whole = max(total or 0, used, used + lent) or 1
    parts = [("own", used - borrowed), ("borrowed", borrowed), ("lent", lent)]
    shares = [el("i", cls=name, style=f"width:{100 * amount / whole:.2f}%") for name, amount in parts if amount > 0]
    much = f" of {amount_of(total)}" if total is not None else ""
    told = f"{amount_of(used)}{much}{f' {unit}' if unit else ''}"
    loans = "".join(f", {amount_of(each)} {word}" for each, word in ((borrowed, "borrowed"), (lent, "lent")) if each > 0)
    beside = el(
        "span",
        el("b", amount_of(used)),
        much,
        f" {unit}" if unit else None,
        loans or None,
        el("small", f" {note}") if note else None,
        cls="much",
    )
    name = what if isinstance(what, str) else key
    bar = el("div", shares, cls="bar", role="meter", aria_label=name, aria_valuemin=0, aria_valuemax=whole, aria_valuenow=used)
    bar[1]["aria-valuetext"] = told + loans  # type: ignore[index]
    return el("div", el("span", what, cls="what"), beside, bar, cls="meter", key=key or (what if isinstance(what, str) else ""))


def amount_of(value: float | None) -> str:
    """A number as people read it: 1,024 or 2.5."""
    if value is None:
        return "?"
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def legend(*entries: tuple[str, str]) -> Node:
    """What the colours of meters mean."""
    return el("div", [el("span", el("i", cls=cls), words) for cls, words in entries], cls="legend", aria_hidden="true")


def empty(title: str, hint: Child = None, *, icon_name: str = "inbox") -> Node:
    """Nothing to show, and what that means."""
    return el("div", icon(icon_name), el("b", title), el("span", hint) if hint is not None else None, cls="empty", key="empty")


def warning(*words: Child) -> Node:
    """What to know before reading on."""
    return el("div", *words, cls="warning", role="status")


def facts(pairs: Iterable[tuple[str, Child]]) -> Node:
    """Names and what belongs to them; what is empty is left out."""
    shown = [(name, value) for name, value in pairs if value not in (None, "", [])]
    return el("dl", [(el("dt", name), el("dd", value)) for name, value in shown], cls="facts")


def table(
    columns: Sequence[str], rows: Iterable[tuple[str, Sequence[Child]]], *, numbers: Sequence[int] = (), caption: str = ""
) -> Node:
    """Rows under their columns; each row has a key. `numbers` are the columns that line up on the right."""
    right = dict.fromkeys(numbers, "number")
    head = el("thead", el("tr", [el("th", name, scope="col", cls=right.get(place, "")) for place, name in enumerate(columns)]))
    body = [
        el("tr", [el("td", cell, cls=right.get(place, "")) for place, cell in enumerate(cells)], key=key) for key, cells in rows
    ]
    told = el("caption", caption, cls="hidden-words") if caption else None
    return el("div", el("table", told, head, el("tbody", body), cls="rows"), cls="scroll")
