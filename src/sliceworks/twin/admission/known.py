"""The objects that admission asks for on every write, held ready: read from the store's changes instead of decoded each time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

QUOTAS = "/resourcequotas"
HELD = frozenset(
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


class Change(Protocol):
    """What the store tells of a write."""

    @property
    def type(self) -> str: ...
    @property
    def resource(self) -> str: ...
    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def obj(self) -> dict[str, Any]: ...


class Known:
    """`get` and `find_all` for an Admission: from memory for HELD resources, from the store for any other."""

    def __init__(
        self,
        get: Callable[[str, str, str], Mapping[str, Any] | None],
        find_all: Callable[[str, str], Iterable[Mapping[str, Any]]],
    ) -> None:
        self._get = get
        self._find_all = find_all
        self._held: dict[str, dict[str, dict[str, Mapping[str, Any]]]] = {resource: {} for resource in HELD}

    def observe(self, change: Change) -> None:
        """Take in a change; meant for the store's `subscribe`."""
        held = self._held.get(change.resource)
        if held is None:
            return
        if change.type == "DELETED":
            held.get(change.namespace, {}).pop(change.name, None)
        else:
            held.setdefault(change.namespace, {})[change.name] = change.obj

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        held = self._held.get(resource)
        return held.get(namespace, {}).get(name) if held is not None else self._get(resource, namespace, name)

    def find_all(self, resource: str, namespace: str) -> Iterable[Mapping[str, Any]]:
        held = self._held.get(resource)
        if held is None:
            return self._find_all(resource, namespace)
        found = held.get(namespace)
        if not found:
            return ()
        if resource == QUOTAS:
            # What a quota has left must be the newest there is: several writes may be charged before the first is announced.
            return [quota for name in found if (quota := self._get(resource, namespace, name)) is not None]
        return tuple(found.values())
