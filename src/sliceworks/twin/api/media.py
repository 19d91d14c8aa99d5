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
_JSON_HEADERS = {"content-type": JSON, "cache-control": "no-cache, private"}


@dataclass(frozen=True, slots=True)
class Form:
    """How an answer is wanted: JSON or YAML; plain, as a Table or as metadata only."""

    yaml: bool = False
    view: str = ""


_PLAIN = Form()
_FORMS: dict[str, Form] = {JSON: _PLAIN, "*/*": _PLAIN, "": _PLAIN}
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


def read_object(body: bytes, media: str, kind: str, *, custom: bool = False) -> tuple[dict[str, Any], list[str]]:
    """A body as an object, and the paths of fields that it gives twice."""
    if media == PROTOBUF and not custom:
        return read_protobuf(body, kind), []
    if media not in {"", JSON, YAML, "application/x-yaml"}:
        if custom:
            raise UnsupportedMediaType(
                f"the body of the request was in an unknown format - accepted media types include: {JSON}, {YAML}"
            )
        raise UnsupportedMediaType(f"the body of the request was in an unknown format - accepted media types include: {_OFFERED}")
    value, twice = read_yaml(body, kind) if media in {YAML, "application/x-yaml"} else read_json(body, kind)
    if not isinstance(value, dict):
        shown = {list: "array", str: "string", bool: "bool"}.get(type(value), "number")
        raise BadRequest(
            f"couldn't get version/kind; json parse error: json: cannot unmarshal {shown} into Go value of type struct "
            '{ APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        )
    return value, twice


def read_json(body: bytes, kind: str) -> tuple[Any, list[str]]:
    """JSON, and the paths of duplicate fields."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        shown = body[:200].decode("utf-8", "replace")
        wanted = f"the object provided is unrecognized (must be of type {kind}): " if kind else ""
        raise BadRequest(f"{wanted}couldn't get version/kind; json parse error: {_reason(error, body)} ({shown})") from error
    # A body that encodes back to as many bytes holds no field twice: most clients send compact JSON, and skip the slow look.
    if len(orjson.dumps(value)) == len(body):
        return value, []
    return value, _duplicates(body)


def _reason(error: orjson.JSONDecodeError, body: bytes) -> str:
    if not body.strip() or error.pos >= len(error.doc.rstrip()):
        return "unexpected end of JSON input"
    return f"invalid character {error.doc[error.pos]!r} looking for beginning of value"


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


def read_yaml(body: bytes, kind: str) -> tuple[Any, list[str]]:
    """YAML, and the paths of duplicate fields."""
    from sliceworks.twin.api.yaml_bodies import YamlRefused, decode

    try:
        value, twice = decode(body)
    except YamlRefused as error:
        wanted = f"the object provided is unrecognized (must be of type {kind}): " if kind else ""
        raise BadRequest(f"{wanted}couldn't get version/kind; json parse error: {error}") from error
    if not twice:
        return value, []
    return value, [
        "yaml: unmarshal errors:\n  " + "\n  ".join(f'line {line}: key "{key}" already set in map' for key, line in twice)
    ]


def read_protobuf(body: bytes, kind: str) -> dict[str, Any]:
    """A protobuf body, which Go's own clients send for built-in kinds."""
    from sliceworks.schemas import builtins, protobuf

    try:
        return protobuf.decode(body, builtins.component_name)
    except protobuf.ProtobufRefused as error:
        raise BadRequest(f"the object provided is unrecognized (must be of type {kind}): {error}") from error


def json_response(status: int, body: bytes, form: Form = _PLAIN, warnings: list[str] | None = None) -> Response:
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


def error_response(error: ApiError) -> Response:
    """The Status of an error as an answer."""
    response = json_response(error.code, orjson.dumps(error.status()))
    if error.retry_after is not None:
        response.headers = {**response.headers, "retry-after": str(int(error.retry_after))}
    if error.code == 401:
        response.headers = {**response.headers, "www-authenticate": "Bearer"}
    return response
