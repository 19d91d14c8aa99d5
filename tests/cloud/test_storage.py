"""Uploads and downloads of Cloud Storage objects, with failures."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from sliceworks.base import clock
from sliceworks.base.errors import CloudError, CloudNotFound, PermissionDenied, UsageError
from sliceworks.base.transport import InProcess, Request, Response
from sliceworks.cloud import Session, storage
from sliceworks.cloud.storage import ObjectUrl

if TYPE_CHECKING:
    from pathlib import Path

CONTENT = b"0123456789"
AT = ObjectUrl("bucket", "folder/a b.jsonl")


class Store:
    """A bucket with one object that fails on request."""

    def __init__(self, *, cut: int = 0, digest: bytes = CONTENT, stuck: bool = False, busy: int = 0, **failures: bool) -> None:
        self.cut, self.digest, self.stuck, self.busy = cut, digest, stuck, busy
        self.private, self.missing = failures.get("private", False), failures.get("missing", False)
        self.taken = b""
        self.asked: list[str] = []

    async def handle(self, request: Request) -> Response:
        self.asked.append(f"{request.method} {request.target}")
        if self.busy:
            self.busy -= 1
            return Response(503, {}, b"{}")
        if self.missing:
            return Response(404, {}, b'{"error": {"code": 404, "message": "The specified bucket does not exist."}}')
        if request.method == "POST":
            return Response(200, {"location": "https://storage.example/upload/here?upload_id=7"})
        if request.method == "PUT":
            return self._put(request.headers["content-range"], request.body)
        if ("alt", "media") in request.query and self.private:
            return Response(403, {}, b"{}")
        if ("alt", "media") in request.query:
            first, last = map(int, request.headers["range"].removeprefix("bytes=").split("-"))
            return Response(206, {}, CONTENT[first : last + 1 - self.cut])
        checksum = base64.b64encode(hashlib.md5(self.digest, usedforsecurity=False).digest()).decode()
        return Response(200, {}, orjson.dumps({"size": str(len(CONTENT)), "generation": "5", "md5Hash": checksum}))

    def _put(self, content_range: str, body: bytes) -> Response:
        if self.stuck:
            return Response(308)
        self.taken += body
        if len(self.taken) == int(content_range.rpartition("/")[2]):
            return Response(200, {}, b"{}")
        return Response(308, {"range": f"bytes=0-{len(self.taken) - 1}"})


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "PART", 4)


def run(store: Store, work: Any) -> Any:
    async def main() -> Any:
        async with Session(transport=InProcess(store.handle)) as session:
            return await work(session)

    return clock.run(main(), virtual=True)


def test_download_reads_parts_of_one_generation(tmp_path: Path) -> None:
    store, file = Store(busy=2), tmp_path / "prompts.jsonl"
    assert run(store, lambda session: storage.download(session, AT, file)) == 10
    assert file.read_bytes() == CONTENT
    path = "GET /storage/v1/b/bucket/o/folder%2Fa%20b.jsonl"
    assert store.asked == [path] * 3 + [f"{path}?alt=media&generation=5"] * 3


@pytest.mark.parametrize("store", [Store(cut=1), Store(digest=b"other")])
def test_incomplete_download_leaves_no_file(tmp_path: Path, store: Store) -> None:
    with pytest.raises(CloudError, match="download is incomplete or corrupt"):
        run(store, lambda session: storage.download(session, AT, tmp_path / "prompts.jsonl"))
    assert not list(tmp_path.iterdir())


def test_failed_download_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(PermissionDenied):
        run(Store(private=True), lambda session: storage.download(session, AT, tmp_path / "prompts.jsonl"))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("content", [b"", CONTENT])
def test_upload_sends_parts(tmp_path: Path, content: bytes) -> None:
    store, file = Store(), tmp_path / "run.json"
    file.write_bytes(content)
    run(store, lambda session: storage.upload(session, file, AT))
    assert store.taken == content
    assert store.asked[0] == "POST /upload/storage/v1/b/bucket/o?uploadType=resumable&name=folder/a%20b.jsonl"
    assert set(store.asked[1:]) == {"PUT /upload/here?upload_id=7"}


def test_upload_without_progress_fails(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(CONTENT)
    with pytest.raises(CloudError, match="no progress after 0 bytes"):
        run(Store(stuck=True), lambda session: storage.upload(session, tmp_path / "run.json", AT))


def test_missing_bucket_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(CONTENT)
    with pytest.raises(CloudNotFound, match=r"^cannot upload gs://bucket/folder/a b.jsonl: bucket bucket not found$"):
        run(Store(missing=True), lambda session: storage.upload(session, tmp_path / "run.json", AT))


@pytest.mark.parametrize("text", ["gs://bucket", "gs://bucket/", "gs://B/x", "s3://bucket/x", "gs://bucket/a b"])
def test_invalid_object_url_is_rejected(text: str) -> None:
    with pytest.raises(UsageError, match="is not a valid object URL"):
        ObjectUrl.parse(text)
