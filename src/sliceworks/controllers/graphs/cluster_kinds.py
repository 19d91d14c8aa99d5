"""The kinds that a live cluster has, asked for before a definition is compiled: compiling itself asks nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.conditions import is_true
from sliceworks.base.errors import NotFound
from sliceworks.controllers.graphs.served_kinds import ServedKinds, described
from sliceworks.graph.kinds import AllKinds, BuiltinKinds, CustomKinds, Kind
from sliceworks.kube.resources import GVK, parse_api_version
from sliceworks.kube.well_known import CUSTOM_RESOURCE_DEFINITION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.graph.kinds import Kinds
    from sliceworks.graph.model import Definition
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

Named = tuple[str, str]
"""apiVersion and kind."""


class ClusterKinds:
    """Built-in kinds come with us; all others are CustomResourceDefinitions of the cluster, or described by their own servers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._builtin = BuiltinKinds()

    async def for_definition(self, definition: Definition) -> tuple[Kinds, set[Named]]:
        """The kinds that a definition may use, and those it names that the cluster does not have."""
        crds: list[Object] = []
        served, missing = ServedKinds(), set()
        for api_version, kind in sorted(set(_named(definition))):
            if self._builtin.find(api_version, kind) is not None:
                continue
            found = await self._find(api_version, kind)
            if found is None:
                missing.add((api_version, kind))
            elif isinstance(found, Kind):
                served.add(found)
            else:
                crds.append(found)
        return AllKinds(self._builtin, CustomKinds(crds), served), missing

    async def _find(self, api_version: str, kind: str) -> Object | Kind | None:
        """The CustomResourceDefinition of a kind, or the kind itself where there is none."""
        try:
            resource = await self._client.discovery.by_gvk(GVK(*parse_api_version(api_version), kind))
        except NotFound:
            return None
        try:
            crd = await self._client.get(CUSTOM_RESOURCE_DEFINITION, resource.qualified)
        except NotFound:
            return await described(self._client, resource)
        return crd if is_true(crd, "Established") else None


def _named(definition: Definition) -> Iterator[Named]:
    for block in definition.resources:
        body = block.template if block.template is not None else block.external or {}
        api_version, kind = body.get("apiVersion"), body.get("kind")
        if isinstance(api_version, str) and isinstance(kind, str) and api_version and kind and api_version.count("/") < 2:
            yield api_version, kind
