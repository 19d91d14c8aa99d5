"""Folders of whoever runs this."""

from __future__ import annotations

from pathlib import Path


def home() -> Path | None:
    """The home folder; None for a user without one: a container's has often neither a name nor $HOME."""
    try:
        return Path.home()
    except RuntimeError:
        return None
