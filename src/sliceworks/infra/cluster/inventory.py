"""What an environment has put into a cluster, written down in the cluster itself: a ConfigMap of its own.

An object is written down before it is applied and struck out after it is gone, so that whoever goes on later knows of everything,
wherever somebody else was stopped. What was there before and is not ours is marked: it is never deleted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import SliceworksError
from sliceworks.infra.cluster.objects import SYSTEM, Identity, namespace, owned, owner
from sliceworks.kube.well_known import CONFIG_MAP

if TYPE_CHECKING:
    from sliceworks.kube.client import Client

Object = dict[str, Any]
MANAGER = "sliceworks-environment"
"""The field manager of everything that environments apply."""
_OBJECTS, _CHECKSUMS = "objects.json", "checksums.json"


@dataclass(frozen=True, slots=True)
class Entry:
    """One object, the step that it is of, and whether it was there before."""

    step: str
    who: Identity
    adopted: bool = False


@dataclass(slots=True)
class Inventory:
    """All entries of one environment, in the order in which they were applied first; and what was fetched, by its SHA-256."""

    environment: str
    entries: dict[Identity, Entry] = field(default_factory=dict)
    checksums: dict[str, str] = field(default_factory=dict)
    changed: bool = False

    def note(self, entry: Entry) -> None:
        """Write an object down. One that was there before stays marked so."""
        known = self.entries.get(entry.who)
        if known is None or known.step != entry.step:
            self.entries[entry.who] = Entry(entry.step, entry.who, known.adopted if known else entry.adopted)
            self.changed = True

    def note_checksum(self, title: str, checksum: str) -> None:
        """Write down what was fetched."""
        if self.checksums.get(title) != checksum:
            self.checksums[title] = checksum
            self.changed = True

    def strike(self, who: Identity) -> None:
        """Forget an object."""
        self.changed = self.entries.pop(who, None) is not None or self.changed

    def installed(self, step: str) -> bool:
        """Whether a step has brought definitions into the cluster that were not there before."""
        return any(
            each.step == step and not each.adopted and each.who.kind == "CustomResourceDefinition" for each in self.entries.values()
        )

    async def begin(self, client: Client) -> None:
        """Have a place for it: a namespace that all environments of a cluster share."""
        await client.apply(namespace(SYSTEM), field_manager=MANAGER, force=True)

    async def save(self, client: Client) -> None:
        """Write it into the cluster, where something has changed."""
        if not self.changed:
            return
        await client.apply(self._config_map(), field_manager=MANAGER, force=True)
        self.changed = False

    def _config_map(self) -> Object:
        listed = [[each.step, *each.who, each.adopted] for each in self.entries.values()]
        data = {_OBJECTS: orjson.dumps(listed).decode(), _CHECKSUMS: orjson.dumps(self.checksums).decode()}
        metadata = {"name": name_of(self.environment), "namespace": SYSTEM}
        return owned({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}, self.environment)


def name_of(environment: str) -> str:
    """The name of the ConfigMap."""
    return f"environment-{owner(environment)}"


async def read(client: Client, environment: str) -> Inventory:
    """The inventory of an environment; an empty one where there is none yet."""
    found = await client.find(CONFIG_MAP, name_of(environment), SYSTEM)
    if found is None:
        return Inventory(environment)
    data = found.get("data") or {}
    try:
        listed = orjson.loads(data.get(_OBJECTS) or b"[]")
        entries = [Entry(step, Identity(*who), adopted) for step, *who, adopted in listed]
        checksums = dict(orjson.loads(data.get(_CHECKSUMS) or b"{}"))
    except (ValueError, TypeError) as error:
        raise SliceworksError(
            f"ConfigMap {SYSTEM}/{name_of(environment)} cannot be read: {error}",
            hint="delete it; `sliceworks env apply` makes it anew",
        ) from error
    return Inventory(environment, {each.who: each for each in entries}, checksums)
