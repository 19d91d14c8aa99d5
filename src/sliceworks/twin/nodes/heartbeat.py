"""Heartbeats of nodes: leases and condition times.

A kubelet renews its lease every ten seconds, which would dominate a rehearsal of 10,000 nodes in virtual time. The nodes of a
twin are therefore `quiet`: the lease is written once with a duration of a year. When a node fails, its lease gets the usual
duration and expires.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, NotFound
from sliceworks.kube.resources import LEASE, NODE, owner_reference

if TYPE_CHECKING:
    from sliceworks.kube.client import Client

Obj = dict[str, Any]
NAMESPACE = "kube-node-lease"
LEASE_SECONDS, QUIET_SECONDS = 40, 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class HeartbeatIntervals:
    """Seconds between heartbeats: lease renewals and condition updates. 0 is never."""

    lease: float = 10.0
    conditions: float = 300.0

    @property
    def is_quiet(self) -> bool:
        """Whether a lease is written once and never renewed."""
        return not self.lease


QUIET = HeartbeatIntervals(0.0, 0.0)


class Heartbeats:
    """Writes the heartbeats of nodes."""

    def __init__(self, client: Client, intervals: HeartbeatIntervals) -> None:
        self._client = client
        self.intervals = intervals
        self._leased: set[str] = set()
        self._reported_at: dict[str, float] = {}

    async def renew(self, node: Obj) -> None:
        """Renew or create the lease of a node, and refresh its conditions."""
        name = node["metadata"]["name"]
        now = clock.micro_timestamp()
        seconds = QUIET_SECONDS if self.intervals.is_quiet else LEASE_SECONDS
        if name in self._leased:
            try:
                change = {"spec": {"renewTime": now, "leaseDurationSeconds": seconds}}
                await self._client.patch(LEASE, name, change, NAMESPACE)
            except NotFound:
                self._leased.discard(name)
                await self.renew(node)
        else:
            self._leased.add(name)
            try:
                await self._client.create(_lease(node, now, seconds), NAMESPACE, resource=LEASE)
            except AlreadyExists:
                await self.renew(node)
        await self._refresh_conditions(node)

    async def stop_renewing(self, node: Obj) -> None:
        """Stop the heartbeats of a failed node; a quiet lease gets the usual duration."""
        name = node["metadata"]["name"]
        self._reported_at.pop(name, None)
        if self.intervals.is_quiet:
            change = {"spec": {"renewTime": clock.micro_timestamp(), "leaseDurationSeconds": LEASE_SECONDS}}
            with contextlib.suppress(NotFound):  # the node never had a lease
                await self._client.patch(LEASE, name, change, NAMESPACE)

    def delete_node(self, name: str) -> None:
        """Forget a deleted node; its lease is garbage-collected."""
        self._leased.discard(name)
        self._reported_at.pop(name, None)

    async def _refresh_conditions(self, node: Obj) -> None:
        name, now = node["metadata"]["name"], clock.loop_time()
        if not self.intervals.conditions or now - self._reported_at.setdefault(name, now) < self.intervals.conditions:
            return
        self._reported_at[name] = now
        timestamp = clock.timestamp()
        conditions = [{**item, "lastHeartbeatTime": timestamp} for item in (node.get("status") or {}).get("conditions") or ()]
        change = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "status": {"conditions": conditions}}
        await self._client.patch(NODE, name, change, subresource="status")


def _lease(node: Obj, renew_time: str, seconds: int) -> Obj:
    name = node["metadata"]["name"]
    owner = owner_reference({"apiVersion": "v1", "kind": "Node", **node}, controller=False, block=False)
    del owner["controller"], owner["blockOwnerDeletion"]
    metadata: Obj = {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]}
    spec = {"holderIdentity": name, "leaseDurationSeconds": seconds, "renewTime": renew_time}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
