"""YAML with places: every document knows the file and the line it came from, and so does every error about it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import yaml

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_DEEPEST = 100
_MOST_ALIASES = 10_000


@dataclass(frozen=True, slots=True)
class Document:
    """One mapping of a file. `lines` knows where each field begins: keys are paths of names and indices."""

    data: dict[str, Any]
    file: str
    line: int
    lines: dict[tuple[str | int, ...], int]

    def place(self, *path: str | int) -> str:
        """`file:line` of a field, or of the nearest one above it that is written down."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return f"{self.file}:{self.lines[path[:length]]}"
        return f"{self.file}:{self.line}"

    @property
    def name(self) -> str:
        """`Kind/name`, for messages."""
        metadata = self.data.get("metadata")
        name = metadata.get("name") or metadata.get("generateName") if isinstance(metadata, dict) else None
        return f"{self.data.get('kind') or 'document'}/{name or '?'}"


def load_all(text: str, place: str) -> list[Document]:
    """All documents of a text; empty ones are left out. InvalidDocument names file and line."""
    try:
        nodes = [node for node in yaml.compose_all(text, Loader=yaml.CSafeLoader) if node is not None]
        return [_document(node, place) for node in nodes if not _empty(node)]
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{place}:{mark.line + 1}" if mark else place
        raise InvalidDocument(_sentence(error), place=where) from error
    except yaml.reader.ReaderError as error:
        line = text.encode()[: error.position].count(b"\n") + 1
        raise InvalidDocument(
            f"has a character that YAML does not take: U+{error.character:04X}", place=f"{place}:{line}"
        ) from error
    except yaml.YAMLError as error:
        raise InvalidDocument(_one_line(str(error)), place=place) from error
    except RecursionError as error:
        raise InvalidDocument("is nested too deeply", place=place) from error


def folder_of(path: Path) -> Path:
    """What names of files in documents are relative to: the folder that was given, or that of the file."""
    return path if path.is_dir() else path.parent


def load_path(path: Path, *, deep: bool = False) -> list[Document]:
    """All documents of a file, or of every .yaml, .yml and .json file of a folder, in order of their names.

    `deep` looks into the folders of a folder too, but not into hidden ones.
    """
    documents: list[Document] = []
    for file in files(path, deep=deep):
        try:
            text = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise InvalidDocument("is not UTF-8 text", place=str(file)) from error
        except OSError as error:
            raise InvalidDocument((error.strerror or "cannot be read").lower(), place=str(file)) from error
        documents.extend(load_all(text, str(file)))
    return documents


def load_one(path: Path, wanted: str) -> Document:
    """The one document of a file, of a folder, or of standard input (`-`); `wanted` says what it should be."""
    documents = load_all(_piped(), "-") if str(path) == "-" else load_path(path)
    if len(documents) != 1:
        raise InvalidDocument(f"has {len(documents)} documents, one {wanted} is wanted", place=str(path))
    return documents[0]


def _piped() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InvalidDocument("is not UTF-8 text", place="-") from error


def dump(value: Any) -> str:
    """A value as YAML: keys in their order, long texts as blocks."""
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def dump_all(values: list[Any]) -> str:
    """Several values as one stream of documents."""
    text: str = yaml.dump_all(values, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
    return text


def files(path: Path, *, deep: bool = False) -> list[Path]:
    """A file, or the files of documents in a folder, in order of their names; links that lead nowhere are among them."""
    if not path.is_dir():
        return [path]
    found = path.rglob("*") if deep else path.iterdir()
    wanted = (file for file in found if file.suffix in {".yaml", ".yml", ".json"} and not file.is_dir())
    return sorted(file for file in wanted if not any(part.startswith(".") for part in file.relative_to(path).parts[:-1]))


def _document(node: yaml.Node, file: str) -> Document:
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        raise InvalidDocument("expected a mapping of fields", place=f"{file}:{line}")
    lines = dict(_walk(node, file))
    return Document(_construct(node, file), file, line, lines)


def _walk(root: yaml.Node, file: str) -> Iterator[tuple[tuple[str | int, ...], int]]:
    """Each path and its line. Refuses what no honest document has: repeated keys, bottomless nesting, exploding aliases."""
    pending: list[tuple[tuple[str | int, ...], yaml.Node]] = [((), root)]
    seen: set[int] = set()
    repeats = 0
    while pending:
        path, node = pending.pop()
        if len(path) > _DEEPEST:
            raise InvalidDocument(f"is nested more than {_DEEPEST} levels deep", place=f"{file}:{node.start_mark.line + 1}")
        repeats += id(node) in seen
        if repeats > _MOST_ALIASES:
            raise InvalidDocument("has aliases that unfold without end", place=f"{file}:{node.start_mark.line + 1}")
        seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            names: set[str] = set()
            for key, value in node.value:
                name = _key(key, file)
                if name in names and name != "<<":
                    raise InvalidDocument(f"field {name!r} is written twice", place=f"{file}:{key.start_mark.line + 1}")
                names.add(name)
                yield (*path, name), key.start_mark.line + 1
                pending.append(((*path, name), value))
        elif isinstance(node, yaml.SequenceNode):
            for index, value in enumerate(node.value):
                yield (*path, index), value.start_mark.line + 1
                pending.append(((*path, index), value))


def _key(node: yaml.Node, file: str) -> str:
    if not isinstance(node, yaml.ScalarNode):
        raise InvalidDocument("a field's name must be plain text", place=f"{file}:{node.start_mark.line + 1}")
    return str(node.value)


def _construct(node: yaml.Node, file: str) -> dict[str, Any]:
    try:
        data: dict[str, Any] = _Constructor().construct_document(node)
    except ValueError as error:
        raise InvalidDocument(_one_line(str(error)), place=f"{file}:{node.start_mark.line + 1}") from error
    return data


class _Constructor(yaml.constructor.SafeConstructor):
    """JSON's types alone: keys are text, and a date stays the text it was written as."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        self.flatten_mapping(node)
        return {str(key.value): self.construct_object(value, deep=deep) for key, value in node.value}


def _as_text(constructor: Any, node: Any) -> str:
    return str(constructor.construct_scalar(node))


def _as_number(constructor: Any, node: Any) -> int | float | str:
    # `22:22` is text to Kubernetes' reader, not a number to the base of sixty.
    if ":" in node.value:
        return _as_text(constructor, node)
    kind = node.tag.rpartition(":")[2]
    number: int | float = constructor.construct_yaml_int(node) if kind == "int" else constructor.construct_yaml_float(node)
    return number


for _tag, _reader in (("timestamp", _as_text), ("binary", _as_text), ("int", _as_number), ("float", _as_number)):
    yaml.add_constructor(f"tag:yaml.org,2002:{_tag}", _reader, Loader=_Constructor)


class _Dumper(yaml.CSafeDumper):
    """Writes texts of several lines as blocks."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: Any, text: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def _empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"


def _sentence(error: yaml.MarkedYAMLError) -> str:
    return _one_line(": ".join(part for part in (error.context, error.problem) if part) or "is not YAML")


def _one_line(text: str) -> str:
    return " ".join(text.split())
