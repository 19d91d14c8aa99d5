"""How the head of an answer begins, as bytes."""

from __future__ import annotations

import itertools
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sliceworks.kube.transport import Response

_MOST_KNOWN, _LONGEST_KNOWN = 200, 1000
_REASONS = {status.value: status.phrase for status in HTTPStatus}


def start_of(response: Response) -> bytes:
    """Status line and headers, with an ID for the audit; without what the server adds and without the line that ends them."""
    # Most answers begin alike: how they do is made once.
    key = (response.status, *response.headers.items())
    start = _known.get(key)
    if start is None:
        start = _start(response)
        if len(_known) < _MOST_KNOWN and len(start) < _LONGEST_KNOWN:
            _known[key] = start
    return b"%b%012x\r\n" % (start, next(_serial))


_known: dict[tuple[object, ...], bytes] = {}
_serial = itertools.count(1)
_process = uuid.uuid4().hex


def _start(response: Response) -> bytes:
    """All up to the last part of the audit ID: a UUID for each answer, random for this process and then a number."""
    lines = [f"HTTP/1.1 {response.status} {_REASONS.get(response.status, '')}"]
    lines += [f"{name}: {line.replace(chr(13), ' ')}" for name, value in response.headers.items() for line in value.split("\n")]
    lines.append(f"audit-id: {_process[:8]}-{_process[8:12]}-4{_process[13:16]}-8{_process[17:20]}-")
    return "\r\n".join(lines).encode("utf-8", "replace")
