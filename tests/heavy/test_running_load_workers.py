"""The load worker's image at work, run as a node would run the pods of a load test."""

from __future__ import annotations

import urllib.error
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.heavy.containers import Given, started
from tests.heavy.pods import asked, ended_well, until
from tests.support.echoing import echoing

from sliceworks.loadtest import plans, running
from sliceworks.loadtest.cluster import objects as load
from sliceworks.loadtest.cluster.news import TOKEN, unpacked
from sliceworks.specs.load_test import LoadTestSpec

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(900)


def test_the_load_worker_sends_and_gives_out_its_rows(our_images: dict[str, str], alone: None, tmp_path: Path) -> None:
    with echoing() as model:
        launch = _launch(model, tmp_path)
        pod = load.job(launch)["spec"]["template"]["spec"]
        given = Given({"config": launch.files}, variables=launch.secrets)
        with started(our_images["load-worker"], pod, tmp_path / "pod", given) as container:
            until(lambda: _news() is not None, container)
            until(lambda: (news := _news()) is not None and news.ended, container, 30)
            news = _news()
            assert news is not None
            assert news.problem == ""
            assert len(news.parts["rows"]) > 0
            asked("http://127.0.0.1:8090/leave", "POST", **{TOKEN: "word"})
            assert container.ended(10) == 0, container.tail()
        assert orjson.loads(asked(f"{model}/echo/records"))


def test_a_load_worker_that_is_told_to_end_does(our_images: dict[str, str], alone: None, tmp_path: Path) -> None:
    with echoing() as model:
        launch = _launch(model, tmp_path, seconds=300)
        pod = load.job(launch)["spec"]["template"]["spec"]
        given = Given({"config": launch.files}, variables=launch.secrets)
        with started(our_images["load-worker"], pod, tmp_path / "pod", given) as container:
            until(lambda: (news := _news()) is not None and news.parts["rows"], container, 30)
            ended_well(container, pod)


def _launch(model: str, folder: Path, seconds: int = 2) -> load.Launch:
    spec = LoadTestSpec.model_validate(
        {
            "target": {"url": model},
            "model": "echo",
            "prompts": {"texts": ["Hello"]},
            "stages": [{"constant": 20, "for": f"{seconds}s"}],
            "workers": {"where": "cluster", "count": 1, "image": "load-worker:1"},
        }
    )
    plan = plans.make(spec, folder)
    told = {**running.test_of(plan), "csv": False, "web": 0, "bucket": ""}
    secrets = {"SLICEWORKS_LOAD_TOKEN": "word"}
    return load.Launch("load-x", "default", spec.workers, float(seconds), {"test.json": orjson.dumps(told)}, secrets)


def _news() -> Any:
    """What it tells; None while it does not answer."""
    try:
        return unpacked(asked("http://127.0.0.1:8090/news", **{TOKEN: "word"}))
    except (urllib.error.URLError, OSError):
        return None
