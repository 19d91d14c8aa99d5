"""Parses a ResourceGraphDefinition document into a Definition, or reports every malformed field."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sliceworks.base.names import suggest_name
from sliceworks.cel.types import RESERVED
from sliceworks.graph.model import (
    DEFAULT_GROUP,
    MAX_DIMENSIONS,
    Definition,
    DefinitionError,
    Issue,
    Lifecycle,
    Note,
    ResourceBlock,
    SchemaBlock,
    format_path,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from sliceworks.graph.model import Object, Path


_TYPE_NAMES = {dict: "an object", list: "a list", str: "a string", bool: "a boolean"}


class DocumentReader:
    """Typed access to the fields of a document; collects issues and notes."""

    def __init__(self, document: Object, places: Callable[..., str] | None) -> None:
        self._document, self._places = document, places
        self.issues: list[Issue] = []
        self.notes: list[Note] = []

    def add_issue(self, path: Path, message: str, hint: str = "") -> None:
        self.issues.append(Issue(path, message, hint=hint, place=self._place(path)))

    def add_note(self, path: Path, message: str, hint: str = "") -> None:
        self.notes.append(Note(path, message, hint, self._place(path)))

    def mapping(self, path: Path, fields: Sequence[str] = (), *, required: bool = False) -> Object | None:
        """A mapping. With `fields`, every other field is an issue."""
        mapping: Object | None = self._get(path, dict, required=required)
        for name in mapping or () if fields else ():
            if name not in fields:
                hint = suggest_name(name, fields) or f"known fields: {', '.join(fields)}"
                self.add_issue((*path, name), f"unknown field {name}", hint)
        return mapping

    def mappings(self, path: Path) -> list[Object]:
        """A list of mappings; empty if absent."""
        return [self.mapping((*path, index), required=True) or {} for index in range(self.length(path))]

    def string(self, path: Path, *, required: bool = False) -> str:
        """A string; empty if absent or invalid."""
        value = self._get(path, str, required=required)
        if required and value == "":
            self.add_issue(path, f"{path[-1]} must not be empty")
        return value or ""

    def strings(self, path: Path) -> tuple[str, ...]:
        """A list of strings; empty if absent."""
        return tuple(self.string((*path, index), required=True) for index in range(self.length(path)))

    def enum(self, path: Path, choices: Sequence[str]) -> str:
        """One of `choices`; empty if absent or invalid."""
        value = self.string(path)
        if value and value not in choices:
            self.add_issue(path, f"{path[-1]}: must be one of {', '.join(choices)}, got {value}", suggest_name(value, choices))
            return ""
        return value

    def entry(self, path: Path) -> tuple[str, str]:
        """The key and the string value of a mapping with one entry."""
        mapping = self.mapping(path, required=True) or {}
        if len(mapping) != 1:
            self.add_issue(path, f"each entry of {path[-2]} must have exactly one name", "such as - region: ${schema.spec.regions}")
            return "", ""
        name = next(iter(mapping))
        return str(name), self.string((*path, name), required=True)

    def length(self, path: Path) -> int:
        """The length of a list; 0 if absent or invalid."""
        return len(self._get(path, list, required=False) or ())

    def _get(self, path: Path, kind: type, *, required: bool) -> Any:
        parent: Any = self._document
        for step in path[:-1]:
            parent = self._child(parent, step)
        value = self._child(parent, path[-1])
        if value is None:
            if required and parent is not None:
                self.add_issue(path, f"{format_path(path)} is required")
            return None
        if not isinstance(value, kind):
            message = f"{format_path(path)}: must be {_TYPE_NAMES[kind]}, got {_TYPE_NAMES.get(type(value), 'a number')}"
            self.add_issue(path, message)
            return None
        return value

    @staticmethod
    def _child(value: Any, step: str | int) -> Any:
        if isinstance(step, int):
            return value[step] if isinstance(value, list) and step < len(value) else None
        return value.get(step) if isinstance(value, dict) else None

    def _place(self, path: Path) -> str:
        return self._places(*path) if self._places else ""


KIND = re.compile(r"[A-Z][a-zA-Z0-9]{0,62}\Z")
VERSION = re.compile(r"v[0-9]+(alpha[0-9]+|beta[0-9]+)?\Z")
_ID = re.compile(r"[a-z][a-zA-Z0-9]*\Z")
_KRO_RESERVED = """
apiVersion context dependency dependencies each externalRef externalReference externalRefs externalReferences graph instance
item items kind kro metadata namespace object resource resourcegraphdefinition resourceGraphDefinition resources root runtime
schema self serviceAccountName spec status this variables vars version
"""
RESERVED_IDS = frozenset(_KRO_RESERVED.split()) | RESERVED


def check_names(resources: Sequence[ResourceBlock], dimensions: int = MAX_DIMENSIONS) -> Iterator[Issue]:
    """Issues of resource ids and iterators; `dimensions` is the maximum number of iterators of a resource."""
    ids = [resource.id for resource in resources]
    for position, resource in enumerate(resources):
        path = (*resource.path, "id")
        if resource.id in RESERVED_IDS:
            yield Issue(path, f"id {resource.id} is a reserved word", hint="choose another name")
        elif not _ID.match(resource.id):
            yield Issue(path, f"id {resource.id} must be lowerCamelCase", hint=_example(resource.id))
        elif resource.id in ids[:position]:
            yield Issue(path, f"duplicate id {resource.id}", hint="ids must be unique")
        yield from _iterator_issues(resource, frozenset(ids), dimensions)


def _iterator_issues(resource: ResourceBlock, ids: frozenset[str], dimensions: int) -> Iterator[Issue]:
    path = (*resource.path, "forEach")
    if len(resource.for_each) > dimensions:
        yield Issue(path, f"forEach: must have at most {dimensions} dimensions, got {len(resource.for_each)}")
    seen: set[str] = set()
    for index, (name, _) in enumerate(resource.for_each):
        problem = ""
        if not _ID.match(name):
            problem = "must be lowerCamelCase"
        elif name in RESERVED_IDS:
            problem = "is a reserved word"
        elif name in ids:
            problem = "is also the id of a resource"
        elif name in seen:
            problem = "is a duplicate"
        if problem:
            yield Issue((*path, index, name), f"iterator {name} {problem}", hint="choose another name")
        seen.add(name)


def _example(name: str) -> str:
    words = [word for word in re.split(r"[^A-Za-z0-9]+", name) if word]
    if not words:
        return "such as webServer"
    joined = words[0][:1].lower() + words[0][1:] + "".join(word[:1].upper() + word[1:] for word in words[1:])
    return f"write {joined}" if _ID.match(joined) else "such as webServer"


API_VERSION, KIND_NAME = "kro.run/v1alpha1", "ResourceGraphDefinition"
_SCHEMA_FIELDS = (
    *("kind", "apiVersion", "group", "scope", "spec", "types", "status"),
    *("additionalPrinterColumns", "shortNames", "categories", "metadata"),
)
_RESOURCE_FIELDS = ("id", "template", "externalRef", "readyWhen", "includeWhen", "forEach", "dependsOn", "lifecycle")


def parse(document: Object, places: Callable[..., str] | None = None, *, dimensions: int = MAX_DIMENSIONS) -> Definition:
    """The definition; raises DefinitionError with every malformed field.

    `places` returns the `file:line` of a path, as `Document.place` does. `dimensions` is the maximum number of iterators in a
    `forEach`.
    """
    reader = DocumentReader(document, places)
    definition = _definition(reader, document, places)
    for issue in check_names(definition.resources, dimensions):
        reader.add_issue(issue.path, issue.message, issue.hint)
    if reader.issues:
        raise DefinitionError(sorted(reader.issues, key=lambda issue: _line(issue, places)))
    return definition


def is_definition(document: Object) -> bool:
    """Whether a document is a ResourceGraphDefinition."""
    return document.get("apiVersion") == API_VERSION and document.get("kind") == KIND_NAME


def _line(issue: Issue, places: Callable[..., str] | None) -> int:
    return int(issue.place.rpartition(":")[2] or 0) if places else 0


def _definition(reader: DocumentReader, document: Object, places: Callable[..., str] | None) -> Definition:
    metadata = reader.mapping(("metadata",)) or {}
    spec = reader.mapping(("spec",), ("schema", "resources", "lifecycle"), required=True) or {}
    schema = _schema(reader)
    resources = tuple(_resource(reader, index) for index in range(reader.length(("spec", "resources"))))
    lifecycle = reader.mapping(("spec", "lifecycle"), ("onDelete",)) if "lifecycle" in spec else {}
    on_delete = reader.enum(("spec", "lifecycle", "onDelete"), ("refuse", "orphan", "cascade")) if lifecycle else None
    notes = tuple(reader.notes)
    return Definition(str(metadata.get("name") or ""), schema, resources, on_delete or None, notes, document, places)  # type: ignore[arg-type]


def _schema(reader: DocumentReader) -> SchemaBlock:
    path = ("spec", "schema")
    fields = reader.mapping(path, _SCHEMA_FIELDS, required=True) or {}
    kind = reader.string((*path, "kind"), required=True)
    if kind and not KIND.match(kind):
        reader.add_issue((*path, "kind"), f"kind {kind} must be UpperCamelCase, at most 63 letters and digits", "such as WebServer")
    group, version = _group_and_version(reader, fields)
    scope = reader.enum((*path, "scope"), ("Namespaced", "Cluster")) if "scope" in fields else "Namespaced"
    reader.mapping((*path, "metadata"), ("labels", "annotations"))
    return SchemaBlock(
        kind=kind,
        version=version,
        group=group,
        namespaced=scope != "Cluster",
        spec=reader.mapping((*path, "spec")) or {},
        types=reader.mapping((*path, "types")) or {},
        status=reader.mapping((*path, "status")) or {},
        columns=tuple(reader.mappings((*path, "additionalPrinterColumns"))),
        short_names=reader.strings((*path, "shortNames")),
        categories=reader.strings((*path, "categories")),
        labels=_string_map(reader, (*path, "metadata", "labels")),
        annotations=_string_map(reader, (*path, "metadata", "annotations")),
    )


def _string_map(reader: DocumentReader, path: Path) -> dict[str, str]:
    return {str(key): str(value) for key, value in (reader.mapping(path) or {}).items()}


def _group_and_version(reader: DocumentReader, fields: Object) -> tuple[str, str]:
    """The group and the version. The deprecated form has both in apiVersion."""
    path = ("spec", "schema", "apiVersion")
    written = reader.string(path, required=True)
    group = str(fields.get("group") or "")
    prefix, slash, version = written.rpartition("/")
    if written and not VERSION.match(version):
        reader.add_issue(path, f"invalid version {version or written}", "such as v1, v1beta2 or v1alpha1")
    if not slash:
        return group or DEFAULT_GROUP, version
    if group and group != prefix:
        reader.add_issue(path, f"apiVersion has group {prefix}, but group is {group}", f"write apiVersion: {version}")
    current = f"apiVersion: {version}" + ("" if prefix == DEFAULT_GROUP else f" and group: {prefix}")
    reader.add_note(path, f"apiVersion: {written} is deprecated", f"write {current}")
    return prefix, version


def _resource(reader: DocumentReader, index: int) -> ResourceBlock:
    path = ("spec", "resources", index)
    fields = reader.mapping(path, _RESOURCE_FIELDS, required=True) or {}
    name = reader.string((*path, "id"), required=True)
    template = reader.mapping((*path, "template")) if "template" in fields else None
    external = _external(reader, path) if fields.get("externalRef") is not None else None
    for_each = tuple(reader.entry((*path, "forEach", position)) for position in range(reader.length((*path, "forEach"))))
    if (template is None) == (external is None):
        reader.add_issue(path, f"resource {name} must have exactly one of template and externalRef")
    if external is not None and for_each:
        reader.add_issue((*path, "forEach"), f"resource {name} cannot have both externalRef and forEach")
    return ResourceBlock(
        id=name,
        index=index,
        template=template,
        external=external,
        ready_when=reader.strings((*path, "readyWhen")),
        include_when=reader.strings((*path, "includeWhen")),
        for_each=for_each,
        depends_on=reader.strings((*path, "dependsOn")),
        lifecycle=_lifecycle(reader, path) if fields.get("lifecycle") is not None else Lifecycle(),
    )


def _external(reader: DocumentReader, path: tuple[str | int, ...]) -> Object:
    """The reference. The deprecated form has name and namespace next to metadata."""
    path = (*path, "externalRef")
    fields = reader.mapping(path, ("apiVersion", "kind", "metadata", "name", "namespace"), required=True) or {}
    for name in ("apiVersion", "kind"):
        reader.string((*path, name), required=True)
    metadata = dict(reader.mapping((*path, "metadata"), ("name", "namespace", "selector")) or {})
    moved = [name for name in ("name", "namespace") if name in fields]
    if moved:
        hint = f"write metadata: {{{', '.join(f'{name}: …' for name in moved)}}}"
        reader.add_note((*path, moved[0]), f"externalRef with {' and '.join(moved)} outside metadata is deprecated", hint)
    for name in moved:
        metadata.setdefault(name, fields[name])
    if bool(str(metadata.get("name") or "").strip()) == (metadata.get("selector") is not None):
        reader.add_issue((*path, "metadata"), "externalRef must have exactly one of name and selector in its metadata")
    return {"apiVersion": fields.get("apiVersion"), "kind": fields.get("kind"), "metadata": metadata}


def _lifecycle(reader: DocumentReader, path: tuple[str | int, ...]) -> Lifecycle:
    path = (*path, "lifecycle")
    fields: Any = reader.mapping(path, ("onDelete", "onComplete", "onImmutableChange"), required=True) or {}
    on_delete = reader.enum((*path, "onDelete"), ("delete", "retain", "restore")) if "onDelete" in fields else ""
    on_complete = reader.enum((*path, "onComplete"), ("recreate", "keep")) if "onComplete" in fields else ""
    on_change = reader.enum((*path, "onImmutableChange"), ("recreate", "refuse")) if "onImmutableChange" in fields else ""
    if on_change == "recreate" and on_delete in ("retain", "restore"):
        message = f"onImmutableChange: recreate deletes the objects that onDelete: {on_delete} keeps"
        reader.add_issue((*path, "onImmutableChange"), message, "write onImmutableChange: refuse, or onDelete: delete")
    return Lifecycle(on_delete or "delete", on_complete or "recreate", on_change or None)  # type: ignore[arg-type]
