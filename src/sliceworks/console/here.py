"""What a page gets to draw with: the world, what was asked for, live updates, and the one way to change something."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import orjson
from nicegui import ui

from sliceworks.base.errors import SliceworksError
from sliceworks.console import knowing
from sliceworks.console.pace import Pace
from sliceworks.console.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.cloud import Container
    from sliceworks.console.environment_looks import Made
    from sliceworks.console.nodes import Child
    from sliceworks.console.tables import Changes
    from sliceworks.console.world import World
    from sliceworks.kube.resources import Resource
    from sliceworks.specs.environment import Environment

_REDRAW_EVERY = 0.25  # seconds: nobody reads faster
_AGES_EVERY = 5.0
_SECONDS, _SECONDS_TO_READ = 4.0, 12.0  # that something is said for


@dataclass(frozen=True, slots=True)
class Console:
    """What one console was started with. `container` is the cloud behind the cluster, where that is known; `folder` is where the
    user's documents and results are looked for; `made` finds where the environment of a document is made."""

    world: World
    allow_changes: bool = False
    container: Container | None = None
    folder: Path = field(default_factory=Path)
    made: Callable[[Environment, Path], Made] | None = None


@dataclass(frozen=True, slots=True)
class Here:
    """One page, open in one browser. `arguments` are the parts of its address, `query` what follows the question mark."""

    console: Console
    arguments: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)

    @property
    def world(self) -> World:
        return self.console.world

    @property
    def allow_changes(self) -> bool:
        return self.console.allow_changes

    def show(
        self,
        draw: Callable[[], Child],
        *resources: Resource,
        on_act: Callable[[str], Any] | None = None,
        on_field: Callable[[str, str], Any] | None = None,
        ages: float = _AGES_EVERY,
    ) -> Tree:
        """Show what `draw` makes of the world, and keep it current while these kinds change."""
        tree = Tree(on_act=on_act, on_field=on_field)
        self.live(lambda _changes: tree.show(draw()), *resources, ages=ages)
        return tree

    def live(self, redraw: Callable[[Changes], None], *resources: Resource, ages: float = _AGES_EVERY) -> None:
        """Draw now, then whenever one of these kinds has changed, four times a second at most; and for the sake of ages every few
        seconds. `redraw` is told which objects have changed."""
        pace = Pace(self.world.feed(*resources), redraw, ages)
        pace.draw({})
        ui.timer(_REDRAW_EVERY, pace.look, immediate=False)

    def remember(self, path: str, query: dict[str, str]) -> None:
        """Put into the address what a page shows: going back to it, or sending it to others, finds the same."""
        address = orjson.dumps(f"{path}?{urlencode(query)}" if query else path).decode()
        ui.run_javascript(f"history.replaceState({{page: {address}}}, '', {address})")

    async def change(self, action: Callable[[], Awaitable[object]], done: str) -> bool:
        """Do something to the cluster and say that it is done, or why it is not. A console without --allow-changes refuses."""
        try:
            if not self.allow_changes:
                raise SliceworksError("this console only looks", hint="start it with --allow-changes")
            await action()
        except SliceworksError as error:
            self.complain(error)
            return False
        _tell(done, "done", _SECONDS)
        return True

    def complain(self, error: SliceworksError) -> None:
        """Say what did not work, and the remedy."""
        _tell(knowing.said(error), "refused", _SECONDS_TO_READ, close_button="Close")


def _tell(words: str, how: str, seconds: float, **more: Any) -> None:
    """Say it in a corner, and to readers of the screen. What is said next takes the place of what was said the same way: there is
    one of each at most, however often somebody presses."""
    ui.notify(words, group=how, position="bottom-right", classes=f"told {how}", badgeClass="again", timeout=1000 * seconds, **more)
