"""Compares two renderings of a graph, or a rendering with the live objects of a cluster.

`compare_object` is the one rule for an update: `graph diff` prints what it returns, and the controller does it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base import quantity
from sliceworks.graph import templates
from sliceworks.graph.model import Lifecycle
from sliceworks.graph.resolver import identity_of
from sliceworks.schemas.config_connector import kind_infos

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sliceworks.graph.model import Object

CREATE, CHANGE, REPLACE, DELETE, KEEP, REFUSE = "create", "change", "replace", "delete", "keep", "refuse"
RELEASE = "release"
"""The object leaves the instance and stays in the cluster: its lifecycle retains or restores it."""
ON_DELETE = "internal.kro.run/on-delete"
"""Annotation of a live object with the deletion policy of its last apply."""
_KEYS = ("name", "key", "containerPort", "port", "type")
_RECREATED_KINDS = frozenset({"Job"})
"""Kinds that are recreated unless `lifecycle.onImmutableChange` says otherwise."""
QUANTITIES = frozenset({"requests", "limits", "capacity", "hard", "sizeLimit", "storage"})
"""Fields whose values are quantities, which the API server stores in their canonical form."""
_CLAIM = ("accessModes", "storageClassName", "volumeName", "volumeMode", "selector", "dataSource", "dataSourceRef")
_IMMUTABLE: dict[str, tuple[str, ...]] = {
    "ClusterRoleBinding": ("roleRef",),
    "DaemonSet": ("spec.selector",),
    "Deployment": ("spec.selector",),
    "IngressClass": ("spec.controller",),
    "Job": (
        *("spec.selector", "spec.template", "spec.completionMode", "spec.podFailurePolicy", "spec.backoffLimitPerIndex"),
        *("spec.managedBy", "spec.successPolicy"),
    ),
    "JobSet": ("spec.replicatedJobs", "spec.managedBy"),
    "PersistentVolumeClaim": tuple(f"spec.{name}" for name in _CLAIM),
    "PriorityClass": ("value", "preemptionPolicy"),
    "ReplicaSet": ("spec.selector",),
    "RoleBinding": ("roleRef",),
    "RuntimeClass": ("handler",),
    "Secret": ("type",),
    "Service": ("spec.clusterIP",),
    "StatefulSet": ("spec.selector", "spec.serviceName", "spec.volumeClaimTemplates", "spec.podManagementPolicy"),
    "StorageClass": ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"),
}
"""Fields that the API server does not allow to change."""
_ITEM = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """The old and the new value of a field; None if it is absent."""

    path: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """The change of one object. `reason` explains a replacement or a refusal."""

    node: str
    action: str
    obj: Object
    changes: tuple[FieldChange, ...] = ()
    reason: str = ""
    before: Object = field(default_factory=dict)


def compare(
    old: Mapping[str, Sequence[Object]],
    new: Mapping[str, Sequence[Object]],
    *,
    lifecycles: Mapping[str, Lifecycle] | None = None,
    old_lifecycles: Mapping[str, Lifecycle] | None = None,
    owned: Callable[[Object], Object] | None = None,
) -> list[Difference]:
    """All differences, by resource. Objects that are no longer desired go by `old_lifecycles`, if given.

    With `owned` the old objects come from a cluster: it returns the fields (`fieldsV1`) of an object that the controller owns.
    Fields of other managers are ignored then.
    """
    differences: list[Difference] = []
    for node in dict.fromkeys([*new, *old]):
        lifecycle = (lifecycles or {}).get(node, Lifecycle())
        policy = (old_lifecycles or {}).get(node, lifecycle).on_delete
        differences += _compare_node(node, old.get(node, ()), new.get(node, ()), (lifecycle, policy), owned)
    return differences


def _compare_node(
    node: str,
    old: Sequence[Object],
    new: Sequence[Object],
    lifecycles: tuple[Lifecycle, str],
    owned: Callable[[Object], Object] | None,
) -> Iterator[Difference]:
    lifecycle, on_delete = lifecycles
    before = {tuple(map(str, identity_of(obj))): obj for obj in old}
    after = {tuple(map(str, identity_of(obj))): obj for obj in new}
    deleted = [obj for key, obj in before.items() if key not in after]
    for key, obj in after.items():
        if key in before:
            previous = before[key]
            yield compare_object(node, previous, obj, lifecycle, owned=None if owned is None else owned(previous))
        elif len(after) == len(deleted) == 1:
            previous = deleted.pop()
            stays = ", which stays" if _deletion_policy(previous, on_delete) != "delete" else ""
            yield Difference(node, REPLACE, obj, reason=f"it was {_format_object(previous)}{stays}", before=previous)
        else:
            yield Difference(node, CREATE, obj)
    for obj in deleted:
        policy = _deletion_policy(obj, on_delete)
        if policy == "delete":
            yield Difference(node, DELETE, obj)
        else:
            yield Difference(node, RELEASE, obj, reason=f"onDelete: {policy}")


def _deletion_policy(obj: Object, on_delete: str) -> str:
    """What the controller does with an object that is no longer desired: a live object has the policy of its last apply."""
    metadata = obj.get("metadata") or {}
    return str((metadata.get("annotations") or {}).get(ON_DELETE) or on_delete)


def compare_object(node: str, old: Object, new: Object, lifecycle: Lifecycle, *, owned: Object | None = None) -> Difference:
    """The update of one object. `owned` are the controller's fields of a live object, empty if it did not create the object."""
    changes = tuple(_field_changes(old, new, (), owned))
    if not changes:
        return Difference(node, KEEP, new, before=old)
    immutable = [path for path in _immutable_fields(old) if any(_is_inside(change.path, path) for change in changes)]
    if not immutable:
        return Difference(node, CHANGE, new, changes, before=old)
    reason = f"{' and '.join(immutable)} {'are' if len(immutable) > 1 else 'is'} immutable"
    if owned is not None and not owned:
        return Difference(node, REFUSE, new, changes, f"{reason}, and the object existed before the instance", old)
    if _is_recreated(new["kind"], lifecycle):
        return Difference(node, REPLACE, new, changes, reason, old)
    return Difference(node, REFUSE, new, changes, f"{reason}; lifecycle.onImmutableChange is not recreate", old)


def _is_recreated(kind: str, lifecycle: Lifecycle) -> bool:
    if lifecycle.on_immutable_change is not None:
        return lifecycle.on_immutable_change == "recreate"
    return kind in _RECREATED_KINDS and lifecycle.on_delete == "delete"


def _immutable_fields(old: Object) -> list[str]:
    """The paths of the fields that must not change, without positions in lists."""
    kind, spec = old["kind"], old.get("spec") or {}
    info = kind_infos().get(kind)
    if info is not None:
        return [".".join(step for step in path if step != "*") for path in info.immutable]
    paths = [*_IMMUTABLE.get(kind, ())]
    if kind == "Job" and spec.get("completionMode") != "Indexed":
        paths.append("spec.completions")
    if kind in ("ConfigMap", "Secret") and old.get("immutable") is True:
        paths += ["data", "binaryData", "immutable"]
    return paths


def _is_inside(path: str, parent: str) -> bool:
    plain = _ITEM.sub("", path)
    return plain == parent or plain.startswith(f"{parent}.")


def _field_changes(old: Any, new: Any, path: tuple[str, ...], owned: Object | None) -> Iterator[FieldChange]:
    """The changed fields. If `owned` is not None, `old` is live: an apply removes only owned fields that are no longer desired."""
    if owned and new is None and isinstance(old, dict):
        new = {}
    if isinstance(new, dict) and isinstance(old, dict):
        removed = old if owned is None else [key for key in old if f"f:{key}" in owned]
        for key in dict.fromkeys([*new, *removed]):
            child = None if owned is None else owned.get(f"f:{key}", {})
            yield from _field_changes(old.get(key), new.get(key), (*path, str(key)), child)
    elif isinstance(new, list) and isinstance(old, list):
        yield from _item_changes(old, new, path, owned)
    elif not _is_equal(old, new, path) and not (owned is not None and _is_unresolved(new)):
        yield FieldChange(".".join(path), old, new)


def _item_changes(old: list[Any], new: list[Any], path: tuple[str, ...], owned: Object | None) -> Iterator[FieldChange]:
    key = next((key for key in _KEYS if _has_unique_key(old, key) and _has_unique_key(new, key)), "")
    before = {str(item[key]) if key else str(index): item for index, item in enumerate(old)}
    after = {str(item[key]) if key else str(index): item for index, item in enumerate(new)}
    items = _owned_items(owned, key) if owned and key else None
    for name in dict.fromkeys([*after, *before]):
        if items is not None and name not in after and name not in items:
            continue  # another manager added the item
        child = None if owned is None else (items or {}).get(name, {})
        yield from _field_changes(before.get(name), after.get(name), (*path[:-1], f"{path[-1]}[{name}]"), child)


def _owned_items(owned: Object, key: str) -> dict[str, Object]:
    """The owned items of a list of objects by their key, such as `k:{"name":"main"}`."""
    result = {}
    for entry, children in owned.items():
        kind, _, text = entry.partition(":")
        if kind == "k" and (match := re.search(rf'"{key}":("?)(.*?)\1[,}}]', text)):
            result[match[2]] = children
    return result


def _has_unique_key(items: list[Any], key: str) -> bool:
    names = [item.get(key) for item in items if isinstance(item, dict)]
    return len(names) == len(items) and None not in names and len(set(map(str, names))) == len(names)


def _is_equal(old: Any, new: Any, path: tuple[str, ...]) -> bool:
    return bool(old == new) or (not QUANTITIES.isdisjoint(path) and is_same_quantity(old, new))


def is_same_quantity(old: Any, new: Any) -> bool:
    """Whether two values are the same quantity, such as `1000m` and `1`."""
    if isinstance(old, bool | None) or isinstance(new, bool | None):
        return False
    try:
        return quantity.compare(old, new) == 0
    except (ValueError, TypeError, AttributeError):
        return False


def _is_unresolved(value: Any) -> bool:
    return isinstance(value, str) and templates.has_expressions(value)


def _format_object(obj: Object) -> str:
    metadata = obj.get("metadata") or {}
    return f"{obj.get('kind')} {metadata.get('name')}"


def summarize(differences: Iterable[Difference]) -> str:
    """`1 to create, 2 to change, 1 refused`."""
    counts: dict[str, int] = {}
    for difference in differences:
        counts[difference.action] = counts.get(difference.action, 0) + 1
    named = [f"{counts[action]} to {action}" for action in (CREATE, CHANGE, REPLACE, DELETE, RELEASE) if action in counts]
    if REFUSE in counts:
        named.append(f"{counts[REFUSE]} refused")
    return ", ".join(named) or "no changes"
