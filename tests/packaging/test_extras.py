"""Optional dependencies: `all` includes every extra, and the install page lists each."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from sliceworks.base import imports

ROOT = Path(__file__).parents[2]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_all_includes_every_extra() -> None:
    (everything,) = EXTRAS["all"]
    match = re.fullmatch(r"sliceworks\[(.+)\]", everything)
    assert match
    assert match[1].split(",") == sorted(EXTRAS.keys() - {"all"})


def test_install_page_lists_every_extra() -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text()
    assert set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE)) == EXTRAS.keys()


def test_hints_name_existing_extras() -> None:
    texts = [path.read_text() for path in (ROOT / "src").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"""sliceworks\[([a-z]+)\]|install_command\(["']([a-z]+)["']""", text)}
    assert {"google", "vision"} <= {name for names in named for name in names if name} <= EXTRAS.keys()


def test_packages_checked_for_an_extra_belong_to_it() -> None:
    provided = {extra: {re.split(r"[>=<;\[]", line)[0].removesuffix("io") for line in EXTRAS[extra]} for extra in imports.PACKAGES}
    assert all(set(packages) <= provided[extra] for extra, packages in imports.PACKAGES.items())
