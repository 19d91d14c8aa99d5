"""Compiles a ResourceGraphDefinition with the kinds that the cluster serves (CRDs and OpenAPI), and names the missing ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.errors import NotFound
from sliceworks.base.transport import Request
from sliceworks.graph.kinds import AllKinds, BuiltinKinds, CustomKinds, Kind
from sliceworks.graph.model import MAX_DIMENSIONS, DefinitionError
from sliceworks.kube.resources import CUSTOM_RESOURCE_DEFINITION, GVK, parse_api_version
from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.schemas.model import Schema, build

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sliceworks.controllers.graphs.context import Metrics
    from sliceworks.graph.kinds import Kinds
    from sliceworks.graph.model import Definition, Graph
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object, Resource


class OpenAPIKinds:
    """Kinds that were resolved from OpenAPI documents."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], Kind] = {}

    def add(self, kind: Kind) -> None:
        """Add a kind."""
        self._kinds[kind.api_version, kind.kind] = kind

    def find(self, api_version: str, kind: str) -> Kind | None:
        """The kind, or None if it is unknown."""
        return self._kinds.get((api_version, kind))

    def names(self) -> Iterable[tuple[str, str]]:
        """Every known apiVersion and kind."""
        return self._kinds


async def resolve_openapi(client: Client, resource: Resource) -> Kind | None:
    """The kind of a resource, from the OpenAPI document of its API server."""
    root = f"apis/{resource.group}" if resource.group else "api"
    document = await client.send(Request("GET", f"/openapi/v3/{root}/{resource.version}", headers={"accept": "application/json"}))
    components = (document.get("components") or {}).get("schemas") or {}
    gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    node = next((node for node in components.values() if gvk in (node.get("x-kubernetes-group-version-kind") or ())), None)
    if node is None:
        return None
    schema = _Components(components).schema(node)
    return Kind(resource.group, resource.version, resource.kind, resource.plural, resource.namespaced, schema)


class _Components:
    """The components of one OpenAPI document, built on first use."""

    def __init__(self, nodes: Object) -> None:
        self._nodes = nodes
        self._built: dict[str, Schema] = {}

    def schema(self, node: Object) -> Schema:
        return build(node, self._component)

    def _component(self, name: str) -> Schema:
        if name not in self._built:
            node = self._nodes.get(name)
            self._built[name] = build(node, self._component, name) if node is not None else builtin_scheme().component(name)
        return self._built[name]


KindName = tuple[str, str]
"""apiVersion and kind."""


class ClusterKinds:
    """Built-in kinds, CustomResourceDefinitions of the cluster, and kinds of aggregated API servers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._builtin = BuiltinKinds()

    async def for_definition(self, definition: Definition) -> tuple[Kinds, set[KindName]]:
        """The kinds that a definition uses, and the names of those that the cluster does not serve."""
        crds: list[Object] = []
        served, missing = OpenAPIKinds(), set()
        for api_version, kind in sorted(set(_kind_names(definition))):
            if self._builtin.find(api_version, kind) is not None:
                continue
            resolved = await self._find(api_version, kind)
            if resolved is None:
                missing.add((api_version, kind))
            elif isinstance(resolved, Kind):
                served.add(resolved)
            else:
                crds.append(resolved)
        return AllKinds(self._builtin, CustomKinds(crds), served), missing

    async def _find(self, api_version: str, kind: str) -> Object | Kind | None:
        """The CustomResourceDefinition of a kind, or the kind itself if it does not come from a CRD."""
        try:
            resource = await self._client.discovery.by_gvk(GVK(*parse_api_version(api_version), kind))
        except NotFound:
            return None
        try:
            crd = await self._client.get(CUSTOM_RESOURCE_DEFINITION, resource.qualified)
        except NotFound:
            return await resolve_openapi(self._client, resource)
        return crd if is_condition_true(crd, "Established") else None


def _kind_names(definition: Definition) -> Iterator[KindName]:
    for block in definition.resources:
        body = block.template if block.template is not None else block.external or {}
        api_version, kind = body.get("apiVersion"), body.get("kind")
        if isinstance(api_version, str) and isinstance(kind, str) and api_version and kind and api_version.count("/") < 2:
            yield api_version, kind


_MAX_ISSUES = 5


@dataclass(frozen=True, slots=True)
class CompileFailure:
    """Why a definition is invalid, and the missing kinds."""

    message: str
    missing: frozenset[KindName] = frozenset()


class Compiler:
    """Compiles definitions with the kinds that the cluster serves."""

    def __init__(self, client: Client, metrics: Metrics, dimensions: int = MAX_DIMENSIONS) -> None:
        self._kinds = ClusterKinds(client)
        self._metrics, self._dimensions = metrics, dimensions

    async def compile(self, name: str, spec: Object) -> Graph | CompileFailure:
        """The graph of a spec."""
        from sliceworks.graph import definition_parser
        from sliceworks.graph.builder import build_graph

        started = clock.loop_time()
        document = {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": name}, "spec": spec}
        missing: set[KindName] = set()
        try:
            definition = definition_parser.parse(document, dimensions=self._dimensions)
            kinds, missing = await self._kinds.for_definition(definition)
            return build_graph(definition, kinds)
        except DefinitionError as error:
            self._metrics.build_errors.inc(name)
            return CompileFailure(_message(error, missing), frozenset(missing))
        finally:
            self._metrics.builds.inc(name)
            self._metrics.build_seconds.observe(clock.loop_time() - started, name)


def _message(error: DefinitionError, missing: set[KindName]) -> str:
    """The first issues, and the kinds that the controller waits for."""
    issues = [str(issue) for issue in error.issues[:_MAX_ISSUES]]
    if len(error.issues) > _MAX_ISSUES:
        issues.append(f"and {len(error.issues) - _MAX_ISSUES} more")
    text = "; ".join(issues)
    if missing:
        kinds = ", ".join(f"{kind} in {api_version}" for api_version, kind in sorted(missing))
        text += f" (retried when the cluster serves {kinds})"
    return text
