"""Pages made from the program are current, and the site builds without a warning."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_generated_pages_are_current() -> None:
    done = subprocess.run([sys.executable, ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(importlib.util.find_spec("mkdocs") is None, reason="mkdocs is not installed")
def test_the_site_builds_and_asks_nobody_for_anything(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert 'not included in the "nav"' not in done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        text = page.read_text()
        for foreign in ('src="http', 'rel="stylesheet" href="http', 'rel="preconnect"', "unpkg.com", "fonts.googleapis.com"):
            assert foreign not in text, f"{page.name} asks for {foreign}"
