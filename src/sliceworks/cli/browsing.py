"""Opens an address in a browser, where there is one with a window of its own."""

from __future__ import annotations

import os
import sys

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")


def browse(address: str) -> bool:
    """Open it; False where there is no browser. One that would take over the terminal does not count."""
    import webbrowser

    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _SCREENS):
        return False
    try:
        return webbrowser.open(address)
    except (webbrowser.Error, OSError):
        return False
