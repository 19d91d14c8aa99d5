"""What a twin's cloud still has: whatever would go on to cost, or be in the way of the next who make the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sliceworks.twin.store.store import Store

_CLOUD = "cloud."
_FREE = ("operations", "settings", "services", "policies", "faults", "jobs", "uploads")
"""Records of what was done, and what belongs to a project and not to anybody's environment."""


def leftovers(store: Store) -> tuple[str, ...]:
    """Each by its service, kind and name."""
    return tuple(
        f"{resource.removeprefix(_CLOUD)} {entry.name}"
        for resource in sorted(store.resources())
        if resource.startswith(_CLOUD) and resource.rpartition("/")[2].removeprefix(_CLOUD) not in _FREE
        for entry in store.scan(resource)
    )
