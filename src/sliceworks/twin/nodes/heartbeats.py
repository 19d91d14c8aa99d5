"""Heartbeats: the lease of each node that is up, and now and then the times in its conditions.

A real node renews its lease every ten seconds. Ten thousand nodes that do so in virtual time would be all that a rehearsal does: so
a twin's nodes are `quiet`. The lease is written once and asks to be waited for as long as a year; when a node falls silent it asks
for no more than any lease does, and the time without heartbeats counts from then.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, NotFound
from sliceworks.kube.resources import owner_reference
from sliceworks.kube.well_known import LEASE, NODE

if TYPE_CHECKING:
    from sliceworks.kube.client import Client

Obj = dict[str, Any]
NAMESPACE = "kube-node-lease"
LEASE_SECONDS, QUIET_SECONDS = 40, 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Rhythm:
    """How often heartbeats are sent, in seconds: the lease, and the conditions' times. 0 is never."""

    lease: float = 10.0
    conditions: float = 300.0

    @property
    def quiet(self) -> bool:
        """Whether a lease is written once and never renewed."""
        return not self.lease


QUIET = Rhythm(0.0, 0.0)


class Heartbeats:
    """Writes the heartbeats of nodes, when it is told to."""

    def __init__(self, client: Client, rhythm: Rhythm) -> None:
        self._client = client
        self.rhythm = rhythm
        self._leased: set[str] = set()
        self._told: dict[str, float] = {}

    async def beat(self, node: Obj) -> None:
        """Renew a node's lease, or make it."""
        name = node["metadata"]["name"]
        moment = clock.micro_timestamp()
        seconds = QUIET_SECONDS if self.rhythm.quiet else LEASE_SECONDS
        if name in self._leased:
            try:
                change = {"spec": {"renewTime": moment, "leaseDurationSeconds": seconds}}
                await self._client.patch(LEASE, name, change, NAMESPACE)
            except NotFound:
                self._leased.discard(name)
                await self.beat(node)
        else:
            self._leased.add(name)
            try:
                await self._client.create(_lease(node, moment, seconds), NAMESPACE, resource=LEASE)
            except AlreadyExists:
                await self.beat(node)
        await self._conditions(node)

    async def fall_silent(self, node: Obj) -> None:
        """From now on no heartbeats come; a quiet lease says so."""
        name = node["metadata"]["name"]
        self._told.pop(name, None)
        if self.rhythm.quiet and name in self._leased:
            change = {"spec": {"renewTime": clock.micro_timestamp(), "leaseDurationSeconds": LEASE_SECONDS}}
            await self._client.patch(LEASE, name, change, NAMESPACE)

    def forget(self, name: str) -> None:
        """The node is gone; its lease goes with it."""
        self._leased.discard(name)
        self._told.pop(name, None)

    async def _conditions(self, node: Obj) -> None:
        name, now = node["metadata"]["name"], clock.loop_time()
        if not self.rhythm.conditions or now - self._told.setdefault(name, now) < self.rhythm.conditions:
            return
        self._told[name] = now
        moment = clock.timestamp()
        conditions = [{**item, "lastHeartbeatTime": moment} for item in (node.get("status") or {}).get("conditions") or ()]
        change = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "status": {"conditions": conditions}}
        await self._client.patch(NODE, name, change, subresource="status")


def _lease(node: Obj, moment: str, seconds: int) -> Obj:
    name = node["metadata"]["name"]
    owner = owner_reference({"apiVersion": "v1", "kind": "Node", **node}, controller=False, block=False)
    del owner["controller"], owner["blockOwnerDeletion"]
    metadata: Obj = {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]}
    spec = {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": moment}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
