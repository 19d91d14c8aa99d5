"""The OpenAPI v2 document, as JSON or protobuf.

It contains definitions only; operations are in the v3 documents. Keywords that v2 lacks are dropped from custom resources,
as kube-apiserver does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.protobuf_wire import boolean, double, length_delimited, string, varint
from sliceworks.schemas.builtins import LIST_META, OBJECT_META, builtin_scheme
from sliceworks.twin.apiserver.openapi.descriptions import METADATA, TYPE_META, described

if TYPE_CHECKING:
    from collections.abc import Iterable

Node = dict[str, Any]

MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# Clients send this in Accept, although `@` is not allowed in a media type.
ACCEPTED_MEDIA = MEDIA.replace(".v1.0", "@v1.0")
_HERE = "#/definitions/"
_UNSUPPORTED_KEYWORDS = {"default", "go", "oneOf", "anyOf", "allOf", "not", "nullable"}
_TYPES = {"io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity"}
_TEXTS = {"$ref": 1, "format": 2, "title": 3, "description": 4, "pattern": 13}
_REALS = {"multipleOf": 6, "maximum": 7, "minimum": 9}
_FLAGS = {"exclusiveMaximum": 8, "exclusiveMinimum": 10, "uniqueItems": 16}
_NUMBERS = {"maxLength": 11, "minLength": 12, "maxItems": 14, "minItems": 15, "maxProperties": 17, "minProperties": 18}


def document(customs: Iterable[Node]) -> Node:
    """The document of all built-in kinds and these CustomResourceDefinitions."""
    definitions = {name: _builtin(name, node) for name, node in builtin_scheme().nodes().items()}
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


def encode(openapi: Node) -> bytes:
    """Encode the document as protobuf."""
    info = string(1, openapi["info"]["title"]) + string(2, openapi["info"]["version"])
    definitions = b"".join(length_delimited(1, _named(name, node)) for name, node in openapi["definitions"].items())
    return string(1, openapi["swagger"]) + length_delimited(2, info) + length_delimited(8, b"") + length_delimited(9, definitions)


def _builtin(name: str, node: Node) -> Node:
    plain = _plain(described(name, node))
    return {"type": "string", **plain} if name in _TYPES else plain


def _plain(node: Any, *, names: bool = False) -> Any:
    """A raw node as OpenAPI v2."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {name: _plain(child) for name, child in node.items()}
    result = {key: _plain(value, names=key == "properties") for key, value in node.items() if key not in _UNSUPPORTED_KEYWORDS}
    if "$ref" in result:
        result["$ref"] = _HERE + result["$ref"]
    return result


def _custom(spec: Node, version: Node) -> dict[str, Node]:
    group, names, kind = spec["group"], spec["names"], spec["names"]["kind"]
    home = ".".join([*reversed(group.split(".")), version["name"]])
    list_kind = names.get("listKind") or f"{kind}List"
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    # kubectl would call all fields unknown that are not listed.
    is_open = bool(spec.get("preserveUnknownFields") or schema.get("x-kubernetes-preserve-unknown-fields") or not schema)
    root: Node = {"type": "object"} if is_open else _supported_schema(schema)
    kinds = {"group": group, "version": version["name"]}
    if "properties" in root:
        root["properties"] = root["properties"] | _STANDARD | {"metadata": _metadata(OBJECT_META)}
    items = {"type": "array", "items": {"$ref": f"{_HERE}{home}.{kind}"}}
    fields = {**_STANDARD, "items": items, "metadata": _metadata(LIST_META)}
    listed = {"type": "object", "required": ["items"], "properties": fields}
    return {
        f"{home}.{kind}": {**root, "x-kubernetes-group-version-kind": [{**kinds, "kind": kind}]},
        f"{home}.{list_kind}": {**listed, "x-kubernetes-group-version-kind": [{**kinds, "kind": list_kind}]},
    }


_STANDARD = {name: {"type": "string", "description": text} for name, text in TYPE_META.items()}


def _metadata(component: str) -> Node:
    return {"$ref": _HERE + component, "description": METADATA[component]}


def _supported_schema(node: Node) -> Node:
    """A structural schema without the keywords that v2 or its clients do not support."""
    result = {key: value for key, value in node.items() if key not in _UNSUPPORTED_KEYWORDS}
    open_ended = bool(node.get("x-kubernetes-preserve-unknown-fields"))
    if node.get("nullable") or open_ended:
        result.pop("items", None)
        result.pop("properties", None)
    if (
        node.get("nullable")
        or (open_ended and node.get("type") == "object")
        or (node.get("type") == "array" and "items" not in result)
    ):
        result.pop("type", None)
    for key in ("items", "additionalProperties"):
        if isinstance(result.get(key), dict):
            result[key] = _supported_schema(result[key])
    if "properties" in result:
        result["properties"] = {name: _supported_schema(child) for name, child in result["properties"].items()}
        nullable = {name for name, child in node["properties"].items() if child.get("nullable")}
        result["required"] = [name for name in result.get("required") or () if name not in nullable]
    if node.get("x-kubernetes-embedded-resource") and not open_ended:
        result["properties"] = result.get("properties", {}) | _STANDARD | {"metadata": _metadata(OBJECT_META)}
        required = result.get("required") or []
        result["required"] = [*required, *(name for name in ("kind", "apiVersion") if name not in required)]
    if not result.get("required"):
        result.pop("required", None)
    return result


def _named(name: str, node: Node) -> bytes:
    return string(1, name) + length_delimited(2, _schema(node))


def _schema(node: Node) -> bytes:
    """Encode a schema; unknown keywords become vendor extensions."""
    written = b""
    for key, value in node.items():
        if key in _TEXTS:
            written += string(_TEXTS[key], value)
        elif key in _NUMBERS:
            written += varint(_NUMBERS[key], value)
        elif key in _REALS:
            written += double(_REALS[key], value)
        elif key in _FLAGS:
            written += boolean(_FLAGS[key], value)
        elif key == "required":
            written += b"".join(string(19, name) for name in value)
        elif key == "enum":
            written += b"".join(length_delimited(20, _any(item)) for item in value)
        elif key == "additionalProperties":
            written += length_delimited(21, length_delimited(1, _schema(value)) if isinstance(value, dict) else boolean(2, value))
        elif key == "type":
            written += length_delimited(22, string(1, value))
        elif key == "items":
            written += length_delimited(23, length_delimited(1, _schema(value)))
        elif key == "properties":
            written += length_delimited(25, b"".join(length_delimited(1, _named(name, child)) for name, child in value.items()))
        elif key.startswith("x-"):
            written += length_delimited(31, string(1, key) + length_delimited(2, _any(value)))
    return written


def _any(value: Any) -> bytes:
    """Encode a free-form value as YAML; JSON is valid YAML."""
    return string(2, orjson.dumps(value).decode())
