"""The entries of `metadata.managedFields`: who owns which fields, through which operation, version and subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import Conflict
from sliceworks.schemas import fieldsets
from sliceworks.schemas.fieldsets import paths, union
from sliceworks.schemas.shapes import compact

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.schemas.fieldsets import Fields

Entry = dict[str, Any]
Identity = tuple[str, str, str, str]
"""Manager, operation, version and subresource. Appliers are the same whatever their version."""

UPDATE = "Update"
APPLY = "Apply"
MOST_UPDATERS = 10
ANCIENT = "ancient-changes"


def entry(
    manager: str, operation: str, api_version: str, *, time: str | None = None, fields: Fields | None = None, subresource: str = ""
) -> Entry:
    """One entry, its fields in Kubernetes' order."""
    made: Entry = {"manager": manager or "unknown", "operation": operation, "apiVersion": api_version}
    if time:
        made["time"] = time
    made["fieldsType"] = "FieldsV1"
    made["fieldsV1"] = fields or {}
    if subresource:
        made["subresource"] = subresource
    return made


def identity(of: Entry) -> Identity:
    """What tells an entry from the others."""
    operation = of["operation"]
    return of.get("manager", ""), operation, "" if operation == APPLY else of["apiVersion"], of.get("subresource", "")


def changed(of: Entry, fields: Fields) -> Entry:
    """The entry with another set of fields."""
    return {**of, "fieldsV1": fields}


def in_order(entries: Iterable[Entry]) -> list[Entry]:
    """Appliers first, then updaters; each by time and name."""
    return sorted(entries, key=_place)


def _place(of: Entry) -> tuple[str, str, str, str, str]:
    return of["operation"], of.get("time") or "", of.get("manager", ""), of["apiVersion"], of.get("subresource", "")


def read(found: Any) -> list[Entry] | None:
    """Entries from outside; None when they cannot be understood."""
    if type(found) is not list:
        return None
    try:
        return [_read(one) for one in found]
    except ValueError:
        return None


def _read(one: Any) -> Entry:
    known = (
        type(one) is dict
        and one.get("operation") in (APPLY, UPDATE)
        and one.get("apiVersion")
        and one.get("fieldsType") == "FieldsV1"
    )
    if not known:
        raise ValueError("not an entry of managed fields")
    fields = fieldsets.read(one.get("fieldsV1") or {})
    return entry(
        one.get("manager", ""),
        one["operation"],
        one["apiVersion"],
        time=one.get("time"),
        fields=fields,
        subresource=one.get("subresource", ""),
    )


def capped(entries: list[Entry]) -> list[Entry]:
    """At most ten updaters: the oldest are joined into one entry per version that stands for ancient changes."""
    updaters = [one for one in entries if one["operation"] == UPDATE]
    excess = len(updaters) - MOST_UPDATERS
    if excess <= 0:
        return entries
    updaters.sort(key=lambda one: (one.get("time") or "", _text(one)))
    kept = {id(one): one for one in entries}
    first: dict[str, Entry] = {}
    buckets: dict[str, Entry] = {
        one["apiVersion"]: one for one in updaters if one.get("manager") == ANCIENT and not one.get("subresource")
    }
    for one in updaters:
        if not excess:
            break
        version = one["apiVersion"]
        if version not in first:
            first[version] = one
            continue
        bucket = buckets.get(version) or first[version]
        kept.pop(id(bucket), None)
        kept.pop(id(one), None)
        joined = entry(ANCIENT, UPDATE, version, time=one.get("time"), fields=union(one["fieldsV1"], bucket["fieldsV1"]))
        buckets[version] = kept[id(joined)] = joined
        excess -= 1
    return list(kept.values())


def conflict(conflicts: list[tuple[Entry, Fields]]) -> Conflict:
    """The refusal of an apply that would take fields from other managers."""
    taken = [(_owner(one), list(paths(fields))) for one, fields in sorted(conflicts, key=lambda pair: _text(pair[0]))]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": path}
        for owner, found in taken
        for path in found
    ]
    if len(causes) == 1:
        text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [line for owner, found in taken for line in (f"conflicts with {owner}:", *(f"- {path}" for path in found))]
        text = f"{len(causes)} conflicts: " + "\n".join(lines)
    return Conflict(f"Apply failed with {text}", details={"causes": causes})


def _owner(one: Entry) -> str:
    name = compact(one.get("manager", ""))
    if one.get("subresource"):
        name += f' with subresource "{one["subresource"]}"'
    return f"{name} using {one['apiVersion']}" if one["operation"] == UPDATE else name


def _text(one: Entry) -> str:
    """The identity as text: the order in which Kubernetes goes through managers."""
    manager, operation, version, subresource = identity(one)
    parts = (("manager", manager), ("operation", operation), ("apiVersion", version), ("subresource", subresource))
    return "{" + ",".join(f'"{name}":{compact(value)}' for name, value in parts if value) + "}"
