"""Kueue's visibility API: who waits in a queue, in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import BadRequest, MethodNotAllowed, NotFound
from sliceworks.twin.workloads.kueue.keys import WORKLOADS, Obj
from sliceworks.twin.workloads.kueue.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.api.paths import Target
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.kueue.core.model import Item

GROUP = "visibility.kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
KIND, BELOW = "PendingWorkloadsSummary", "pendingworkloads"
_MOST = 1000
_OWNER = ("apiVersion", "kind", "name", "uid")


class Visibility:
    """Answers `clusterqueues/Q/pendingworkloads` and `namespaces/N/localqueues/Q/pendingworkloads`."""

    def __init__(self, world: World) -> None:
        self._world, self._get = world, world.get

    @property
    def _ledger(self) -> Ledger:
        """Kueue's own, which is another one when Kueue was started again."""
        return self._world.shared(Ledger)

    def answer(self, target: Target, params: Mapping[str, list[str]]) -> Obj:
        """The summary that a path asks for."""
        if target.subresource != BELOW or target.version not in VERSIONS:
            raise NotFound("the server could not find the requested resource", details={})
        if target.verb != "get":
            raise MethodNotAllowed("the server does not allow this method on the requested resource", details={})
        offset, limit = _number(params, "offset", 0), _number(params, "limit", _MOST)
        rows = self._in_local(target) if target.namespace else self._in_cluster(target)
        items = [self._row(*row) for row in rows[offset : offset + limit]]
        return {
            "kind": KIND,
            "apiVersion": f"{GROUP}/{target.version}",
            "metadata": {},
            "items": [item for item in items if item is not None],
        }

    def _in_cluster(self, target: Target) -> list[tuple[Item, int, int]]:
        pending = self._ledger.brain.pending.get(target.name)
        if target.resource != "clusterqueues" or pending is None:
            raise _unknown("clusterqueue", target.name)
        seen: dict[str, int] = {}
        found = []
        for position, item in enumerate(pending.ordered()):
            found.append((item, position, seen.get(item.queue[1], 0)))
            seen[item.queue[1]] = found[-1][2] + 1
        return found

    def _in_local(self, target: Target) -> list[tuple[Item, int, int]]:
        key = (target.namespace, target.name)
        name = self._ledger.brain.local.get(key)
        if target.resource != "localqueues" or name is None:
            raise _unknown("localqueue", target.name)
        pending = self._ledger.brain.pending.get(name)
        ordered = enumerate(pending.ordered()) if pending is not None else ()
        mine = [(item, position) for position, item in ordered if item.queue == key]
        return [(item, position, index) for index, (item, position) in enumerate(mine)]

    def _row(self, item: Item, position: int, in_local: int) -> Obj | None:
        obj = self._get(WORKLOADS, *item.key)
        if obj is None:
            return None
        metadata: Obj = {key: obj["metadata"][key] for key in ("name", "namespace", "creationTimestamp")}
        owners: list[Any] = [{key: ref[key] for key in _OWNER} for ref in obj["metadata"].get("ownerReferences") or ()]
        return {
            "metadata": metadata | ({"ownerReferences": owners} if owners else {}),
            "priority": item.priority,
            "localQueueName": item.queue[1],
            "positionInClusterQueue": position,
            "positionInLocalQueue": in_local,
        }


def _number(params: Mapping[str, list[str]], name: str, default: int) -> int:
    text = params.get(name, [""])[0]
    if not text:
        return default
    if not text.isdigit():
        raise BadRequest(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)


def _unknown(kind: str, name: str) -> NotFound:
    details = {"name": name, "group": GROUP, "kind": kind}
    return NotFound(f'{kind}.{GROUP} "{name}" not found', details=details)
