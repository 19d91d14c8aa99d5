"""Dated data beside the rules: zones, prices and where they come from."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple


class Source(NamedTuple):
    """Who says so, and when it was read."""

    title: str
    date: str


@lru_cache(maxsize=8)
def load(name: str) -> dict[str, Any]:
    """The data file of this name."""
    from sliceworks.base import yamls

    text = (files(__package__) / f"{name}.yaml").read_text(encoding="utf-8")
    return yamls.load_all(text, name)[0].data


def source(key: str) -> Source:
    """The source that a key stands for."""
    return Source(**load("sources")[key])
