"""Get and list, with limit and continue."""

from __future__ import annotations

import base64
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import budget, clock
from sliceworks.base.errors import BadRequest, Expired
from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.handlers import response
from sliceworks.twin.apiserver.handlers.response import View, object_response
from sliceworks.twin.apiserver.request_info import check_list_options, not_found, revision_param
from sliceworks.twin.apiserver.selection import build_filter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.base.transport import Response
    from sliceworks.twin.apiserver.generic_server import ApiServer
    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.store.entry import Entry

Obj = dict[str, Any]
_HISTORY_SECONDS, _MARK_SECONDS = 300.0, 10.0
"""Real seconds after which the rest of a list cannot be read any more, and between two revisions of which the time is known."""
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue "
    "parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided "
    "token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was "
    "returned and now may show up in the list."
)


class ContinueExpired(Expired):
    """A continue token whose revision is compacted; the Status has a token for the rest of the newest list."""

    def __init__(self, start: str) -> None:
        super().__init__(_EXPIRED)
        self._token = encode_continue(-1, start)

    def status(self) -> Obj:
        return {**super().status(), "metadata": {"continue": self._token}}


class History:
    """The revisions that lists in chunks have read: like etcd, the API forgets them after some minutes."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque()
        self.compacted = 0
        """The oldest revision that a chunk can still be read at."""

    def record(self, revision: int) -> None:
        """Remember when a revision was the newest."""
        now = clock.loop_time()
        if not self._marks or now - self._marks[-1][0] >= clock.scale_real_seconds(_MARK_SECONDS):
            self._marks.append((now, revision))
        while self._marks[0][0] <= now - clock.scale_real_seconds(_HISTORY_SECONDS):
            self.compacted = self._marks.popleft()[1]


class ReadHandler:
    """Handles get and list."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._history = History()

    async def get(self, call: Call) -> Response:
        if call.form.view == "PartialObjectMetadataList":
            raise codec.not_acceptable(streamed=False)
        await self._server.wait_for_revision(revision_param(call))
        entry = self._server.store.get(call.resource.storage_key, call.namespace, call.name)
        await self._server.store.wait_durable()
        if entry is None:
            raise not_found(call)
        return await object_response(call, 200, await self._server.served_entry(call, entry))

    async def list_objects(self, call: Call) -> Response:
        if call.form.view == "PartialObjectMetadata":
            raise codec.not_acceptable(streamed=True)
        view = View(call)
        entries, metadata = await self.select(call)
        await self._server.store.wait_durable()
        entries = await self._server.served_entries(call, entries)
        return await render_list(call, view, entries, metadata)

    async def select(self, call: Call) -> tuple[list[Entry], Obj]:
        """The entries that the selectors, `limit` and `continue` of a call select, and the metadata of their list."""
        limit = max(call.number("limit") or 0, 0)
        check_list_options(call, watch=False)
        match = build_filter(call)
        at, after = await self._position(call)
        revision = at if at is not None else self._server.store.revision
        if limit:
            self._history.record(self._server.store.revision)
        entries, last = await _collect(await self._scan(call, match, at, after), match, limit)
        metadata: Obj = {"resourceVersion": str(revision)}
        if last:
            metadata["continue"] = encode_continue(revision, last)
            if call.param("labelSelector") == "" and call.param("fieldSelector") == "":
                remaining = self._server.store.count(call.resource.storage_key, call.namespace or None, after=last, at=at)
                metadata["remainingItemCount"] = remaining
        return entries, metadata

    async def _scan(self, call: Call, match: Callable[[Entry], bool] | None, at: int | None, after: str) -> Iterable[Entry]:
        """All entries after a key, for selectors in the version of the call."""
        entries = self._server.store.scan(call.resource.storage_key, call.namespace or None, after=after, at=at)
        if match is None or call.resource.conversion is None:
            return entries
        return await self._server.served_entries(call, list(entries))

    async def _position(self, call: Call) -> tuple[int | None, str]:
        """The revision to list, None for the newest, and the key after which to start."""
        version, match, token = call.param("resourceVersion"), call.param("resourceVersionMatch"), call.param("continue")
        requested = revision_param(call)
        if token:
            revision, start = decode_continue(token)
            if requested:
                raise BadRequest("specifying resource version is not allowed when using continue")
            if 0 < revision < max(self._server.store.compacted(call.resource.storage_key), self._history.compacted):
                raise ContinueExpired(start)
            return (revision if revision > 0 else None), start
        await self._server.wait_for_revision(requested)
        if match == "Exact" or (version not in {"", "0"} and call.number("limit") and match != "NotOlderThan"):
            if requested < self._server.store.compacted(call.resource.storage_key):
                raise Expired("The resourceVersion for the provided list is too old.")
            return requested, ""
        return None, ""


async def _collect(scan: Iterable[Entry], match: Callable[[Entry], bool] | None, limit: int) -> tuple[list[Entry], str]:
    """The entries of one chunk, and the key of the last one if more follow."""
    if match is None:
        entries = list(islice(scan, limit + 1) if limit else scan)
    else:
        entries, steps = [], budget.Steps()
        for entry in list(scan):  # as they are now: the store may change while other requests run
            if match(entry):
                entries.append(entry)
                if limit and len(entries) > limit:
                    break
            await steps.take(entry.size)
    if not limit or len(entries) <= limit:
        return entries, ""
    del entries[limit:]
    return entries, entries[-1].key


async def render_list(call: Call, view: View, entries: list[Entry], metadata: Obj) -> Response:
    """The list document, built from stored bytes where possible; a large list is streamed."""
    if view.table:
        return await response.document_response(call, 200, orjson.dumps(await view.list_as_table(entries, metadata)))
    kind, version = call.resource.list_kind, call.api_version
    if view.partial:
        kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
    head = {"kind": kind, "apiVersion": version, "metadata": metadata}
    if view.binary:
        return await response.binary_list_response(call, view, entries, head)
    is_large, is_yaml = _is_large(entries), call.form.media == codec.YAML
    if is_yaml and entries:
        parts = response.yaml_list_parts(view, entries, head)
    elif is_large and call.param("pretty") in {"1", "true"}:
        parts = response.pretty_list_parts(view, entries, head)
    else:
        parts = response.list_parts(view, entries, head)
    if is_large:
        headers = codec.encoded_response(200, b"", call.form.media, call.warnings).headers
        compress = "gzip" in call.request.headers.get("accept-encoding", "") and not is_yaml
        return response.stream_response(headers, parts, compress=compress)
    body = b"".join([part async for part in parts])
    if is_yaml and entries:
        return codec.encoded_response(200, body, codec.YAML, call.warnings)
    return codec.json_response(200, body, call.form, call.warnings)


def _is_large(entries: list[Entry]) -> bool:
    size = 0
    for entry in entries:
        size += entry.size
        if size > response.STREAM_THRESHOLD_BYTES:
            return True
    return False


def encode_continue(revision: int, key: str) -> str:
    token = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": key + "\0"})
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def decode_continue(token: str) -> tuple[int, str]:
    """The revision and the key of a continue token."""
    if len(token) % 4 == 1:
        raise _bad_continue(f"illegal base64 data at input byte {len(token) // 4 * 4}")
    try:
        decoded = base64.b64decode(token + "=" * (-len(token) % 4), altchars="-_", validate=True)
        value, _ = codec.read_json(decoded)
        if value["v"] != "meta.k8s.io/v1":
            raise _bad_continue(f'server does not recognize this encoded version "{value["v"]}"')
        revision, start = int(value["rv"]), str(value["start"])
        if ".." in start.split("/"):
            raise _bad_continue(start)
        return revision, start.removesuffix("\0")
    except codec.DecodeError as error:
        raise _bad_continue(str(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise _bad_continue(f"{error}") from error


def _bad_continue(reason: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid: {reason}")
