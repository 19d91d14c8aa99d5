"""What is special about a kind: its names, what a client may not set, and the fields that can be selected on.

Most kinds need only a row of data. Functions are for what a row cannot say; they change an object in place before it is validated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.base import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from ipaddress import IPv4Network

Obj = dict[str, Any]


class ClusterView(Protocol):
    """Other objects, for decisions that depend on them. Resources are named by key, such as `apps/deployments`."""

    service_network: IPv4Network

    def get(self, resource: str, namespace: str, name: str) -> Obj | None: ...

    def list(self, resource: str, namespace: str | None = None) -> Iterable[Obj]: ...

    def holding(self, resource: str, text: str) -> Iterable[Obj]: ...


def _nothing_to_add(obj: Obj) -> None:
    return None


def _nothing(obj: Obj, cluster: ClusterView) -> None:
    return None


def _nothing_changed(new: Obj, old: Obj, cluster: ClusterView) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Strategy:
    """How a kind departs from the rule."""

    name_errors: Callable[[str], list[str]] = names.dns1123_subdomain_errors
    generation: bool = False
    has_status: bool = False
    """Whether `status` belongs to the status subresource alone."""
    status_on_create: bool = False
    """Whether a new object may bring its status along all the same."""
    status_resets: Mapping[str, Any] = field(default_factory=lambda: {"f:spec": {}})
    """The fields that an update through the status subresource leaves as they were, whoever sends them."""
    create_on_update: bool = False
    unconditional_update: bool = True
    returns_deleted: bool = False
    graceful: bool = False
    """Whether deletion waits for the object's own grace period."""
    fields: Mapping[str, Callable[[Obj], str]] = field(default_factory=dict)
    complete: Callable[[Obj], None] = _nothing_to_add
    """Adds what counts as written by the client: a part of the object's defaults."""
    prepare_create: Callable[[Obj, ClusterView], None] = _nothing
    prepare_update: Callable[[Obj, Obj, ClusterView], None] = _nothing_changed


def field_of(path: str, default: str = "") -> Callable[[Obj], str]:
    """Reads a selectable field: text as it stands, numbers and booleans as Go prints them."""
    parts = path.split(".")

    def read(obj: Obj) -> str:
        value: Any = obj
        for part in parts:
            if not isinstance(value, dict):
                return default
            value = value.get(part)
        if value is None:
            return default
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return read
