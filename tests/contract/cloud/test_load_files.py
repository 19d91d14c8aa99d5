"""Prompts from buckets and results into them: what our client stores Google's own reads, and the other way round."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.cloud import storage
from sliceworks.loadtest import buckets

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.google_clients import Google

PART = 256 * 1024


@pytest.fixture
def cloud(google: Google, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The cloud as load tests know it; files travel in small parts."""
    monkeypatch.setattr(storage, "PART", PART)
    return {"endpoint": google.served.url, "token": google.served.token}


@pytest.mark.parametrize("size", [0, 1, PART, 2 * PART + 7])
def test_both_clients_see_the_same(google: Google, cloud: dict[str, str], tmp_path: Path, size: int) -> None:
    name = f"loads-{size}"
    bucket, content = google.storage.create_bucket(name), random.Random(size).randbytes(size)
    bucket.blob("prompts/ä.jsonl").upload_from_string(content)
    fetched = clock.run(buckets.fetch(f"gs://{name}/prompts/ä.jsonl", tmp_path / "prompts.jsonl", cloud))
    assert fetched.read_bytes() == content
    assert clock.run(buckets.store([fetched], f"gs://{name}/kept/run-1/", cloud)) == 1
    assert bucket.blob("kept/run-1/prompts.jsonl").download_as_bytes() == content


def test_what_is_not_there_is_one_line(google: Google, cloud: dict[str, str], tmp_path: Path) -> None:
    google.storage.create_bucket("loads-empty")
    for place in ("gs://loads-empty/none.jsonl", "gs://loads-nowhere/none.jsonl"):
        with pytest.raises(InvalidDocument, match=f"{place}: cannot be read: ") as caught:
            clock.run(buckets.fetch(place, tmp_path / "prompts.jsonl", cloud))
        assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_who_may_not_read_or_write_is_told_before(google: Google, cloud: dict[str, str], tmp_path: Path) -> None:
    google.storage.create_bucket("loads-mine")
    clock.run(buckets.expect_room("gs://loads-mine/runs", cloud))
    with pytest.raises(InvalidDocument, match="gs://loads-theirs/runs: results cannot be put there: "):
        clock.run(buckets.expect_room("gs://loads-theirs/runs", cloud))
    stranger = {**cloud, "token": "stranger"}
    with pytest.raises(InvalidDocument, match="cannot be read: "):
        clock.run(buckets.fetch("gs://loads-mine/prompts.jsonl", tmp_path / "prompts.jsonl", stranger))
    with pytest.raises(InvalidDocument, match="cannot be put there: "):
        clock.run(buckets.expect_room("gs://loads-mine/runs", stranger))
