"""The types of resource graphs: the parsed definition, the compiled graph, the outcomes of an evaluation, and the two errors."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from sliceworks.base.errors import InvalidDocument, SliceworksError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from sliceworks.cel.expressions import CompiledExpression, StringTemplate
    from sliceworks.graph.kinds import Kind
    from sliceworks.graph.templates import CompiledTemplate


Object = dict[str, Any]
Path = tuple[str | int, ...]
"""A path in a document: field names and list indices."""
SCHEMA, EACH, RUNTIME = "schema", "each", "runtime"
"""The variables that are not resources: the instance, one item of a collection, and the library of conditions."""
DEFAULT_GROUP = "kro.run"
MAX_COLLECTION_SIZE, MAX_DIMENSIONS = 1000, 10
_PLAIN_STEP = re.compile(r"[A-Za-z0-9_-]+\Z")


def format_path(path: Path) -> str:
    """A path as users write it: `spec.ports[0].name`."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" if _PLAIN_STEP.match(step) else f'["{step}"]' for step in path)
    return "".join(steps).removeprefix(".") or "the template"


class NodeType(Enum):
    """The type of a resource in a definition, with kro's names."""

    RESOURCE = "Resource"
    COLLECTION = "Collection"
    EXTERNAL = "External"
    EXTERNAL_COLLECTION = "ExternalCollection"

    @property
    def is_list(self) -> bool:
        """Whether expressions see a list of objects."""
        return self in (NodeType.COLLECTION, NodeType.EXTERNAL_COLLECTION)

    @property
    def is_external(self) -> bool:
        """Whether the graph reads the objects but never writes them."""
        return self in (NodeType.EXTERNAL, NodeType.EXTERNAL_COLLECTION)


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """`restore` puts back the state from before the graph took over the object; `keep` does not recreate completed objects.

    `on_immutable_change` says whether an object is deleted and created again when an immutable field changes; None is the default
    of its kind: Jobs are recreated, other kinds are not.
    """

    on_delete: Literal["delete", "retain", "restore"] = "delete"
    on_complete: Literal["recreate", "keep"] = "recreate"
    on_immutable_change: Literal["recreate", "refuse"] | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """A warning about a valid definition. `hint` is the form to write instead."""

    path: Path
    message: str
    hint: str = ""
    place: str = ""

    def __str__(self) -> str:
        return _sentence(self.place, self.message, "", self.hint)


@dataclass(frozen=True, slots=True)
class Issue:
    """One error in a definition or instance. `place` is `file:line`, if the document came from a file."""

    path: Path
    message: str
    expression: str = ""
    hint: str = ""
    place: str = ""

    def __str__(self) -> str:
        return _sentence(self.place, self.message, self.expression, self.hint)


@dataclass(frozen=True, slots=True)
class SchemaBlock:
    """`spec.schema`: the API that the definition serves."""

    kind: str
    version: str
    group: str = DEFAULT_GROUP
    namespaced: bool = True
    spec: Object = field(default_factory=dict)
    types: Object = field(default_factory=dict)
    status: Object = field(default_factory=dict)
    columns: tuple[Object, ...] = ()
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)

    @property
    def api_version(self) -> str:
        """The apiVersion of instances."""
        return f"{self.group}/{self.version}"


@dataclass(frozen=True, slots=True)
class ResourceBlock:
    """One entry of `spec.resources`. Exactly one of `template` and `external` is set."""

    id: str
    index: int
    template: Object | None = None
    external: Object | None = None
    ready_when: tuple[str, ...] = ()
    include_when: tuple[str, ...] = ()
    for_each: tuple[tuple[str, str], ...] = ()
    depends_on: tuple[str, ...] = ()
    lifecycle: Lifecycle = Lifecycle()

    @property
    def path(self) -> Path:
        """Its path in the document."""
        return ("spec", "resources", self.index)


@dataclass(frozen=True, slots=True)
class Definition:
    """A parsed ResourceGraphDefinition, with deprecated forms converted. `document` is the unchanged input."""

    name: str
    schema: SchemaBlock
    resources: tuple[ResourceBlock, ...]
    on_delete: Literal["refuse", "orphan", "cascade"] | None
    notes: tuple[Note, ...]
    document: Object
    places: Callable[..., str] | None = field(default=None, compare=False)

    def place(self, path: Iterable[str | int]) -> str:
        """`file:line` of a path, or an empty string if the document did not come from a file."""
        return self.places(*path) if self.places else ""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A compiled expression. `source` is the string in the document at `path`; `names` are the variables it reads."""

    source: str
    path: Path
    names: frozenset[str]
    program: CompiledExpression | StringTemplate


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A template field with an expression. `path` is relative to the template."""

    path: Path
    expression: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """One `forEach` entry: the iterator's name and its list."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A resource of the graph. `template` still contains the expressions and is shared: do not modify it.

    `dependencies` are in the order of the definition. Nodes with the same `apply_order` (from 1) do not depend on each other;
    deletion starts with the highest.
    """

    id: str
    index: int
    type: NodeType
    kind: Kind
    template: Object
    fields: tuple[Field, ...]
    compiled_template: CompiledTemplate
    dependencies: tuple[str, ...]
    apply_order: int
    include_when: tuple[Expression, ...] = ()
    ready_when: tuple[Expression, ...] = ()
    for_each: tuple[Dimension, ...] = ()
    lifecycle: Lifecycle = Lifecycle()


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A compiled definition. `nodes` are in topological order; `crd` is the generated CustomResourceDefinition."""

    definition: Definition
    nodes: tuple[Node, ...]
    crd: Object
    status: tuple[Field, ...]
    status_template: CompiledTemplate
    conditions: tuple[Expression, ...]
    notes: tuple[Note, ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        """The ids in topological order, as `status.topologicalOrder` shows them."""
        return tuple(node.id for node in self.nodes)

    def node(self, name: str) -> Node:
        """The node with this id; KeyError if the graph does not have it."""
        for node in self.nodes:
            if node.id == name:
                return node
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class Desired:
    """The desired objects of a resource or collection, with namespaces, without the labels of the ApplySet."""

    objects: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """An external reference: one object by `name`, or all that match `selector` (in all namespaces if `namespace` is empty)."""

    namespace: str
    name: str = ""
    selector: Object | None = None


@dataclass(frozen=True, slots=True)
class Excluded:
    """The resource is not created: its includeWhen `expression` is false, or a dependency (`excluded_by`) is excluded."""

    expression: str = ""
    excluded_by: str = ""


@dataclass(frozen=True, slots=True)
class DataPending:
    """Data that an expression needs is not available yet. `on` are the ids of the resources that provide it."""

    reason: str
    expression: str = ""
    on: tuple[str, ...] = ()


Outcome = Desired | Lookup | Excluded | DataPending


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of the instance that the definition's author declares."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class StatusProjection:
    """The author's status fields: resolved values, pending fields, and failures (EvaluationFailed)."""

    values: Object
    pending: tuple[DataPending, ...] = ()
    failures: tuple[Exception, ...] = ()


@dataclass(frozen=True, slots=True)
class Conditions:
    """The author's conditions, in order. `complete` is False if some are pending or failed."""

    items: tuple[Condition, ...]
    pending: tuple[DataPending, ...] = ()
    failures: tuple[Exception, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.pending and not self.failures


def _sentence(place: str, message: str, expression: str, hint: str) -> str:
    parts = [part for part in (place, expression if expression not in message else "", message) if part]
    return ": ".join(parts) + (f"; {hint}" if hint else "")


class DefinitionError(InvalidDocument):
    """An invalid definition. `issues` are all its errors, in the order of the document."""

    def __init__(self, issues: Sequence[Issue]) -> None:
        self.issues = tuple(issues)
        first = self.issues[0]
        more = f" (and {len(self.issues) - 1} more)" if len(self.issues) > 1 else ""
        shown = f"{first.expression}: " if first.expression and first.expression not in first.message else ""
        super().__init__(shown + first.message + more, place=first.place, hint=first.hint)


class EvaluationFailed(SliceworksError):
    """A permanent failure of an expression for this instance. `path` is the expression's path in the definition."""

    def __init__(
        self, reason: str, *, node: str = "", expression: str = "", path: Path = (), place: str = "", hint: str = ""
    ) -> None:
        where = f"{place}: " if place else f"resource {node}: " if node else ""
        super().__init__(f"{where}{expression}: {reason}" if expression else f"{where}{reason}", hint=hint)
        self.reason, self.node, self.expression, self.path, self.place = reason, node, expression, path, place
