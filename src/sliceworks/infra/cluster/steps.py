"""Steps: what is applied together, in order, and what must hold before the next one begins. Data alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sliceworks.infra.cluster.objects import identity

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sliceworks.infra.cluster.objects import Identity, Object
    from sliceworks.kube.options import FieldValidation


@dataclass(frozen=True, slots=True)
class Served:
    """The cluster serves these kinds, each an `apiVersion` and a kind."""

    kinds: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Available:
    """The pods of a Deployment or a StatefulSet are ready."""

    kind: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Answers:
    """Webhooks answer: the cluster would take this object. It is never made."""

    who: str
    probe: Object


@dataclass(frozen=True, slots=True)
class Holds:
    """An object's condition is true, or where `field` is given, that field of its status."""

    api_version: str
    kind: str
    namespace: str
    name: str
    condition: str = "Ready"
    field: str = ""


Wait = Served | Available | Answers | Holds


@dataclass(frozen=True, slots=True)
class Step:
    """Objects that belong together; `waits` come after them. What others wrote may have fields that a cluster does not know."""

    name: str
    objects: tuple[Object, ...] = ()
    waits: tuple[Wait, ...] = ()
    validation: FieldValidation = "Strict"
    keeps: tuple[Identity, ...] = ()
    """Objects that are there already and stay as they are."""


def available(objects: Iterable[Object]) -> tuple[Available, ...]:
    """That everything among these objects that runs does run."""
    running = (identity(each) for each in objects if each["kind"] in ("Deployment", "StatefulSet"))
    return tuple(Available(who.kind, who.namespace, who.name) for who in running)
