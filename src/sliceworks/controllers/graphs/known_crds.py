"""The CustomResourceDefinitions of the cluster, in few bytes: which graphs wait for one, and which one belongs to a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.conditions import is_true
from sliceworks.controllers.graphs import names
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import Resource
from sliceworks.kube.well_known import CUSTOM_RESOURCE_DEFINITION

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.controllers.graphs.cluster_kinds import Named
    from sliceworks.kube.client import Client
    from sliceworks.kube.informers import Delta
    from sliceworks.kube.resources import Object

_KINDS, _RESOURCE, _ESTABLISHED, _DEFINITION = "kinds", "resource", "established", "definition"


class KnownCrds:
    """Brings up the definitions that a change of a CustomResourceDefinition matters to."""

    def __init__(self, client: Client, bring_up: Callable[[str], None]) -> None:
        self._informers = Informers(client, transform=_small)
        self._bring_up = bring_up
        self._waiting: dict[str, frozenset[Named]] = {}
        self._informer = self._informers.open(CUSTOM_RESOURCE_DEFINITION)
        self._informer.add_handler(self._heard)

    async def ready(self) -> None:
        """Wait until they are known."""
        await self._informer.wait_synced()

    def wait(self, graph: str, missing: frozenset[Named]) -> None:
        """A graph waits for these kinds, and for no others."""
        if missing:
            self._waiting[graph] = missing
        else:
            self._waiting.pop(graph, None)

    def has_any(self, kinds: frozenset[Named]) -> bool:
        """Whether one of these kinds is established, by all that is known of it."""
        return bool(kinds) and any(kept[_ESTABLISHED] and kinds & kept[_KINDS] for kept in self._informer.store)

    def resource_for(self, graph: str) -> Resource | None:
        """How the instances of a graph are addressed, if it ever had a kind."""
        return next((kept[_RESOURCE] for kept in self._informer.store if kept[_DEFINITION] == graph), None)

    async def close(self) -> None:
        """Look no more."""
        await self._informers.close()

    def _heard(self, delta: Delta) -> None:
        kept = delta.object
        if kept[_ESTABLISHED] and delta.kind != "deleted":
            for graph, missing in tuple(self._waiting.items()):
                if missing & kept[_KINDS]:
                    self._bring_up(graph)
        # A generated definition that somebody changed or deleted is brought about again.
        owner = kept[_DEFINITION]
        if owner and (delta.kind == "deleted" or _changed(delta)):
            self._bring_up(owner)


def _changed(delta: Delta) -> bool:
    old = delta.old
    return old is not None and old["metadata"]["generation"] != delta.object["metadata"]["generation"]


def _small(crd: Object) -> Object:
    metadata, spec = crd["metadata"], crd["spec"]
    called = spec["names"]
    versions = [item["name"] for item in spec.get("versions") or () if item.get("served", True)]
    storage = next((item["name"] for item in spec.get("versions") or () if item.get("storage")), "")
    labels = metadata.get("labels") or {}
    return {
        "metadata": {name: metadata.get(name, "") for name in ("name", "uid", "resourceVersion", "generation")},
        _KINDS: frozenset((f"{spec['group']}/{version}", called["kind"]) for version in versions),
        _RESOURCE: Resource(spec["group"], storage, called["kind"], called["plural"], spec.get("scope") != "Cluster", ("status",)),
        _ESTABLISHED: is_true(crd, "Established"),
        _DEFINITION: labels.get(names.DEFINITION_NAME, "") if labels.get(names.OWNED) == "true" else "",
    }
