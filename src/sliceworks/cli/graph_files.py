"""The definitions and instances that the graph commands are given, and the kinds that they may use."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, yamls
from sliceworks.base.errors import InvalidDocument, UsageError
from sliceworks.graph import definitions, instances
from sliceworks.graph.compile import compile as compile_graph
from sliceworks.graph.errors import DefinitionError
from sliceworks.graph.kinds import AllKinds, BuiltinKinds, CustomKinds
from sliceworks.schemas import config_connector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from sliceworks.base.yamls import Document
    from sliceworks.graph.kinds import Kinds
    from sliceworks.graph.model import Graph, Issue, Note
    from sliceworks.kube.client import Client

Obj = dict[str, Any]
_CRD = "CustomResourceDefinition"


@dataclass(slots=True)
class Checked:
    """One document that was looked at: the graph it became, or all that is wrong with it."""

    document: Document
    graph: Graph | None = None
    issues: tuple[Issue, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class Sources:
    """Where kinds come from beside those that are built in: folders of definitions, and a cluster if one is named."""

    crds: tuple[Path, ...] = ()
    cluster: Callable[[], Client] | None = None


@dataclass(slots=True)
class Workbench:
    """Compiles definitions. One that uses the kind of another is compiled after it."""

    sources: Sources
    _known: list[Obj] = field(default_factory=list)

    def __post_init__(self) -> None:
        for path in self.sources.crds:
            found = [document.data for document in yamls.load_path(path, deep=True) if document.data.get("kind") == _CRD]
            if not found:
                raise InvalidDocument("has no CustomResourceDefinitions", place=str(path))
            self._known += found

    def check(self, documents: Iterable[Document]) -> list[Checked]:
        """Every definition and every instance of one, in the order in which they are written."""
        given = list(documents)
        found = {id(document): Checked(document) for document in given if definitions.is_definition(document.data)}
        for document in sorted((each.document for each in found.values()), key=lambda each: _depth(each, found)):
            self._compile(found[id(document)])
        graphs = [each.graph for each in found.values() if each.graph is not None]
        for document in given:
            graph = next((each for each in graphs if _is_of(each, document)), None)
            if graph is not None:
                issues = instances.check(document.data, graph, document.place)
                found[id(document)] = Checked(document, issues=tuple(issues))
        return [found[id(document)] for document in given if id(document) in found]

    def graph(self, path: Path) -> Graph:
        """The one definition of a file; DefinitionError when it cannot be used."""
        checked = [each for each in self.check(yamls.load_path(path)) if definitions.is_definition(each.document.data)]
        if len(checked) != 1:
            text = "has no ResourceGraphDefinition" if not checked else "has more than one ResourceGraphDefinition"
            raise InvalidDocument(text, place=str(path))
        if checked[0].issues:
            raise DefinitionError(checked[0].issues)
        graph = checked[0].graph
        assert graph is not None
        return graph

    def _compile(self, checked: Checked) -> None:
        document = checked.document
        try:
            definition = definitions.read(document.data, document.place)
            checked.notes = definition.notes
            graph = compile_graph(definition, self._kinds(definition))
        except DefinitionError as error:
            checked.issues = error.issues
            return
        checked.graph, checked.notes = graph, graph.notes
        self._known.append(graph.crd)

    def _kinds(self, definition: Any) -> Kinds:
        offline = AllKinds(BuiltinKinds(), CustomKinds(self._known), _Packed(config_connector.definitions), _Packed(_of_the_twin))
        if self.sources.cluster is None:
            return offline
        from sliceworks.controllers.graphs.cluster_kinds import ClusterKinds

        async def ask(client: Client) -> Kinds:
            kinds, _ = await ClusterKinds(client).for_definition(definition)
            return kinds

        return AllKinds(with_client(self.sources.cluster, ask), offline)


class _Packed:
    """Kinds that come along, read when something asks for one that nobody before them knows."""

    def __init__(self, definitions: Callable[[], list[Obj]]) -> None:
        self._definitions = definitions
        self._kinds: CustomKinds | None = None

    def _read(self) -> CustomKinds:
        if self._kinds is None:
            self._kinds = CustomKinds(self._definitions())
        return self._kinds

    def find(self, api_version: str, kind: str) -> Any:
        return self._read().find(api_version, kind)

    def names(self) -> Iterable[tuple[str, str]]:
        return self._read().names()


def _of_the_twin() -> list[Obj]:
    """The kinds that every twin has: those of JobSet and Kueue."""
    from sliceworks.twin.workloads import jobset, kueue

    return [jobset.definition(), *kueue.definitions()]


def instance_of(graph: Graph, path: Path) -> Obj:
    """The one instance of a graph's kind in a file, with its defaults; DefinitionError with what is wrong with it."""
    found = [document for document in yamls.load_path(path) if _is_of(graph, document)]
    block = graph.definition.schema
    if len(found) != 1:
        text = f"has no {block.kind} of {block.api_version}" if not found else f"has more than one {block.kind}"
        raise InvalidDocument(text, place=str(path))
    return _completed(graph, found[0])


def with_client(opened: Callable[[], Client], ask: Callable[[Client], Awaitable[Any]]) -> Any:
    """What a cluster says to some questions."""

    async def main() -> Any:
        async with opened() as client:
            return await ask(client)

    return clock.run(main())


def yaml_documents(paths: Iterable[Path]) -> list[Document]:
    """The documents of files, and of folders with all that lies in them."""
    found = [document for path in paths for document in yamls.load_path(path, deep=True)]
    if not found:
        raise UsageError("there are no documents to look at")
    return found


def _is_of(graph: Graph, document: Document) -> bool:
    """Whether a document is of the kind that a graph defines."""
    block = graph.definition.schema
    return (document.data.get("apiVersion"), document.data.get("kind")) == (block.api_version, block.kind)


def _completed(graph: Graph, document: Document) -> Obj:
    issues = instances.check(document.data, graph, document.place)
    if issues:
        raise DefinitionError(issues)
    return instances.with_defaults(document.data, graph)


def _depth(document: Document, found: dict[int, Checked], above: tuple[int, ...] = ()) -> int:
    """How many definitions must come before one, because it uses their kinds."""
    if id(document) in above:
        return 0
    used = {_named(resource.get("template")) for resource in _resources(document) if isinstance(resource, dict)}
    needed = [each.document for each in found.values() if _defined(each.document) in used]
    return max((_depth(each, found, (*above, id(document))) + 1 for each in needed), default=0)


def _resources(document: Document) -> list[Any]:
    spec = document.data.get("spec")
    found = spec.get("resources") if isinstance(spec, dict) else None
    return found if isinstance(found, list) else []


def _named(template: Any) -> tuple[str, str]:
    return (str(template.get("apiVersion")), str(template.get("kind"))) if isinstance(template, dict) else ("", "")


def _defined(document: Document) -> tuple[str, str]:
    spec = document.data.get("spec")
    schema = spec.get("schema") if isinstance(spec, dict) else None
    if not isinstance(schema, dict):
        return "", ""
    version = str(schema.get("apiVersion")).rpartition("/")[2]
    return f"{schema.get('group') or 'kro.run'}/{version}", str(schema.get("kind"))
