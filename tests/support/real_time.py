"""A fake of the real clock of scaled loops: it moves only while a loop waits, so that the load of the machine has no effect."""

from __future__ import annotations

import selectors
from types import SimpleNamespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


class RealTime:
    """Replaces the monotonic clock and the selector of loops that are created afterwards."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        monkeypatch.setattr("sliceworks.base.loops.time", SimpleNamespace(monotonic=lambda: self.seconds))
        monkeypatch.setattr("sliceworks.base.loops.selectors", SimpleNamespace(DefaultSelector=self._selector))

    def _selector(self) -> selectors.BaseSelector:
        real_time = self

        class FakeSelector(selectors.DefaultSelector):
            def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
                real_time.seconds += timeout or 0.0
                return super().select(0)

        return FakeSelector()
