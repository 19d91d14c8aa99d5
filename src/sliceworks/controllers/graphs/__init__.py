"""Serves ResourceGraphDefinitions on any Kubernetes: the kinds they define, and the objects behind every instance.

The names below are what other rooms use. Each is imported when it is first asked for: the command line needs the options alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sliceworks.controllers.graphs.controller import GraphController
    from sliceworks.controllers.graphs.options import Options

_HOME_OF = {"GraphController": "controller", "Options": "options"}
__all__ = ["GraphController", "Options"]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
