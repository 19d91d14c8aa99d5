"""A cache of objects with indexes: what an informer keeps, and what everybody who shares it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from sliceworks.kube.resources import Key, Object, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sliceworks.kube.selectors import LabelSelector

    Index: TypeAlias = Callable[[Object], Iterable[str]]

BY_NAMESPACE = "namespace"


def in_namespace(obj: Object) -> Iterable[str]:
    """The index by namespace, which every store has."""
    return (obj["metadata"].get("namespace", ""),)


class Store:
    """Objects by namespace and name. They belong to everybody: read them, copy them, never change them."""

    def __init__(self) -> None:
        self._objects: dict[Key, Object] = {}
        self._indexes: dict[str, Index] = {}
        self._found: dict[str, dict[str, dict[Key, None]]] = {}
        self.add_index(BY_NAMESPACE, in_namespace)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[Object]:
        return iter(list(self._objects.values()))

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def get(self, name: str, namespace: str = "") -> Object | None:
        """One object, where it is known."""
        return self._objects.get(Key(namespace, name))

    def keys(self) -> list[Key]:
        """Which objects are known."""
        return list(self._objects)

    def select(self, namespace: str | None = None, labels: LabelSelector | None = None) -> list[Object]:
        """The objects of one namespace, or of all, that carry the labels."""
        found = list(self._objects.values()) if namespace is None else self.by_index(BY_NAMESPACE, namespace)
        if labels is None or labels.everything:
            return found
        return [obj for obj in found if labels.matches(obj["metadata"].get("labels"))]

    def by_index(self, index: str, value: str) -> list[Object]:
        """The objects for which an index gives this value, in the order they came."""
        return [self._objects[key] for key in self._found[index].get(value, ())]

    def add_index(self, name: str, values_of: Index) -> None:
        """Keep another index, also of what is here already. The same name and function may be added again."""
        if self._indexes.get(name) is values_of:
            return
        if name in self._indexes:
            raise ValueError(f"there is another index of the name {name}")
        self._indexes[name] = values_of
        self._found[name] = {}
        for key, obj in self._objects.items():
            self._enter(name, key, values_of(obj))

    def put(self, obj: Object) -> Object | None:
        """Take in an object; returns the one it replaces."""
        key = key_of(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        for name, values_of in self._indexes.items():
            after = tuple(values_of(obj))
            if old is not None:
                before = tuple(values_of(old))
                if before == after:
                    continue
                self._leave(name, key, before)
            self._enter(name, key, after)
        return old

    def remove(self, key: Key) -> Object | None:
        """Forget an object; returns it where it was known."""
        old = self._objects.pop(key, None)
        if old is not None:
            for name, values_of in self._indexes.items():
                self._leave(name, key, values_of(old))
        return old

    def _enter(self, name: str, key: Key, values: Iterable[str]) -> None:
        for value in values:
            self._found[name].setdefault(value, {})[key] = None

    def _leave(self, name: str, key: Key, values: Iterable[str]) -> None:
        entries = self._found[name]
        for value in values:
            keys = entries[value]
            keys.pop(key, None)
            if not keys:
                del entries[value]
