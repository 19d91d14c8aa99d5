"""The pages. Each module registers what it draws when it is imported."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules


def load() -> None:
    """Import every page."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
