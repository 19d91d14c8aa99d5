"""Bodies in and out: what a client sent, what it accepts, and the bytes of an answer."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import ApiError, BadRequest, NotAcceptable, UnsupportedMediaType
from sliceworks.kube.transport import Response

if TYPE_CHECKING:
    from collections.abc import Mapping

JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
)
_OFFERED = f"{JSON}, {YAML}, {PROTOBUF}"
_SHOWN = 30
_JSON_HEADERS = {"content-type": JSON, "cache-control": "no-cache, private"}


@dataclass(frozen=True, slots=True)
class Form:
    """How an answer is wanted: JSON or YAML; plain, as a Table or as metadata only."""

    yaml: bool = False
    view: str = ""


PLAIN = Form()
_FORMS: dict[str, Form] = {JSON: PLAIN, "*/*": PLAIN, "": PLAIN}
_VIEWS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}


def accepted(headers: Mapping[str, str], *, streamed: bool = False) -> Form:
    """The first form in the Accept header that this API can give."""
    text = headers.get("accept", "")
    form = _FORMS.get(text)
    if form is None:
        form = _negotiate(text)
        if form is None:
            raise not_acceptable(streamed=streamed)
        if len(_FORMS) < 200:
            _FORMS[text] = form
    return form


def not_acceptable(*, streamed: bool) -> NotAcceptable:
    extra = f", {JSON};stream=watch, {PROTOBUF};stream=watch" if streamed else ""
    return NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {_OFFERED}{extra}", details={})


def _negotiate(text: str) -> Form | None:
    for clause in text.split(","):
        media, *options = (part.strip() for part in clause.split(";"))
        if media not in {JSON, YAML, "*/*"}:
            continue
        given = dict(option.partition("=")[::2] for option in options)
        view = given.get("as", "")
        if not view:
            return Form(yaml=media == YAML)
        if view in _VIEWS and (given.get("g"), given.get("v")) == ("meta.k8s.io", "v1"):
            return Form(yaml=media == YAML, view=view)
    return None


def content_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def check_type(media: str, *, custom: bool) -> None:
    """Refuse a body in a form that this resource does not read."""
    if media not in {"", JSON, YAML, "application/x-yaml"} and (custom or media != PROTOBUF):
        offered = f"{JSON}, {YAML}" if media == PROTOBUF else _OFFERED
        raise UnsupportedMediaType(f"the body of the request was in an unknown format - accepted media types include: {offered}")


def read_object(body: bytes, media: str, kind: str, *, custom: bool = False) -> tuple[dict[str, Any], list[str]]:
    """A body as an object, and what is to be said of fields that it gives twice."""
    if media == PROTOBUF and not custom:
        return read_protobuf(body, kind), []
    if media not in {"", JSON, YAML, "application/x-yaml"}:
        offered = f"{JSON}, {YAML}" if media == PROTOBUF else _OFFERED
        raise UnsupportedMediaType(f"the body of the request was in an unknown format - accepted media types include: {offered}")
    try:
        value, twice = read_yaml(body) if media in {YAML, "application/x-yaml"} else _read_json_object(body)
    except Unreadable as error:
        raise unrecognized(kind, str(error), body) from error
    if value is None:
        return {}, []
    if not isinstance(value, dict):
        why = f"couldn't get version/kind; json parse error: json: cannot unmarshal {_go_name(value)} into Go value of type {_HEAD}"
        raise unrecognized(kind, why, body)
    return value, twice


_HEAD = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


class Unreadable(Exception):
    """Text that cannot be read, in Go's words."""


def unrecognized(kind: str, why: str, body: bytes) -> BadRequest:
    """A body that does not say what it is."""
    return BadRequest(f"the object provided is unrecognized (must be of type {kind}): {why} ({_summary(body)})")


def _summary(body: bytes) -> str:
    """The beginning of a body, as a refusal shows it: JSON objects as text, anything else in hexadecimal."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SHOWN else ""
    start = body[:_SHOWN]
    return (start.decode("utf-8", "replace") if body.startswith(b"{") else start.hex()) + more


def _go_name(value: Any) -> str:
    return {list: "array", str: "string", bool: "bool", dict: "object"}.get(type(value), "number")


def _read_json_object(body: bytes) -> tuple[Any, list[str]]:
    try:
        return read_json(body)
    except Unreadable as error:
        raise Unreadable(f"couldn't get version/kind; json parse error: {error}") from error


def read_json(body: bytes) -> tuple[Any, list[str]]:
    """JSON, and what is to be said of duplicate fields; raises Unreadable."""
    try:
        value = _loads(body)
    except orjson.JSONDecodeError as error:
        raise Unreadable(_syntax_error(body, error)) from error
    # A body that encodes back to as many bytes holds no field twice: most clients send compact JSON, and skip the slow look.
    try:
        if len(orjson.dumps(value)) == len(body):
            return value, []
    except orjson.JSONEncodeError as error:
        raise Unreadable("exceeded max depth") from error
    return value, _duplicates(body)


def _loads(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        # Go puts a replacement character where bytes are no UTF-8.
        text = body.decode("utf-8", "replace")
        if "\ufffd" not in text:
            raise
        return orjson.loads(text)


def _syntax_error(body: bytes, error: orjson.JSONDecodeError) -> str:
    """What Go's decoder says of the same text."""
    text = body.decode("utf-8", "replace")
    at, why = _first_fault(text, error.pos)
    if at >= len(text.rstrip()):
        return "unexpected end of JSON input"
    if at < 0:
        return "exceeded max depth"
    shown = "'\\''" if text[at] == "'" else f"'{text[at]}'"
    inside = "array element" if text[:at].count("[") > text[:at].count("]") else "object key:value pair"
    places = {
        "Extra data": "after top-level value",
        "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
        "Expecting ':' delimiter": "after object key",
        "Expecting ',' delimiter": f"after {inside}",
    }
    return f"invalid character {shown} {places.get(why, 'looking for beginning of value')}"


def _first_fault(text: str, otherwise: int) -> tuple[int, str]:
    """Where the text stops being JSON, and why; -1 when it is nested too deeply to tell."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos, error.msg
    except (RecursionError, ValueError):
        return -1, ""
    return otherwise, ""


def _duplicates(body: bytes) -> list[str]:
    found: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for key, value in items:
            if key in merged:
                found.append(key)
            merged[key] = value
        return merged

    try:
        value = json.loads(body, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return []
    return [f'duplicate field "{path}"' for path in _locate(value, found)] if found else []


def _locate(value: Any, names: list[str]) -> list[str]:
    """Where the names stand in a document: the first place of each."""
    wanted, places = list(dict.fromkeys(names)), dict[str, str]()
    stack: list[tuple[Any, str]] = [(value, "")]
    while stack:
        node, path = stack.pop(0)
        if isinstance(node, dict):
            for key, child in node.items():
                here = f"{path}.{key}" if path else key
                places.setdefault(key, here)
                stack.append((child, here))
        elif isinstance(node, list):
            stack.extend((child, f"{path}[{index}]") for index, child in enumerate(node))
    return [places[name] for name in wanted if name in places]


def read_yaml(body: bytes) -> tuple[Any, list[str]]:
    """YAML, and what is to be said of duplicate fields; raises Unreadable."""
    from sliceworks.twin.api.yaml_bodies import YamlRefused, decode

    try:
        value, twice = decode(body)
    except YamlRefused as error:
        raise Unreadable(str(error)) from error
    if not twice:
        return value, []
    found = [f'line {line}: key "{key}" already set in map' for key, line in twice]
    return value, ["yaml: unmarshal errors:\n  " + "\n  ".join(found)]


def read_protobuf(body: bytes, kind: str) -> dict[str, Any]:
    """A protobuf body, which Go's own clients send for built-in kinds."""
    from sliceworks.schemas import builtins, protobuf

    try:
        return protobuf.decode(body, builtins.component_name)
    except protobuf.ProtobufRefused as error:
        raise unrecognized(kind, str(error), body) from error


def json_response(status: int, body: bytes, form: Form = PLAIN, warnings: list[str] | None = None) -> Response:
    """An answer whose JSON is already encoded."""
    headers: Mapping[str, str] = _JSON_HEADERS
    if form.yaml:
        from sliceworks.twin.api.yaml_bodies import encode

        body = encode(orjson.loads(body))
        headers = {**headers, "content-type": YAML}
    if warnings:
        headers = {**headers, "warning": "\n".join(_warning(text) for text in dict.fromkeys(warnings))}
    return Response(status, headers, body)


def _warning(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\r", " ")
    return f'299 - "{escaped}"'


def error_response(error: ApiError, warnings: list[str] | None = None) -> Response:
    """The Status of an error as an answer."""
    response = json_response(error.code, orjson.dumps(error.status()), warnings=warnings)
    if error.retry_after is not None:
        response.headers = {**response.headers, "retry-after": str(int(error.retry_after))}
    if error.code == 401:
        response.headers = {**response.headers, "www-authenticate": "Bearer"}
    return response
