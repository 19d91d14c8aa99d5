"""Bodies in and out: content negotiation, decoding into objects with defaults, and encoded responses."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks import schemas
from sliceworks.base.errors import ApiError, BadRequest, NotAcceptable, RequestEntityTooLarge, UnsupportedMediaType
from sliceworks.base.transport import Response
from sliceworks.schemas import builtins
from sliceworks.schemas.field_errors import FieldError, invalid, new_invalid
from sliceworks.schemas.golang import json_kind
from sliceworks.twin.apiserver import version_conversion
from sliceworks.twin.apiserver.fieldmanager import updater

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from sliceworks.twin.apiserver.registry.resources import Resource, Version
    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.store.entry import Entry

Obj = dict[str, Any]
JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
PATCH_TYPES = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/apply-patch+cbor",
)
_YAML_TYPES = {YAML, "application/x-yaml"}
_OFFERED = f"{JSON}, {YAML}, {PROTOBUF}"
_SUMMARY_BYTES = 30
_LITERALS = {"n": "null", "t": "true", "f": "false"}
_JSON_HEADERS = {"content-type": JSON, "cache-control": "no-cache, private"}
_VIEWS = {"Table", "PartialObjectMetadata", "PartialObjectMetadataList"}
DISCOVERY_LIST = "APIGroupDiscoveryList"
TYPE_META = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'


@dataclass(frozen=True, slots=True)
class MediaTypeOptions:
    """The negotiated form of a response: JSON, YAML or protobuf; plain, a Table or metadata only."""

    media: str = JSON
    view: str = ""

    @property
    def binary(self) -> bool:
        return self.media == PROTOBUF


PLAIN = MediaTypeOptions()
_MAX_NEGOTIATED = 200
_negotiated: dict[tuple[str, bool, bool], MediaTypeOptions] = {}
_negotiated_errors: dict[str, MediaTypeOptions] = {"": PLAIN, JSON: PLAIN}


def negotiate_output(
    headers: Mapping[str, str], *, streamed: bool = False, tables: bool = True, custom: bool = False
) -> MediaTypeOptions:
    """The first form in the Accept header that the API supports.

    Reviews, for example, have no `tables`; of `custom` resources only the metadata has a protobuf form.
    """
    key = (headers.get("accept", ""), tables, custom)
    form = _negotiated.get(key)
    if form is None:
        form = _negotiate(key[0], _VIEWS if tables else _VIEWS - {"Table"}, custom=custom)
        if form is None:
            is_known = any(media == PROTOBUF for media, _ in _accepted_types(key[0])) or _negotiate(key[0], _VIEWS)
            raise not_transformable() if is_known else not_acceptable(streamed=streamed)
        if len(_negotiated) < _MAX_NEGOTIATED:
            _negotiated[key] = form
    return form


def negotiate_error(headers: Mapping[str, str]) -> MediaTypeOptions:
    """The form of a Status: JSON if the client accepts no other."""
    accept = headers.get("accept", "")
    form = _negotiated_errors.get(accept)
    if form is None:
        form = _negotiate(accept, ()) or PLAIN
        if len(_negotiated_errors) < _MAX_NEGOTIATED:
            _negotiated_errors[accept] = form
    return form


def not_acceptable(*, streamed: bool) -> NotAcceptable:
    extra = f", {JSON};stream=watch, {PROTOBUF};stream=watch" if streamed else ""
    return NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {_OFFERED}{extra}", details={})


def not_transformable() -> NotAcceptable:
    """The error for a form that the resource does not have, such as a Table of a review."""
    return NotAcceptable(f"only the following media types are accepted: {_OFFERED}")


def negotiate_discovery(headers: Mapping[str, str], *, aggregated: bool, is_group: bool) -> MediaTypeOptions:
    """The form of a discovery document; the aggregated form wins wherever it is in the Accept header, as in kube-apiserver.

    `is_group` says that the document describes groups, whose handlers report all unknown media types in the same words.
    """
    plain: MediaTypeOptions | None = None
    known = False
    for media, options in _accepted_types(headers.get("accept", "") or "*/*"):
        if media == PROTOBUF:
            continue
        known = True
        form = MediaTypeOptions(_encoded_type(media), options.get("as", ""))
        if aggregated and form.view == DISCOVERY_LIST and (options.get("g"), options.get("v")) == ("apidiscovery.k8s.io", "v2"):
            return form
        if not form.view and plain is None:
            plain = form
    if plain is not None:
        return plain
    raise not_transformable() if known or is_group else not_acceptable(streamed=False)


def _negotiate(accept: str, views: Container[str], *, custom: bool = False) -> MediaTypeOptions | None:
    for media, options in _accepted_types(accept or "*/*"):
        view = options.get("as", "")
        if media == PROTOBUF and (view == "Table" or (custom and not view)):
            continue
        if not view or (view in views and (options.get("g"), options.get("v")) == ("meta.k8s.io", "v1")):
            return MediaTypeOptions(_encoded_type(media), view)
    return None


def _encoded_type(media: str) -> str:
    return JSON if media == "*/*" else media


def _accepted_types(accept: str) -> list[tuple[str, dict[str, str]]]:
    """The media types of an Accept header that the API can encode, with their parameters; the preferred ones first."""
    accepted = []
    for clause in accept.split(","):
        media, *parameters = (part.strip() for part in clause.split(";"))
        if media in {JSON, YAML, PROTOBUF, "*/*"}:
            accepted.append((media, dict(parameter.partition("=")[::2] for parameter in parameters)))
    return sorted(accepted, key=lambda item: (-_quality(item[1]), item[0] == "*/*"))


def _quality(options: Mapping[str, str]) -> float:
    try:
        return float(options.get("q", 1))
    except ValueError:
        return 1.0


def content_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def check_content_type(media: str, *, custom: bool) -> None:
    """Raise UnsupportedMediaType for a body that the resource cannot decode."""
    if media not in {"", JSON, *_YAML_TYPES} and (custom or media != PROTOBUF):
        offered = f"{JSON}, {YAML}" if media == PROTOBUF else _OFFERED
        raise UnsupportedMediaType(f"the body of the request was in an unknown format - accepted media types include: {offered}")


def read_object(body: bytes, media: str, kind: str, *, custom: bool = False) -> tuple[dict[str, Any], list[str]]:
    """The object in a body, and problems with duplicate fields."""
    if media == PROTOBUF and not custom:
        return read_protobuf(body, kind), []
    check_content_type(media, custom=True)
    try:
        value, duplicates = read_yaml(body) if media in _YAML_TYPES else _read_json_object(body)
    except DecodeError as error:
        raise unrecognized(kind, str(error), body) from error
    if value is None:
        return {}, []
    if not isinstance(value, dict):
        problem = f"json: cannot unmarshal {json_kind(value)} into Go value of type {TYPE_META}"
        raise unrecognized(kind, f"couldn't get version/kind; json parse error: {problem}", body)
    return value, duplicates


class DecodeError(Exception):
    """A body that is not valid JSON or YAML, in Go's words."""


def unrecognized(kind: str, problem: str, body: bytes) -> BadRequest:
    """The error for a body without a usable apiVersion and kind."""
    return BadRequest(f"the object provided is unrecognized (must be of type {kind}): {problem} ({_summary(body)})")


def _summary(body: bytes) -> str:
    """The start of a body in an error message: of a JSON object as it is, of anything else in hexadecimal."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > _SUMMARY_BYTES else ""
    start = body[:_SUMMARY_BYTES]
    return (start.decode("utf-8", "replace") if body.startswith(b"{") else start.hex()) + more


def _read_json_object(body: bytes) -> tuple[Any, list[str]]:
    try:
        return read_json(body)
    except DecodeError as error:
        raise DecodeError(f"couldn't get version/kind; json parse error: {error}") from error


def read_json(body: bytes) -> tuple[Any, list[str]]:
    """The value of a JSON document, and problems with duplicate fields; raises DecodeError."""
    try:
        value = _loads(body)
    except orjson.JSONDecodeError as error:
        raise DecodeError(_syntax_error(body, error)) from error
    # Compact JSON that encodes back to the same length has no duplicate fields: most bodies skip the slow check.
    try:
        if len(orjson.dumps(value)) == len(body):
            return value, []
    except orjson.JSONEncodeError as error:
        raise DecodeError("exceeded max depth") from error
    return value, _duplicates(body)


def _loads(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        # Go replaces bytes that are not valid UTF-8.
        text = body.decode("utf-8", "replace")
        if "\ufffd" not in text:
            raise
        return orjson.loads(text)


def _syntax_error(body: bytes, error: orjson.JSONDecodeError) -> str:
    """The error message of Go's decoder for the same document."""
    text = body.decode("utf-8", "replace")
    position, problem = _first_error(text, error.pos)
    if position >= len(text.rstrip()):
        return "unexpected end of JSON input"
    if position < 0:
        return "exceeded max depth"
    if problem == "Expecting value" and (word := _LITERALS.get(text[position])):
        # At the end of the document, Go's scanner reads a space.
        for actual, expected in zip(text[position:] + " ", word, strict=False):
            if actual != expected:
                return f"invalid character {_quote_rune(actual)} in literal {word} (expecting '{expected}')"
    before = text[:position]
    element = "array element" if before.count("[") > before.count("]") else "object key:value pair"
    places = {
        "Extra data": "after top-level value",
        "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
        "Expecting ':' delimiter": "after object key",
        "Expecting ',' delimiter": f"after {element}",
    }
    return f"invalid character {_quote_rune(text[position])} {places.get(problem, 'looking for beginning of value')}"


def _quote_rune(character: str) -> str:
    return "'\\''" if character == "'" else f"'{character}'"


def _first_error(text: str, default: int) -> tuple[int, str]:
    """The position and the message of the first syntax error; -1 for a document that is nested too deeply."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.pos, error.msg
    except (RecursionError, ValueError):
        return -1, ""
    return default, ""


def _duplicates(body: bytes) -> list[str]:
    repeated: list[tuple[dict[str, Any], list[str]]] = []

    def merge_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        merged = dict(pairs)
        if len(merged) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            repeated.append((merged, [key for key in merged if counts[key] > 1]))
        return merged

    try:
        value = json.loads(body, object_pairs_hook=merge_pairs)
    except (ValueError, RecursionError):
        return []
    return [f'duplicate field "{path}"' for path in _locate(value, {id(node): keys for node, keys in repeated})]


def _locate(value: Any, keys: Mapping[int, list[str]]) -> Iterator[str]:
    """The paths of keys in a document, which are given by the id of their object."""
    stack: list[tuple[Any, str]] = [(value, "")] if keys else []
    while stack:
        node, path = stack.pop()
        if isinstance(node, dict):
            prefix = f"{path}." if path else ""
            yield from (f"{prefix}{key}" for key in keys.get(id(node), ()))
            stack.extend((child, f"{prefix}{key}") for key, child in reversed(node.items()))
        elif isinstance(node, list):
            stack.extend((child, f"{path}[{index}]") for index, child in reversed(list(enumerate(node))))


def read_yaml(body: bytes) -> tuple[Any, list[str]]:
    """The value of a YAML document, and problems with duplicate fields; raises DecodeError."""
    from sliceworks.twin.apiserver.yaml_codec import YamlError, decode, decode_compact_json

    try:
        if (compact := decode_compact_json(body)) is not None:
            return compact, []
        value, duplicates = decode(body)
    except YamlError as error:
        raise DecodeError(str(error)) from error
    if not duplicates:
        return value, []
    problems = [f'line {line}: key "{key}" already set in map' for key, line in duplicates]
    return value, ["yaml: unmarshal errors:\n  " + "\n  ".join(problems)]


def read_protobuf(body: bytes, kind: str) -> dict[str, Any]:
    """The object in a protobuf body, which Go clients send for built-in kinds."""
    from sliceworks.twin.apiserver import protobuf

    try:
        return protobuf.decode(body, builtins.component_name)
    except protobuf.ProtobufError as error:
        raise unrecognized(kind, str(error), body) from error


def json_response(status: int, body: bytes, form: MediaTypeOptions = PLAIN, warnings: list[str] | None = None) -> Response:
    """A response with encoded JSON, converted to the negotiated media type."""
    if form.media == YAML:
        from sliceworks.twin.apiserver.yaml_codec import encode

        body = encode(orjson.loads(body))
    elif form.binary:
        from sliceworks.twin.apiserver import protobuf_encoder

        body = protobuf_encoder.encode(orjson.loads(body))
    return encoded_response(status, body, form.media, warnings)


def encoded_response(status: int, body: bytes, media: str, warnings: list[str] | None = None) -> Response:
    """A response with a body of a media type."""
    headers: Mapping[str, str] = _JSON_HEADERS if media == JSON else {**_JSON_HEADERS, "content-type": media}
    if warnings:
        headers = {**headers, "warning": "\n".join(_warning_header(warning) for warning in dict.fromkeys(warnings))}
    return Response(status, headers, body)


def _warning_header(warning: str) -> str:
    escaped = warning.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ").replace("\r", " ")
    return f'299 - "{escaped}"'


def error_response(error: ApiError, headers: Mapping[str, str] | None = None, warnings: list[str] | None = None) -> Response:
    """A response with the Status of an error, in the form that the headers of the request accept."""
    response = json_response(error.code, orjson.dumps(error.status()), negotiate_error(headers or {}), warnings)
    if error.retry_after is not None:
        response.headers = {**response.headers, "retry-after": str(int(error.retry_after))}
    if error.code == 401:
        response.headers = {**response.headers, "www-authenticate": "Bearer"}
    return response


def check_kind(call: Call, obj: Obj) -> None:
    """Check that kind and apiVersion of a body match the URL, and set them if they are missing."""
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    for name, value in (("kind", kind), ("apiVersion", api_version)):
        if value is not None and not isinstance(value, str):
            problem = f"json: cannot unmarshal {json_kind(value)} into Go struct field .{name} of type string"
            raise _unrecognized(call, f"couldn't get version/kind; json parse error: {problem}")
    if call.resource.custom and not kind:
        raise _unrecognized(call, f"Object 'Kind' is missing in '{call.request.body.decode('utf-8', 'replace')}'")
    if call.resource.custom and not api_version:
        raise kind_mismatch(call, str(kind), "")
    if (kind or call.resource.kind) != call.resource.kind or (api_version or call.api_version) != call.api_version:
        if call.resource.custom and api_version == call.api_version:
            errors = [invalid("kind", kind, f"must be {call.resource.kind}")]
            raise new_invalid(call.resource.group, str(kind), str((obj.get("metadata") or {}).get("name", "")), errors)
        raise kind_mismatch(call, str(kind or call.resource.kind), str(api_version or call.api_version))
    obj["kind"], obj["apiVersion"] = call.resource.kind, call.api_version


def _unrecognized(call: Call, problem: str) -> BadRequest:
    return unrecognized(call.resource.kind, problem, call.request.body)


class ObjectDecodeError(BadRequest):
    """A body that is not an object of the expected kind. `problem` is the message without the kinds."""

    def __init__(self, kind: str, version: str, expected: str, problem: object) -> None:
        super().__init__(f'{kind} in version "{version}" cannot be handled as a {expected}: {problem}')
        self.problem = str(problem)


def kind_mismatch(call: Call, kind: str, api_version: str, expected: str = "", package: str = "") -> BadRequest:
    """The error for a body of another kind than the URL or the subresource expects."""
    expected = expected or call.resource.kind
    if call.resource.custom and api_version != call.api_version:
        return BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version ({call.api_version})"
        )
    group, _, version = api_version.rpartition("/")
    if builtins.is_kind(group, version, kind) and not call.resource.custom:
        package = package or (call.resource.group or "core").partition(".")[0]
        problem = f"converting ({version}.{kind}) to ({package}.{expected}): unknown conversion"
    else:
        problem = f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'
    return ObjectDecodeError(kind, version, expected, problem)


def read_body(call: Call) -> tuple[Obj, list[str]]:
    """The body of a call as an object, and problems with duplicate fields."""
    media = content_type(call.request.headers)
    return read_object(call.request.body, media, call.resource.kind, custom=call.resource.custom)


def decode(call: Call, obj: Obj, duplicates: list[str], *, by_name: bool = False) -> Obj:
    """Decode an object by its schema and set its defaults. `fieldValidation` decides about unknown and duplicate fields."""
    return apply_defaults(call, decode_only(call, obj, duplicates, by_name=by_name))


def decode_only(call: Call, obj: Obj, duplicates: list[str], *, by_name: bool = False) -> Obj:
    """Decode an object without defaults. Unknown fields are reported in document order, or by name."""
    check_kind(call, obj)
    call.reset_managed_fields = updater.resets_managed_fields(obj)
    schema = call.version.schema()
    unknown: list[str] = []
    try:
        if call.resource.custom:
            schemas.prune(schema, obj, unknown)
        else:
            obj = schemas.decode(schema, obj, unknown)
    except schemas.TypeMismatch as error:
        raise ObjectDecodeError(call.resource.kind, call.version.name, call.resource.kind, error) from error
    if by_name:
        unknown.sort()
    report_field_problems(call, [f'unknown field "{path}"' for path in unknown] + duplicates)
    drop_namespace(call, obj)
    return order_fields(obj)


def drop_namespace(call: Call, obj: Obj) -> None:
    """Drop the namespace of a cluster-scoped object: clients may send any."""
    if not call.resource.namespaced:
        (obj.get("metadata") or {}).pop("namespace", None)


def apply_defaults(call: Call, obj: Obj, *, settled: Container[str] = ()) -> Obj:
    """Set defaults, except in `settled` fields, which have theirs already."""
    schemas.set_defaults(call.version.schema(), obj, settled)
    call.resource.strategy.add_defaults(obj)
    return obj


def set_default_status(call: Call, obj: Obj) -> None:
    """Set the status of a new custom resource to the default in its schema, if any: a status in the request is ignored."""
    schema = call.version.schema()
    status = schema.properties.get("status")
    if status is not None and status.default is not schemas.MISSING:
        schemas.set_defaults(schema, obj)


def report_field_problems(call: Call, problems: list[str]) -> None:
    """Reject, warn about or ignore unknown and duplicate fields, by the option `fieldValidation`."""
    if not problems:
        return
    validation = call.param("fieldValidation") or "Warn"
    if validation == "Strict":
        problem = f"strict decoding error: {', '.join(problems)}"
        raise ObjectDecodeError(call.resource.kind, call.version.name, call.resource.kind, problem)
    if validation == "Warn":
        call.warnings.extend(problems)


def deep_copy(value: Any) -> Any:
    """A copy of a JSON value that shares nothing with it."""
    return orjson.loads(orjson.dumps(value))


def order_fields(obj: Obj) -> Obj:
    """Kind, apiVersion and metadata first: the order in which objects are stored and sent."""
    metadata = obj.get("metadata")
    rest = {key: value for key, value in obj.items() if key not in {"kind", "apiVersion", "metadata"}}
    return {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": metadata if metadata is not None else {}, **rest}


def raise_if_invalid(call: Call, name: str, errors: list[FieldError]) -> None:
    """Raise Invalid with these errors, if there are any."""
    if errors:
        raise new_invalid(call.resource.group, call.resource.kind, name, errors)


def to_stored(resource: Resource, version: Version, obj: Obj) -> Obj:
    """The object in its storage version."""
    return version_conversion.to_storage(resource, obj) if needs_conversion(resource, version) else obj


def to_served(resource: Resource, version: Version, entry: Entry) -> Obj:
    """A stored object in a served version, with the defaults of its current schema."""
    obj: Obj = orjson.loads(entry.data)
    if isinstance(entry, version_conversion.ConvertedEntry):
        return obj
    if needs_conversion(resource, version):
        obj = version_conversion.from_storage(resource, obj, version.name)
    if entry.revision < version.since:
        if resource.custom:  # the storage version may have been another one
            obj["apiVersion"] = resource.api_version(version.name)
        schema = version.schema()
        schemas.prune(schema, obj, [])
        with contextlib.suppress(RequestEntityTooLarge):  # it stays readable, with as many defaults as are allowed
            schemas.set_defaults(schema, obj)
    return obj


def needs_conversion(resource: Resource, version: Version) -> bool:
    """Whether stored bytes differ from this version."""
    return version.name != resource.storage_version or resource.storage_key != resource.key


def read_body_of_kind(call: Call, component: str, kind: str) -> Obj:
    """A body of another kind than the resource, decoded by its schema."""
    body, _ = read_object(call.request.body, content_type(call.request.headers), kind)
    body_kind = body.get("kind") or kind
    if body_kind != kind:
        package = component.rsplit(".", 3)[1]
        raise kind_mismatch(call, str(body_kind), str(body.get("apiVersion") or call.api_version), kind, package)
    try:
        value: Obj = schemas.decode(builtins.builtin_scheme().component(component), body, [])
    except schemas.TypeMismatch as error:
        raise ObjectDecodeError(kind, "v1", kind, error) from error
    schemas.set_defaults(builtins.builtin_scheme().component(component), value)
    return value
