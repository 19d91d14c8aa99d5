"""YAML bodies, decoded as Kubernetes' YAML library does and bounded in depth and size."""

from __future__ import annotations

import base64
import math
import re
from typing import Any

import orjson
import yaml

from sliceworks.base import yaml_loader

Scalar = str | int | float | bool | None
_WORDS: dict[str, Scalar] = {"": None, "~": None, ".nan": math.nan, ".NaN": math.nan, ".NAN": math.nan}
for _value, _names in ((None, "null"), (True, "y yes true on"), (False, "n no false off")):
    for _name in _names.split():
        _WORDS |= {_name: _value, _name.capitalize(): _value, _name.upper(): _value}
for _name in (".inf", ".Inf", ".INF"):
    _WORDS |= {_name: math.inf, f"+{_name}": math.inf, f"-{_name}": -math.inf}
_INT = re.compile(r"[-+]?(0[bB][01]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_BASES = {"0b": 2, "0o": 8, "0x": 16}
_PLAIN = "plain"
_MIN_INT, _MAX_INT = -(2**63), 2**63 - 1
MAX_DEPTH = 250
"""The depth that JSON can be encoded with here; kube-apiserver accepts 10,000."""
LIMITS = yaml_loader.Limits(size=3 << 20, depth=MAX_DEPTH, nodes=400_000)


def resolve_scalar(text: str) -> Scalar:
    """The value of a scalar without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in "0123456789+-.":
        return _number(text)
    return text


def _number(text: str) -> Scalar:
    digits = text.replace("_", "") if text[0] != "." else text
    if _INT.fullmatch(digits):
        return narrow_number(_int(digits))
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        return text if math.isinf(value) else narrow_number(value)
    return text


def _int(digits: str) -> int:
    sign, magnitude = (-1 if digits[0] == "-" else 1), digits.lstrip("+-")
    base = _BASES.get(magnitude[:2].lower()) or (8 if magnitude[0] == "0" else 10)
    return sign * int(magnitude, base)


def narrow_number(value: float) -> int | float:
    """A number as JSON with 64-bit numbers represents it."""
    if isinstance(value, int):
        return value if _MIN_INT <= value <= _MAX_INT else _as_float(value)
    return int(value) if value.is_integer() and _MIN_INT <= value <= _MAX_INT else value


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def field_name(value: Scalar) -> str | None:
    """A value as a field name; None if it cannot be one."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan" if math.isnan(value) else f"{value:g}")
    return str(value) if isinstance(value, int | str) else None


class YamlError(Exception):
    """A document that is not valid YAML, or cannot be represented as JSON."""

    def __init__(self, problem: str, *, prefix: str = "yaml: ") -> None:
        super().__init__(prefix + problem)


def _construct(node: yaml_loader.Node, duplicates: list[tuple[str, int]]) -> Any:
    """The value of a node, and its duplicate keys. Ignores the tags of collections: JSON has two kinds of them."""
    if isinstance(node, yaml_loader.Scalar):
        return _scalar(node)
    if isinstance(node, yaml_loader.Sequence):
        return [_construct(item, duplicates) for item in node.items]
    assert isinstance(node, yaml_loader.Mapping)
    seen: set[str] = set()
    for key, _ in node.pairs:
        if isinstance(key, yaml_loader.Scalar):
            if key.value in seen:
                duplicates.append((key.value, key.line + 1))
            seen.add(key.value)
    return {_key(key): _construct(value, duplicates) for key, value in yaml_loader.merged_pairs(node)}


def _scalar(node: yaml_loader.Scalar) -> Scalar:
    value = node.value
    if not node.is_plain and node.tag is None:
        return value
    kind = _PLAIN if node.is_plain else (node.tag or "").removeprefix(yaml_loader.STANDARD)
    if kind == "binary":
        try:
            return base64.b64decode("".join(value.split()), validate=True).decode("utf-8", "replace")
        except ValueError as error:
            raise YamlError("!!binary value contains invalid base64 data") from error
    if kind not in {_PLAIN, "int", "float", "bool", "null"}:
        return value
    scalar = resolve_scalar(value)
    if isinstance(scalar, float) and not math.isfinite(scalar):
        name = "NaN" if math.isnan(scalar) else "+Inf" if scalar > 0 else "-Inf"
        raise YamlError(f"json: unsupported value: {name}", prefix="")
    if kind != _PLAIN and not _has_kind(scalar, kind):
        raise YamlError(f"cannot decode !!{_kind(scalar)} `{value}` as a !!{kind}")
    return scalar


def _kind(value: Scalar) -> str:
    return "null" if value is None else {bool: "bool", int: "int", float: "float"}.get(type(value), "str")


def _has_kind(value: Scalar, kind: str) -> bool:
    return _kind(value) == kind or (kind == "float" and _kind(value) == "int")


def _key(node: yaml_loader.Node) -> str:
    if not isinstance(node, yaml_loader.Scalar):
        raise YamlError("invalid map key")
    value = resolve_scalar(node.value) if node.is_plain else _scalar(node)
    name = field_name(value)
    if name is None:
        raise YamlError("unsupported map key of type: %!s(<nil>), key: <nil>", prefix="")
    return name


_PATTERNS = yaml.CSafeDumper.yaml_implicit_resolvers


class _Dumper(yaml.CSafeDumper):
    """Quotes strings that would be read as another type, as Go does."""


def _represent_string(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    plain = isinstance(resolve_scalar(text), str) and not any(pattern.match(text) for _, pattern in _PATTERNS.get(text[:1], ()))
    return dumper.represent_scalar(f"{yaml_loader.STANDARD}str", text, style=None if plain else '"')


_Dumper.add_representer(str, _represent_string)


def encode(value: Any) -> bytes:
    """Encode a value as kube-apiserver does, with sorted keys."""
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=1 << 20).encode()


_DIFFERS_FROM_JSON = re.compile(
    rb"[:\[,]-?(?:\d+[.eE]|\d{19})"  # floats may be integers in YAML, and large integers are floats
    rb'|"<<":|"[^"]{1000,}":'  # merge keys, and keys that are too long
    rb"|\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]"  # control characters and line breaks
)


def decode_compact_json(body: bytes) -> Any:
    """The value of a YAML document that is JSON without spaces, as Go clients send it; None for all others.

    It takes a tenth of the time. Documents that could have another value or an error as YAML are not decoded.
    """
    if not body.startswith(b"{") or _DIFFERS_FROM_JSON.search(body):
        return None
    try:
        value = orjson.loads(body)
        return value if orjson.dumps(value) == body.rstrip() else None  # duplicate fields and other spellings differ
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None


def decode(body: bytes) -> tuple[Any, list[tuple[str, int]]]:
    """The first document, and the names and lines of duplicate fields."""
    duplicates: list[tuple[str, int]] = []
    try:
        root = next(yaml_loader.compose(body, LIMITS, version=(1, 1)), None)
        return (None if root is None else _construct(root, duplicates)), duplicates
    except yaml_loader.LimitExceeded as error:
        raise YamlError(_LIMIT_MESSAGES.get(error.limit) or error.problem) from error
    except yaml_loader.UnresolvedAlias as error:
        problem = (
            f"anchor '{error.anchor}' value contains itself" if error.is_cycle else f"unknown anchor '{error.anchor}' referenced"
        )
        raise YamlError(problem) from error
    except yaml_loader.Problem as error:
        raise YamlError(_go_message(error)) from error
    except ValueError as error:
        raise YamlError(" ".join(str(error).split())) from error


_LIMIT_MESSAGES = {"depth": "exceeded max depth", "aliases": "document contains excessive aliasing"}


def _go_message(error: yaml_loader.Problem) -> str:
    """The problem and its line, as Go's YAML library counts lines."""
    line = (error.context_line or 0) or (error.line or 0)
    if line and error.is_from_scanner:
        line += 1
    return f"line {line}: {error.problem}" if line else error.problem
