"""Objects of Cloud Storage: metadata, checksums, downloads and uploads."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from sliceworks.base import clock
from sliceworks.twin.cloud.core.collection import check_absent, check_preconditions, paginate
from sliceworks.twin.cloud.core.document_store import Document, Table, require
from sliceworks.twin.cloud.core.exceptions import GoogleError, invalid_argument
from sliceworks.twin.cloud.core.routes import Call, Media, Route
from sliceworks.twin.cloud.google.storage import release_bundle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.store import Store
_POLYNOMIAL = 0x82F63B78


def _crc_table_entry(value: int) -> int:
    for _ in range(8):
        value = (value >> 1) ^ _POLYNOMIAL if value & 1 else value >> 1
    return value


_TABLE = tuple(_crc_table_entry(value) for value in range(256))


def crc32c(content: bytes) -> str:
    """The CRC32C checksum, big-endian in base64."""
    checksum = 0xFFFFFFFF
    for byte in content:
        checksum = _TABLE[(checksum ^ byte) & 0xFF] ^ (checksum >> 8)
    return base64.b64encode((checksum ^ 0xFFFFFFFF).to_bytes(4)).decode()


def md5(content: bytes) -> str:
    """The MD5 checksum in base64."""
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


Obj = dict[str, Any]
_BUCKETS = "buckets"
_RANGE = re.compile(r"bytes=(?P<first>[0-9]*)-(?P<last>[0-9]*)")
_MUTABLE_FIELDS = (
    "cacheControl",
    "contentDisposition",
    "contentEncoding",
    "contentLanguage",
    "contentType",
    "customTime",
    "metadata",
)


class Objects:
    """The objects of all buckets."""

    def __init__(self, store: Store) -> None:
        self._buckets = Table(store, "storage/buckets", "Bucket")
        self._objects = Table(store, "storage/objects", "Object")

    def routes(self) -> Iterator[Route]:
        """The methods of objects."""
        collection, permissions = "b/{bucket}/o", "storage.objects"
        item = f"{collection}/{{object}}"
        yield Route("GET", collection, "objects.list", self.find_all, f"{permissions}.list")
        yield Route("GET", item, "objects.get", self.get, f"{permissions}.get")
        yield Route("PATCH", item, "objects.patch", self.update, f"{permissions}.update", "Object")
        yield Route("PUT", item, "objects.update", self.update, f"{permissions}.update", "Object")
        yield Route("DELETE", item, "objects.delete", self.delete, f"{permissions}.delete")
        for verb, handler in (("copyTo", self.copy), ("rewriteTo", self.rewrite)):
            target = f"{item}/{verb}/b/{{toBucket}}/o/{{toObject}}"
            yield Route("POST", target, f"objects.{verb.removesuffix('To')}", handler, f"{permissions}.create", "Object")

    def download_routes(self) -> Iterator[Route]:
        """Media downloads: `/download/storage/v1/b/BUCKET/o/OBJECT`."""
        for http in ("GET", "HEAD"):
            yield Route(http, "v1/b/{bucket}/o/{object}", "objects.get", self.download, "storage.objects.get")

    def is_empty(self, bucket: str) -> bool:
        """Whether a bucket has no objects."""
        return next(self._objects.all(f"b/{bucket}"), None) is None

    def has(self, bucket: str, name: str) -> bool:
        """Whether an object exists."""
        return self._objects.get(f"b/{bucket}", name) is not None

    def has_any(self, bucket: str, prefix: str) -> bool:
        """Whether an object with this name, or in a folder of this name, exists."""
        folder, keys = f"{prefix}/" if prefix else "", self._objects.keys()
        return any(parent == f"b/{bucket}" and (name == prefix or name.startswith(folder)) for parent, name in keys)

    def write(self, bucket: str, name: str, content: bytes) -> None:
        """Create or replace an object."""
        self._put(self.bucket(bucket), name, {"contentType": "application/octet-stream"}, content)

    def find_all(self, call: Call) -> Obj:
        """List the objects of a bucket. With a delimiter, objects below it are grouped into `prefixes`."""
        bucket, prefix = self.bucket(call.params["bucket"]).name, call.query.get("prefix", "")
        delimiter = call.query.get("delimiter", "")
        items, prefixes = [], dict[str, None]()
        objects = (document for document in self._objects.all(f"b/{bucket}") if document.name.startswith(prefix))
        page, token = paginate(call, objects, default_size=1000)
        for document in page:
            head, separator, _ = document.name.removeprefix(prefix).partition(delimiter) if delimiter else ("", "", "")
            if separator:
                prefixes[prefix + head + separator] = None
            else:
                items.append(_with_links(call, document.body))
        names = {"prefixes": list(prefixes)} if prefixes else {}
        return {"kind": "storage#objects", **({"items": items} if items else {}), **names, **token}

    def get(self, call: Call) -> Obj | Media:
        """Return the metadata of an object, or its content for `alt=media`."""
        return self.download(call) if call.query.get("alt") == "media" else _with_links(call, self._object(call).body)

    def download(self, call: Call) -> Media:
        """Return the content of an object, or the requested byte range."""
        document = self._object(call)
        content, body = base64.b64decode(document.inner["content"]), document.body
        headers = {
            "etag": body["etag"],
            "x-goog-generation": body["generation"],
            "x-goog-metageneration": body["metageneration"],
            "x-goog-hash": f"crc32c={body['crc32c']},md5={body['md5Hash']}",
            "x-goog-stored-content-length": body["size"],
            "accept-ranges": "bytes",
        }
        match = _RANGE.fullmatch(call.headers.get("range", ""))
        if match is None:
            return Media(content, body["contentType"], headers)
        first, last = _byte_range(match, len(content))
        if first >= len(content):
            raise GoogleError("INVALID_ARGUMENT", "The requested range cannot be satisfied.", http=416)
        content_range = {"content-range": f"bytes {first}-{last}/{len(content)}"}
        return Media(content[first : last + 1], body["contentType"], {**headers, **content_range}, 206)

    def store(self, call: Call, metadata: Obj, content: bytes, content_type: str) -> Obj:
        """Create an object or a new generation that replaces the previous one."""
        bucket = self.bucket(call.params["bucket"])
        name = str(metadata.get("name") or "")
        if not name:
            raise invalid_argument("Required: object name")
        self._check_target(call, bucket.name, name)
        fields = {key: metadata[key] for key in _MUTABLE_FIELDS if metadata.get(key) is not None}
        fields = {"contentType": content_type or "application/octet-stream", **fields}
        return _with_links(call, self._put(bucket, name, fields, content))

    def _check_target(self, call: Call, bucket: str, name: str) -> None:
        """Raise 412 unless the preconditions of a write hold for the object that it replaces."""
        before = self._objects.get(f"b/{bucket}", name)
        if before is None:
            check_absent(call)
        else:
            check_preconditions(call, before.body["generation"], before.body["metageneration"])

    def _put(self, bucket: Document, name: str, fields: Obj, content: bytes) -> Obj:
        generation = str(max(int(clock.now().timestamp() * 1_000_000), int(bucket.inner.get("generation", 0)) + 1))
        bucket.inner["generation"] = int(generation)
        self._buckets.put(bucket)
        body = {
            "kind": "storage#object",
            **fields,
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
            "timeCreated": clock.timestamp(),
            "updated": clock.timestamp(),
        }
        self._objects.put(Document(f"b/{bucket.name}", name, body, {"content": base64.b64encode(content).decode()}))
        return body

    def update(self, call: Call) -> Obj:
        """Change the metadata of an object."""
        document = self._object(call)
        fields = {key: value for key, value in call.body.items() if key in _MUTABLE_FIELDS}
        version = str(int(document.body["metageneration"]) + 1)
        document.body = {**document.body, **fields, "metageneration": version, "updated": clock.timestamp()}
        self._objects.put(document)
        return _with_links(call, document.body)

    def delete(self, call: Call) -> Obj:
        """Delete an object."""
        self._objects.delete(self._object(call))
        return {}

    def copy(self, call: Call) -> Obj:
        """Copy an object."""
        document = self._object(call, check=False)
        fields = {key: value for key, value in {**document.body, **call.body}.items() if key in _MUTABLE_FIELDS}
        target = self.bucket(call.params["toBucket"])
        self._check_target(call, target.name, call.params["toObject"])
        return _with_links(call, self._put(target, call.params["toObject"], fields, base64.b64decode(document.inner["content"])))

    def rewrite(self, call: Call) -> Obj:
        """Copy an object; the twin never needs more than one rewrite call."""
        target = self.copy(call)
        sizes = {"totalBytesRewritten": target["size"], "objectSize": target["size"]}
        return {"kind": "storage#rewriteResponse", **sizes, "done": True, "resource": target}

    def bucket(self, name: str) -> Document:
        """Return a bucket; raises NOT_FOUND."""
        return require(self._buckets.get(_BUCKETS, name), GoogleError("NOT_FOUND", "The specified bucket does not exist."))

    def _object(self, call: Call, *, check: bool = True) -> Document:
        if call.params["bucket"] == release_bundle.BUCKET and (content := release_bundle.find_content(call.params["object"])):
            if call.method in ("objects.update", "objects.patch", "objects.delete"):
                raise GoogleError("PERMISSION_DENIED", "The caller does not have permission")
            checksums = {"md5Hash": md5(content), "crc32c": crc32c(content)}
            return release_bundle.to_document(call.params["object"], content, checksums)
        bucket, name = self.bucket(call.params["bucket"]).name, call.params["object"]
        document = self._objects.get(f"b/{bucket}", name)
        generation = call.query.get("generation")
        if document is None or generation not in (None, document.body["generation"]):
            raise GoogleError("NOT_FOUND", f"No such object: {bucket}/{name}")
        if check:
            check_preconditions(call, document.body["generation"], document.body["metageneration"])
        return document


def _with_links(call: Call, body: Obj) -> Obj:
    """Add links; they point to the host that the client used."""
    path = f"b/{body['bucket']}/o/{quote(body['name'], safe='')}"
    host = call.headers.get("host")
    root = f"http://{host}" if host else "https://storage.googleapis.com"
    return {
        **body,
        "selfLink": f"{root}/storage/v1/{path}",
        "mediaLink": f"{root}/download/storage/v1/{path}?generation={body['generation']}&alt=media",
    }


def _byte_range(match: re.Match[str], size: int) -> tuple[int, int]:
    """The first and last byte of a range."""
    if not match["first"]:
        return max(0, size - int(match["last"] or 0)), size - 1
    return int(match["first"]), min(int(match["last"] or size - 1), size - 1)


_OBJECTS = "v1/b/{bucket}/o"
_BOUNDARY = re.compile(r"""boundary=["']?([^"';]+)""", re.IGNORECASE)  # gcloud quotes it as Python does
_CONTENT_RANGE = re.compile(r"bytes (?:(?P<first>[0-9]+)-(?P<last>[0-9]+)|\*)/(?P<whole>[0-9]+|\*)")
_JSON = "application/json; charset=UTF-8"
_MAX_UPLOADS = 64
_MULTIPART_PARTS = 2


class _ResumableUpload:
    """An unfinished resumable upload."""

    def __init__(self, call: Call, metadata: Obj) -> None:
        self.call = call
        self.metadata = metadata
        self.content_type = str(metadata.get("contentType") or call.headers.get("x-upload-content-type") or "")
        self.content = bytearray()


class Uploads:
    """`/upload/storage/v1/b/BUCKET/o`. Unfinished resumable uploads are lost when the twin stops."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._uploads: dict[str, _ResumableUpload] = {}

    def routes(self) -> Iterator[Route]:
        """Start, continue and abort uploads."""
        yield Route("POST", _OBJECTS, "objects.insert", self.start, "storage.objects.create")
        yield Route("PUT", _OBJECTS, "objects.insert", self.resume, "storage.objects.create")
        yield Route("DELETE", _OBJECTS, "objects.insert", self.abort, "storage.objects.create")

    def start(self, call: Call) -> Obj | Media:
        """Store the content of a media or multipart upload, or start a resumable upload."""
        upload_type, query = call.query.get("uploadType"), {"name": call.query.get("name", "")}
        if upload_type == "media":
            return self._objects.store(call, query, call.raw, call.content_type)
        if upload_type == "multipart":
            metadata, content, content_type = _parse_multipart(call)
            content_type = str(metadata.get("contentType") or content_type)
            return self._objects.store(call, {**query, **metadata}, content, content_type)
        if upload_type == "resumable":
            return self._start_resumable(call, {**query, **_parse_metadata(call.raw or b"{}")})
        raise invalid_argument("Unsupported upload type: it must be media, multipart or resumable.")

    def _start_resumable(self, call: Call, metadata: Obj) -> Media:
        name = clock.uid()
        self._uploads[name] = _ResumableUpload(call, metadata)
        while len(self._uploads) > _MAX_UPLOADS:
            del self._uploads[next(iter(self._uploads))]
        host = call.headers.get("host", "storage.googleapis.com")
        path = f"/upload/storage/v1/b/{call.params['bucket']}/o?uploadType=resumable&upload_id={name}"
        return Media(b"", _JSON, {"location": f"http://{host}{path}", "x-guploader-uploadid": name})

    def resume(self, call: Call) -> Obj | Media:
        """Append a chunk, or report how much has been received."""
        upload = self._upload(call)
        chunk = _CONTENT_RANGE.fullmatch(call.headers.get("content-range", f"bytes 0-{max(len(call.raw) - 1, 0)}/{len(call.raw)}"))
        if chunk is None:
            raise invalid_argument("Failed to parse Content-Range header.")
        if chunk["first"] is not None and call.raw:
            start = int(chunk["first"])
            if start > len(upload.content):
                raise GoogleError("INVALID_ARGUMENT", "Invalid request. A chunk before this one is missing.", http=503)
            upload.content[start:] = call.raw
        if chunk["whole"] == "*" or len(upload.content) < int(chunk["whole"]):
            received = {"range": f"bytes=0-{len(upload.content) - 1}"} if upload.content else {}
            return Media(b"", _JSON, received, 308)
        stored = self._objects.store(upload.call, upload.metadata, bytes(upload.content), upload.content_type)
        del self._uploads[call.query["upload_id"]]
        return stored

    def abort(self, call: Call) -> Media:
        """Abort a resumable upload."""
        self._upload(call)
        del self._uploads[call.query["upload_id"]]
        return Media(b"", _JSON, {}, 499)

    def _upload(self, call: Call) -> _ResumableUpload:
        upload = self._uploads.get(call.query.get("upload_id", ""))
        if upload is None:
            raise GoogleError("NOT_FOUND", "No such upload: start it again.")
        return upload


def _parse_metadata(data: bytes) -> Obj:
    try:
        metadata = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise invalid_argument("Failed to parse the JSON that describes the object.") from error
    if not isinstance(metadata, dict):
        raise invalid_argument("Failed to parse the JSON that describes the object.")
    return metadata


def _parse_multipart(call: Call) -> tuple[Obj, bytes, str]:
    """Return the metadata, content and content type of a multipart upload."""
    boundary = _BOUNDARY.search(call.content_type)
    parts = call.raw.split(b"--" + boundary[1].encode())[1:-1] if boundary else []
    if len(parts) != _MULTIPART_PARTS:
        raise invalid_argument("Failed to parse a multipart request: it must have two parts.")
    (_, metadata), (headers, content) = (_parse_part(part) for part in parts)
    return _parse_metadata(metadata), content, headers.get("content-type", "")


def _parse_part(part: bytes) -> tuple[dict[str, str], bytes]:
    """Return the headers and content of a part, without the line break before the next boundary."""
    newline = b"\r\n" if part.startswith(b"\r\n") else b"\n"
    head, _, content = part.removeprefix(newline).partition(newline * 2)
    lines = (line.decode("latin-1").partition(":") for line in head.split(newline) if line)
    return {name.strip().lower(): value.strip() for name, _, value in lines}, content.removesuffix(newline)
