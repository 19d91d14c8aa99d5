"""Objects of Cloud Storage: contents with a name, in versions that callers may insist on."""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sliceworks.base import clock
from sliceworks.twin.cloud.errors import GoogleError, invalid
from sliceworks.twin.cloud.plain.checksums import crc32c, md5
from sliceworks.twin.cloud.plain.conditions import absent, check
from sliceworks.twin.cloud.plain.pages import page
from sliceworks.twin.cloud.plain.shelves import stamp
from sliceworks.twin.cloud.routes import Call, Media, Route
from sliceworks.twin.cloud.state import Document, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_BUCKETS = "buckets"
_RANGE = re.compile(r"bytes=(?P<first>[0-9]*)-(?P<last>[0-9]*)")
_OWN = ("cacheControl", "contentDisposition", "contentEncoding", "contentLanguage", "contentType", "customTime", "metadata")
"""What of an object its owner may change."""


class Objects:
    """What is in the buckets."""

    def __init__(self, store: Store, buckets: Table) -> None:
        self._buckets = buckets
        self._objects = Table(store, "storage/objects", "Object")

    def routes(self) -> Iterator[Route]:
        """What is asked of the API itself."""
        at = "b/{bucket}/o"
        one = f"{at}/{{object}}"
        may = "storage.objects"
        yield Route("GET", at, "objects.list", self.find_all, f"{may}.list")
        yield Route("GET", one, "objects.get", self.get, f"{may}.get")
        yield Route("PATCH", one, "objects.patch", self.change, f"{may}.update", "Object")
        yield Route("PUT", one, "objects.update", self.change, f"{may}.update", "Object")
        yield Route("DELETE", one, "objects.delete", self.delete, f"{may}.delete")
        for verb, answer in (("copyTo", self.copy), ("rewriteTo", self.rewrite)):
            target = f"{one}/{verb}/b/{{toBucket}}/o/{{toObject}}"
            yield Route("POST", target, f"objects.{verb.removesuffix('To')}", answer, f"{may}.create", "Object")

    def downloads(self) -> Iterator[Route]:
        """Where contents are fetched from: `/download/storage/v1/b/BUCKET/o/OBJECT`."""
        for http in ("GET", "HEAD"):
            yield Route(http, "v1/b/{bucket}/o/{object}", "objects.get", self.download, "storage.objects.get")

    def is_empty(self, bucket: str) -> bool:
        """Whether a bucket holds nothing."""
        return next(self._objects.all(f"b/{bucket}"), None) is None

    def has(self, bucket: str, name: str) -> bool:
        """Whether a bucket holds an object of that name."""
        return self._objects.get(f"b/{bucket}", name) is not None

    def find_all(self, call: Call) -> Obj:
        """What is in a bucket. With a delimiter, names that go on behind it are told once, as prefixes."""
        bucket, prefix = self._bucket(call.params["bucket"]).name, call.query.get("prefix", "")
        delimiter = call.query.get("delimiter", "")
        items, prefixes = [], dict[str, None]()
        mine = (each for each in self._objects.all(f"b/{bucket}") if each.name.startswith(prefix))
        found, more = page(call, mine, usual=1000)
        for document in found:
            head, cut, _ = document.name.removeprefix(prefix).partition(delimiter) if delimiter else ("", "", "")
            if cut:
                prefixes[prefix + head + cut] = None
            else:
                items.append(_linked(call, document.body))
        told = {**({"items": items} if items else {}), **({"prefixes": list(prefixes)} if prefixes else {})}
        return {"kind": "storage#objects", **told, **more}

    def get(self, call: Call) -> Obj | Media:
        """What is known of an object, or its content."""
        return self.download(call) if call.query.get("alt") == "media" else _linked(call, self._object(call).body)

    def download(self, call: Call) -> Media:
        """The content of an object, or the part of it that is wanted."""
        document = self._object(call)
        content, body = base64.b64decode(document.inner["content"]), document.body
        known = {
            "etag": body["etag"],
            "x-goog-generation": body["generation"],
            "x-goog-metageneration": body["metageneration"],
            "x-goog-hash": f"crc32c={body['crc32c']},md5={body['md5Hash']}",
            "x-goog-stored-content-length": body["size"],
            "accept-ranges": "bytes",
        }
        wanted = _RANGE.fullmatch(call.headers.get("range", ""))
        if wanted is None:
            return Media(content, body["contentType"], known)
        first, last = _span(wanted, len(content))
        if first >= len(content):
            raise GoogleError("INVALID_ARGUMENT", "The requested range cannot be satisfied.", http=416)
        told = {"content-range": f"bytes {first}-{last}/{len(content)}"}
        return Media(content[first : last + 1], body["contentType"], {**known, **told}, 206)

    def store(self, call: Call, described: Obj, content: bytes, kind: str) -> Obj:
        """A new content under a name; what was there before is gone."""
        bucket = self._bucket(call.params["bucket"])
        name = str(described.get("name") or "")
        if not name:
            raise invalid("Required: object name")
        before = self._objects.get(f"b/{bucket.name}", name)
        if before is None:
            absent(call)
        else:
            check(call, before.body["generation"], before.body["metageneration"])
        given = {key: described[key] for key in _OWN if described.get(key) is not None}
        return _linked(call, self._put(bucket, name, {"contentType": kind or "application/octet-stream", **given}, content))

    def _put(self, bucket: Document, name: str, given: Obj, content: bytes) -> Obj:
        generation = str(max(int(clock.now().timestamp() * 1_000_000), int(bucket.inner.get("generation", 0)) + 1))
        bucket.inner["generation"] = int(generation)
        self._buckets.put(bucket)
        body = {
            "kind": "storage#object",
            **given,
            "id": f"{bucket.name}/{name}/{generation}",
            "name": name,
            "bucket": bucket.name,
            "generation": generation,
            "metageneration": "1",
            "storageClass": bucket.body.get("storageClass", "STANDARD"),
            "size": str(len(content)),
            "md5Hash": md5(content),
            "crc32c": crc32c(content),
            "etag": f"C{generation}=",
            "timeCreated": stamp(),
            "updated": stamp(),
        }
        self._objects.put(Document(f"b/{bucket.name}", name, body, {"content": base64.b64encode(content).decode()}))
        return body

    def change(self, call: Call) -> Obj:
        """What its owner may change; the content stays."""
        document = self._object(call)
        given = {key: value for key, value in call.body.items() if key in _OWN}
        version = str(int(document.body["metageneration"]) + 1)
        document.body = {**document.body, **given, "metageneration": version, "updated": stamp()}
        self._objects.put(document)
        return _linked(call, document.body)

    def delete(self, call: Call) -> Obj:
        """Remove an object."""
        self._objects.remove(self._object(call))
        return {}

    def copy(self, call: Call) -> Obj:
        """The same content under another name."""
        document = self._object(call, conditions=False)
        given = {key: value for key, value in {**document.body, **call.body}.items() if key in _OWN}
        target = self._bucket(call.params["toBucket"])
        present = self._objects.get(f"b/{target.name}", call.params["toObject"])
        check(call, present.body["generation"] if present else "0", present.body["metageneration"] if present else "0")
        return _linked(call, self._put(target, call.params["toObject"], given, base64.b64decode(document.inner["content"])))

    def rewrite(self, call: Call) -> Obj:
        """The same in one step; it never takes several here."""
        made = self.copy(call)
        sizes = {"totalBytesRewritten": made["size"], "objectSize": made["size"]}
        return {"kind": "storage#rewriteResponse", **sizes, "done": True, "resource": made}

    def _bucket(self, name: str) -> Document:
        document = self._buckets.get(_BUCKETS, name)
        if document is None:
            raise GoogleError("NOT_FOUND", "The specified bucket does not exist.")
        return document

    def _object(self, call: Call, *, conditions: bool = True) -> Document:
        bucket, name = self._bucket(call.params["bucket"]).name, call.params["object"]
        document = self._objects.get(f"b/{bucket}", name)
        wanted = call.query.get("generation")
        if document is None or wanted not in (None, document.body["generation"]):
            raise GoogleError("NOT_FOUND", f"No such object: {bucket}/{name}")
        if conditions:
            check(call, document.body["generation"], document.body["metageneration"])
        return document


def _linked(call: Call, body: Obj) -> Obj:
    """An object with its addresses; its content is fetched from where the caller asked."""
    path = f"b/{body['bucket']}/o/{quote(body['name'], safe='')}"
    host = call.headers.get("host")
    root = f"http://{host}" if host else "https://storage.googleapis.com"
    return {
        **body,
        "selfLink": f"{root}/storage/v1/{path}",
        "mediaLink": f"{root}/download/storage/v1/{path}?generation={body['generation']}&alt=media",
    }


def _span(wanted: re.Match[str], size: int) -> tuple[int, int]:
    """The first and the last byte of a range."""
    if not wanted["first"]:
        return max(0, size - int(wanted["last"] or 0)), size - 1
    return int(wanted["first"]), min(int(wanted["last"] or size - 1), size - 1)
