"""YAML request bodies, read as the JSON that they stand for."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import yaml

from sliceworks.twin.api import yaml_scalars

_MOST_NODES = 200_000
DEEPEST = 250
"""As deep as JSON can be written here; the real server goes to 10,000."""

_STANDARD = "tag:yaml.org,2002:"
_MERGE = f"{_STANDARD}merge"
_PLAIN, _TEXT, _COLLECTION = "plain", "text", "collection"


class YamlRefused(Exception):
    """The text is no YAML, or none that JSON could say."""

    def __init__(self, why: str, *, said_by: str = "yaml: ") -> None:
        super().__init__(said_by + why)


class _Loader(yaml.CSafeLoader):
    """Words mean what they mean to Kubernetes, and keys given twice are noted."""

    twice: list[tuple[str, int]]

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        if kind is yaml.ScalarNode and implicit[0]:
            return _MERGE if value == "<<" else _PLAIN
        return _TEXT if kind is yaml.ScalarNode else _COLLECTION

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Whatever a collection is tagged as, JSON has two kinds of them."""
        if isinstance(node, yaml.MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return [self.construct_object(item) for item in node.value]
        assert isinstance(node, yaml.ScalarNode)
        return _scalar(node)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    self.twice.append((key.value, key.start_mark.line + 1))
                seen.add(key.value)
        self.flatten_mapping(node)
        return {_key(key): self.construct_object(value) for key, value in node.value}


def _scalar(node: yaml.ScalarNode) -> yaml_scalars.Scalar:
    value: str = node.value
    kind = node.tag.removeprefix(_STANDARD)
    if kind == "binary":
        try:
            return base64.b64decode("".join(value.split()), validate=True).decode("utf-8", "replace")
        except binascii.Error as error:
            raise YamlRefused("!!binary value contains invalid base64 data") from error
    if kind not in {_PLAIN, "int", "float", "bool", "null"}:
        return value
    found = yaml_scalars.plain(value)
    if isinstance(found, float) and not math.isfinite(found):
        shown = "NaN" if math.isnan(found) else "+Inf" if found > 0 else "-Inf"
        raise YamlRefused(f"json: unsupported value: {shown}", said_by="")
    if kind != _PLAIN and not _is(found, kind):
        raise YamlRefused(f"cannot decode !!{_kind(found)} `{value}` as a !!{kind}")
    return found


def _kind(value: yaml_scalars.Scalar) -> str:
    return "null" if value is None else {bool: "bool", int: "int", float: "float"}.get(type(value), "str")


def _is(value: yaml_scalars.Scalar, kind: str) -> bool:
    return _kind(value) == kind or (kind == "float" and _kind(value) == "int")


def _key(node: yaml.Node) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise YamlRefused("invalid map key")
    value = yaml_scalars.plain(node.value) if node.tag == _PLAIN else _scalar(node)
    name = yaml_scalars.key(value)
    if name is None:
        raise YamlRefused("unsupported map key of type: %!s(<nil>), key: <nil>", said_by="")
    return name


_PATTERNS = yaml.CSafeDumper.yaml_implicit_resolvers


class _Dumper(yaml.CSafeDumper):
    """Text that would read as something else is quoted as Go quotes it."""


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    plain = isinstance(yaml_scalars.plain(text), str) and not any(pattern.match(text) for _, pattern in _PATTERNS.get(text[:1], ()))
    return dumper.represent_scalar(f"{_STANDARD}str", text, style=None if plain else '"')


_Dumper.add_representer(str, _represent_text)


def encode(value: Any) -> bytes:
    """YAML as kube-apiserver writes it: keys in order."""
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=1 << 20).encode()


def decode(body: bytes) -> tuple[Any, list[tuple[str, int]]]:
    """The first document, and the names and lines of fields that it gives twice."""
    try:
        _check(body)
        loader = _Loader(body)
        loader.twice = []
        try:
            return loader.get_data(), loader.twice
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise YamlRefused(_worded(error)) from error
    except yaml.reader.ReaderError as error:
        raise YamlRefused(error.reason) from error
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        raise YamlRefused(" ".join(str(error).split())) from error


def _worded(error: yaml.MarkedYAMLError) -> str:
    """Where it is, as Go's YAML counts lines, and what it is."""
    line = (error.context_mark.line if error.context_mark else 0) or (error.problem_mark.line if error.problem_mark else 0)
    if line and isinstance(error, yaml.scanner.ScannerError):
        line += 1
    return f"line {line}: {error.problem}" if line else str(error.problem)


def _check(body: bytes) -> None:
    """Refuse from the stream of events what would cost too much to build: deep nesting, which would exhaust the C stack and end
    the process, and aliases that unfold without end.
    """
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []
    count = 0
    for event in yaml.parse(body, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.DocumentEndEvent):
            return
        if isinstance(event, yaml.DocumentStartEvent):
            if event.version and event.version != (1, 1):
                raise YamlRefused("found incompatible YAML document")
        elif isinstance(event, yaml.AliasEvent):
            if any(anchor == event.anchor for anchor, _ in open_):
                raise YamlRefused(f"anchor '{event.anchor}' value contains itself")
            if event.anchor not in sizes:
                raise YamlRefused(f"unknown anchor '{event.anchor}' referenced")
            count += sizes[event.anchor]
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(open_) == DEEPEST:
                raise YamlRefused("exceeded max depth")
            open_.append((event.anchor, count))
            count += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor:
                sizes[anchor] = count - before
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
            if event.anchor:
                sizes[event.anchor] = 1
        if count > _MOST_NODES:
            raise YamlRefused("document contains excessive aliasing")
