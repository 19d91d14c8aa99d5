"""Bodies of another kind than the object they are sent to: a Scale, a Binding, a review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest
from sliceworks.schemas import builtins, structural
from sliceworks.twin.api import media
from sliceworks.twin.api.objects import mismatch

if TYPE_CHECKING:
    from sliceworks.twin.api.calls import Call

Obj = dict[str, Any]


def read_kind(call: Call, component: str, kind: str) -> Obj:
    """A body of another kind than the object's, read by its schema."""
    body, _ = media.read_object(call.request.body, media.content_type(call.request.headers), kind)
    found = body.get("kind") or kind
    if found != kind:
        home = component.rsplit(".", 3)[1]
        raise mismatch(call, str(found), str(body.get("apiVersion") or call.api_version), kind, home)
    try:
        value: Obj = structural.decode(builtins.catalogue().component(component), body, [])
    except structural.TypeMismatch as error:
        raise BadRequest(f'{kind} in version "v1" cannot be handled as a {kind}: {error}') from error
    structural.set_defaults(builtins.catalogue().component(component), value)
    return value
