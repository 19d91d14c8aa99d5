"""Who looks at which objects of others: a change of one brings up the instances that refer to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from sliceworks.kube.selectors import from_label_selector

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sliceworks.controllers.graphs.records import Owner, Record
    from sliceworks.graph.model import Lookup
    from sliceworks.kube.resources import Resource
    from sliceworks.kube.selectors import LabelSelector

    Wanted: TypeAlias = Mapping[str, tuple[Resource, Lookup]]


@dataclass(slots=True)
class _Seen:
    """The references to one kind."""

    by_name: dict[tuple[str, str], set[Owner]] = field(default_factory=dict)
    by_selector: dict[tuple[Owner, str], tuple[str, LabelSelector]] = field(default_factory=dict)


class Lookups:
    """The references of all instances."""

    def __init__(self) -> None:
        self._kinds: dict[Resource, _Seen] = {}
        self._of: dict[Owner, dict[str, tuple[Resource, Lookup]]] = {}

    def set(self, owner: Owner, wanted: Wanted) -> None:
        """An instance refers to these, by the ids of its resources, and to nothing else."""
        before = self._of.get(owner, {})
        if before == wanted:
            return
        for name, (resource, lookup) in before.items():
            self._leave(owner, name, resource, lookup)
        for name, (resource, lookup) in wanted.items():
            self._enter(owner, name, resource, lookup)
        if wanted:
            self._of[owner] = dict(wanted)
        else:
            self._of.pop(owner, None)

    def of(self, owner: Owner) -> Wanted:
        """What an instance refers to."""
        return self._of.get(owner, {})

    def interested(self, resource: Resource, records: Iterable[Record]) -> Iterator[Owner]:
        """The instances that refer to an object: as it is, or as it was."""
        seen = self._kinds.get(resource)
        if seen is None:
            return
        for record in records:
            yield from seen.by_name.get((record.namespace, record.name), ())
            for (owner, _), (namespace, selector) in seen.by_selector.items():
                if namespace in ("", record.namespace) and selector.matches(record.labels):
                    yield owner

    def _enter(self, owner: Owner, name: str, resource: Resource, lookup: Lookup) -> None:
        seen = self._kinds.setdefault(resource, _Seen())
        if lookup.selector is None:
            seen.by_name.setdefault((lookup.namespace, lookup.name), set()).add(owner)
        else:
            seen.by_selector[owner, name] = (lookup.namespace, from_label_selector(lookup.selector))

    def _leave(self, owner: Owner, name: str, resource: Resource, lookup: Lookup) -> None:
        seen = self._kinds[resource]
        seen.by_selector.pop((owner, name), None)
        owners = seen.by_name.get((lookup.namespace, lookup.name))
        if owners is not None:
            owners.discard(owner)
            if not owners:
                del seen.by_name[lookup.namespace, lookup.name]
