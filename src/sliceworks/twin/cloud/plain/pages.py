"""Pages of a list: as many as were asked for, and a token that leads to the rest."""

from __future__ import annotations

import base64
import binascii
from itertools import islice
from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.twin.cloud.routes import Call
    from sliceworks.twin.cloud.state import Document

Obj = dict[str, Any]
_SIZES = ("maxResults", "pageSize")
_USUAL, _MOST = 500, 1000


def page(call: Call, found: Iterable[Document], *, usual: int = _USUAL) -> tuple[list[Document], Obj]:
    """The documents of the page that a call asks for, and `nextPageToken` where there are more. They come in order of their names.

    The token says after which name to go on, so that things which come and go between two pages shift nothing.
    """
    after = _name(call.query.get("pageToken", ""))
    size = wanted(call, usual)
    rest = (each for each in found if not after or each.name > after)
    taken = list(islice(rest, size + 1))
    more = len(taken) > size
    return taken[:size], {"nextPageToken": _token(taken[size - 1].name)} if more else {}


def wanted(call: Call, usual: int = _USUAL) -> int:
    """How many a page has at most."""
    text = next((call.query[key] for key in _SIZES if call.query.get(key)), "")
    if not text:
        return usual
    if not text.isdigit():
        raise invalid(f"Invalid page size: '{text}'. It must be a whole number.")
    return min(int(text), _MOST) or usual


def _token(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode()


def _name(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token.encode()).decode() if token else ""
    except (binascii.Error, UnicodeError) as error:
        raise invalid(f"Invalid value for field 'pageToken': '{token}'.") from error
