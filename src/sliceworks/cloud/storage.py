"""Objects of Cloud Storage as files: fetched and stored in parts, and checked when they are whole."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import quote, urlencode, urlsplit

from sliceworks.base.errors import CloudError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.cloud.session import Session

ENDPOINT = "https://storage.googleapis.com"
PART = 8 * 1024 * 1024
"""Bytes that travel at once; Cloud Storage wants a multiple of 256 KiB."""
_PLACE = re.compile(r"gs://(?P<bucket>[a-z0-9][a-z0-9._-]{1,220}[a-z0-9])/(?P<name>[^\s]+)")
_THERE = re.compile(r"bytes=0-(?P<last>[0-9]+)")


class Place(NamedTuple):
    """An object of a bucket."""

    bucket: str
    name: str

    @classmethod
    def of(cls, url: str) -> Self:
        """From `gs://bucket/name`."""
        found = _PLACE.fullmatch(url)
        if found is None:
            raise UsageError(f"an object of a bucket is such as gs://bucket/prompts.jsonl, found {url!r}")
        return cls(found["bucket"], found["name"])

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.name}"

    @property
    def path(self) -> str:
        return f"/storage/v1/b/{self.bucket}/o/{quote(self.name, safe='')}"


def is_place(text: str) -> bool:
    """Whether this names an object of a bucket, and not a file."""
    return text.startswith("gs://")


async def download(session: Session, place: Place, file: Path) -> int:
    """Fetch the newest version of an object; how many bytes it has. A file that is there afterwards is whole."""
    known = await session.call("GET", place.path)
    size, digest = int(known["size"]), hashlib.md5(usedforsecurity=False)
    half = file.with_name(f"{file.name}.half")
    with half.open("wb") as output:
        for first in range(0, size, PART):
            span = {"range": f"bytes={first}-{min(first + PART, size) - 1}"}
            query = urlencode({"alt": "media", "generation": known["generation"]})
            part = (await session.raw("GET", f"{place.path}?{query}", headers=span)).body
            digest.update(part)
            output.write(part)
        written = output.tell()
    told = known.get("md5Hash")  # objects that were put together from others have none
    if written != size or (told and base64.b64encode(digest.digest()).decode() != told):
        half.unlink()
        raise CloudError(f"{place} did not come whole: {written:,} of {size:,} bytes")
    half.replace(file)
    return size


async def upload(session: Session, file: Path, place: Place, kind: str = "application/octet-stream") -> None:
    """Store a file as an object, in parts; it is there when all of it is."""
    size = file.stat().st_size
    query = urlencode({"uploadType": "resumable", "name": place.name})
    begun = await session.raw(
        "POST", f"/upload/storage/v1/b/{place.bucket}/o?{query}", headers={"x-upload-content-type": kind, "content-length": "0"}
    )
    where = urlsplit(begun.headers.get("location", ""))
    if not where.query:
        raise CloudError(f"{place} cannot be stored: Cloud Storage did not say where to send it")
    target, sent = f"{where.path}?{where.query}", 0
    with file.open("rb") as source:
        while True:
            source.seek(sent)
            part = source.read(PART)
            span = f"bytes {sent}-{sent + len(part) - 1}/{size}" if part else f"bytes */{size}"
            answer = await session.raw("PUT", target, part, {"content-range": span, "content-type": kind})
            if answer.status != 308:
                return
            there = _THERE.fullmatch(answer.headers.get("range", ""))
            if there is None or int(there["last"]) < sent:
                raise CloudError(f"{place} cannot be stored: Cloud Storage took nothing after {sent:,} bytes")
            sent = int(there["last"]) + 1
