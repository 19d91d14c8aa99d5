"""ConfigMaps and Secrets: keys, sizes, and what a type of secret must hold."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import names
from sliceworks.schemas.field_errors import forbidden, invalid, required, too_long
from sliceworks.schemas.rules.texts import Errors, immutable, named

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_MOST_BYTES = 1024 * 1024
_SERVICE_ACCOUNT = "kubernetes.io/service-account.name"
_LOCKED = "field is immutable when `immutable` is set"
_JSON_KEYS = {"kubernetes.io/dockercfg": ".dockercfg", "kubernetes.io/dockerconfigjson": ".dockerconfigjson"}


def config_map_errors(obj: Json) -> Errors:
    out: Errors = []
    data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
    size = 0
    for key, value in data.items():
        named(out, key, f"data[{key}]", names.config_key_errors)
        if key in binary:
            out.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        size += len(value) if value.isascii() else len(value.encode())
    for key, value in binary.items():
        named(out, key, f"binaryData[{key}]", names.config_key_errors)
        size += _decoded_size(value)
    if size > _MOST_BYTES:
        out.append(too_long("[]", _MOST_BYTES))
    return out


def secret_errors(obj: Json) -> Errors:
    out: Errors = []
    data = obj.get("data") or {}
    size = 0
    for key, value in data.items():
        named(out, key, f"data[{key}]", names.config_key_errors)
        size += _decoded_size(value)
    if size > _MOST_BYTES:
        out.append(too_long("data", _MOST_BYTES))
    _needed(out, obj, data)
    return out


def config_map_update_errors(new: Json, old: Json) -> Errors:
    return _locked(new, old, "data", "binaryData")


def secret_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    immutable(out, new.get("type"), old.get("type"), "type")
    return out + _locked(new, old, "data")


def _locked(new: Json, old: Json, *fields: str) -> Errors:
    out: Errors = []
    if old.get("immutable"):
        if not new.get("immutable"):
            out.append(forbidden("immutable", _LOCKED))
        out += [forbidden(field, _LOCKED) for field in fields if (new.get(field) or {}) != (old.get(field) or {})]
    return out


def _needed(out: Errors, obj: Json, data: dict[str, str]) -> None:
    kind = obj.get("type") or ""
    if kind == "kubernetes.io/service-account-token":
        if not ((obj.get("metadata") or {}).get("annotations") or {}).get(_SERVICE_ACCOUNT):
            out.append(required(f"metadata.annotations[{_SERVICE_ACCOUNT}]"))
    elif kind in _JSON_KEYS:
        _json_key(out, data, _JSON_KEYS[kind])
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            out += [required("data[username]"), required("data[password]")]
    elif kind == "kubernetes.io/ssh-auth":
        if not data.get("ssh-privatekey"):
            out.append(required("data[ssh-privatekey]"))
    elif kind == "kubernetes.io/tls":
        out += [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]


def _json_key(out: Errors, data: dict[str, str], key: str) -> None:
    if key not in data:
        out.append(required(f"data[{key}]"))
        return
    problem = _not_an_object(_decoded(data[key]))
    if problem:
        out.append(invalid(f"data[{key}]", "<secret contents redacted>", problem))


def _not_an_object(text: bytes) -> str:
    """Why the text is no JSON object, in Go's words where they are short."""
    if not text.strip():
        return "unexpected end of JSON input"
    try:
        found: Any = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _broken(text.strip().decode("utf-8", "replace"))
    if found is None or isinstance(found, dict):
        return ""
    kind = {bool: "bool", str: "string", list: "array"}.get(type(found), "number")
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


def _broken(text: str) -> str:
    """Where a text stops being JSON; precise for the first word, which is what people get wrong."""
    if text[0] in '{["-0123456789':
        return "unexpected end of JSON input"
    for word in ("null", "true", "false"):
        if text[0] == word[0]:
            for found, wanted in zip(text, word, strict=False):
                if found != wanted:
                    return f"invalid character '{found}' in literal {word} (expecting '{wanted}')"
    return f"invalid character '{text[0]}' looking for beginning of value"


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error:
        return b""


def _decoded_size(text: str) -> int:
    return len(text) * 3 // 4 - text[-2:].count("=")
