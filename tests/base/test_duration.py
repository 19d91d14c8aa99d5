"""Go durations, and the ages that kubectl shows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.base import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("1h2m3.5s", 3723.5),
        ("-1.5h", -5400.0),
        ("+5s", 5.0),
        ("100ms", 0.1),
        ("1us", 1e-6),
        ("1µs", 1e-6),
        ("1μs", 1e-6),
        ("3ns", 3e-9),
        (".5s", 0.5),
        ("1.s", 1.0),
    ],
)
def test_parse(text: str, seconds: float) -> None:
    assert duration.parse(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("s", 'time: invalid duration "s"'),
        (".s", 'time: invalid duration ".s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("5d", 'time: unknown unit "d" in duration "5d"'),
        ('1"', 'time: unknown unit "\\"" in duration "1\\""'),
        ("1é", 'time: unknown unit "\\xc3\\xa9" in duration "1\\xc3\\xa9"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
    ],
)
def test_parse_fails_with_the_message_of_go(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="time: ") as caught:
        duration.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (1.5, "1.5s"),
        (3600, "1h0m0s"),
        (90, "1m30s"),
        (0.25, "250ms"),
        (2e-6, "2µs"),
        (7e-9, "7ns"),
        (-61, "-1m1s"),
        (0.0015, "1.5ms"),
    ],
)
def test_render(seconds: float, text: str) -> None:
    assert duration.render(seconds) == text


@given(st.integers(-(2**62), 2**62))
def test_render_round_trips(nanoseconds: int) -> None:
    assert duration.parse_nanoseconds(duration.render_nanoseconds(nanoseconds)) == nanoseconds


@pytest.mark.parametrize(
    ("seconds", "age", "short"),
    [
        (-5, "<invalid>", "<invalid>"),
        (-1, "0s", "0s"),
        (0, "0s", "0s"),
        (119, "119s", "1m"),
        (120, "2m", "2m"),
        (330, "5m30s", "5m"),
        (600, "10m", "10m"),
        (179 * 60, "179m", "2h"),
        (3 * 3600, "3h", "3h"),
        (3 * 3600 + 300, "3h5m", "3h"),
        (8 * 3600 + 300, "8h", "8h"),
        (10 * 3600 - 4e-7, "10h", "10h"),
        (10 * 3600 - 0.01, "9h", "9h"),
        (47 * 3600, "47h", "1d"),
        (48 * 3600, "2d", "2d"),
        (76 * 3600, "3d4h", "3d"),
        (8 * 86400, "8d", "8d"),
        (729 * 86400, "729d", "1y"),
        (730 * 86400, "2y", "2y"),
        (751 * 86400, "2y21d", "2y"),
        (9 * 365 * 86400, "9y", "9y"),
    ],
)
def test_human_and_short_ages(seconds: float, age: str, short: str) -> None:
    assert duration.human(seconds) == age
    assert duration.short(seconds) == short
