"""What would change: between two renderings of a graph, or between a rendering and what a cluster has."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.graph import texts
from sliceworks.graph.identities import identity
from sliceworks.schemas.config_connector import marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sliceworks.graph.model import Object

CREATE, CHANGE, REPLACE, DELETE, KEEP = "create", "change", "replace", "delete", "keep"
_KEYS = ("name", "key", "containerPort", "port", "type")
_FIXED: dict[str, tuple[tuple[str, ...], ...]] = {
    "Deployment": (("spec", "selector"),),
    "StatefulSet": (("spec", "selector"), ("spec", "serviceName"), ("spec", "volumeClaimTemplates")),
    "DaemonSet": (("spec", "selector"),),
    "Job": (("spec", "selector"), ("spec", "template"), ("spec", "completionMode")),
    "PersistentVolumeClaim": (("spec", "accessModes"), ("spec", "storageClassName")),
    "RoleBinding": (("roleRef",),),
    "ClusterRoleBinding": (("roleRef",),),
}
"""What the API server does not let change in place."""


@dataclass(frozen=True, slots=True)
class Step:
    """One field: what it was and what it becomes. Absence is None."""

    path: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Difference:
    """What happens to one object. `why` says why it cannot be changed in place."""

    node: str
    action: str
    obj: Object
    steps: tuple[Step, ...] = ()
    why: str = ""
    before: Object = field(default_factory=dict)


def between(old: Mapping[str, Sequence[Object]], new: Mapping[str, Sequence[Object]], *, live: bool = False) -> list[Difference]:
    """All differences, resource by resource. With `live` the old objects are a cluster's: what only they have does not count."""
    found: list[Difference] = []
    for node in dict.fromkeys([*new, *old]):
        found += _of_node(node, old.get(node, ()), new.get(node, ()), live)
    return found


def _of_node(node: str, old: Sequence[Object], new: Sequence[Object], live: bool) -> Iterator[Difference]:
    before = {tuple(map(str, identity(obj))): obj for obj in old}
    wanted = {tuple(map(str, identity(obj))): obj for obj in new}
    gone = [obj for key, obj in before.items() if key not in wanted]
    for key, obj in wanted.items():
        if key in before:
            yield _same(node, before[key], obj, live)
        elif len(wanted) == len(gone) == 1:
            was = gone.pop()
            yield Difference(node, REPLACE, obj, why=f"it was {_shown(was)}", before=was)
        else:
            yield Difference(node, CREATE, obj)
    for obj in gone:
        yield Difference(node, DELETE, obj)


def _same(node: str, old: Object, new: Object, live: bool) -> Difference:
    steps = tuple(_steps(old, new, (), live))
    if not steps:
        return Difference(node, KEEP, new)
    fixed = [path for path in _fixed(new["kind"]) if any(step.path == path or step.path.startswith(f"{path}.") for step in steps)]
    if fixed:
        return Difference(node, REPLACE, new, steps, f"{' and '.join(fixed)} cannot be changed in place", old)
    return Difference(node, CHANGE, new, steps, before=old)


def _fixed(kind: str) -> list[str]:
    mark = marks().get(kind)
    paths = mark.immutable if mark is not None else _FIXED.get(kind, ())
    return [".".join(path) for path in paths if "*" not in path]


def _steps(old: Any, new: Any, path: tuple[str, ...], live: bool) -> Iterator[Step]:
    if isinstance(new, dict) and isinstance(old, dict):
        for key in dict.fromkeys([*new, *(() if live else old)]):
            yield from _steps(old.get(key), new.get(key), (*path, str(key)), live)
    elif isinstance(new, list) and isinstance(old, list):
        yield from _items(old, new, path, live)
    elif old != new and not (live and _unknown(new)):
        yield Step(".".join(path), old, new)


def _items(old: list[Any], new: list[Any], path: tuple[str, ...], live: bool) -> Iterator[Step]:
    key = next((key for key in _KEYS if _keyed(old, key) and _keyed(new, key)), "")
    before = {str(item[key]) if key else str(index): item for index, item in enumerate(old)}
    after = {str(item[key]) if key else str(index): item for index, item in enumerate(new)}
    for name in dict.fromkeys([*after, *before]):
        yield from _steps(before.get(name), after.get(name), (*path[:-1], f"{path[-1]}[{name}]"), live)


def _keyed(items: list[Any], key: str) -> bool:
    names = [item.get(key) for item in items if isinstance(item, dict)]
    return len(names) == len(items) and None not in names and len(set(map(str, names))) == len(names)


def _unknown(value: Any) -> bool:
    return isinstance(value, str) and texts.has_expressions(value)


def _shown(obj: Object) -> str:
    metadata = obj.get("metadata") or {}
    return f"{obj.get('kind')} {metadata.get('name')}"


def summary(differences: Iterable[Difference]) -> str:
    """`1 to create, 2 to change`."""
    counts: dict[str, int] = {}
    for each in differences:
        counts[each.action] = counts.get(each.action, 0) + 1
    named = [f"{counts[action]} to {action}" for action in (CREATE, CHANGE, REPLACE, DELETE) if action in counts]
    return ", ".join(named) or "nothing changes"
