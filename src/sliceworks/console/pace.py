"""When a page is drawn again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.console.tables import Changes, Feed

_LATEST = 2.0  # seconds: however long it takes, it is drawn after so many
_SHARE = 8  # an eighth of the time is spent on drawing one page at most


class Pace:
    """After changes, and now and then for the sake of ages; never so often that drawing takes more than a part of the time."""

    def __init__(self, feed: Feed, redraw: Callable[[Changes], None], ages: float) -> None:
        self._feed, self._redraw, self._ages = feed, redraw, ages
        self._drawn, self._pause = 0.0, 0.0

    def look(self) -> None:
        """Draw, if there is a reason."""
        waited = clock.loop_time() - self._drawn
        if waited < self._pause:
            return
        changes = self._feed.take()
        if changes or waited >= self._ages:
            self.draw(changes)

    def draw(self, changes: Changes) -> None:
        began = clock.effort()
        self._redraw(changes)
        self._drawn, self._pause = clock.loop_time(), min(_SHARE * (clock.effort() - began), _LATEST)
