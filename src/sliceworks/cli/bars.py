"""How full something is, as a bar of characters."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

_WIDTH = 20


def bar(used: float | Fraction, quota: float | Fraction, borrowed: float | Fraction = 0) -> str:
    """`#` in use, `+` borrowed beyond the quota, `.` free."""
    if used <= 0 and quota <= 0:
        return "." * _WIDTH
    whole = max(float(used), float(quota))
    over = max(float(used) - float(quota), float(borrowed), 0.0)
    beyond = min(max(round(_WIDTH * over / whole), 1 if over else 0), _WIDTH)
    own = min(round(_WIDTH * (float(used) - over) / whole), _WIDTH - beyond)
    return "#" * own + "+" * beyond + "." * (_WIDTH - own - beyond)
