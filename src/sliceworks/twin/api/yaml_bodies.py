"""YAML request bodies, read as the JSON that they stand for."""

from __future__ import annotations

from typing import Any

import yaml

_MOST_NODES = 200_000
DEEPEST = 250
"""As deep as JSON can be written here; the real server goes to 10,000."""


class YamlRefused(Exception):
    """The text is no YAML, or none that JSON could say."""


class _Loader(yaml.CSafeLoader):
    """Dates stay text; keys given twice are noted."""

    twice: list[tuple[str, int]]

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    self.twice.append((key.value, key.start_mark.line + 1))
                seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


_PATTERNS = yaml.CSafeDumper.yaml_implicit_resolvers


class _Dumper(yaml.CSafeDumper):
    """Text that would read as something else is quoted as Go quotes it."""


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    plain = not any(pattern.match(text) for _, pattern in _PATTERNS.get(text[:1], ()))
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _represent_text)


def encode(value: Any) -> bytes:
    """YAML as kube-apiserver writes it: keys in order."""
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=1 << 20).encode()


def decode(body: bytes) -> tuple[Any, list[tuple[str, int]]]:
    """The document, and the names and lines of fields that it gives twice."""
    try:
        _check_depth(body)
        loader = _Loader(body)
        loader.twice = []
        try:
            value = loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise YamlRefused(f"line {line}: {error.problem}" if line else str(error.problem)) from error
    except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
        raise YamlRefused(" ".join(str(error).split())) from error
    _check_json(value)
    return value, loader.twice


def _check_depth(body: bytes) -> None:
    """Refuse deep nesting from the stream of events: building the document would exhaust the C stack, and end the process."""
    depth = 0
    for event in yaml.parse(body, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > DEEPEST:
                raise YamlRefused("exceeded max depth")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _check_json(value: Any) -> None:
    """Refuse what JSON cannot say, and aliases that would unfold without end."""
    seen, stack = 0, [value]
    while stack:
        seen += 1
        if seen > _MOST_NODES:
            raise YamlRefused("document is too large once its aliases are unfolded")
        node = stack.pop()
        if isinstance(node, dict):
            for key in node:
                if not isinstance(key, str):
                    raise YamlRefused(f"field names must be text, found {key!r}")
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
        elif not isinstance(node, str | int | float | bool | None):
            raise YamlRefused(f"{type(node).__name__} values are not supported")
