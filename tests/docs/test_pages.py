"""Generated pages are current, the site builds without warnings, and paths named in docs exist."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PATH = re.compile(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`")


def test_generated_pages_are_current() -> None:
    result = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_site_builds_and_loads_nothing_from_other_sites(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert 'not included in the "nav"' not in result.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text()
        for foreign in ('src="http', 'rel="stylesheet" href="http', 'rel="preconnect"', "unpkg.com", "fonts.googleapis.com"):
            assert foreign not in text, f"{page.name} loads {foreign}"


def test_architecture_page_names_existing_modules() -> None:
    paths = _PATH.findall((ROOT / "docs" / "explanation" / "architecture.md").read_text())
    assert len(paths) > 40
    assert [path for path in paths if not (ROOT / "src" / "sliceworks" / path).exists() and not (ROOT / path).exists()] == []
