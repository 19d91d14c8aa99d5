"""How contents come to Cloud Storage: as they are, behind a description, or in pieces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.twin.cloud.errors import GoogleError, invalid
from sliceworks.twin.cloud.routes import Call, Media, Route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.plain.objects import Objects

Obj = dict[str, Any]
_AT = "v1/b/{bucket}/o"
_BOUNDARY = re.compile(r"""boundary=["']?([^"';]+)""", re.IGNORECASE)  # gcloud quotes it as Python does
_PIECE = re.compile(r"bytes (?:(?P<first>[0-9]+)-(?P<last>[0-9]+)|\*)/(?P<whole>[0-9]+|\*)")
_JSON = "application/json; charset=UTF-8"
_MOST = 64
_PARTS = 2


class _Begun:
    """An upload in pieces, as far as it is."""

    def __init__(self, call: Call, described: Obj) -> None:
        self.call = call
        self.described = described
        self.kind = str(described.get("contentType") or call.headers.get("x-upload-content-type") or "")
        self.content = bytearray()


class Uploads:
    """`/upload/storage/v1/b/BUCKET/o`. Uploads in pieces that are under way are forgotten when the twin ends."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._begun: dict[str, _Begun] = {}

    def routes(self) -> Iterator[Route]:
        """New contents, and pieces of them."""
        yield Route("POST", _AT, "objects.insert", self.begin, "storage.objects.create")
        yield Route("PUT", _AT, "objects.insert", self.go_on, "storage.objects.create")
        yield Route("DELETE", _AT, "objects.insert", self.give_up, "storage.objects.create")

    def begin(self, call: Call) -> Obj | Media:
        """A whole content, or the beginning of one that comes in pieces."""
        how, named = call.query.get("uploadType"), {"name": call.query.get("name", "")}
        if how == "media":
            return self._objects.store(call, named, call.raw, call.content_type)
        if how == "multipart":
            described, content, kind = _two_parts(call)
            return self._objects.store(call, {**named, **described}, content, str(described.get("contentType") or kind))
        if how == "resumable":
            return self._in_pieces(call, {**named, **_described(call.raw or b"{}")})
        raise invalid("Unsupported upload type: it must be media, multipart or resumable.")

    def _in_pieces(self, call: Call, described: Obj) -> Media:
        name = clock.uid()
        self._begun[name] = _Begun(call, described)
        while len(self._begun) > _MOST:
            del self._begun[next(iter(self._begun))]
        host = call.headers.get("host", "storage.googleapis.com")
        place = f"/upload/storage/v1/b/{call.params['bucket']}/o?uploadType=resumable&upload_id={name}"
        return Media(b"", _JSON, {"location": f"http://{host}{place}", "x-guploader-uploadid": name})

    def go_on(self, call: Call) -> Obj | Media:
        """Another piece, or the question how much is there."""
        begun = self._found(call)
        piece = _PIECE.fullmatch(call.headers.get("content-range", f"bytes 0-{max(len(call.raw) - 1, 0)}/{len(call.raw)}"))
        if piece is None:
            raise invalid("Failed to parse Content-Range header.")
        if piece["first"] is not None and call.raw:
            start = int(piece["first"])
            if start > len(begun.content):
                raise GoogleError("INVALID_ARGUMENT", "Invalid request. A piece before this one is missing.", http=503)
            begun.content[start:] = call.raw
        if piece["whole"] == "*" or len(begun.content) < int(piece["whole"]):
            there = {"range": f"bytes=0-{len(begun.content) - 1}"} if begun.content else {}
            return Media(b"", _JSON, there, 308)
        made = self._objects.store(begun.call, begun.described, bytes(begun.content), begun.kind)
        del self._begun[call.query["upload_id"]]
        return made

    def give_up(self, call: Call) -> Media:
        """Forget an upload."""
        self._found(call)
        del self._begun[call.query["upload_id"]]
        return Media(b"", _JSON, {}, 499)

    def _found(self, call: Call) -> _Begun:
        found = self._begun.get(call.query.get("upload_id", ""))
        if found is None:
            raise GoogleError("NOT_FOUND", "No such upload: begin it again.")
        return found


def _described(data: bytes) -> Obj:
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise invalid("Failed to parse the JSON that describes the object.") from error
    if not isinstance(found, dict):
        raise invalid("Failed to parse the JSON that describes the object.")
    return found


def _two_parts(call: Call) -> tuple[Obj, bytes, str]:
    """The description and the content of a multipart upload, with the content's own type."""
    boundary = _BOUNDARY.search(call.content_type)
    pieces = call.raw.split(b"--" + boundary[1].encode())[1:-1] if boundary else []
    if len(pieces) != _PARTS:
        raise invalid("Failed to parse a multipart request: it must have two parts.")
    (_, description), (head, content) = (_part(piece) for piece in pieces)
    return _described(description), content, head.get("content-type", "")


def _part(piece: bytes) -> tuple[dict[str, str], bytes]:
    """The headers and the content of one part; the line end before the next boundary belongs to neither."""
    newline = b"\r\n" if piece.startswith(b"\r\n") else b"\n"
    head, _, content = piece.removeprefix(newline).partition(newline * 2)
    lines = (line.decode("latin-1").partition(":") for line in head.split(newline) if line)
    return {name.strip().lower(): value.strip() for name, _, value in lines}, content.removesuffix(newline)
