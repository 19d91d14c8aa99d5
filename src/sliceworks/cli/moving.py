"""A picture that moves on a terminal while something goes on, and is gone when it ends. Elsewhere there is none."""

from __future__ import annotations

from typing import Any, Self

from sliceworks.base import progress


class Moving:
    """Draws what it is given on standard error. `display` is rich's, or None where nothing is to move."""

    def __init__(self) -> None:
        self.display: Any = None

    def __enter__(self) -> Self:
        if progress.lively() and not progress.is_quiet():
            from rich.console import Console
            from rich.live import Live

            self.display = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self.display.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.display is not None:
            self.display.stop()
