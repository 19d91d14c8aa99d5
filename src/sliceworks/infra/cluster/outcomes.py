"""What became of an object, or would become of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from sliceworks.infra.cluster.objects import Identity


class Outcome(NamedTuple):
    """One object: create, update, noop, delete, refused, or keep; the last two with the reason."""

    step: str
    who: Identity
    action: str
    reason: str = ""
