"""ApplySets, as Kubernetes' enhancement 3659 has them: an id for the parent, which tells what its members are."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import names as grammar
from sliceworks.base.errors import SliceworksError
from sliceworks.controllers.graphs import names
from sliceworks.kube.resources import gvk_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TOOLING = f"kro/{names.COMPATIBLE_WITH}"
_ANNOTATIONS = (names.TOOLING, names.GROUP_KINDS, names.NAMESPACES)


class BrokenInventory(SliceworksError):
    """What the parent says of its members cannot be trusted: nothing may be deleted by it."""


def set_id(parent: Mapping[str, Any]) -> str:
    """The id of the ApplySet that an object is the parent of."""
    metadata, gvk = parent["metadata"], gvk_of(parent)
    text = ".".join((metadata["name"], metadata.get("namespace", ""), gvk.kind, gvk.group))
    return f"applyset-{_digest(text)}-v1"


@dataclass(frozen=True, slots=True)
class Inventory:
    """The kinds (`Deployment.apps`) that an instance's objects are of, and the namespaces beside its own they live in."""

    group_kinds: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()

    def __or__(self, other: Inventory) -> Inventory:
        return Inventory(self.group_kinds | other.group_kinds, self.namespaces | other.namespaces)

    def covers(self, other: Inventory) -> bool:
        """Whether everything of the other one is in here."""
        return self.group_kinds >= other.group_kinds and self.namespaces >= other.namespaces

    def annotations(self, of: str) -> dict[str, str]:
        """How the parent with this id writes it."""
        kinds, spaces = ",".join(sorted(self.group_kinds)), ",".join(sorted(self.namespaces))
        digest = f"sha256:{_digest(chr(0).join((of, kinds, spaces)))}"
        return {names.TOOLING: TOOLING, names.GROUP_KINDS: kinds, names.NAMESPACES: spaces, names.INVENTORY_HASH: digest}


def group_kind(group: str, kind: str) -> str:
    """A kind as an inventory writes it."""
    return f"{kind}.{group}" if group else kind


def split_group_kind(text: str) -> tuple[str, str]:
    """Group and kind of an entry."""
    kind, _, group = text.partition(".")
    return group, kind


def is_parent(obj: Mapping[str, Any]) -> bool:
    """Whether an object says anything of an ApplySet."""
    metadata = obj["metadata"]
    annotations = metadata.get("annotations") or {}
    return names.SET_ID in (metadata.get("labels") or {}) or any(
        name in annotations for name in (*_ANNOTATIONS, names.INVENTORY_HASH)
    )


def read(obj: Mapping[str, Any]) -> Inventory:
    """The inventory on a parent; BrokenInventory when somebody tampered with it."""
    metadata = obj["metadata"]
    annotations: dict[str, str] = metadata.get("annotations") or {}
    expected, found = set_id(obj), (metadata.get("labels") or {}).get(names.SET_ID, "")
    if found != expected:
        raise BrokenInventory(f'invalid {names.SET_ID} label: got "{found}", want "{expected}"')
    if not annotations.get(names.TOOLING, "").startswith("kro/"):
        raise BrokenInventory(f'invalid {names.TOOLING} annotation: "{annotations.get(names.TOOLING, "")}" is not owned by kro')
    for name in (names.GROUP_KINDS, names.NAMESPACES):
        if name not in annotations:
            raise BrokenInventory(f"missing required {name} annotation")
    inventory = _parse(annotations)
    wanted = inventory.annotations(expected)[names.INVENTORY_HASH]
    # Parents that an early kro wrote have no hash.
    if (actual := annotations.get(names.INVENTORY_HASH)) is not None and actual != wanted:
        raise BrokenInventory(f'invalid {names.INVENTORY_HASH} annotation: got "{actual}", want "{wanted}"')
    return inventory


def _parse(annotations: Mapping[str, str]) -> Inventory:
    kinds = _entries(annotations[names.GROUP_KINDS])
    for entry in kinds:
        group, kind = split_group_kind(entry)
        if not kind or any(letter.isspace() for letter in kind) or (group and grammar.dns1123_subdomain_errors(group)):
            raise BrokenInventory(f'invalid {names.GROUP_KINDS} annotation: invalid kind "{entry}"')
    spaces = _entries(annotations[names.NAMESPACES])
    for entry in spaces:
        if grammar.dns1123_label_errors(entry):
            raise BrokenInventory(f'invalid {names.NAMESPACES} annotation: invalid namespace "{entry}"')
    return Inventory(frozenset(kinds), frozenset(spaces))


def _entries(text: str) -> Iterable[str]:
    return [entry.strip() for entry in text.split(",")] if text else []


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
