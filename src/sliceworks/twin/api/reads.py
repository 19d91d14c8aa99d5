"""Get and list: objects out of the store, one or many, whole or in chunks."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import BadRequest, Expired, ServerTimeout
from sliceworks.schemas.field_errors import FieldError, forbidden, not_supported, refusal
from sliceworks.twin.api import large, media, objects
from sliceworks.twin.api.refusals import not_found
from sliceworks.twin.api.selecting import matcher
from sliceworks.twin.api.views import View

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.kube.transport import Response
    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.api.core import Core
    from sliceworks.twin.store.entries import Entry

Obj = dict[str, Any]
_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue "
    "parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided "
    "token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was "
    "returned and now may show up in the list."
)


class Reader:
    """Answers get and list."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def get(self, call: Call) -> Response:
        if call.form.view == "PartialObjectMetadataList":
            raise media.not_acceptable(streamed=False)
        await self._core.reached(revision_param(call))
        entry = self._core.store.get(call.resource.stored_as, call.namespace, call.name)
        await self._core.store.settled()
        if entry is None:
            raise not_found(call)
        return self.answer(call, 200, entry)

    def answer(self, call: Call, status: int, entry: Entry) -> Response:
        """One object as the call wants to see it."""
        return media.json_response(status, View(call).object_bytes(entry), call.form, call.warnings)

    async def list_objects(self, call: Call) -> Response:
        if call.form.view == "PartialObjectMetadata":
            raise media.not_acceptable(streamed=True)
        limit = call.number("limit") or 0
        check_list_options(call, watch=False)
        view, match = View(call), matcher(call)
        at, after = await self._position(call)
        revision = at if at is not None else self._core.store.revision
        entries, last = self._collect(call, match, at, after, limit)
        metadata: Obj = {"resourceVersion": str(revision)}
        if last:
            metadata["continue"] = encode_continue(revision, last)
            if call.param("labelSelector") == "" and call.param("fieldSelector") == "":
                rest = self._core.store.count(call.resource.stored_as, call.namespace or None, after=last, at=at)
                metadata["remainingItemCount"] = rest
        await self._core.store.settled()
        return render_list(call, view, entries, metadata)

    def _collect(
        self, call: Call, match: Callable[[Entry], bool] | None, at: int | None, after: str, limit: int
    ) -> tuple[list[Entry], str]:
        """The entries of one chunk, and the key of the last one when more may follow."""
        scan = self._core.store.scan(call.resource.stored_as, call.namespace or None, after=after, at=at)
        chosen: Iterable[Entry] = scan if match is None else (entry for entry in scan if match(entry))
        if not limit:
            return list(chosen), ""
        entries: list[Entry] = []
        for entry in chosen:
            if len(entries) == limit:
                return entries, entries[-1].key
            entries.append(entry)
        return entries, ""

    async def _position(self, call: Call) -> tuple[int | None, str]:
        """Which revision to read, None for the newest, and behind which key to start."""
        version, match, token = call.param("resourceVersion"), call.param("resourceVersionMatch"), call.param("continue")
        wanted = revision_param(call)
        if token:
            revision, start = decode_continue(token)
            if wanted:
                raise BadRequest("specifying resource version is not allowed when using continue")
            if 0 < revision < self._core.store.compacted(call.resource.stored_as):
                raise Expired(_EXPIRED, details=None) from None
            return (revision if revision > 0 else None), start
        await self._core.reached(wanted)
        if match == "Exact" or (version not in {"", "0"} and call.number("limit") and match != "NotOlderThan"):
            if wanted < self._core.store.compacted(call.resource.stored_as):
                raise Expired("The resourceVersion for the provided list is too old.")
            return wanted, ""
        return None, ""


def check_list_options(call: Call, *, watch: bool) -> None:
    """The rules between resourceVersion, resourceVersionMatch, continue and sendInitialEvents."""
    version, match, token = call.param("resourceVersion"), call.param("resourceVersionMatch"), call.param("continue")
    initial = call.params.get("sendInitialEvents")
    errors: list[FieldError] = []
    if initial and not watch:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if match:
        if watch and not initial:
            errors.append(
                forbidden(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                )
            )
        elif not watch and not version:
            errors.append(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if token:
            errors.append(forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"))
        allowed = ["NotOlderThan"] if watch else ["Exact", "NotOlderThan"]
        if match not in allowed:
            errors.append(not_supported("resourceVersionMatch", match, [*allowed, *([] if watch else [""])]))
        if match == "Exact" and version == "0":
            errors.append(forbidden("resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    elif watch and initial:
        errors.append(forbidden("resourceVersionMatch", "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if errors:
        raise refusal("meta.k8s.io", "ListOptions", "", errors)


def revision_param(call: Call) -> int:
    """The resourceVersion option as a number, 0 when there is none."""
    text = call.param("resourceVersion")
    if not text:
        return 0
    if not text.isascii() or not text.isdigit():
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        prefix = "invalid resource version: " if call.target.verb == "list" else ""
        raise BadRequest(f'{prefix}resourceVersion: Invalid value: "{text}": {why}')
    if int(text) >= 1 << 64:
        why = f'strconv.ParseUint: parsing "{text}": value out of range'
        raise BadRequest(f'invalid resource version: resourceVersion: Invalid value: "{text}": {why}')
    return int(text)


def too_large(wanted: int, current: int) -> ServerTimeout:
    return ServerTimeout(
        f"Timeout: Too large resource version: {wanted}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def render_list(call: Call, view: View, entries: list[Entry], metadata: Obj) -> Response:
    """The list document, its items joined from stored bytes where they can be; a large one is sent while it is made."""
    if view.table:
        items = [objects.served(call.resource, call.version, entry) for entry in entries]
        extra = {key: value for key, value in metadata.items() if key != "resourceVersion"}
        table = orjson.dumps(view.as_table(items, metadata["resourceVersion"], **extra))
        return media.json_response(200, table, call.form, call.warnings)
    kind, version = call.resource.list_kind, call.api_version
    if view.partial:
        kind, version = "PartialObjectMetadataList", "meta.k8s.io/v1"
    head = orjson.dumps({"kind": kind, "apiVersion": version, "metadata": metadata})[:-1] + b',"items":['
    parts = _list_parts(head, view, entries)
    if call.form.yaml or call.param("pretty") or not _is_large(entries):
        return media.json_response(200, b"".join(parts), call.form, call.warnings)
    headers = media.json_response(200, b"", call.form, call.warnings).headers
    return large.answer(headers, parts, compress="gzip" in call.request.headers.get("accept-encoding", ""))


def _is_large(entries: list[Entry]) -> bool:
    size = 0
    for entry in entries:
        size += len(entry.data)
        if size > large.LARGE:
            return True
    return False


def _list_parts(head: bytes, view: View, entries: list[Entry]) -> Iterator[bytes]:
    yield head
    for index, entry in enumerate(entries):
        if index:
            yield b","
        yield view.item_bytes(entry)
    yield b"]}"


def encode_continue(revision: int, key: str) -> str:
    token = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": key + "\0"})
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def decode_continue(token: str) -> tuple[int, str]:
    """The revision and the key of a continue token."""
    if len(token) % 4 == 1:
        raise _bad_continue(f"illegal base64 data at input byte {len(token) // 4 * 4}")
    try:
        text = base64.b64decode(token + "=" * (-len(token) % 4), altchars="-_", validate=True)
        value, _ = media.read_json(text)
        if value["v"] != "meta.k8s.io/v1":
            raise _bad_continue(f'server does not recognize this encoded version "{value["v"]}"')
        revision, start = int(value["rv"]), str(value["start"])
        if ".." in start.split("/"):
            raise _bad_continue(start)
        return revision, start.removesuffix("\0")
    except media.Unreadable as error:
        raise _bad_continue(str(error)) from error
    except (ValueError, KeyError, TypeError) as error:
        raise _bad_continue(f"{error}") from error


def _bad_continue(why: str) -> BadRequest:
    return BadRequest(f"invalid continue token: continue key is not valid: {why}")
