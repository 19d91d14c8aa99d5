"""Nodes on a page: sent when they differ from what was sent last, and not otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicegui import ui

from sliceworks.console.nodes import flat

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.console.nodes import Child


class Tree(ui.element, component="assets/tree.js"):
    """A place on a page where nodes are shown. `on_act` hears what was pressed, `on_field` what was chosen or typed, and where."""

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
        """Show these nodes from now on."""
        wanted = flat(nodes)
        if wanted != self._shown:
            self._shown = wanted
            self._props["tree"] = wanted
            self.update()
