"""What a page is: its registration, its context in one browser, its node tree and its refresh."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlencode

import orjson
from nicegui import ui

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.console import cluster_cache
from sliceworks.console.components import flat

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.cloud import Container
    from sliceworks.console.cluster_cache import ChangeFeed, Changes, ClusterCache
    from sliceworks.console.components import Child
    from sliceworks.console.environment_loader import DeployedEnvironment
    from sliceworks.kube.resources import Resource
    from sliceworks.specs.environment import Environment

    Draw: TypeAlias = Callable[["PageContext"], Awaitable[None] | None]


class Tree(ui.element, component="assets/tree.js"):
    """A container that renders nodes. `on_act` receives button presses, `on_field` the name and value of changed fields."""

    def __init__(
        self, *nodes: Child, on_act: Callable[[str], Any] | None = None, on_field: Callable[[str, str], Any] | None = None
    ) -> None:
        super().__init__()
        self._shown: list[Any] = flat(nodes)
        self._props["tree"] = self._shown
        if on_act is not None:
            self.on("act", lambda event: on_act(str(event.args)))
        if on_field is not None:
            self.on("field", lambda event: on_field(str(event.args[0]), str(event.args[1])))

    def show(self, *nodes: Child) -> None:
        """Replace the nodes; only changes are sent."""
        tree = flat(nodes)
        if tree != self._shown:
            self._shown = tree
            self._props["tree"] = tree
            self.update()


_MAX_PAUSE = 2.0  # maximum seconds between redraws of a slow page
_SHARE = 8  # at most an eighth of the time is spent on drawing a page


class RefreshThrottle:
    """Redraws after changes, and periodically to update ages; limits the share of time spent on drawing."""

    def __init__(self, feed: ChangeFeed, redraw: Callable[[Changes], None], ages: float) -> None:
        self._feed, self._redraw, self._ages = feed, redraw, ages
        self._drawn, self._pause = 0.0, 0.0

    def poll(self) -> None:
        """Redraw if something changed or ages are outdated."""
        elapsed = clock.loop_time() - self._drawn
        if elapsed < self._pause:
            return
        changes = self._feed.take()
        if changes or elapsed >= self._ages:
            self.draw(changes)

    def draw(self, changes: Changes) -> None:
        started = clock.perf_counter()
        self._redraw(changes)
        self._drawn, self._pause = clock.loop_time(), min(_SHARE * (clock.perf_counter() - started), _MAX_PAUSE)


_REDRAW_INTERVAL = 0.25  # seconds
_AGES_INTERVAL = 5.0
_DONE_SECONDS, _ERROR_SECONDS = 4.0, 12.0  # how long notifications stay


@dataclass(frozen=True, slots=True)
class Console:
    """The settings of a console. `container` is the GKE API of the cluster, if known; `folder` holds the user's documents and
    results; `find_deployment` returns the deployment of an Environment document."""

    cache: ClusterCache
    allow_changes: bool = False
    container: Container | None = None
    folder: Path = field(default_factory=Path)
    find_deployment: Callable[[Environment, Path], DeployedEnvironment] | None = None


@dataclass(frozen=True, slots=True)
class PageContext:
    """A page open in one browser. `arguments` are the path parameters of its URL, `query` the query parameters."""

    console: Console
    arguments: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)

    @property
    def cache(self) -> ClusterCache:
        return self.console.cache

    @property
    def allow_changes(self) -> bool:
        return self.console.allow_changes

    def show(
        self,
        draw: Callable[[], Child],
        *resources: Resource,
        on_act: Callable[[str], Any] | None = None,
        on_field: Callable[[str, str], Any] | None = None,
        ages: float = _AGES_INTERVAL,
    ) -> Tree:
        """Show the result of `draw`, and redraw it when these kinds change."""
        tree = Tree(on_act=on_act, on_field=on_field)
        self.live(lambda _changes: tree.show(draw()), *resources, ages=ages)
        return tree

    def live(self, redraw: Callable[[Changes], None], *resources: Resource, ages: float = _AGES_INTERVAL) -> None:
        """Call `redraw` now, when one of these kinds changes (at most four times per second), and every `ages` seconds. It receives
        the changed objects."""
        throttle = RefreshThrottle(self.cache.feed(*resources), redraw, ages)
        throttle.draw({})
        ui.timer(_REDRAW_INTERVAL, throttle.poll, immediate=False)

    def remember(self, path: str, query: dict[str, str]) -> None:
        """Write the state of a page to its URL, so that it survives navigation and can be shared."""
        address = orjson.dumps(f"{path}?{urlencode(query)}" if query else path).decode()
        ui.run_javascript(f"history.replaceState({{page: {address}}}, '', {address})")

    async def change(self, action: Callable[[], Awaitable[object]], done: str) -> bool:
        """Run an action that changes the cluster, and notify the user of the result. Rejected without --allow-changes."""
        try:
            if not self.allow_changes:
                raise SliceworksError("this console is read-only", hint="start it with --allow-changes")
            await action()
        except SliceworksError as error:
            self.show_error(error)
            return False
        _notify(done, "done", _DONE_SECONDS)
        return True

    def show_error(self, error: SliceworksError) -> None:
        """Notify the user of an error."""
        _notify(cluster_cache.format_error(error), "refused", _ERROR_SECONDS, close_button="Close")


def _notify(message: str, kind: str, seconds: float, **more: Any) -> None:
    """Show a notification; it replaces an earlier one of the same kind."""
    ui.notify(
        message, group=kind, position="bottom-right", classes=f"notice {kind}", badgeClass="again", timeout=1000 * seconds, **more
    )


# The order of the navigation; other pages come last.
_ORDER = ("overview", "queues", "jobs", "slices", "graphs", "models", "loads", "environment", "rehearsal")


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `key` is its shortcut after `g`; a page with a `parent` is not in the navigation."""

    name: str
    title: str
    path: str
    draw: Draw
    icon: str = ""
    key: str = ""
    parent: str = ""


_pages: dict[str, Page] = {}


def register_page(
    name: str, *, title: str, icon: str = "", key: str = "", path: str = "", parent: str = ""
) -> Callable[[Draw], Draw]:
    """Register the function that draws a page; the default path is `/name`."""

    def register(draw: Draw) -> Draw:
        _pages[name] = Page(name, title, path or f"/{name}", draw, icon, key, parent)
        return draw

    return register


def registered_pages() -> list[Page]:
    """All registered pages in navigation order."""
    places = {name: number for number, name in enumerate(_ORDER)}
    return sorted(_pages.values(), key=lambda page: (places.get(page.parent or page.name, len(places)), bool(page.parent)))
