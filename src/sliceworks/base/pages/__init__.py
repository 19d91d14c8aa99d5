"""Pages that stand alone: one HTML file with its style, its data and its script inside, which asks no network for anything.

Text is escaped here and nowhere else: what is `Safe` is HTML already, anything else is text.
"""

from __future__ import annotations

import html
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Safe(str):
    """HTML that was made on purpose."""

    __slots__ = ()


def text(value: object) -> Safe:
    """A value as HTML; what is `Safe` stays what it is."""
    return value if isinstance(value, Safe) else Safe(html.escape(str(value)))


def tag(name: str, *inside: object, **attributes: object) -> Safe:
    """An element. `class_` is the class, `_` in other names is a `-`; an attribute that is None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Safe(f"<{name}{written}>{''.join(map(text, inside))}</{name}>")


def table(
    columns: Sequence[object],
    rows: Iterable[Sequence[object]],
    *,
    caption: str = "",
    words: Iterable[int] = (0,),
    **attributes: object,
) -> Safe:
    """A table whose first column names the row. Columns of `words` begin at the left, columns of figures end at the right."""
    texts = set(words)
    kinds = [" class=words" if number in texts else "" for number in range(len(columns))]
    head = "".join(f"<th scope=col{kind}>{text(each)}</th>" for each, kind in zip(columns, kinds, strict=True))
    body = "".join(_row(row, kinds) for row in rows)
    told = f"<caption>{text(caption)}</caption>" if caption else ""
    return tag("table", Safe(f"{told}<thead><tr>{head}</tr></thead><tbody>{body}</tbody>"), **attributes)


def _row(row: Sequence[object], kinds: Sequence[str]) -> str:
    cells = "".join(f"<td{kind}>{text(each)}</td>" for each, kind in zip(row[1:], kinds[1:], strict=True))
    return f"<tr><th scope=row{kinds[0]}>{text(row[0])}</th>{cells}</tr>"


def page(title: str, body: Iterable[object], *, data: Any, style: str = "", script: str = "") -> str:
    """The whole file. The script finds the data under the name `data`."""
    # A script ends at the first "</": JSON may have it escaped.
    written = orjson.dumps(data).decode().replace("</", "<\\/").replace("<!--", "<\\u0021--")
    parts = {
        "TITLE": html.escape(title),
        "STYLE": f"{file(__package__, 'page.css')}{style}",
        "BODY": "\n".join(map(text, body)),
        "DATA": f"const data = {written};",
        "SCRIPT": script,
    }
    head, *rest = file(__package__, "page.html").split("<!--")
    return head + "".join(parts[mark] + after for mark, _, after in (each.partition("-->") for each in rest))


def file(package: str, name: str) -> str:
    """A file that lies beside a module."""
    return (files(package) / name).read_text(encoding="utf-8")
