"""Extras: one stands for all of them, and the page on installing names each."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from sliceworks.base import extras

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
    texts = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"""sliceworks\[([a-z]+)\]|remedy\(["']([a-z]+)["']""", text)}
    assert {"google", "vision"} <= {name for names in named for name in names if name} <= EXTRAS.keys()


def test_what_is_looked_for_of_an_extra_is_what_it_brings() -> None:
    brought = {extra: {re.split(r"[>=<;\[]", each)[0].removesuffix("io") for each in EXTRAS[extra]} for extra in extras.PACKAGES}
    assert all(set(packages) <= brought[extra] for extra, packages in extras.PACKAGES.items())
