"""Collections: every combination of what the iterators run over, and observed objects in the order of the desired ones."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from sliceworks.graph.identities import identity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sliceworks.graph.model import Object


def combinations(lists: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """One value for each iterator, the last one changing fastest."""
    for values in product(*lists.values()):
        yield dict(zip(lists, values, strict=True))


def arranged(observed: Sequence[Object], desired: Sequence[Object]) -> list[Object]:
    """The observed objects that are desired, in the order of the desired ones."""
    found = {identity(one): one for one in observed}
    return [found[key] for one in desired if (key := identity(one)) in found]
