"""Loads and compiles the definitions and instances of the `graph` commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base import yaml_documents as yamls
from sliceworks.base.errors import InvalidDocument, UsageError
from sliceworks.graph import definition_parser, instances
from sliceworks.graph.builder import build_graph as compile_graph
from sliceworks.graph.kinds import AllKinds, BuiltinKinds, CustomKinds
from sliceworks.graph.model import DefinitionError
from sliceworks.schemas import config_connector

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from sliceworks.base.yaml_documents import Document
    from sliceworks.graph.kinds import Kinds
    from sliceworks.graph.model import Graph, Issue, Note
    from sliceworks.kube.client import Client

Obj = dict[str, Any]
_CRD = "CustomResourceDefinition"


@dataclass(slots=True)
class CheckResult:
    """A checked document: its graph, or its issues."""

    document: Document
    graph: Graph | None = None
    issues: tuple[Issue, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True)
class KindSources:
    """Sources of kinds besides the built-in ones: CRD files and, optionally, a cluster."""

    crds: tuple[Path, ...] = ()
    cluster: Callable[[], Client] | None = None


@dataclass(slots=True)
class GraphCompiler:
    """Compiles definitions; one that uses the kind of another is compiled after it."""

    sources: KindSources
    _known: list[Obj] = field(default_factory=list)

    def __post_init__(self) -> None:
        for path in self.sources.crds:
            crds = [document.data for document in yamls.load_path(path, deep=True) if document.data.get("kind") == _CRD]
            if not crds:
                raise InvalidDocument("contains no CustomResourceDefinition", place=str(path))
            self._known += crds

    def check(self, documents: Iterable[Document]) -> list[CheckResult]:
        """Check every definition and its instances; results are in document order."""
        given = list(documents)
        results = {id(document): CheckResult(document) for document in given if definition_parser.is_definition(document.data)}
        for document in sorted((entry.document for entry in results.values()), key=lambda entry: _depth(entry, results)):
            self._compile(results[id(document)])
        graphs = [item.graph for item in results.values() if item.graph is not None]
        for document in given:
            graph = next((entry for entry in graphs if _is_of(entry, document)), None)
            if graph is not None:
                issues = instances.check(document.data, graph, document.place)
                results[id(document)] = CheckResult(document, issues=tuple(issues))
        return [results[id(document)] for document in given if id(document) in results]

    def graph(self, path: Path) -> Graph:
        """Compile the only definition of a file; DefinitionError if it is invalid."""
        checked = [item for item in self.check(yamls.load_path(path)) if definition_parser.is_definition(item.document.data)]
        if len(checked) != 1:
            text = "contains no ResourceGraphDefinition" if not checked else "contains more than one ResourceGraphDefinition"
            raise InvalidDocument(text, place=str(path))
        if checked[0].issues:
            raise DefinitionError(checked[0].issues)
        graph = checked[0].graph
        assert graph is not None
        return graph

    def _compile(self, checked: CheckResult) -> None:
        document = checked.document
        try:
            definition = definition_parser.parse(document.data, document.place)
            checked.notes = definition.notes
            graph = compile_graph(definition, self._kinds(definition))
        except DefinitionError as error:
            checked.issues = error.issues
            return
        checked.graph, checked.notes = graph, graph.notes
        self._known.append(graph.crd)

    def _kinds(self, definition: Any) -> Kinds:
        offline = AllKinds(
            BuiltinKinds(), CustomKinds(self._known), _BundledKinds(config_connector.definitions), _BundledKinds(_twin_kinds)
        )
        if self.sources.cluster is None:
            return offline
        from sliceworks.controllers.graphs.compiler import ClusterKinds

        async def work(client: Client) -> Kinds:
            kinds, _ = await ClusterKinds(client).for_definition(definition)
            return kinds

        return AllKinds(run_with_client(self.sources.cluster, work), offline)


class _BundledKinds:
    """Bundled kinds, read at the first lookup that the other sources cannot answer."""

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


def _twin_kinds() -> list[Obj]:
    """Return the CRDs that every twin has: JobSet's and Kueue's."""
    from sliceworks.twin.controllers import jobset, kueue

    return [jobset.definition(), *kueue.definitions()]


def read_instance(graph: Graph, path: Path) -> Obj:
    """Read the only instance of a graph's kind in a file, with defaults; DefinitionError if it is invalid."""
    documents = [document for document in yamls.load_path(path) if _is_of(graph, document)]
    block = graph.definition.schema
    if len(documents) != 1:
        text = f"contains no {block.kind} of {block.api_version}" if not documents else f"contains more than one {block.kind}"
        raise InvalidDocument(text, place=str(path))
    return _completed(graph, documents[0])


def run_with_client(opened: Callable[[], Client], work: Callable[[Client], Awaitable[Any]]) -> Any:
    """Run `ask` with an open client and return its result."""

    async def main() -> Any:
        async with opened() as client:
            return await work(client)

    return clock.run(main())


def load_documents(paths: Iterable[Path]) -> list[Document]:
    """Read the documents of files, and of folders recursively."""
    documents = [document for path in paths for document in yamls.load_path(path, deep=True)]
    if not documents:
        raise UsageError("no documents found")
    return documents


def _is_of(graph: Graph, document: Document) -> bool:
    """Whether a document is of the kind that a graph defines."""
    block = graph.definition.schema
    return (document.data.get("apiVersion"), document.data.get("kind")) == (block.api_version, block.kind)


def _completed(graph: Graph, document: Document) -> Obj:
    issues = instances.check(document.data, graph, document.place)
    if issues:
        raise DefinitionError(issues)
    return instances.with_defaults(document.data, graph)


def _depth(document: Document, results: dict[int, CheckResult], above: tuple[int, ...] = ()) -> int:
    """Depth of a definition in the order of dependencies between kinds."""
    if id(document) in above:
        return 0
    used = {_named(resource.get("template")) for resource in _resources(document) if isinstance(resource, dict)}
    needed = [item.document for item in results.values() if _defined(item.document) in used]
    return max((_depth(dependency, results, (*above, id(document))) + 1 for dependency in needed), default=0)


def _resources(document: Document) -> list[Any]:
    spec = document.data.get("spec")
    resources = spec.get("resources") if isinstance(spec, dict) else None
    return resources if isinstance(resources, list) else []


def _named(template: Any) -> tuple[str, str]:
    return (str(template.get("apiVersion")), str(template.get("kind"))) if isinstance(template, dict) else ("", "")


def _defined(document: Document) -> tuple[str, str]:
    spec = document.data.get("spec")
    schema = spec.get("schema") if isinstance(spec, dict) else None
    if not isinstance(schema, dict):
        return "", ""
    version = str(schema.get("apiVersion")).rpartition("/")[2]
    return f"{schema.get('group') or 'kro.run'}/{version}", str(schema.get("kind"))
