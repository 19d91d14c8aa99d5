"""Entries of `metadata.managedFields`: managers, operations, conflicts, and the entries of the scale subresource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import Conflict
from sliceworks.schemas.field_errors import FieldError, invalid, too_long
from sliceworks.schemas.golang import encode_json
from sliceworks.twin.apiserver.fieldmanager import fieldpath
from sliceworks.twin.apiserver.fieldmanager.fieldpath import contains, difference, format_paths, single_field, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.apiserver.fieldmanager.fieldpath import Fields

    Paths = Mapping[str, tuple[str, ...] | None]
    """By version of the parent: the path to its replicas, such as `("f:spec", "f:replicas")`; None for a version without scale."""

Entry = dict[str, Any]
Identity = tuple[str, str, str, str]
"""Manager, operation, version and subresource. Appliers are the same whatever their version."""

UPDATE = "Update"
APPLY = "Apply"
MAX_UPDATE_MANAGERS = 10
ANCIENT_CHANGES = "ancient-changes"
MAX_MANAGER_NAME = 128
SCALE = "autoscaling/v1"
REPLICAS = ("f:spec", "f:replicas")


def build_entry(
    manager: str, operation: str, api_version: str, *, time: str | None = None, fields: Fields | None = None, subresource: str = ""
) -> Entry:
    """A managedFields entry, its keys in Kubernetes' order."""
    entry: Entry = {"manager": manager or "unknown", "operation": operation, "apiVersion": api_version}
    if time:
        entry["time"] = time
    entry["fieldsType"] = "FieldsV1"
    entry["fieldsV1"] = fields or {}
    if subresource:
        entry["subresource"] = subresource
    return entry


def identity(entry: Entry) -> Identity:
    """The key that identifies an entry."""
    operation = entry["operation"]
    return entry.get("manager", ""), operation, "" if operation == APPLY else entry["apiVersion"], entry.get("subresource", "")


def with_fields(entry: Entry, fields: Fields) -> Entry:
    """A copy of the entry with another field set."""
    return {**entry, "fieldsV1": fields}


def sort_entries(entries: Iterable[Entry]) -> list[Entry]:
    """Sort entries: Apply before Update, then by time and manager."""
    return sorted(entries, key=_sort_key)


def _sort_key(entry: Entry) -> tuple[str, str, str, str, str]:
    return entry["operation"], entry.get("time") or "", entry.get("manager", ""), entry["apiVersion"], entry.get("subresource", "")


def parse_entries(parsed: Any) -> list[Entry] | None:
    """Parse the entries that a client sent; None if they are invalid."""
    if type(parsed) is not list:
        return None
    try:
        return [_parse_entry(item) for item in parsed]
    except ValueError:
        return None


def _parse_entry(entry: Any) -> Entry:
    known = (
        type(entry) is dict
        and entry.get("operation") in (APPLY, UPDATE)
        and entry.get("apiVersion")
        and entry.get("fieldsType") == "FieldsV1"
    )
    if not known:
        raise ValueError("not an entry of managed fields")
    fields = fieldpath.parse(entry.get("fieldsV1") or {})
    return build_entry(
        entry.get("manager", ""),
        entry["operation"],
        entry["apiVersion"],
        time=entry.get("time"),
        fields=fields,
        subresource=entry.get("subresource", ""),
    )


def cap_managers(entries: list[Entry]) -> list[Entry]:
    """Keep at most ten Update entries by merging the oldest into one `ancient-changes` entry per version."""
    updaters = [entry for entry in entries if entry["operation"] == UPDATE]
    excess = len(updaters) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return entries
    updaters.sort(key=lambda entry: (entry.get("time") or "", _identity_json(entry)))
    kept = {id(item): item for item in entries}
    first: dict[str, Entry] = {}
    buckets: dict[str, Entry] = {
        updater["apiVersion"]: updater
        for updater in updaters
        if updater.get("manager") == ANCIENT_CHANGES and not updater.get("subresource")
    }
    for updater_entry in updaters:
        if not excess:
            break
        version = updater_entry["apiVersion"]
        if version not in first:
            first[version] = updater_entry
            continue
        bucket = buckets.get(version) or first[version]
        kept.pop(id(bucket), None)
        kept.pop(id(updater_entry), None)
        joined = build_entry(
            ANCIENT_CHANGES,
            UPDATE,
            version,
            time=updater_entry.get("time"),
            fields=union(updater_entry["fieldsV1"], bucket["fieldsV1"]),
        )
        buckets[version] = kept[id(joined)] = joined
        excess -= 1
    return list(kept.values())


def conflict_error(conflicts: list[tuple[Entry, Fields]]) -> Conflict:
    """The 409 error of an apply that changes fields of other managers."""
    taken = [
        (_owner(entry), list(format_paths(fields))) for entry, fields in sorted(conflicts, key=lambda pair: _identity_json(pair[0]))
    ]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {owner}", "field": path}
        for owner, paths in taken
        for path in paths
    ]
    if len(causes) == 1:
        text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [line for owner, paths in taken for line in (f"conflicts with {owner}:", *(f"- {path}" for path in paths))]
        text = f"{len(causes)} conflicts: " + "\n".join(lines)
    return Conflict(f"Apply failed with {text}", details={"causes": causes})


def _owner(entry: Entry) -> str:
    name = encode_json(entry.get("manager", ""))
    if entry.get("subresource"):
        name += f' with subresource "{entry["subresource"]}"'
    return f"{name} using {entry['apiVersion']}" if entry["operation"] == UPDATE else name


def _identity_json(entry: Entry) -> str:
    """The identity as a JSON string; Kubernetes iterates over managers in this order."""
    manager, operation, version, subresource = identity(entry)
    parts = (("manager", manager), ("operation", operation), ("apiVersion", version), ("subresource", subresource))
    return "{" + ",".join(f'"{name}":{encode_json(value)}' for name, value in parts if value) + "}"


def manager_name(field_manager: str, user_agent: str) -> str:
    """The manager of a create, update or patch. An apply must set `fieldManager` itself."""
    if field_manager:
        return field_manager
    name = user_agent.partition("/")[0]
    if not name.isprintable():
        name = "".join(letter for letter in name if letter.isprintable())
    return name.encode()[:MAX_MANAGER_NAME].decode(errors="ignore")


def manager_errors(field_manager: str) -> list[FieldError]:
    """Errors of the `fieldManager` parameter."""
    path = "fieldManager"
    errors: list[FieldError] = []
    if len(field_manager.encode()) > MAX_MANAGER_NAME:
        errors.append(too_long(path, MAX_MANAGER_NAME))
    if field_manager.isprintable():
        return errors
    position = 0
    for letter in field_manager:
        if not letter.isprintable():
            errors.append(invalid(path, field_manager, f"invalid character U+{ord(letter):04X} (at position {position})"))
        position += len(letter.encode())
    return errors


def to_scale_entries(entries: list[Entry], paths: Paths) -> list[Entry]:
    """The entries of the scale subresource: the owners of the parent's replicas."""
    return sort_entries(
        {**with_fields(entry, single_field(REPLICAS)), "apiVersion": SCALE}
        for entry in entries
        if (path := paths.get(entry["apiVersion"])) and contains(entry["fieldsV1"], path)
    )


def to_parent_entries(entries: list[Entry], scale: list[Entry], api_version: str, paths: Paths) -> list[Entry]:
    """The parent's entries after a write to its scale subresource. As in Kubernetes, managers of the scale have no time."""
    owners = {identity(item): item for item in scale}
    kept = [remaining for entry in entries if (remaining := _remaining_entry(entry, owners, paths)) is not None]
    path = paths.get(api_version)
    for owner in owners.values():
        if path and contains(owner["fieldsV1"], REPLICAS):
            subresource = owner.get("subresource", "")
            kept.append(
                build_entry(owner["manager"], owner["operation"], api_version, fields=single_field(path), subresource=subresource)
            )
    return sort_entries(kept)


def _remaining_entry(entry: Entry, owners: dict[Identity, Entry], paths: Paths) -> Entry | None:
    """The parent's entry without the replicas if the scale no longer lists its manager; None if no fields remain."""
    if entry["apiVersion"] not in paths:
        return None
    path = paths[entry["apiVersion"]]
    if not path or not contains(entry["fieldsV1"], path):
        return entry
    if owners.pop(identity(entry), None) is not None:
        return entry
    rest = difference(entry["fieldsV1"], single_field(path))
    return with_fields(entry, rest) if rest else None
