"""A search that somebody interrupts: no further rate is tried, and what was cut short says nothing about its rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from sliceworks.base import yamls
from sliceworks.cli import load_perform
from sliceworks.cli.main import run
from sliceworks.loadtest.running import INTERRUPTED, not_started

if TYPE_CHECKING:
    from pathlib import Path

DOCUMENT: dict[str, Any] = {
    "apiVersion": "sliceworks.dev/v1alpha1",
    "kind": "LoadTest",
    "metadata": {"name": "limit"},
    "spec": {
        "target": {"url": "http://127.0.0.1:1"},
        "model": "echo",
        "prompts": {"texts": ["one"]},
        "stages": [{"constant": 1, "for": "1s"}],
        "slo": ["errors < 1%"],
    },
}


def result(stopped: str) -> dict[str, Any]:
    problems = [f"ended early: {stopped}"] if stopped else []
    return {"valid": not problems, "kept": True, "stopped": stopped, "problems": problems, "objectives": []}


@pytest.mark.parametrize("began", [True, False])
def test_nothing_more_is_tried(
    began: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[str] = []

    def performed(test: Any, **_more: Any) -> tuple[dict[str, Any], Path]:
        tried.append(test.name)
        if len(tried) == 2 and not began:
            raise not_started(INTERRUPTED, tmp_path)
        return result(INTERRUPTED if len(tried) == 2 else ""), tmp_path / test.name

    monkeypatch.setattr(load_perform, "performed", performed)
    file = tmp_path / "test.yaml"
    file.write_text(yamls.dump(DOCUMENT))
    assert run(["load", "search", "-f", str(file), "--from", "4", "--most", "64", "-o", "json"]) == 1
    told = capsys.readouterr()
    found = orjson.loads(told.out)
    assert tried == ["limit-at-4", "limit-at-8"]
    assert (found["held"], found["failed"], [each["rate"] for each in found["probes"]]) == (4, None, [4])
    assert "interrupted: this is what was found until then" in told.err


@pytest.mark.parametrize(("rate", "name"), [(10_000, "10000"), (123_456, "123500"), (0.0124, "0.0124"), (5.65685, "5.657")])
def test_rates_are_written_out(
    rate: float, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[str] = []

    def performed(test: Any, **_more: Any) -> tuple[dict[str, Any], Path]:
        tried.append(test.name)
        return result(""), tmp_path / test.name

    monkeypatch.setattr(load_perform, "performed", performed)
    file = tmp_path / "test.yaml"
    file.write_text(yamls.dump(DOCUMENT))
    assert run(["load", "search", "-f", str(file), "--from", str(rate), "--most", str(rate)]) == 0
    assert tried == [f"limit-at-{name}"]
    assert f"{name} requests/s hold, the most that was tried" in capsys.readouterr().out


def test_who_sends_can_be_said_as_for_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, str]] = []

    def performed(test: Any, **_more: Any) -> tuple[dict[str, Any], Path]:
        seen.append((test.spec.workers.count, test.spec.workers.where))
        return result(""), tmp_path / test.name

    monkeypatch.setattr(load_perform, "performed", performed)
    file = tmp_path / "test.yaml"
    file.write_text(yamls.dump({**DOCUMENT, "spec": {**DOCUMENT["spec"], "workers": {"image": "i:1"}}}))
    asked = ["load", "search", "-f", str(file), "--most", "1", "--url", "http://model.example", "--workers", "3", "--on", "cluster"]
    assert run(asked) == 0
    assert seen == [(3, "cluster")]


def test_senders_that_do_not_start_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def performed(test: Any, **_more: Any) -> tuple[dict[str, Any], Path]:
        raise not_started("", tmp_path)

    monkeypatch.setattr(load_perform, "performed", performed)
    file = tmp_path / "test.yaml"
    file.write_text(yamls.dump(DOCUMENT))
    assert run(["load", "search", "-f", str(file)]) == 1
    assert "error: the senders did not start" in capsys.readouterr().err
