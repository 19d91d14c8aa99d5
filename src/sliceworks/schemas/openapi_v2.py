"""OpenAPI v2, which older clients and kubectl's own validation of lists read: the definitions of all kinds, as JSON or protobuf.

Only definitions are given; the operations are in the v3 documents. What v2 cannot say of a custom resource is left out as the
real server leaves it out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.schemas.builtins import LIST_META, OBJECT_META, catalogue
from sliceworks.schemas.wire_writer import flag, number, part, real, text

if TYPE_CHECKING:
    from collections.abc import Iterable

Node = dict[str, Any]

MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# What clients write in Accept, which no media type may be called.
ASKED = MEDIA.replace(".v1.0", "@v1.0")
_HERE = "#/definitions/"
_UNSAYABLE = {"default", "go", "oneOf", "anyOf", "allOf", "not", "nullable"}
_TYPES = {"io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity"}
_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_REALS = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_FLAGS = {"exclusiveMaximum": 8, "exclusiveMinimum": 10, "uniqueItems": 16}
_NUMBERS = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "maxProperties": 17, "minProperties": 18}


def document(customs: Iterable[Node]) -> Node:
    """The document over all built-in kinds and these CustomResourceDefinitions."""
    definitions = {name: _builtin(name, node) for name, node in catalogue().nodes().items()}
    for definition in customs:
        for version in definition["spec"]["versions"]:
            if version.get("served"):
                definitions |= _custom(definition["spec"], version)
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "1.35"},
        "paths": {},
        "definitions": dict(sorted(definitions.items())),
    }


def encoded(found: Node) -> bytes:
    """The same document as protobuf."""
    info = text(1, found["info"]["title"]) + text(2, found["info"]["version"])
    definitions = b"".join(part(1, _named(name, node)) for name, node in found["definitions"].items())
    return text(1, found["swagger"]) + part(2, info) + part(8, b"") + part(9, definitions)


def _builtin(name: str, node: Node) -> Node:
    found = _plain(node)
    return {"type": "string", **found} if name in _TYPES else found


def _plain(node: Any, *, names: bool = False) -> Any:
    """A node of the data in the words of v2."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _plain(child) for name, child in node.items()}
    found = {key: _plain(value, names=key == "properties") for key, value in node.items() if key not in _UNSAYABLE}
    if "$ref" in found:
        found["$ref"] = _HERE + found["$ref"]
    return found


def _custom(spec: Node, version: Node) -> dict[str, Node]:
    group, names, kind = spec["group"], spec["names"], spec["names"]["kind"]
    home = ".".join([*reversed(group.split(".")), version["name"]])
    list_kind = names.get("listKind") or f"{kind}List"
    root = _sayable((version.get("schema") or {}).get("openAPIV3Schema") or {})
    standard = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    kinds = {"group": group, "version": version["name"]}
    if "properties" in root:
        root["properties"] = {**standard, **root["properties"], "metadata": {"$ref": _HERE + OBJECT_META}}
    items = {"type": "array", "items": {"$ref": f"{_HERE}{home}.{kind}"}}
    fields = {**standard, "items": items, "metadata": {"$ref": _HERE + LIST_META}}
    listed = {"type": "object", "required": ["items"], "properties": fields}
    return {
        f"{home}.{kind}": {**root, "x-kubernetes-group-version-kind": [{**kinds, "kind": kind}]},
        f"{home}.{list_kind}": {**listed, "x-kubernetes-group-version-kind": [{**kinds, "kind": list_kind}]},
    }


def _sayable(node: Node) -> Node:
    """A structural schema without what v2 has no words for, and without what its readers stumble over."""
    found = {key: value for key, value in node.items() if key not in _UNSAYABLE}
    open_ended = bool(node.get("x-kubernetes-preserve-unknown-fields"))
    if node.get("nullable") or open_ended:
        found.pop("items", None)
        found.pop("properties", None)
    if (
        node.get("nullable")
        or (open_ended and node.get("type") == "object")
        or (node.get("type") == "array" and "items" not in found)
    ):
        found.pop("type", None)
    for key in ("items", "additionalProperties"):
        if isinstance(found.get(key), dict):
            found[key] = _sayable(found[key])
    if "properties" in found:
        found["properties"] = {name: _sayable(child) for name, child in found["properties"].items()}
        nullable = {name for name, child in node["properties"].items() if child.get("nullable")}
        found["required"] = [name for name in found.get("required") or () if name not in nullable]
    if not found.get("required"):
        found.pop("required", None)
    return found


def _named(name: str, node: Node) -> bytes:
    return text(1, name) + part(2, _schema(node))


def _schema(node: Node) -> bytes:
    """A schema as a message: fields in the order of their numbers do not matter, and unknown words go into extensions."""
    written = b""
    for key, value in node.items():
        if key in _TEXTS:
            written += text(_TEXTS[key], value)
        elif key in _NUMBERS:
            written += number(_NUMBERS[key], value)
        elif key in _REALS:
            written += real(_REALS[key], value)
        elif key in _FLAGS:
            written += flag(_FLAGS[key], value)
        elif key == "required":
            written += b"".join(text(19, name) for name in value)
        elif key == "enum":
            written += b"".join(part(20, _any(item)) for item in value)
        elif key == "additionalProperties":
            written += part(21, part(1, _schema(value)) if isinstance(value, dict) else flag(2, value))
        elif key == "type":
            written += part(22, text(1, value))
        elif key == "items":
            written += part(23, part(1, _schema(value)))
        elif key == "properties":
            written += part(25, b"".join(part(1, _named(name, child)) for name, child in value.items()))
        elif key.startswith("x-"):
            written += part(31, text(1, key) + part(2, _any(value)))
    return written


def _any(value: Any) -> bytes:
    """A free value: as YAML, of which JSON is a part."""
    return text(2, orjson.dumps(value).decode())
