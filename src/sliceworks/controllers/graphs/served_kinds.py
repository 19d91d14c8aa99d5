"""Kinds that are neither built in nor defined in the cluster: their own API server describes them, in OpenAPI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.graph.kinds import Kind
from sliceworks.kube.transport import Request
from sliceworks.schemas.builtins import catalogue
from sliceworks.schemas.model import Schema, build

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object, Resource


class ServedKinds:
    """The kinds that were asked for one by one."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Kind] = {}

    def add(self, kind: Kind) -> None:
        """Know one more."""
        self._found[kind.api_version, kind.kind] = kind

    def find(self, api_version: str, kind: str) -> Kind | None:
        """The kind, or None where it is not known."""
        return self._found.get((api_version, kind))

    def names(self) -> Iterable[tuple[str, str]]:
        """Every known apiVersion and kind."""
        return self._found


async def described(client: Client, resource: Resource) -> Kind | None:
    """The kind of a resource, by what its server says of it."""
    root = f"apis/{resource.group}" if resource.group else "api"
    document = await client.send(Request("GET", f"/openapi/v3/{root}/{resource.version}", headers={"accept": "application/json"}))
    components = (document.get("components") or {}).get("schemas") or {}
    wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    node = next((node for node in components.values() if wanted in (node.get("x-kubernetes-group-version-kind") or ())), None)
    if node is None:
        return None
    schema = _Components(components).schema(node)
    return Kind(resource.group, resource.version, resource.kind, resource.plural, resource.namespaced, schema)


class _Components:
    """The components of one document, built when they are first referred to."""

    def __init__(self, nodes: Object) -> None:
        self._nodes = nodes
        self._built: dict[str, Schema] = {}

    def schema(self, node: Object) -> Schema:
        return build(node, self._component)

    def _component(self, name: str) -> Schema:
        if name not in self._built:
            node = self._nodes.get(name)
            self._built[name] = build(node, self._component, name) if node is not None else catalogue().component(name)
        return self._built[name]
