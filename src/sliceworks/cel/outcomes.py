"""Results of expressions as documents hold them: times and durations are texts, bytes are base64, whole numbers are integers."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from sliceworks.base import duration

_LARGEST_WHOLE = 1e21


def document_value(value: Any) -> Any:
    """The value in JSON's types; ValueError where JSON has none for it."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, dict):
        wrong = next((key for key in value if not isinstance(key, str)), None)
        if wrong is not None:
            raise ValueError(f"the keys of a map must be texts, not {wrong!r}")
        # The engine keeps maps in no order of their own, and what is written must not change from one time to the next.
        return {key: document_value(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [document_value(item) for item in value]
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(f"{value} is no number that a document can hold")
        return int(value) if value.is_integer() and abs(value) < _LARGEST_WHOLE else value
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, timedelta):
        return duration.render_nanoseconds((value.days * 86400 + value.seconds) * 10**9 + value.microseconds * 1000)
    return value
