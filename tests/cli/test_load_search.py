"""Searches for the maximum rate: an interrupted search tries no further rate and does not judge the interrupted one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest

from sliceworks.base import yaml_documents
from sliceworks.cli import load_runner
from sliceworks.cli.main import run
from sliceworks.loadtest import load_plan
from sliceworks.loadtest.runner import INTERRUPTED, not_started_error

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
    return {"valid": not problems, "met": True, "stopped": stopped, "problems": problems, "objectives": []}


@pytest.mark.parametrize("started", [True, False])
def test_interrupted_search_stops(
    started: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[str] = []

    def performed(test: Any, **_more: Any) -> tuple[dict[str, Any], Path]:
        tried.append(test.name)
        if len(tried) == 2 and not started:
            raise not_started_error(INTERRUPTED, tmp_path)
        return result(INTERRUPTED if len(tried) == 2 else ""), tmp_path / test.name

    monkeypatch.setattr(load_runner, "run_test", performed)
    file = tmp_path / "test.yaml"
    file.write_text(yaml_documents.dump(DOCUMENT))
    assert run(["load", "search", "-f", str(file), "--from", "4", "--max", "64", "-o", "json"]) == 1
    reported = capsys.readouterr()
    actual = orjson.loads(reported.out)
    assert tried == ["limit-at-4", "limit-at-8"]
    assert (actual["held"], actual["failed"], [probe["rate"] for probe in actual["probes"]]) == (4, None, [4])
    assert "interrupted; showing the result so far" in reported.err


@pytest.mark.parametrize(("rate", "name"), [(10_000, "10000"), (123_456, "123500"), (0.0124, "0.0124"), (5.65685, "5.657")])
def test_rates_are_printed(
    rate: float, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[str] = []

    def performed(test: Any, **_more: Any) -> tuple[dict[str, Any], Path]:
        tried.append(test.name)
        return result(""), tmp_path / test.name

    monkeypatch.setattr(load_runner, "run_test", performed)
    file = tmp_path / "test.yaml"
    file.write_text(yaml_documents.dump(DOCUMENT))
    assert run(["load", "search", "-f", str(file), "--from", str(rate), "--max", str(rate)]) == 0
    assert tried == [f"limit-at-{name}"]
    assert f"{name} requests/s meet the objectives (the highest rate tested)" in capsys.readouterr().out


def test_search_accepts_worker_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, str]] = []

    def performed(test: Any, **_more: Any) -> tuple[dict[str, Any], Path]:
        seen.append((test.spec.workers.count, test.spec.workers.where))
        return result(""), tmp_path / test.name

    monkeypatch.setattr(load_runner, "run_test", performed)
    file = tmp_path / "test.yaml"
    file.write_text(yaml_documents.dump({**DOCUMENT, "spec": {**DOCUMENT["spec"], "workers": {"image": "i:1"}}}))
    requests = [
        "load",
        "search",
        "-f",
        str(file),
        "--max",
        "1",
        "--url",
        "http://model.example",
        "--workers",
        "3",
        "--on",
        "cluster",
    ]
    assert run(requests) == 0
    assert seen == [(3, "cluster")]


def test_workers_that_do_not_start_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def performed(test: Any, **_more: Any) -> tuple[dict[str, Any], Path]:
        raise not_started_error("", tmp_path)

    monkeypatch.setattr(load_runner, "run_test", performed)
    file = tmp_path / "test.yaml"
    file.write_text(yaml_documents.dump(DOCUMENT))
    assert run(["load", "search", "-f", str(file)]) == 1
    assert "error: the workers did not start" in capsys.readouterr().err


def missed() -> dict[str, Any]:
    return {**result(""), "met": False}


def test_no_rate_meets_the_objectives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    tried: list[str] = []

    def performed(test: Any, **_more: Any) -> tuple[dict[str, Any], Path]:
        load_plan.create(test.spec, tmp_path, url="http://127.0.0.1:1")
        tried.append(test.name)
        return missed(), tmp_path / test.name

    monkeypatch.setattr(load_runner, "run_test", performed)
    file = tmp_path / "test.yaml"
    file.write_text(yaml_documents.dump(DOCUMENT))
    assert run(["load", "search", "-f", str(file), "--slo", "ttft p99 < 1ms", "--from", "20", "--max", "40", "--for", "1s"]) == 1
    reported = capsys.readouterr()
    assert tried == ["limit-at-20", "limit-at-10"]
    assert [line.split()[:2] for line in reported.out.splitlines()[1:3]] == [["10", "no"], ["20", "no"]]
    assert "none: no rate from 10 to 20 requests/s meets the objectives" in reported.out
    assert "error" not in reported.err


def test_an_error_keeps_the_probes_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def performed(test: Any, **_more: Any) -> tuple[dict[str, Any], Path]:
        if test.name == "limit-at-8":
            raise not_started_error("", tmp_path)
        return result(""), tmp_path / test.name

    monkeypatch.setattr(load_runner, "run_test", performed)
    file = tmp_path / "test.yaml"
    file.write_text(yaml_documents.dump(DOCUMENT))
    assert run(["load", "search", "-f", str(file), "--from", "4", "-o", "json"]) == 1
    reported = capsys.readouterr()
    assert [probe["rate"] for probe in orjson.loads(reported.out)["probes"]] == [4]
    assert "error: the workers did not start" in reported.err
