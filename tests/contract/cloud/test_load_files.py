"""Load test files in buckets: the Sliceworks client and Google's client read each other's objects."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.cloud import storage
from sliceworks.loadtest import run_folder

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.google_clients import Google

PART = 256 * 1024


@pytest.fixture
def cloud(google: Google, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The storage client of load tests, with small upload chunks."""
    monkeypatch.setattr(storage, "PART", PART)
    return {"endpoint": google.served.url, "token": google.served.token}


@pytest.mark.parametrize("size", [0, 1, PART, 2 * PART + 7])
def test_clients_read_each_others_objects(google: Google, cloud: dict[str, str], tmp_path: Path, size: int) -> None:
    name = f"loads-{size}"
    bucket, content = google.storage.create_bucket(name), random.Random(size).randbytes(size)
    bucket.blob("prompts/ä.jsonl").upload_from_string(content)
    fetched = clock.run(run_folder.download(f"gs://{name}/prompts/ä.jsonl", tmp_path / "prompts.jsonl", cloud))
    assert fetched.read_bytes() == content
    assert clock.run(run_folder.upload([fetched], f"gs://{name}/kept/run-1/", cloud)) == 1
    assert bucket.blob("kept/run-1/prompts.jsonl").download_as_bytes() == content


def test_missing_object_is_a_one_line_error(google: Google, cloud: dict[str, str], tmp_path: Path) -> None:
    google.storage.create_bucket("loads-empty")
    for place in ("gs://loads-empty/none.jsonl", "gs://loads-nowhere/none.jsonl"):
        with pytest.raises(InvalidDocument, match=f"{place}: cannot read: ") as caught:
            clock.run(run_folder.download(place, tmp_path / "prompts.jsonl", cloud))
        assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_missing_permission_fails_before_the_run(google: Google, cloud: dict[str, str], tmp_path: Path) -> None:
    google.storage.create_bucket("loads-mine")
    clock.run(run_folder.check_writable("gs://loads-mine/runs", cloud))
    with pytest.raises(InvalidDocument, match="gs://loads-theirs/runs: cannot write results: "):
        clock.run(run_folder.check_writable("gs://loads-theirs/runs", cloud))
    stranger = {**cloud, "token": "stranger"}
    with pytest.raises(InvalidDocument, match="cannot read: "):
        clock.run(run_folder.download("gs://loads-mine/prompts.jsonl", tmp_path / "prompts.jsonl", stranger))
    with pytest.raises(InvalidDocument, match="cannot write results: "):
        clock.run(run_folder.check_writable("gs://loads-mine/runs", stranger))
