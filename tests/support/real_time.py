"""A fake of the real clock of scaled loops: it moves only while a loop waits, so that the load of the machine has no effect."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

from sliceworks.base.loops import Selector

if TYPE_CHECKING:
    import pytest

    from sliceworks.base.loops import Ready


class RealTime:
    """Replaces the monotonic clock and the waiting of all loops."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        monkeypatch.setattr("sliceworks.base.loops.time", SimpleNamespace(monotonic=lambda: self.seconds))

        def wait(selector: Selector, timeout: float | None) -> Ready:
            select = super(Selector, selector).select
            if ready := select(0):
                return ready
            self.seconds += timeout or 0.0
            return select(0)

        monkeypatch.setattr(Selector, "wait", wait)
