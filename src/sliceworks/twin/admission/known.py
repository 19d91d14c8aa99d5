"""The objects that admission asks for on every write, decoded once for each state they are in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

QUOTAS = "/resourcequotas"
_HELD = frozenset(
    {
        "/namespaces",
        "/serviceaccounts",
        "/limitranges",
        QUOTAS,
        "scheduling.k8s.io/priorityclasses",
        "storage.k8s.io/storageclasses",
        "networking.k8s.io/ingressclasses",
        "node.k8s.io/runtimeclasses",
    }
)
_MOST = 10_000


class Entry(Protocol):
    """An object in one state."""

    @property
    def resource(self) -> str: ...
    @property
    def key(self) -> str: ...
    def object(self) -> dict[str, Any]: ...


class Store(Protocol):
    """What is read from."""

    def get(self, resource: str, namespace: str, name: str) -> Any: ...
    def holds(self, resource: str) -> bool: ...
    def scan(self, resource: str, namespace: str | None = None) -> Iterator[Any]: ...


class Known:
    """`get` and `find_all` for an Admission: always the newest state, which must not be changed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decoded: dict[tuple[str, str], tuple[Entry, Mapping[str, Any]]] = {}

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        entry = self._store.get(resource, namespace, name)
        return self._read(entry) if entry is not None else None

    def find_all(self, resource: str, namespace: str) -> list[Mapping[str, Any]]:
        if not self._store.holds(resource):
            return []
        return [self._read(entry) for entry in self._store.scan(resource, namespace or None)]

    def _read(self, entry: Entry) -> Mapping[str, Any]:
        if entry.resource not in _HELD:
            return entry.object()
        place = (entry.resource, entry.key)
        held = self._decoded.get(place)
        if held is not None and held[0] is entry:
            return held[1]
        if len(self._decoded) >= _MOST:
            self._decoded.clear()
        obj = entry.object()
        self._decoded[place] = (entry, obj)
        return obj
