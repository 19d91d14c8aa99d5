"""The documentation of several versions in one folder."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.deployments import DEPLOY

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = DEPLOY.parent / "docs" / "site_versions.py"


def add(folder: Path, version: str, text: str = "page") -> None:
    site = folder / "site"
    site.mkdir(exist_ok=True)
    (site / "index.html").write_text(f"{text} {version}")
    subprocess.run([sys.executable, str(SCRIPT), str(site), str(folder / "pages"), version], check=True)


def test_newest_release_is_the_latest(tmp_path: Path) -> None:
    for version in ("0.9.0", "0.10.0", "0.2.1", "0.11.0-rc.2", "0.11.0-rc.10"):
        add(tmp_path, version)
    pages = tmp_path / "pages"
    entries = json.loads((pages / "versions.json").read_text())
    assert [entry["version"] for entry in entries] == ["0.11.0-rc.10", "0.11.0-rc.2", "0.10.0", "0.9.0", "0.2.1"]
    assert [entry["version"] for entry in entries if entry["aliases"] == ["latest"]] == ["0.10.0"]
    assert "url=0.10.0/index.html" in (pages / "index.html").read_text()
    assert "url=../0.10.0/index.html" in (pages / "latest" / "index.html").read_text()
    assert (pages / "0.9.0" / "index.html").read_text() == "page 0.9.0"


def test_version_is_replaced(tmp_path: Path) -> None:
    add(tmp_path, "0.1.0")
    (tmp_path / "pages" / "0.1.0" / "removed.html").touch()
    add(tmp_path, "0.1.0", "corrected")
    assert (tmp_path / "pages" / "0.1.0" / "index.html").read_text() == "corrected 0.1.0"
    assert not (tmp_path / "pages" / "0.1.0" / "removed.html").exists()
