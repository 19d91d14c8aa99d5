"""Generated CustomResourceDefinitions in the cluster: made, changed where that breaks nobody, and waited for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.conditions import is_true
from sliceworks.base.errors import AlreadyExists, NotFound, SliceworksError, TimedOut
from sliceworks.controllers.graphs import compatibility, names
from sliceworks.kube.well_known import CUSTOM_RESOURCE_DEFINITION

if TYPE_CHECKING:
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Object

_PATIENCE, _PAUSE = 120.0, 0.15
_NAMES = ("plural", "singular", "kind", "listKind", "shortNames", "categories")


class Refused(SliceworksError):
    """The definition in the cluster must not be changed in this way, or not by us."""


async def ensure(client: Client, wanted: Object, *, allow_breaking: bool) -> Object:
    """Make the cluster's definition this one; returns it once its kind is served."""
    existing = await client.find(CUSTOM_RESOURCE_DEFINITION, wanted["metadata"]["name"])
    if existing is None:
        try:
            await client.create(wanted, resource=CUSTOM_RESOURCE_DEFINITION)
        except AlreadyExists:
            return await ensure(client, wanted, allow_breaking=allow_breaking)
    else:
        _check_owner(existing, wanted)
        if _differs(existing, wanted, allow_breaking=allow_breaking):
            await client.patch(CUSTOM_RESOURCE_DEFINITION, wanted["metadata"]["name"], _change(wanted))
    return await _established(client, wanted["metadata"]["name"])


async def remove(client: Client, name: str, definition: str) -> None:
    """Delete a definition if it was generated for this ResourceGraphDefinition."""
    existing = await client.find(CUSTOM_RESOURCE_DEFINITION, name)
    if existing is None or _labels(existing).get(names.DEFINITION_NAME) != definition:
        return
    try:
        await client.delete(CUSTOM_RESOURCE_DEFINITION, name, uid=existing["metadata"]["uid"])
    except NotFound:
        return


def _check_owner(existing: Object, wanted: Object) -> None:
    labels, name = _labels(existing), wanted["metadata"]["name"]
    owned = labels.get(names.OWNED, "true" if labels.get(names.MANAGED_BY) == "kro" else "")
    if owned != "true":
        raise Refused(f"failed to update CRD {name}: CRD already exists and is not owned by KRO")
    if labels.get(names.DEFINITION_NAME) != _labels(wanted)[names.DEFINITION_NAME]:
        other = labels.get(names.DEFINITION_NAME, "")
        raise Refused(f"failed to update CRD {name}: CRD is owned by another ResourceGraphDefinition {other}")


def _differs(existing: Object, wanted: Object, *, allow_breaking: bool) -> bool:
    old, new = existing["spec"], wanted["spec"]
    report = compatibility.compare(old["versions"][0], new["versions"][0])
    if report.breaking and not allow_breaking:
        name = wanted["metadata"]["name"]
        raise Refused(
            f"cannot update CRD {name}: breaking changes detected: {report}",
            hint=f"if no instance needs the old form, annotate the definition with {names.ALLOW_BREAKING}=true",
        )
    same_names = all((old["names"].get(name) or None) == (new["names"].get(name) or None) for name in _NAMES)
    return report.changed or not same_names or not _labels(wanted).items() <= _labels(existing).items()


def _change(wanted: Object) -> Object:
    metadata, spec = wanted["metadata"], wanted["spec"]
    called = {name: spec["names"].get(name) for name in _NAMES}
    kept = {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}
    return {
        "metadata": kept,
        "spec": {"group": spec["group"], "names": called, "scope": spec["scope"], "versions": spec["versions"]},
    }


async def _established(client: Client, name: str) -> Object:
    deadline = clock.loop_time() + _PATIENCE
    while clock.loop_time() < deadline:
        found = await client.find(CUSTOM_RESOURCE_DEFINITION, name)
        if found is not None and is_true(found, "Established"):
            return found
        await clock.sleep(_PAUSE)
    raise TimedOut(f"the definition {name} was not established in {_PATIENCE:g} seconds")


def _labels(obj: Object) -> dict[str, str]:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels
