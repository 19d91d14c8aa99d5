"""The layout of every page: navigation, cluster name, connection status, theme and shortcuts."""

# NiceGUI reads the annotations of a page when it calls it: they must not become strings.
import logging
import zlib
from collections.abc import Callable
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from nicegui import PageArguments, context, ui

from sliceworks.console import cluster_cache
from sliceworks.console.cluster_cache import ClusterCache
from sliceworks.console.components import Node, el, empty, icon, state
from sliceworks.console.page import Console, Page, PageContext, Tree, registered_pages

log = logging.getLogger(__name__)

_HEAD = (
    '<link rel="stylesheet" href="/assets/console.css?{0}"><link rel="stylesheet" href="/assets/pages.css?{0}">'
    '<script src="/assets/console.js?{0}"></script>'
)
_FILES = ("console.css", "pages.css", "console.js")
_STATUS_INTERVAL = 1.0
_PAGE_TIMEOUT = 30.0  # seconds to build a page


def add_pages(console: Console) -> None:
    """Serve every registered page inside the layout."""
    from sliceworks.console.pages import load

    load()
    ui.add_head_html(_HEAD.format(_assets_hash()), shared=True)

    def frame() -> None:
        _Frame(console).draw()

    ui.page("/", response_timeout=_PAGE_TIMEOUT)(frame)
    ui.page("/{_:path}", response_timeout=_PAGE_TIMEOUT)(frame)


def _assets_hash() -> str:
    """A hash of the assets, which invalidates browser caches."""
    assets = files(__package__).joinpath("assets")
    return f"{zlib.crc32(b''.join(assets.joinpath(name).read_bytes() for name in _FILES)):08x}"


class _Pages(ui.sub_pages):
    """The page of a URL, or an error message."""

    def _render_404(self) -> None:
        Tree(empty("Page not found.", "The navigation lists all pages.", icon_name="explore_off"))

    def _render_error(self, _: Exception) -> None:
        log.exception("cannot render page")
        Tree(empty("This page could not be rendered.", "See the log of the console for the error.", icon_name="report"))


class _Frame:
    """The layout in one browser."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._router = context.client.sub_pages_router

    def draw(self) -> None:
        """Draw the layout with the page inside."""
        _only_one_main()
        with ui.element("div").classes("frame"):
            Tree(el("a", "Skip to content", cls="skip", href="#main"))
            side = Tree(_side(self._router.current_path))
            with ui.element("div").classes("body"):
                self._top()
                with ui.element("main").classes("page").props('id="main" tabindex="-1"'):
                    _Pages(
                        {page.path: self._builder(page) for page in registered_pages()}
                        | {"/": self._builder(registered_pages()[0])}
                    )
            Tree(_keys())
        self._router.on_path_changed(lambda path: side.show(_side(path)))
        ui.run_javascript("sliceworks.mounted()")

    def _top(self) -> None:
        tree = Tree(_top(self._console))
        ui.timer(_STATUS_INTERVAL, lambda: tree.show(_top(self._console)))

    def _builder(self, page: Page) -> Callable[..., Any]:
        def build(arguments: PageArguments) -> Any:
            words = " / ".join(arguments.path_parameters.values())
            ui.page_title(f"{words or page.title} · {self._console.cache.name} · Sliceworks")
            if not self._router.is_initial_request:
                ui.run_javascript("sliceworks.arrived()")
            return page.draw(PageContext(self._console, dict(arguments.path_parameters), dict(arguments.query_parameters)))

        return build


def _only_one_main() -> None:
    """Remove the main role from Quasar's container, so that screen readers find one main landmark."""
    slot = context.client.content.parent_slot
    if slot is not None:
        slot.parent.props('role="presentation"')


def _side(path: str) -> Node:
    """The navigation, with the current page marked."""
    first = urlsplit(path).path.strip("/").partition("/")[0] or "overview"
    links = [
        el(
            "a",
            icon(page.icon),
            el("span", page.title),
            el("kbd", f"g {page.key}", aria_hidden="true"),
            key=page.name,
            cls="to",
            href=page.path,
            data_key=page.key,
            aria_current="page" if page.name == first else None,
        )
        for page in registered_pages()
        if not page.parent
    ]
    brand = el("a", _logo(), el("span", "Sliceworks"), cls="brand", href="/", aria_label="Sliceworks: overview")
    theme = _foot("contrast", el("span", "auto"), data_theme_button="", title="Change the theme (t)", aria_label="Theme")
    keys = _foot("keyboard", None, data_keys_button="", title="Keyboard shortcuts (?)", aria_label="Keyboard shortcuts")
    return el("nav", brand, links, el("div", theme, keys, cls="foot"), cls="side", aria_label="Pages")


def _foot(name: str, text: Node | None, **attributes: str) -> Node:
    return el("button", icon(name), text, cls="plain-button quiet", type="button", **attributes)


def _logo() -> Node:
    back = el("rect", width=32, height=32, rx=7, fill="var(--accent)")
    lines = el("path", d="M8 11l8-4 8 4-8 4zM8 16l8 4 8-4M8 21l8 4 8-4", fill="none", stroke="var(--surface)", stroke_width=2.2)
    return el("svg", back, lines, viewBox="0 0 32 32", aria_hidden="true")


def _top(console: Console) -> Node:
    """The cluster name, whether changes are allowed, and the connection status."""
    access = (
        state("changes allowed", "lent", title="Started with --allow-changes")
        if console.allow_changes
        else state("read-only", "idle", title="Start the console with --allow-changes to make changes")
    )
    where = el("div", icon("hub"), el("span", "Cluster", cls="hidden-words"), el("b", console.cache.name), cls="where")
    status, message = _connection_status(console.cache)
    band = el("div", message, cls="band", key="band") if message else None
    return el("header", where, el("div", access, el("span", status, role="status"), cls="right"), band, cls="top")


def _connection_status(cache: ClusterCache) -> tuple[Node, str]:
    """The connection status, and a message if the data is not live."""
    if cache.is_unauthorized:
        return state("unauthorized", "bad"), f"{cluster_cache.UNAUTHORIZED} {cluster_cache.UNAUTHORIZED_HINT}"
    if cache.stale_since is not None:
        since = f"{cache.stale_since:%H:%M:%S} UTC"
        return state(f"unreachable since {since}", "bad"), f"The cluster is unreachable. Pages show the state at {since}."
    return (state("catching up", "busy"), "") if cache.is_stale else (state("live", "good"), "")


def _keys() -> Node:
    """The dialog of keyboard shortcuts."""
    keys = [(f"g {page.key}", f"Go to {page.title.lower()}") for page in registered_pages() if page.key and not page.parent]
    keys += [("/", "Search on this page"), ("t", "Change the theme"), ("?", "Show or hide this list")]
    rows = [node for key, what in keys for node in (el("dt", [el("kbd", part) for part in key.split()]), el("dd", what))]
    close = el("form", el("button", "Close", cls="plain-button"), method="dialog")
    return el(
        "dialog", el("h2", "Keyboard shortcuts", id="keys-title"), el("dl", rows), close, cls="keys", aria_labelledby="keys-title"
    )
