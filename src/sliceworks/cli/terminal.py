"""Terminal helpers: usage bars, a live display, and opening a browser."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Self

from sliceworks.base import progress

if TYPE_CHECKING:
    from fractions import Fraction

_BAR_WIDTH = 20


def bar(used: float | Fraction, quota: float | Fraction, borrowed: float | Fraction = 0) -> str:
    """`#` in use, `+` borrowed beyond the quota, `.` free."""
    if used <= 0 and quota <= 0:
        return "." * _BAR_WIDTH
    total = max(float(used), float(quota))
    over = max(float(used) - float(quota), float(borrowed), 0.0)
    beyond = min(max(round(_BAR_WIDTH * over / total), 1 if over else 0), _BAR_WIDTH)
    own = min(round(_BAR_WIDTH * (float(used) - over) / total), _BAR_WIDTH - beyond)
    return "#" * own + "+" * beyond + "." * (_BAR_WIDTH - own - beyond)


class LiveDisplay:
    """Draws updates on stderr. `display` is rich's, or None where stderr is not a terminal."""

    def __init__(self) -> None:
        self.display: Any = None

    def __enter__(self) -> Self:
        if progress.is_interactive() and not progress.is_quiet():
            from rich.console import Console
            from rich.live import Live

            self.display = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self.display.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.display is not None:
            self.display.stop()


_DISPLAY_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def open_browser(address: str) -> bool:
    """Open a URL; False if there is no graphical browser (one that takes over the terminal does not count)."""
    import webbrowser

    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _DISPLAY_VARIABLES):
        return False
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return False
