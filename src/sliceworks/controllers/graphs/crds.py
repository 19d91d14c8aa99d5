"""Generated CustomResourceDefinitions: create, update if compatible, delete, and watch all CRDs of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.errors import AlreadyExists, NotFound, SliceworksError, TimedOut
from sliceworks.controllers.graphs import crd_compatibility, well_known
from sliceworks.kube.informers import Informers
from sliceworks.kube.resources import CUSTOM_RESOURCE_DEFINITION, resource_of_crd

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.controllers.graphs.compiler import KindName
    from sliceworks.kube.client import Client
    from sliceworks.kube.informers import Delta
    from sliceworks.kube.resources import Object, Resource


_ESTABLISH_TIMEOUT, _POLL_INTERVAL = 120.0, 0.15
_KINDS, _RESOURCE, _ESTABLISHED, _DEFINITION = "kinds", "resource", "established", "definition"
_NAMES = ("plural", "singular", "kind", "listKind", "shortNames", "categories")


class CRDConflict(SliceworksError):
    """The CRD belongs to another owner, or the change would break existing instances."""


async def ensure(client: Client, desired: Object, definition: Object) -> Object:
    """Create or update the CRD of a definition; returns it when it is established."""
    existing = await client.find(CUSTOM_RESOURCE_DEFINITION, desired["metadata"]["name"])
    if existing is None:
        try:
            await client.create(desired, resource=CUSTOM_RESOURCE_DEFINITION)
        except AlreadyExists:
            return await ensure(client, desired, definition)
    elif _needs_update(existing, desired, check_update(existing, desired, definition)):
        await client.patch(CUSTOM_RESOURCE_DEFINITION, desired["metadata"]["name"], _patch(desired))
    return await wait_established(client, desired["metadata"]["name"])


async def delete(client: Client, name: str, definition: str) -> None:
    """Delete a CRD if it was generated for this ResourceGraphDefinition."""
    existing = await client.find(CUSTOM_RESOURCE_DEFINITION, name)
    if existing is None or _labels(existing).get(well_known.DEFINITION_NAME) != definition:
        return
    try:
        await client.delete(CUSTOM_RESOURCE_DEFINITION, name, uid=existing["metadata"]["uid"])
    except NotFound:
        return


def check_update(existing: Object, desired: Object, definition: Object) -> crd_compatibility.Report:
    """The changes of an existing CRD; raises CRDConflict if it must not be updated."""
    labels, name = _labels(existing), desired["metadata"]["name"]
    owned = labels.get(well_known.OWNED, "true" if labels.get(well_known.MANAGED_BY) == "kro" else "")
    if owned != "true":
        raise CRDConflict(f"failed to update CRD {name}: CRD already exists and is not owned by KRO")
    if labels.get(well_known.DEFINITION_NAME) != definition["metadata"]["name"]:
        other = labels.get(well_known.DEFINITION_NAME, "")
        raise CRDConflict(f"failed to update CRD {name}: CRD is owned by another ResourceGraphDefinition {other}")
    report = crd_compatibility.compare(existing["spec"]["versions"][0], desired["spec"]["versions"][0])
    is_allowed = (definition["metadata"].get("annotations") or {}).get(well_known.ALLOW_BREAKING) == "true"
    if report.breaking and not is_allowed:
        raise CRDConflict(
            f"cannot update CRD {name}: breaking changes detected: {report}",
            hint=f"to allow the change, annotate the definition with {well_known.ALLOW_BREAKING}=true",
        )
    return report


def _needs_update(existing: Object, desired: Object, report: crd_compatibility.Report) -> bool:
    old, new = existing["spec"], desired["spec"]
    same_names = all((old["names"].get(name) or None) == (new["names"].get(name) or None) for name in _NAMES)
    return report.changed or not same_names or not _labels(desired).items() <= _labels(existing).items()


def _patch(desired: Object) -> Object:
    metadata, spec = desired["metadata"], desired["spec"]
    names = {name: spec["names"].get(name) for name in _NAMES}
    entry = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
    return {
        "metadata": entry,
        "spec": {"group": spec["group"], "names": names, "scope": spec["scope"], "versions": spec["versions"]},
    }


async def wait_established(client: Client, name: str) -> Object:
    """The CRD, once the API server serves its kind."""
    deadline = clock.loop_time() + _ESTABLISH_TIMEOUT
    while clock.loop_time() < deadline:
        crd = await client.find(CUSTOM_RESOURCE_DEFINITION, name)
        if crd is not None and is_condition_true(crd, "Established"):
            return crd
        await clock.sleep(_POLL_INTERVAL)
    raise TimedOut(f"CRD {name} was not established within {_ESTABLISH_TIMEOUT:g} s")


def _labels(obj: Object) -> dict[str, str]:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels


class CRDWatcher:
    """Watches all CRDs, and requeues the definitions that a change affects."""

    def __init__(self, client: Client, requeue: Callable[[str], None]) -> None:
        self._informers = Informers(client, transform=_transform)
        self._requeue = requeue
        self._waiting: dict[str, frozenset[KindName]] = {}
        self._informer = self._informers.open(CUSTOM_RESOURCE_DEFINITION)
        self._informer.add_handler(self._on_delta)

    async def wait_synced(self) -> None:
        """Wait for the initial list."""
        await self._informer.wait_synced()

    def set_missing(self, graph: str, missing: frozenset[KindName]) -> None:
        """Set the kinds that a graph waits for."""
        if missing:
            self._waiting[graph] = missing
        else:
            self._waiting.pop(graph, None)

    def has_any(self, kinds: frozenset[KindName]) -> bool:
        """Whether one of these kinds is established."""
        return bool(kinds) and any(entry[_ESTABLISHED] and kinds & entry[_KINDS] for entry in self._informer.store)

    def resource_for(self, graph: str) -> Resource | None:
        """The resource of a graph's instances, or None if its CRD does not exist."""
        return next((entry[_RESOURCE] for entry in self._informer.store if entry[_DEFINITION] == graph), None)

    async def close(self) -> None:
        """Stop watching."""
        await self._informers.close()

    def _on_delta(self, delta: Delta) -> None:
        entry = delta.object
        if entry[_ESTABLISHED] and delta.kind != "deleted":
            for graph, missing in tuple(self._waiting.items()):
                if missing & entry[_KINDS]:
                    self._requeue(graph)
        # Restore a generated CRD that another client changed or deleted.
        owner = entry[_DEFINITION]
        if owner and (delta.kind == "deleted" or _spec_changed(delta)):
            self._requeue(owner)


def _spec_changed(delta: Delta) -> bool:
    old = delta.old
    return old is not None and old["metadata"]["generation"] != delta.object["metadata"]["generation"]


def _transform(crd: Object) -> Object:
    metadata, spec = crd["metadata"], crd["spec"]
    names = spec["names"]
    versions = [item["name"] for item in spec.get("versions") or () if item.get("served", True)]
    labels = metadata.get("labels") or {}
    return {
        "metadata": {name: metadata.get(name, "") for name in ("name", "uid", "resourceVersion", "generation")},
        _KINDS: frozenset((f"{spec['group']}/{version}", names["kind"]) for version in versions),
        _RESOURCE: resource_of_crd(crd),
        _ESTABLISHED: is_condition_true(crd, "Established"),
        _DEFINITION: labels.get(well_known.DEFINITION_NAME, "") if labels.get(well_known.OWNED) == "true" else "",
    }
