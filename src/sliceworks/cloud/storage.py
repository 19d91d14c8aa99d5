"""Cloud Storage objects as files: resumable uploads and downloads, with checksums."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import parse_qsl, quote, urlsplit

from sliceworks.base.errors import CloudError, CloudNotFound, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.cloud.session import Session

ENDPOINT = "https://storage.googleapis.com"
PART = 8 * 1024 * 1024
"""Bytes per request; Cloud Storage requires a multiple of 256 KiB."""
_OBJECT_URL = re.compile(r"gs://(?P<bucket>[a-z0-9][a-z0-9._-]{1,220}[a-z0-9])/(?P<name>[^\s]+)")
_STORED_RANGE = re.compile(r"bytes=0-(?P<last>[0-9]+)")


class ObjectUrl(NamedTuple):
    """The URL of a Cloud Storage object."""

    bucket: str
    name: str

    @classmethod
    def parse(cls, url: str) -> Self:
        """Parse `gs://bucket/name`."""
        match = _OBJECT_URL.fullmatch(url)
        if match is None:
            raise UsageError(f"{url!r} is not a valid object URL (expected gs://bucket/name)")
        return cls(match["bucket"], match["name"])

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.name}"

    @property
    def path(self) -> str:
        return f"/storage/v1/b/{self.bucket}/o/{quote(self.name, safe='')}"


def is_object_url(path: str) -> bool:
    """Whether this is the URL of a Cloud Storage object, not a file path."""
    return path.startswith("gs://")


async def download(session: Session, url: ObjectUrl, file: Path) -> int:
    """Download the current generation of an object and return its size. The file appears only when it is complete."""
    metadata = await session.call("GET", url.path)
    size, digest = int(metadata["size"]), hashlib.md5(usedforsecurity=False)
    partial = file.with_name(f"{file.name}.part")
    try:
        with partial.open("wb") as output:
            for first in range(0, size, PART):
                headers = {"range": f"bytes={first}-{min(first + PART, size) - 1}"}
                query = {"alt": "media", "generation": str(metadata["generation"])}
                part = (await session.send_raw("GET", url.path, headers=headers, query=query)).body
                digest.update(part)
                output.write(part)
            written = output.tell()
        checksum = metadata.get("md5Hash")  # composite objects have none
        if written != size or (checksum and base64.b64encode(digest.digest()).decode() != checksum):
            raise CloudError(f"{url}: download is incomplete or corrupt: {written:,} of {size:,} bytes")
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)
    return size


async def upload(session: Session, file: Path, url: ObjectUrl, content_type: str = "application/octet-stream") -> None:
    """Upload a file in parts; the object appears when the upload is complete."""
    size = file.stat().st_size
    query = {"uploadType": "resumable", "name": url.name}
    headers = {"x-upload-content-type": content_type, "content-length": "0"}
    try:
        started = await session.send_raw("POST", f"/upload/storage/v1/b/{url.bucket}/o", headers=headers, query=query)
    except CloudNotFound as error:
        raise CloudNotFound(f"cannot upload {url}: bucket {url.bucket} not found") from error
    location = urlsplit(started.headers.get("location", ""))
    if not location.query:
        raise CloudError(f"cannot upload {url}: Cloud Storage returned no upload URL")
    upload_query, sent = dict(parse_qsl(location.query, keep_blank_values=True)), 0
    with file.open("rb") as source:
        while True:
            source.seek(sent)
            part = source.read(PART)
            content_range = f"bytes {sent}-{sent + len(part) - 1}/{size}" if part else f"bytes */{size}"
            headers = {"content-range": content_range, "content-type": content_type}
            response = await session.send_raw("PUT", location.path, part, headers, upload_query)
            if response.status != 308:
                return
            stored = _STORED_RANGE.fullmatch(response.headers.get("range", ""))
            if stored is None or int(stored["last"]) < sent:
                raise CloudError(f"cannot upload {url}: no progress after {sent:,} bytes")
            sent = int(stored["last"]) + 1
