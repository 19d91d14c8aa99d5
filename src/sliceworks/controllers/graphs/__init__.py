"""Serves ResourceGraphDefinitions on any Kubernetes: the kinds they define, and the objects behind every instance.

The names below are what other rooms use. Each is imported when it is first asked for: the command line needs the options alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.lazy import exports

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.controller import GraphController
    from sliceworks.controllers.graphs.options import Options

__getattr__, __dir__ = exports(__name__, {"controller": ("GraphController",), "options": ("Options",)})
__all__ = ["GraphController", "Options"]
