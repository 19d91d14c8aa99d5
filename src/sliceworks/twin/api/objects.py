"""Objects on their way in: decoded, defaulted and validated by their schema, and converted between versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import BadRequest
from sliceworks.schemas import builtins, managed, structural
from sliceworks.schemas.field_errors import FieldError, invalid, refusal
from sliceworks.schemas.golang import json_kind
from sliceworks.twin.api import conversions, media

if TYPE_CHECKING:
    from collections.abc import Container

    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.api.resources import Resource, Version
    from sliceworks.twin.store.entries import Entry

Obj = dict[str, Any]


def check_kind(call: Call, obj: Obj) -> None:
    """The body must say what the URL says, or nothing."""
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    for name, value in (("kind", kind), ("apiVersion", api_version)):
        if value is not None and not isinstance(value, str):
            why = f"json: cannot unmarshal {json_kind(value)} into Go struct field .{name} of type string"
            raise _unrecognized(call, f"couldn't get version/kind; json parse error: {why}")
    if call.resource.custom and not kind:
        raise _unrecognized(call, f"Object 'Kind' is missing in '{call.request.body.decode('utf-8', 'replace')}'")
    if call.resource.custom and not api_version:
        raise mismatch(call, str(kind), "")
    if (kind or call.resource.kind) != call.resource.kind or (api_version or call.api_version) != call.api_version:
        if call.resource.custom and api_version == call.api_version:
            errors = [invalid("kind", kind, f"must be {call.resource.kind}")]
            raise refusal(call.resource.group, str(kind), str((obj.get("metadata") or {}).get("name", "")), errors)
        raise mismatch(call, str(kind or call.resource.kind), str(api_version or call.api_version))
    obj["kind"], obj["apiVersion"] = call.resource.kind, call.api_version


def _unrecognized(call: Call, why: str) -> BadRequest:
    return media.unrecognized(call.resource.kind, why, call.request.body)


def mismatch(call: Call, kind: str, api_version: str, expected: str = "", home: str = "") -> BadRequest:
    """The body is of another kind than the URL, or than the subresource takes."""
    expected = expected or call.resource.kind
    if call.resource.custom and api_version != call.api_version:
        return BadRequest(
            f"the API version in the data ({api_version}) does not match the expected API version ({call.api_version})"
        )
    group, _, version = api_version.rpartition("/")
    if builtins.is_kind(group, version, kind) and not call.resource.custom:
        home = home or (call.resource.group or "core").partition(".")[0]
        why = f"converting ({version}.{kind}) to ({home}.{expected}): unknown conversion"
    else:
        why = f'no kind "{kind}" is registered for version "{api_version}" in scheme "pkg/runtime/scheme.go:111"'
    return BadRequest(f'{kind} in version "{version}" cannot be handled as a {expected}: {why}')


def read(call: Call) -> tuple[Obj, list[str]]:
    """The body of a call as an object, and the fields that it gives twice."""
    kind = media.content_type(call.request.headers)
    return media.read_object(call.request.body, kind, call.resource.kind, custom=call.resource.custom)


def decode(call: Call, obj: Obj, twice: list[str], *, by_name: bool = False) -> Obj:
    """Read an object by its schema and fill its defaults. Unknown and doubled fields are refused, warned of or let go, as asked."""
    return completed(call, decode_only(call, obj, twice, by_name=by_name))


def decode_only(call: Call, obj: Obj, twice: list[str], *, by_name: bool = False) -> Obj:
    """Read an object by its schema and leave its defaults out. Unknown fields are told in the order of the text, or by name."""
    check_kind(call, obj)
    call.forget_owners = managed.wants_reset(obj)
    schema = call.version.schema()
    unknown: list[str] = []
    try:
        if call.resource.custom:
            structural.prune(schema, obj, unknown)
        else:
            obj = structural.decode(schema, obj, unknown)
    except structural.TypeMismatch as error:
        kind = call.resource.kind
        raise BadRequest(f'{kind} in version "{call.version.name}" cannot be handled as a {kind}: {error}') from error
    if by_name:
        unknown.sort()
    report(call, [f'unknown field "{path}"' for path in unknown] + twice)
    return ordered(obj)


def completed(call: Call, obj: Obj, *, settled: Container[str] = ()) -> Obj:
    """Fill defaults, but for the fields that have theirs already."""
    structural.set_defaults(call.version.schema(), obj, settled)
    call.resource.strategy.complete(obj)
    return obj


def report(call: Call, problems: list[str]) -> None:
    """Refuse, warn of, or pass over fields that should not be there, as the call asks."""
    if not problems:
        return
    validation = call.param("fieldValidation") or "Warn"
    if validation == "Strict":
        kind = call.resource.kind
        prefix = f'{kind} in version "{call.version.name}" cannot be handled as a {kind}: '
        raise BadRequest(f"{prefix}strict decoding error: {', '.join(problems)}")
    if validation == "Warn":
        call.warnings.extend(problems)


def ordered(obj: Obj) -> Obj:
    """Kind, version and metadata first: the order in which every object is stored and sent."""
    metadata = obj.get("metadata")
    rest = {key: value for key, value in obj.items() if key not in {"kind", "apiVersion", "metadata"}}
    return {"kind": obj["kind"], "apiVersion": obj["apiVersion"], "metadata": metadata if metadata is not None else {}, **rest}


def refuse(call: Call, name: str, errors: list[FieldError]) -> None:
    """Raise the 422 that carries these errors, if there are any."""
    if errors:
        raise refusal(call.resource.group, call.resource.kind, name, errors)


def stored(resource: Resource, version: Version, obj: Obj) -> Obj:
    """The object as it is kept."""
    return conversions.to_storage(resource, obj) if needs_conversion(resource, version) else obj


def served(resource: Resource, version: Version, entry: Entry) -> Obj:
    """A stored object in the version that a client asked for, with the defaults that its schema has now."""
    obj: Obj = orjson.loads(entry.data)
    if needs_conversion(resource, version):
        obj = conversions.from_storage(resource, obj, version.name)
    if entry.revision < version.since:
        schema = version.schema()
        structural.prune(schema, obj, [])
        structural.set_defaults(schema, obj)
    return obj


def needs_conversion(resource: Resource, version: Version) -> bool:
    """Whether stored bytes differ from what this version shows."""
    return version.name != resource.storage_version or resource.stored_as != resource.key
