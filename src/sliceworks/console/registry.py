"""Which pages there are: each says its own name, address, icon and key, and the shell makes navigation and shortcuts of them.

@page_of("slices", title="Slices", icon="view_in_ar", key="s")
def slices(here: Here) -> None:
    ...

@page_of("slice", title="Slice", path="/slices/{name}", parent="slices")
def one_slice(here: Here) -> None:
    here.arguments["name"]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.console.here import Here

    Draw: TypeAlias = Callable[[Here], Awaitable[None] | None]

# The order of the navigation: a page that is not named here comes last.
_ORDER = ("overview", "queues", "jobs", "slices", "graphs", "models", "loads", "environment", "rehearsal")


@dataclass(frozen=True, slots=True)
class Page:
    """One page. `key` is what follows `g` on the keyboard; one with a `parent` is reached from there, not from the navigation."""

    name: str
    title: str
    path: str
    draw: Draw
    icon: str = ""
    key: str = ""
    parent: str = ""


_pages: dict[str, Page] = {}


def page_of(name: str, *, title: str, icon: str = "", key: str = "", path: str = "", parent: str = "") -> Callable[[Draw], Draw]:
    """Register what draws a page. Its address is `/name`, unless another is given."""

    def register(draw: Draw) -> Draw:
        _pages[name] = Page(name, title, path or f"/{name}", draw, icon, key, parent)
        return draw

    return register


def pages() -> list[Page]:
    """Every page that has been registered, in the order of the navigation."""
    places = {name: number for number, name in enumerate(_ORDER)}
    return sorted(_pages.values(), key=lambda page: (places.get(page.parent or page.name, len(places)), bool(page.parent)))
