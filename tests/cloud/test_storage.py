"""Objects as files where something goes wrong on the way: what did not come whole is not there, and what is not taken is told."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from sliceworks.base import clock
from sliceworks.base.errors import CloudError, UsageError
from sliceworks.cloud import InProcess, Session, storage
from sliceworks.cloud.storage import Place

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

CONTENT = b"0123456789"
AT = Place("bucket", "folder/a b.jsonl")


class Store:
    """Has one object, takes another, and misbehaves as told."""

    def __init__(self, *, cut: int = 0, digest: bytes = CONTENT, stuck: bool = False, busy: int = 0) -> None:
        self.cut, self.digest, self.stuck, self.busy = cut, digest, stuck, busy
        self.taken = b""
        self.asked: list[str] = []

    async def handle(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        self.asked.append(f"{method} {target}")
        if self.busy:
            self.busy -= 1
            return 503, {}, b"{}"
        if method == "POST":
            return 200, {"location": "https://storage.example/upload/here?upload_id=7"}, b""
        if method == "PUT":
            return self._put(headers["content-range"], body)
        if "alt=media" in target:
            first, last = map(int, headers["range"].removeprefix("bytes=").split("-"))
            return 206, {}, CONTENT[first : last + 1 - self.cut]
        told = base64.b64encode(hashlib.md5(self.digest, usedforsecurity=False).digest()).decode()
        return 200, {}, orjson.dumps({"size": str(len(CONTENT)), "generation": "5", "md5Hash": told})

    def _put(self, span: str, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        if self.stuck:
            return 308, {}, b""
        self.taken += body
        if len(self.taken) == int(span.rpartition("/")[2]):
            return 200, {}, b"{}"
        return 308, {"range": f"bytes=0-{len(self.taken) - 1}"}, b""


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PART", 4)


def run(store: Store, work: Any) -> Any:
    async def main() -> Any:
        async with Session(transport=InProcess(store.handle)) as session:
            return await work(session)

    return clock.run(main(), virtual=True)


def test_an_object_comes_in_parts_of_one_version(tmp_path: Path) -> None:
    store, file = Store(busy=2), tmp_path / "prompts.jsonl"
    assert run(store, lambda session: storage.download(session, AT, file)) == 10
    assert file.read_bytes() == CONTENT
    path = "GET /storage/v1/b/bucket/o/folder%2Fa%20b.jsonl"
    assert store.asked == [path] * 3 + [f"{path}?alt=media&generation=5"] * 3


@pytest.mark.parametrize("store", [Store(cut=1), Store(digest=b"other")])
def test_what_did_not_come_whole_is_not_there(tmp_path: Path, store: Store) -> None:
    with pytest.raises(CloudError, match="did not come whole"):
        run(store, lambda session: storage.download(session, AT, tmp_path / "prompts.jsonl"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", CONTENT])
def test_a_file_goes_in_parts(tmp_path: Path, content: bytes) -> None:
    store, file = Store(), tmp_path / "run.json"
    file.write_bytes(content)
    run(store, lambda session: storage.upload(session, file, AT))
    assert store.taken == content
    assert store.asked[0] == "POST /upload/storage/v1/b/bucket/o?uploadType=resumable&name=folder%2Fa+b.jsonl"
    assert set(store.asked[1:]) == {"PUT /upload/here?upload_id=7"}


def test_what_is_not_taken_is_told(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(CONTENT)
    with pytest.raises(CloudError, match="took nothing after 0 bytes"):
        run(Store(stuck=True), lambda session: storage.upload(session, tmp_path / "run.json", AT))


@pytest.mark.parametrize("text", ["gs://bucket", "gs://bucket/", "gs://B/x", "s3://bucket/x", "gs://bucket/a b"])
def test_what_names_no_object(text: str) -> None:
    with pytest.raises(UsageError, match="an object of a bucket is such as"):
        Place.of(text)
