"""Self-contained HTML pages: escaping, elements, tables, and one file with style, data and script inside."""

from __future__ import annotations

import html
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class SafeHtml(str):
    """A string that is HTML already and must not be escaped again."""

    __slots__ = ()


def escape_html(value: object) -> SafeHtml:
    """A value as escaped HTML; SafeHtml is returned unchanged."""
    return value if isinstance(value, SafeHtml) else SafeHtml(html.escape(str(value)))


def tag(name: str, *children: object, **attributes: object) -> SafeHtml:
    """An element. `class_` sets the class; `_` in other attribute names becomes `-`; None omits an attribute."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return SafeHtml(f"<{name}{written}>{''.join(map(escape_html, children))}</{name}>")


def table(
    columns: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    caption: str = "",
    text_columns: Iterable[int] = (0,),
    **attributes: object,
) -> SafeHtml:
    """A table whose first column is the row header. `text_columns` are left-aligned, the others are numbers and right-aligned."""
    left_aligned = set(text_columns)
    classes = [" class=words" if index in left_aligned else "" for index in range(len(columns))]
    head = "".join(f"<th scope=col{css}>{escape_html(column)}</th>" for column, css in zip(columns, classes, strict=True))
    body = "".join(_row(row, classes) for row in rows)
    heading = f"<caption>{escape_html(caption)}</caption>" if caption else ""
    return tag("table", SafeHtml(f"{heading}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"), **attributes)


def _row(row: Sequence[object], classes: Sequence[str]) -> str:
    cells = "".join(f"<td{css}>{escape_html(value)}</td>" for value, css in zip(row[1:], classes[1:], strict=True))
    return f"<tr><th scope=row{classes[0]}>{escape_html(row[0])}</th>{cells}</tr>"


def render_page(title: str, body: Iterable[object], *, data: Any, style: str = "", script: str = "") -> str:
    """A complete page. `script` can read the data from the constant `data`."""
    # The HTML parser ends a script at "</", which JSON strings may contain.
    encoded = orjson.dumps(data).decode().replace("</", "<\\/").replace("<!--", "<\\u0021--")
    parts = {
        "TITLE": html.escape(title),
        "STYLE": f"{read_asset(__package__, 'page.css')}{style}",
        "BODY": "\n".join(map(escape_html, body)),
        "DATA": f"const data = {encoded};",
        "SCRIPT": script,
    }
    head, *rest = read_asset(__package__, "page.html").split("<!--")
    return head + "".join(parts[name] + after for name, _, after in (section.partition("-->") for section in rest))


def read_asset(package: str, name: str) -> str:
    """The content of a file in a package."""
    return (files(package) / name).read_text(encoding="utf-8")
