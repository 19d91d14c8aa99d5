"""YAML documents with the file and line of every field, for error messages."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO

import yaml

from sliceworks.base import yaml_loader
from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIMITS = yaml_loader.Limits(size=32 << 20, depth=100, nodes=1_000_000)


@dataclass(frozen=True, slots=True)
class Document:
    """One YAML mapping of a file. `lines` maps the path of each field (names and indices) to its line."""

    data: dict[str, Any]
    file: str
    line: int
    lines: dict[tuple[str | int, ...], int]

    def place(self, *path: str | int) -> str:
        """`file:line` of a field, or of its nearest parent that the document contains."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return f"{self.file}:{self.lines[path[:length]]}"
        return f"{self.file}:{self.line}"

    @property
    def name(self) -> str:
        """`Kind/name`, for error messages."""
        metadata = self.data.get("metadata")
        name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
        return f"{self.data.get('kind') or 'document'}/{name or '?'}"


def load_all(text: str, place: str) -> list[Document]:
    """All documents in a YAML string except empty ones; `place` is its file name, for errors."""
    try:
        roots = [root for root in yaml_loader.compose(text, LIMITS) if root is not None]
        return [_document(root, place) for root in roots if not _is_null(root)]
    except yaml_loader.InvalidCharacter as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise InvalidDocument(f"character U+{error.character:04X} is not allowed in YAML", place=f"{place}:{line}") from error
    except yaml_loader.Problem as error:
        before = "" if error.line is None else "".join(text.splitlines()[error.line : error.line + 1]).lstrip(" ")
        hint = "indent with spaces: YAML does not allow tabs" if before.startswith("\t") else ""
        raise InvalidDocument(str(error), place=place if error.line is None else f"{place}:{error.line + 1}", hint=hint) from error


def base_directory(path: Path) -> Path:
    """The directory that file names in documents are relative to: the given directory, or that of the given file."""
    return path if path.is_dir() else path.parent


def load_path(path: Path, *, deep: bool = False) -> list[Document]:
    """All documents of a file, or of the .yaml, .yml and .json files of a directory, sorted by file name.

    With `deep`, subdirectories are included, except hidden ones.
    """
    documents: list[Document] = []
    for file in list_files(path, deep=deep):
        try:
            with file.open("rb") as stream:
                documents.extend(load_all(_read(stream, str(file)), str(file)))
        except OSError as error:
            raise InvalidDocument((error.strerror or "cannot read the file").lower(), place=str(file)) from error
    return documents


def load_one(path: Path, kind: str) -> Document:
    """The only document of a file, of a directory, or of standard input (`-`); `kind` is for the error message."""
    documents = load_all(_read(sys.stdin.buffer, "-"), "-") if str(path) == "-" else load_path(path)
    if len(documents) != 1:
        raise InvalidDocument(f"expected one {kind}, found {len(documents)} documents", place=str(path))
    return documents[0]


def _read(stream: BinaryIO, place: str) -> str:
    raw = stream.read(LIMITS.size + 1)
    if len(raw) > LIMITS.size:
        raise InvalidDocument(f"larger than {LIMITS.size:,} bytes", place=place)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidDocument("not valid UTF-8", place=place) from error


def dump(value: Any) -> str:
    """A value as YAML: keys in their order, multi-line strings as block scalars."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def dump_all(values: list[Any]) -> str:
    """Several values as a multi-document YAML stream."""
    text: str = yaml.dump_all(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def list_files(path: Path, *, deep: bool = False) -> list[Path]:
    """The file itself, or the document files of a directory, sorted by name; includes dangling symbolic links."""
    if not path.is_dir():
        return [path]
    entries = path.rglob("*") if deep else path.iterdir()
    documents = (file for file in entries if file.suffix in {".yaml", ".yml", ".json"} and not file.is_dir())
    return sorted(file for file in documents if not any(part.startswith(".") for part in file.relative_to(path).parts[:-1]))


def _document(root: yaml_loader.Node, file: str) -> Document:
    line = root.line + 1
    if not isinstance(root, yaml_loader.Mapping):
        raise InvalidDocument("expected a mapping of fields", place=f"{file}:{line}")
    return Document(_construct_mapping(root), file, line, dict(_walk(root, file)))


def _walk(root: yaml_loader.Node, file: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Each field path with its line. Rejects duplicate keys."""
    pending: list[tuple[tuple[str | int, ...], yaml_loader.Node]] = [((), root)]
    while pending:
        path, node = pending.pop()
        if isinstance(node, yaml_loader.Mapping):
            names: set[str] = set()
            for key, value in node.pairs:
                name = _key(key)
                if name in names and not yaml_loader.is_merge(key):
                    raise InvalidDocument(f"duplicate field {name!r}", place=f"{file}:{key.line + 1}")
                names.add(name)
                field = (*path, name)
                yield field, key.line + 1
                if not isinstance(value, yaml_loader.Scalar):
                    pending.append((field, value))
        elif isinstance(node, yaml_loader.Sequence):
            for index, item in enumerate(node.items):
                yield (*path, index), item.line + 1
                if not isinstance(item, yaml_loader.Scalar):
                    pending.append(((*path, index), item))


def _key(node: yaml_loader.Node) -> str:
    if not isinstance(node, yaml_loader.Scalar):
        raise yaml_loader.Problem("a field name must be a scalar", node.line)
    return node.value


def _construct_mapping(node: yaml_loader.Mapping) -> dict[str, Any]:
    _check_tag(node, "map")
    return {_key(key): _construct(value) for key, value in yaml_loader.merged_pairs(node)}


def _construct(node: yaml_loader.Node) -> Any:
    """The value of a node, in JSON types: keys are strings, and a timestamp stays a string."""
    if isinstance(node, yaml_loader.Scalar):
        return _construct_scalar(node)
    if isinstance(node, yaml_loader.Mapping):
        return _construct_mapping(node)
    assert isinstance(node, yaml_loader.Sequence)
    _check_tag(node, "seq")
    return [_construct(item) for item in node.items]


def _check_tag(node: yaml_loader.Node, kind: str) -> None:
    if node.tag not in {None, "!", yaml_loader.STANDARD + kind}:
        raise yaml_loader.Problem(f"could not determine a constructor for the tag {node.tag!r}", node.line)


def _construct_scalar(node: yaml_loader.Scalar) -> Any:
    value = node.value
    tag = _resolve(value) if node.is_plain else node.tag
    if tag is None:
        return value
    kind = tag.removeprefix(yaml_loader.STANDARD)
    try:
        if kind == "null":
            return None
        if kind == "bool":
            return _BOOLEANS[value.lower()]
        # Kubernetes' YAML parser reads `22:22` as a string, not as a base-60 number.
        if kind in {"int", "float"} and ":" not in value:
            return _parse_int(value) if kind == "int" else _parse_float(value)
    except (KeyError, ValueError, IndexError) as error:
        raise yaml_loader.Problem(f"{value[:40]!r} is not a valid {kind}", node.line) from error
    if kind not in _STRINGS:
        raise yaml_loader.Problem(f"could not determine a constructor for the tag {tag!r}", node.line)
    return value


def _parse_int(text: str) -> int:
    digits = text.replace("_", "")
    sign, digits = (-1 if digits.startswith("-") else 1), digits.lstrip("+-")
    base = {"0b": 2, "0x": 16}.get(digits[:2]) or (8 if digits[0] == "0" and digits != "0" else 10)
    return sign * int(digits, base)


def _parse_float(text: str) -> float:
    return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))


_BOOLEANS = yaml.constructor.SafeConstructor.bool_values
_STRINGS = {"str", "int", "float", "timestamp", "binary", "merge", "value"}
_RESOLVERS = yaml.resolver.Resolver.yaml_implicit_resolvers


def _resolve(value: str) -> str | None:
    """The tag of a plain scalar that is not a string."""
    for tag, pattern in _RESOLVERS.get(value[:1], ()):
        if pattern.match(value):
            return str(tag)
    return None


class _Dumper(yaml.CSafeDumper):
    """Writes multi-line strings as block scalars, and no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_string(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_string)


def _is_null(node: yaml_loader.Node) -> bool:
    return isinstance(node, yaml_loader.Scalar) and _construct_scalar(node) is None
