"""Strings of users are matched in bounded time: the CPU time does not grow with the square of their length."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base.errors import BadRequest
from sliceworks.cel.engine import runtime_error
from sliceworks.cel.libraries import urls
from sliceworks.kube.selectors import parse_labels
from sliceworks.schemas import build, formats, validate
from sliceworks.schemas.patterns import matches

if TYPE_CHECKING:
    from collections.abc import Callable

LENGTH = 400_000


def _suppress(call: Callable[[str], Any]) -> Callable[[str], Any]:
    def run(text: str) -> None:
        with pytest.raises((ValueError, BadRequest)):
            call(text)

    return run


@pytest.mark.parametrize(
    ("call", "text"),
    [
        pytest.param(lambda text: formats.is_valid("duration", text), "1" * LENGTH, id="duration"),
        pytest.param(_suppress(parse_labels), "," + " " * LENGTH, id="selector"),
        pytest.param(_suppress(urls.parse), "a" * LENGTH, id="url"),
        pytest.param(runtime_error, "INTERNAL: " + "a" * LENGTH, id="error of the CEL engine"),
    ],
)
def test_long_strings_take_linear_time(call: Callable[[str], Any], text: str) -> None:
    """Each took minutes at this length."""
    start = time.process_time()
    call(text)
    assert time.process_time() - start < 5


def test_large_pattern_does_not_match_a_long_value() -> None:
    pattern = "a" * 20_000
    assert matches(pattern, "a" * 900) is False
    assert matches(r"^([a-z0-9]+(-[a-z0-9]+)*)+$", "a" * 500_000)
    assert matches(pattern, "a" * 100_000) is None
    schema = build({"type": "object", "properties": {"s": {"type": "string", "pattern": pattern}}})
    (error,) = validate(schema, {"s": "a" * 100_000}, "")
    assert error.detail == "s in body is too long for its pattern"
