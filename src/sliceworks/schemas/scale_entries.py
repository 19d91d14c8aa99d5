"""Owners of `replicas`, seen from the scale subresource: entries of the parent become entries of the Scale, and back again.

A write to a scale is a write to a small object of its own (`autoscaling/v1` Scale). Before it, `to_scale` gives that object the
owners of the parent's replicas; after it, `to_parent` gives the parent the owners that the scale has now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.fieldsets import contains, difference, single
from sliceworks.schemas.managers import Entry, changed, entry, identity, in_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.schemas.managers import Identity

    Paths = Mapping[str, tuple[str, ...] | None]
    """By version of the parent: the path to its replicas, such as `("f:spec", "f:replicas")`; None for a version without scale."""

SCALE = "autoscaling/v1"
REPLICAS = ("f:spec", "f:replicas")


def to_scale(entries: list[Entry], paths: Paths) -> list[Entry]:
    """The entries of the scale: those of the parent that own its replicas."""
    return in_order(
        {**changed(one, single(REPLICAS)), "apiVersion": SCALE}
        for one in entries
        if (path := paths.get(one["apiVersion"])) and contains(one["fieldsV1"], path)
    )


def to_parent(entries: list[Entry], scale: list[Entry], api_version: str, paths: Paths) -> list[Entry]:
    """The entries of the parent after a write to its scale. As in Kubernetes, owners through the scale have no time."""
    owners = {identity(one): one for one in scale}
    kept = [left for one in entries if (left := _left(one, owners, paths)) is not None]
    path = paths.get(api_version)
    for one in owners.values():
        if path and contains(one["fieldsV1"], REPLICAS):
            subresource = one.get("subresource", "")
            kept.append(entry(one["manager"], one["operation"], api_version, fields=single(path), subresource=subresource))
    return in_order(kept)


def _left(one: Entry, owners: dict[Identity, Entry], paths: Paths) -> Entry | None:
    """What an entry of the parent keeps; None for nothing. An owner that the scale still names stays as it was."""
    if one["apiVersion"] not in paths:
        return None
    path = paths[one["apiVersion"]]
    if not path or not contains(one["fieldsV1"], path):
        return one
    if owners.pop(identity(one), None) is not None:
        return one
    rest = difference(one["fieldsV1"], single(path))
    return changed(one, rest) if rest else None
