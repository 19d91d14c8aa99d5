"""The time line of a day as SVG: chips at work above, and below it how much happened when, lane by lane. Pure."""

from __future__ import annotations

from datetime import datetime
from html import escape
from typing import TYPE_CHECKING

from sliceworks.console.views.days import LANES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.console.views.days import Diary, Moment, Window

_WIDTH, _AREA, _LANE, _LEFT, _BINS = 1000.0, 90.0, 26.0, 70.0, 160


def strip(diary: Diary, shown: Window) -> str:
    """The picture."""
    high = _AREA + 14 + _LANE * len(LANES) + 22
    words = f"Time line from {shown.begins:%d %b %H:%M} to {shown.ends:%d %b %H:%M}: {len(diary.moments)} moments"
    parts = [
        f'<svg class="sw-strip" viewBox="0 0 {_WIDTH:g} {high:g}" role="img" aria-label="{words}">',
        *_hours(shown, high),
        _chips(diary, shown),
        *(_lane(diary, shown, lane, _AREA + 14 + number * _LANE) for number, lane in enumerate(LANES)),
        "</svg>",
    ]
    return "".join(parts)


def _hours(shown: Window, high: float) -> Iterator[str]:
    """Lines at round times."""
    steps = (60, 300, 900, 1800, 3600, 7200, 14400, 28800, 86400, 604800)
    step = next((each for each in steps if shown.seconds / each <= 9), steps[-1])
    first = shown.begins.timestamp() // step * step + step
    day = "%d %b %H:%M" if shown.seconds > 86400 else "%H:%M"
    while first < shown.ends.timestamp():
        at = datetime.fromtimestamp(first, shown.begins.tzinfo)
        x = _LEFT + shown.place(at, _WIDTH - _LEFT)
        yield f'<line class="sw-hour" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{high - 18:g}"/>'
        yield f'<text class="sw-when" x="{x:.1f}" y="{high - 5:g}">{at:{day}}</text>'
        first += step


def _chips(diary: Diary, shown: Window) -> str:
    samples = [each for each in diary.samples if each.at >= shown.begins]
    most = max((each.chips for each in samples), default=0)
    words = f'<text class="sw-lane" x="0" y="14">chips</text><text class="sw-when sw-most" x="0" y="30">{most:,}</text>'
    if not most:
        return words
    places = [_LEFT + shown.place(each.at, _WIDTH - _LEFT) for each in samples]
    all_of_them = _steps(places, [each.chips / most for each in samples])
    at_work = _steps(places, [each.busy / most for each in samples])
    return f'{words}<path class="sw-all" d="{all_of_them}"/><path class="sw-busy" d="{at_work}"/>'


def _steps(places: list[float], shares: list[float]) -> str:
    """An area whose height changes at each place and stays so until the next."""
    path, before = f"M{places[0]:.1f} {_AREA:g}", _AREA
    for x, share in zip(places, shares, strict=True):
        y = _AREA - share * (_AREA - 8)
        path += f"L{x:.1f} {before:.1f}L{x:.1f} {y:.1f}"
        before = y
    return f"{path}L{_WIDTH:g} {before:.1f}L{_WIDTH:g} {_AREA:g}Z"


def _lane(diary: Diary, shown: Window, lane: str, top: float) -> str:
    """How much happened in each small part of the time: what went wrong stands out, in colour and as a full bar."""
    counts = list(shown.parts(diary.lanes.get(lane, []), _BINS))
    most = max((len(each) for _, each in counts), default=1)
    wide = (_WIDTH - _LEFT) / _BINS
    bars = [f'<text class="sw-lane" x="0" y="{top + 16:g}">{lane}</text>']
    for place, moments in counts:
        bad = any(each.tone == "bad" for each in moments) or lane == "faults"
        tall = (_LANE - 6) * (1.0 if bad else 0.25 + 0.75 * len(moments) / most)
        told = escape(_spoken(moments))
        bars.append(
            f'<rect class="sw-bar{" sw-bar-bad" if bad else ""}" x="{_LEFT + place * wide:.1f}" y="{top + _LANE - 4 - tall:.1f}" '
            f'width="{max(wide - 1, 2):.1f}" height="{tall:.1f}"><title>{told}</title></rect>'
        )
    return "".join(bars)


def _spoken(moments: list[Moment]) -> str:
    told = [f"{each.at[11:16]} {each.subject} {each.what}" for each in moments[:4]]
    return "; ".join(told) + (f"; and {len(moments) - 4} more" if len(moments) > 4 else "")
