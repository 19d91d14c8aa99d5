"""Dated data: zones, prices and their sources."""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any, NamedTuple


class Source(NamedTuple):
    """A source of data, and the date it was read."""

    title: str
    date: str


@lru_cache(maxsize=8)
def load(name: str) -> dict[str, Any]:
    """The contents of a data file."""
    from sliceworks.base import yaml_documents

    text = (files(__package__) / f"{name}.yaml").read_text(encoding="utf-8")
    return yaml_documents.load_all(text, name)[0].data


def source(key: str) -> Source:
    """The source with this key."""
    return Source(**load("sources")[key])
