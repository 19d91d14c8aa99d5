"""`sliceworks examples` and `rehearse --example`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from sliceworks.cli.main import run

if TYPE_CHECKING:
    import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_list_names_every_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["examples", "list", "-o", "json"]) == 0
    items = json.loads(capsys.readouterr().out)
    assert [item["name"] for item in items] == sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())
    assert all(item["files"] and item["content"] for item in items)


def test_copy_takes_files_that_documents_refer_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["examples", "copy", "platform"]) == 0
    assert (tmp_path / "platform" / "50-day.yaml").read_text() == (EXAMPLES / "platform" / "50-day.yaml").read_text()
    assert (tmp_path / "graphs" / "gemma-on-tpu" / "definition.yaml").is_file()
    assert "definition.yaml copied too" in capsys.readouterr().err
    assert run(["env", "check", "-f", "platform/10-environment.yaml"]) == 0


def test_copy_changes_no_existing_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["examples", "copy", "services", str(tmp_path)]) == 2
    assert capsys.readouterr().err.endswith(f"{tmp_path} already exists\nhint: sliceworks examples copy services FOLDER\n")
    assert list(tmp_path.iterdir()) == []


def test_unknown_example_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    for command in (["examples", "copy", "nope"], ["examples", "copy", "../src"], ["rehearse", "--example", "nope"]):
        assert run(command) == 2
        assert "not found" in capsys.readouterr().err
    assert run(["rehearse"]) == 2
    assert run(["rehearse", ".", "--example", "services"]) == 2


def test_rehearse_runs_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rehearse", "--example", "services"]) == 0
    assert "hello" in capsys.readouterr().out
