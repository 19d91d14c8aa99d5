"""Packages that are missing are told at once, with the command that adds them."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING

import pytest

from sliceworks.base import extras
from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Callable

WANTED = {"load tests need": "load", "environments on a twin need": "terraform", "the console needs": "console"}


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have packages be missing; all others are there."""

    def lose(*names: str) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in names else object())

    return lose


def test_nothing_is_said_where_nothing_is_missing(without: Callable[..., None]) -> None:
    without()
    extras.check(WANTED)


def test_all_that_is_missing_is_one_line_and_one_command(without: Callable[..., None]) -> None:
    without("duckdb", "numpy", "msgspec", "nicegui")
    with pytest.raises(SliceworksError) as caught:
        extras.check(WANTED)
    assert caught.value.message == "load tests need duckdb, numpy; environments on a twin need msgspec; the console needs nicegui"
    assert caught.value.hint == "pip install 'sliceworks[load,terraform,console]'"


def test_what_pipx_has_installed_is_added_to_by_pipx(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/me/.local/share/pipx/venvs/sliceworks")
    assert extras.remedy("console") == "pipx runpip sliceworks install 'sliceworks[console]'"
