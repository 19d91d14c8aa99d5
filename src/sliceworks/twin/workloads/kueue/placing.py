"""What admission puts into pod templates: the labels and tolerations of the flavors, and what admission checks ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.workloads.kueue.keys import PODSET, WORKLOAD, Obj

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_MAPS = ("annotations", "labels", "nodeSelector")
_LISTS = ("tolerations", "schedulingGates")


class Clash(Exception):
    """Two that must agree do not: the job can never be started."""


def infos(workload: Mapping[str, Any], flavor: Callable[[str], Mapping[str, Any]]) -> list[Obj]:
    """What goes into each pod template of an admitted Workload."""
    status = workload["status"]
    found = []
    for one in status["admission"]["podSetAssignments"]:
        info: Obj = {"labels": {}, "annotations": {WORKLOAD: workload["metadata"]["name"]}, "nodeSelector": {}, "tolerations": []}
        for name in dict.fromkeys((one.get("flavors") or {}).values()):
            spec = flavor(name).get("spec") or {}
            info["nodeSelector"] |= spec.get("nodeLabels") or {}
            info["tolerations"] += spec.get("tolerations") or ()
        info["labels"][PODSET] = one["name"]
        for check in status.get("admissionChecks") or ():
            for update in check.get("podSetUpdates") or ():
                if update["name"] == one["name"]:
                    _merge(info, update)
        found.append(info | {"name": one["name"], "count": one.get("count", 0)})
    return found


def _merge(info: Obj, update: Mapping[str, Any]) -> None:
    for kind in _MAPS:
        _agree(kind, info.get(kind) or {}, update.get(kind) or {})
        if update.get(kind):
            info[kind] = {**(info.get(kind) or {}), **update[kind]}
    for kind in _LISTS:
        have = info.get(kind) or []
        more = [one for one in update.get(kind) or () if one not in have]
        if more:
            info[kind] = [*have, *more]


def _agree(kind: str, have: Mapping[str, str], new: Mapping[str, str]) -> None:
    for key, value in new.items():
        if key in have and have[key] != value:
            text = f"conflict for key={key}, value1={have[key]}, value2={value}"
            raise Clash(f"invalid admission check PodSetUpdate: conflict for {kind}: {text}")


def apply(template: Obj, info: Mapping[str, Any]) -> None:
    """Put it into a template."""
    have = _parts(template)
    _merge(have, info)
    _set(template, have)


def restore(template: Obj, original: Mapping[str, Any], kept: Mapping[str, str]) -> None:
    """Make a template what it was before it was started."""
    parts = _parts(original)
    if kept:
        parts["labels"] = {**(parts.get("labels") or {}), **kept}
    _set(template, parts)


def _parts(template: Mapping[str, Any]) -> Obj:
    metadata, spec = template.get("metadata") or {}, template.get("spec") or {}
    return {
        **{kind: metadata.get(kind) for kind in ("annotations", "labels")},
        **{kind: spec.get(kind) for kind in ("nodeSelector", *_LISTS)},
    }


def _set(template: Obj, parts: Mapping[str, Any]) -> None:
    metadata, spec = template.setdefault("metadata", {}), template["spec"]
    for kind, value in parts.items():
        home = metadata if kind in ("annotations", "labels") else spec
        if value:
            home[kind] = value
        else:
            home.pop(kind, None)
    if not metadata:
        del template["metadata"]
