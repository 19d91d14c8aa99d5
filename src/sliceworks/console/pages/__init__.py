"""The pages. Each module registers what it draws when it is imported."""

from __future__ import annotations

from importlib import import_module

_MODULES = ("overview",)


def load() -> None:
    """Import every page."""
    for name in _MODULES:
        import_module(f"{__name__}.{name}")
