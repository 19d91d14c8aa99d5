"""Tables of benchmark results in the docs show date and commit of the run, and which benchmarks were not run since."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import orjson
import pytest
from bench.harness.record import Run, scripts

from performance_page import fill

if TYPE_CHECKING:
    from pathlib import Path

VALUES = {"unit": "pods/s", "baseline": 100, "value": 250.0, "ratio": 2.5, "goal": 2}
MACHINE = {"cpu": "EPYC", "cores": 4}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    new = Run({"creates": VALUES}, "2026-11-18", "abc12345", MACHINE, ["real", "twin"])
    old = Run({"creates": VALUES}, "2026-11-02", "00000000", MACHINE, ["real", "twin"])
    growth = Run({"list": {**VALUES, "baseline": 1.3, "value": 1.1}}, "2026-11-18", "abc12345", MACHINE, ["limit", "measured"])
    (tmp_path / "api.json").write_bytes(orjson.dumps({"full": asdict(new), "large": asdict(growth)}))
    (tmp_path / "slices.json").write_bytes(orjson.dumps({"full": asdict(old)}))
    return tmp_path


def filled(name: str, folder: Path) -> str:
    page = folder / "page.md"
    page.write_text(f"before\n\n<!-- results: {name} -->\nold table\n<!-- end of results -->\n\nafter\n")
    text = fill(page, folder)
    assert text.startswith(f"before\n\n<!-- results: {name} -->\n\n")
    assert text.endswith("\n\n<!-- end of results -->\n\nafter\n")
    assert "old table" not in text
    page.write_text(text)
    assert fill(page, folder) == text
    return text


def test_full_run_shows_date_commit_and_machine(results: Path) -> None:
    text = filled("api", results)
    assert "Full run of **2026-11-18** at commit `abc12345`, 4 cores, EPYC:" in text
    assert "| metric | unit | real | twin | ratio | goal |" in text
    assert "| `creates` | pods/s | 100 | 250 | 2.5 | 2 |" in text
    assert "No full run is stored." in filled("graphs", results)


def test_summary_names_benchmarks_that_were_not_run_since(results: Path) -> None:
    text = filled("summary", results)
    missing = ", ".join(f"`{name}`" for name in scripts() if name != "api")
    assert f"The newest full run is of **2026-11-18**. Not run since then: {missing}." in text
    assert "| `bench/slices.py` | 2026-11-02, `00000000` | 4 cores, EPYC |" in text


def test_growth_shows_runs_at_ten_times_the_size(results: Path) -> None:
    assert "| `bench/api.py` | `list` | 1.1 | 1.3 | 2026-11-18, `abc12345` |" in filled("growth", results)
    (results / "api.json").unlink()
    assert "No run with `--large` is stored yet." in filled("growth", results)
