"""The load worker's image, run as a node runs the pods of a load test."""

from __future__ import annotations

import urllib.error
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.heavy.containers import Given, started
from tests.heavy.pods import assert_clean_stop, http_request, until
from tests.support.echo_server import run_echo_server

from sliceworks.loadtest import load_plan, runner
from sliceworks.loadtest.cluster import worker_job as load
from sliceworks.loadtest.cluster.collector import TOKEN_HEADER, decode_report
from sliceworks.specs.load_test import LoadTestSpec

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(900)


def test_load_worker_sends_and_serves_its_rows(our_images: dict[str, str], alone: None, tmp_path: Path) -> None:
    with run_echo_server() as model:
        launch = _launch(model, tmp_path)
        pod = load.build_job(launch)["spec"]["template"]["spec"]
        given = Given({"config": launch.files}, variables=launch.secrets)
        with started(our_images["load-worker"], pod, tmp_path / "pod", given) as container:
            until(lambda: _report() is not None, container)
            until(lambda: (report := _report()) is not None and report.ended, container, 30)
            report = _report()
            assert report is not None
            assert report.problem == ""
            assert len(report.parts["rows"]) > 0
            http_request("http://127.0.0.1:8090/finish", "POST", **{TOKEN_HEADER: "word"})
            assert container.ended(10) == 0, container.tail()
        assert orjson.loads(http_request(f"{model}/echo/records"))


def test_load_worker_stops_on_request(our_images: dict[str, str], alone: None, tmp_path: Path) -> None:
    with run_echo_server() as model:
        launch = _launch(model, tmp_path, seconds=300)
        pod = load.build_job(launch)["spec"]["template"]["spec"]
        given = Given({"config": launch.files}, variables=launch.secrets)
        with started(our_images["load-worker"], pod, tmp_path / "pod", given) as container:
            until(lambda: (report := _report()) is not None and report.parts["rows"], container, 30)
            assert_clean_stop(container, pod)


def _launch(model: str, folder: Path, seconds: int = 2) -> load.WorkerJob:
    spec = LoadTestSpec.model_validate(
        {
            "target": {"url": model},
            "model": "echo",
            "prompts": {"texts": ["Hello"]},
            "stages": [{"constant": 20, "for": f"{seconds}s"}],
            "workers": {"where": "cluster", "count": 1, "image": "load-worker:1"},
        }
    )
    plan = load_plan.create(spec, folder)
    reported = {**runner.test_config(plan), "csv": False, "web": 0, "bucket": ""}
    secrets = {"SLICEWORKS_LOAD_TOKEN": "word"}
    return load.WorkerJob("load-x", "default", spec.workers, float(seconds), {"test.json": orjson.dumps(reported)}, secrets)


def _report() -> Any:
    """The agent's report; None while it does not answer."""
    try:
        return decode_report(http_request("http://127.0.0.1:8090/report", **{TOKEN_HEADER: "word"}))
    except (urllib.error.URLError, OSError):
        return None
