"""The changelog of a release is collected from fragments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "changelog.py"
CHANGELOG = """# Changelog

About this file.

## Unreleased

- **Twin:** a line.
  It continues.

## 0.1.0 - 2026-01-01

- The first version.
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "changes").mkdir()
    (tmp_path / "changes" / "README.md").write_text("About fragments.\n")
    (tmp_path / "changes" / "b.md").write_text("- **Chart:** second.\n")
    (tmp_path / "changes" / "a.md").write_text("- **Chart:** first.\n")
    return tmp_path


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), *arguments, "--root", str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_release_moves_fragments_to_a_section(root: Path) -> None:
    content = "- **Twin:** a line.\n  It continues.\n- **Chart:** first.\n- **Chart:** second.\n"
    assert run(root, "notes", "0.2.0").stdout == content
    assert run(root, "release", "0.2.0", "--date", "2026-02-03").returncode == 0
    assert (root / "CHANGELOG.md").read_text() == CHANGELOG.replace(
        "- **Twin:** a line.\n  It continues.\n", f"## 0.2.0 - 2026-02-03\n\n{content}"
    )
    assert [path.name for path in (root / "changes").iterdir()] == ["README.md"]
    assert run(root, "notes", "0.2.0").stdout == content
    assert run(root, "notes", "0.1.0").stdout == "- The first version.\n"
    with_images = run(root, "notes", "0.2.0", "--registry", "example.com/a").stdout
    assert with_images.startswith(f"{content}\n## Install\n")
    assert "`example.com/a/gateway:0.2.0`" in with_images
    assert "`oci://example.com/a/charts/sliceworks`, version 0.2.0" in with_images


def test_entries_of_fragments_are_ordered_by_area(root: Path) -> None:
    (root / "changes" / "c.md").write_text("- Other.\n- **Compatibility:** third.\n  It continues.\n- **Chart, values:** fourth.\n")
    (root / "changes" / "d.md").write_text("- **Gateway:** fifth.\n- **Twin, nodes:** sixth.\n")
    expected = ["third", "It continues", "fifth", "sixth", "first", "second", "Other", "fourth"]
    lines = run(root, "notes", "0.2.0").stdout.splitlines()[2:]
    assert [line.split("** ")[-1].strip("- .") for line in lines] == expected


def test_check_requires_the_section_and_no_fragments(root: Path) -> None:
    assert "has no section of version 0.2.0" in run(root, "check", "0.2.0").stderr
    assert "changes/a.md, changes/b.md: not in the changelog" in run(root, "check", "0.1.0").stderr
    run(root, "release", "0.2.0")
    assert run(root, "check", "0.2.0").returncode == 0
    assert "has a section of version 0.2.0 already" in run(root, "release", "0.2.0").stderr
    assert "nothing is unreleased" in run(root, "release", "0.3.0").stderr


def test_notes_of_this_tree_are_not_empty() -> None:
    assert "\n- **" in run(SCRIPT.parents[1], "notes", "99.0.0").stdout
