"""The kinds that a live cluster has, asked for before a definition is compiled: compiling itself asks nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import NotFound
from sliceworks.graph.kinds import AllKinds, BuiltinKinds, CustomKinds
from sliceworks.kube.resources import GVK, parse_api_version
from sliceworks.kube.well_known import CUSTOM_RESOURCE_DEFINITION
from sliceworks.schemas.crds import condition_is

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.graph.kinds import Kinds
    from sliceworks.graph.model import Definition
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

Named = tuple[str, str]
"""apiVersion and kind."""


class ClusterKinds:
    """Built-in kinds come with us; all others are CustomResourceDefinitions of the cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._builtin = BuiltinKinds()

    async def for_definition(self, definition: Definition) -> tuple[Kinds, set[Named]]:
        """The kinds that a definition may use, and those it names that the cluster does not have."""
        found, missing = [], set()
        for api_version, kind in sorted(set(_named(definition))):
            if self._builtin.find(api_version, kind) is not None:
                continue
            crd = await self._definition_of(api_version, kind)
            if crd is None:
                missing.add((api_version, kind))
            else:
                found.append(crd)
        return AllKinds(self._builtin, CustomKinds(found)), missing

    async def _definition_of(self, api_version: str, kind: str) -> Object | None:
        try:
            resource = await self._client.discovery.by_gvk(GVK(*parse_api_version(api_version), kind))
            crd = await self._client.get(CUSTOM_RESOURCE_DEFINITION, resource.qualified)
        except NotFound:
            return None
        return crd if condition_is(crd, "Established", "True") else None


def _named(definition: Definition) -> Iterator[Named]:
    for block in definition.resources:
        body = block.template if block.template is not None else block.external or {}
        api_version, kind = body.get("apiVersion"), body.get("kind")
        if isinstance(api_version, str) and isinstance(kind, str) and api_version and kind and api_version.count("/") < 2:
            yield api_version, kind
