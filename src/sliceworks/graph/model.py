"""The types of this room: a parsed definition, the compiled graph, and what evaluating it for one instance can say.

    definitions.read → Definition → compile.compile → Graph → evaluate.Evaluation → Desired | Lookup | Excluded | Waiting

All of them are frozen, so one graph may serve every instance at once. Nothing here loads the CEL engine. One pass over one
instance goes like this, and may go as deep in one pass as the objects allow:

    evaluation = Evaluation(graph, instance)
    for node in graph.nodes:
        outcome = evaluation.resolve(node)            # Desired, Lookup, Excluded or Waiting; EvaluationFailed for a mistake
        evaluation.observe(node.id, [objects])        # what the cluster has after applying or looking up
        waiting = evaluation.readiness(node)          # None when it is ready, otherwise a Waiting
    evaluation.status()                               # Projection: what is known now of the instance's own status
    evaluation.conditions(builtins)                   # Conditions: what the author computes from it
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.cel.formulas import Formula, TextFormula
    from sliceworks.graph.blueprints import Blueprint
    from sliceworks.graph.kinds import Kind

Object = dict[str, Any]
Path = tuple[str | int, ...]
"""Steps into a document: names of fields and indices of lists."""

SCHEMA, EACH, RUNTIME = "schema", "each", "runtime"
"""The variables that are no resources: the instance, one item of a collection, and the library of conditions."""
DEFAULT_GROUP = "kro.run"
LARGEST_COLLECTION, MOST_DIMENSIONS = 1000, 10


class Role(Enum):
    """What a resource of a definition is to the graph."""

    RESOURCE = "Resource"
    COLLECTION = "Collection"
    EXTERNAL = "External"
    EXTERNAL_COLLECTION = "ExternalCollection"

    @property
    def is_list(self) -> bool:
        """Whether expressions see a list of objects."""
        return self in (Role.COLLECTION, Role.EXTERNAL_COLLECTION)

    @property
    def is_external(self) -> bool:
        """Whether the objects are somebody else's: read, never written."""
        return self in (Role.EXTERNAL, Role.EXTERNAL_COLLECTION)


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """What becomes of objects in the end: `restore` gives back what was there before, `keep` makes nothing again that finished."""

    on_delete: Literal["delete", "retain", "restore"] = "delete"
    on_complete: Literal["recreate", "keep"] = "recreate"


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should know about a definition that works: where, what, and the form to write instead."""

    path: Path
    message: str
    remedy: str = ""
    place: str = ""

    def __str__(self) -> str:
        return _sentence(self.place, self.message, "", self.remedy)


@dataclass(frozen=True, slots=True)
class Issue:
    """One thing that is wrong: `path` leads to it in the document, `place` is `file:line` where that is known."""

    path: Path
    message: str
    expression: str = ""
    remedy: str = ""
    place: str = ""

    def __str__(self) -> str:
        return _sentence(self.place, self.message, self.expression, self.remedy)


@dataclass(frozen=True, slots=True)
class SchemaBlock:
    """`spec.schema`: the kind that users get."""

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
        """What instances write as their apiVersion."""
        return f"{self.group}/{self.version}"


@dataclass(frozen=True, slots=True)
class ResourceBlock:
    """One entry of `spec.resources`. Exactly one of `template` and `external` is there."""

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
        """Where it stands in the document."""
        return ("spec", "resources", self.index)


@dataclass(frozen=True, slots=True)
class Definition:
    """A ResourceGraphDefinition in its current form. `document` is the object as it was given."""

    name: str
    schema: SchemaBlock
    resources: tuple[ResourceBlock, ...]
    on_delete: Literal["refuse", "orphan", "cascade"] | None
    notes: tuple[Note, ...]
    document: Object
    places: Callable[..., str] | None = field(default=None, compare=False)

    def place(self, path: Iterable[str | int]) -> str:
        """`file:line` of a path, or nothing where the document came from no file."""
        return self.places(*path) if self.places else ""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """A compiled expression: `written` as the document has it, `path` where it stands there, `names` the variables it reads."""

    written: str
    path: Path
    names: frozenset[str]
    program: Formula | TextFormula


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A field of a template whose value an expression gives. `path` leads to it inside the template."""

    path: Path
    expression: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Dimension:
    """One `forEach` entry: the iterator's name and the list it runs over."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A resource of the graph. `template` still holds its expressions and is shared: never change it.

    `dependencies` are the ids it must wait for, in the order of the definition. Of nodes with the same `apply_order` (from 1) none
    needs another; deletion goes from the highest to the lowest.
    """

    id: str
    index: int
    role: Role
    kind: Kind
    template: Object
    fields: tuple[Field, ...]
    blueprint: Blueprint
    dependencies: tuple[str, ...]
    apply_order: int
    include_when: tuple[Expression, ...] = ()
    ready_when: tuple[Expression, ...] = ()
    for_each: tuple[Dimension, ...] = ()
    lifecycle: Lifecycle = Lifecycle()


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """A definition that compiled. `nodes` are in topological order; `crd` is the generated CustomResourceDefinition."""

    definition: Definition
    nodes: tuple[Node, ...]
    crd: Object
    status: tuple[Field, ...]
    status_blueprint: Blueprint
    conditions: tuple[Expression, ...]
    notes: tuple[Note, ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        """The ids in topological order, as `status.topologicalOrder` shows them."""
        return tuple(node.id for node in self.nodes)

    def node(self, name: str) -> Node:
        """The node with an id. KeyError when there is none."""
        found = next((node for node in self.nodes if node.id == name), None)
        if found is None:
            raise KeyError(name)
        return found


@dataclass(frozen=True, slots=True)
class Desired:
    """The objects that a resource or collection should have now, namespaces filled in, without the labels of the owner."""

    objects: tuple[Object, ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """One object by `name`, or all that match `selector`; then an empty `namespace` means all of them."""

    namespace: str
    name: str = ""
    selector: Object | None = None


@dataclass(frozen=True, slots=True)
class Excluded:
    """The resource is not wanted: a condition of its own said no, or a resource it needs (`because`) is left out."""

    expression: str = ""
    because: str = ""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Not yet: something that may still come is missing. `on` are the ids of the resources it comes from."""

    reason: str
    expression: str = ""
    on: tuple[str, ...] = ()


Outcome = Desired | Lookup | Excluded | Waiting


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition that the definition's author computes for the instance."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Projection:
    """What is known of an instance's status: the values, what is still missing, and what failed (as EvaluationFailed)."""

    values: Object
    waiting: tuple[Waiting, ...] = ()
    failures: tuple[Exception, ...] = ()


@dataclass(frozen=True, slots=True)
class Conditions:
    """The author's conditions in their order. `complete` is False where some could not be computed."""

    items: tuple[Condition, ...]
    waiting: tuple[Waiting, ...] = ()
    failures: tuple[Exception, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.waiting and not self.failures


def _sentence(place: str, message: str, expression: str, remedy: str) -> str:
    parts = [part for part in (place, expression if expression not in message else "", message) if part]
    return ": ".join(parts) + (f"; {remedy}" if remedy else "")
