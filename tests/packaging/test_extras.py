"""Extras: one stands for all of them, and the page on installing names each."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_all_is_every_other_extra() -> None:
    (everything,) = EXTRAS["all"]
    named = re.fullmatch(r"sliceworks\[(.+)\]", everything)
    assert named
    assert named[1].split(",") == sorted(EXTRAS.keys() - {"all"})


def test_the_page_on_installing_has_a_row_for_each_extra() -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    assert set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE)) == EXTRAS.keys()


def test_hints_of_the_program_name_extras_that_there_are() -> None:
    named = {name for path in (ROOT / "src").rglob("*.py") for name in re.findall(r"sliceworks\[([a-z]+)\]", path.read_text())}
    assert named
    assert named <= EXTRAS.keys()
