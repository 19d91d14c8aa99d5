"""The controller of Workloads: checks, stops, time-outs, deactivation, and why one is not even in a queue."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.workloads.kueue import conditions, keys
from sliceworks.twin.workloads.kueue.configuration import Configuration
from sliceworks.twin.workloads.kueue.deadlines import asked_again_at, seconds_to, to_be_ready, to_run
from sliceworks.twin.workloads.kueue.hands import Hands
from sliceworks.twin.workloads.kueue.keys import ADMITTED, DEACTIVATING, EVICTED, FINISHED, REQUEUED, RESERVED, WORKLOADS, Obj
from sliceworks.twin.workloads.kueue.ledger import Ledger, checks_for, spec_of, stopped

if TYPE_CHECKING:
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.kueue.core.model import Key

_AFTER = {"Deactivated": ("Reactivated", "The workload was reactivated")}
_BACKOFFS = ("PodsReadyTimeout", "AdmissionCheck")
_RESTARTED = {
    "LocalQueueStopped": ("LocalQueueRestarted", "The LocalQueue was restarted after being stopped"),
    "ClusterQueueStopped": ("ClusterQueueRestarted", "The ClusterQueue was restarted after being stopped"),
}


class Workloads(Controller[tuple[str, str]]):
    """Each pass makes at most one change: the change brings the next pass."""

    watches = frozenset({WORKLOADS, keys.LOCAL_QUEUES, keys.CLUSTER_QUEUES, keys.CHECKS, keys.FLAVORS})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._ledger = world.shared(Ledger)
        self._hands = Hands(world, keys.CONTROLLER)
        self._config = Configuration(world.get)
        self._seen: dict[str, Any] = {}

    def observe(self, change: Change) -> None:
        if change.resource == WORKLOADS:
            self.queue.add((change.namespace, change.name))
        elif change.resource == keys.LOCAL_QUEUES:
            self._touch(change, [(change.namespace, change.name)])
        else:
            self._touch(change, list(self._ledger.brain.local))

    def _touch(self, change: Change, locals_: list[Key]) -> None:
        """Workloads of queues whose specs have changed, or whether they work."""
        active = {name: leaf.active for name, leaf in self._ledger.brain.tree.leaves.items()}
        known = f"{change.resource}/{change.namespace}/{change.name}"
        now = (change.type == "DELETED", change.obj.get("spec"), change.obj["metadata"].get("deletionTimestamp"), active)
        if self._seen.get(known) == now:
            return
        self._seen[known] = now
        for local in locals_:
            for key in self._ledger.members.get(local, ()):
                self.queue.add(key)

    async def sync(self, key: tuple[str, str]) -> None:
        obj = self.world.get(WORKLOADS, *key)
        if obj is None:
            return
        metadata = obj["metadata"]
        if not metadata.get("ownerReferences") and metadata.get("deletionTimestamp"):
            await self._hands.drop_finalizer("workloads", obj, keys.IN_USE)
            return
        if conditions.true(obj, FINISHED):
            return
        if await self._retry_time(key, obj):
            return
        done = await (self._while_active(key, obj) if conditions.active(obj) else self._deactivated(key, obj))
        if done or await self._restarted(key, obj) or await self._sync_checks(key, obj) or await self._sync_admitted(key, obj):
            return
        if conditions.true(obj, RESERVED):
            await self._while_reserved(key, obj)
        elif conditions.active(obj):
            await self._outside(key, obj)

    async def _retry_time(self, key: Key, obj: Obj) -> bool:
        """A check that wants to be asked again later says when."""
        latest = asked_again_at(obj)
        if ((obj.get("status") or {}).get("requeueState") or {}).get("requeueAt", "") >= latest:
            return False

        def later(obj: Obj) -> None:
            obj["status"].setdefault("requeueState", {})["requeueAt"] = latest

        await self._hands.status(key, later)
        return True

    async def _while_active(self, key: Key, obj: Obj) -> bool:
        if conditions.true(obj, DEACTIVATING):
            obj["spec"]["active"] = False
            await self._hands.put("workloads", obj)
            return True
        requeue = (obj.get("status") or {}).get("requeueState") or {}
        at = requeue.get("requeueAt")
        if at:
            left = seconds_to(at)
            if left > 0:
                self.queue.add_after(key, left)
                return True
        requeued = conditions.find(obj, REQUEUED)
        held = requeued is not None and requeued["status"] == "False"

        def back(obj: Obj) -> None:
            (obj["status"].get("requeueState") or {}).pop("requeueAt", None)
            if held and requeued is not None and requeued["reason"] in _BACKOFFS:
                conditions.requeued(obj, "BackoffFinished", "The workload backoff was finished", True)
            elif held and requeued is not None and requeued["reason"] in _AFTER:
                conditions.requeued(obj, *_AFTER[requeued["reason"]], True)

        if (at and not conditions.true(obj, RESERVED)) or (held and requeued and requeued["reason"] in (*_BACKOFFS, *_AFTER)):
            return await self._hands.status(key, back) is not None
        return False

    async def _deactivated(self, key: Key, obj: Obj) -> bool:
        target = conditions.find(obj, DEACTIVATING)
        evicted, had = conditions.true(obj, EVICTED), bool((obj.get("status") or {}).get("admission"))
        message, cause = "The workload is deactivated", ""
        if target is not None:
            message, cause = f"{message} due to {target['message']}", target["reason"]

        def stop(obj: Obj) -> None:
            status = obj.setdefault("status", {})
            if target is not None:
                conditions.drop(obj, DEACTIVATING)
            status.pop("requeueState", None)
            if not evicted:
                conditions.evict(obj, "Deactivated", message, cause)

        if evicted and "requeueState" not in (obj.get("status") or {}):
            return False
        written = await self._hands.status(key, stop)
        if written is not None and had and not evicted:
            await self._hands.normal(written, "EvictedDueToDeactivated" + (f"DueTo{cause}" if cause else ""), message)
        return written is not None

    async def _restarted(self, key: Key, obj: Obj) -> bool:
        """A queue that had been stopped goes on."""
        requeued = conditions.find(obj, REQUEUED)
        if requeued is None or requeued["status"] != "False" or requeued["reason"] not in _RESTARTED:
            return False
        local, queue = self._queues(key, obj)
        home = local if requeued["reason"] == "LocalQueueStopped" else queue
        if home is None or stopped(home):
            return False
        reason, message = _RESTARTED[requeued["reason"]]
        await self._hands.status(key, lambda obj: conditions.requeued(obj, reason, message, True))
        return True

    def _queues(self, key: Key, obj: Obj) -> tuple[Obj | None, Obj | None]:
        local = self._ledger.locals.get((key[0], obj["spec"].get("queueName") or ""))
        return local, self._ledger.queues.get(spec_of(local).get("clusterQueue") or "") if local else None

    async def _sync_checks(self, key: Key, obj: Obj) -> bool:
        local, queue = self._queues(key, obj)
        if queue is None or local is None or stopped(local):
            return False
        wanted = checks_for(queue, obj)
        have = {one["name"]: one for one in (obj.get("status") or {}).get("admissionChecks") or ()}
        if wanted == set(have):
            return False
        now = clock.timestamp()
        fresh = [
            have.get(name) or {"name": name, "state": "Pending", "lastTransitionTime": now, "message": ""}
            for name in sorted(wanted)
        ]

        def change(obj: Obj) -> None:
            obj.setdefault("status", {})["admissionChecks"] = fresh
            if not fresh:
                del obj["status"]["admissionChecks"]

        return await self._hands.status(key, change) is not None

    async def _sync_admitted(self, key: Key, obj: Obj) -> bool:
        if conditions.true(obj, ADMITTED):
            return False
        written = await self._hands.status(key, conditions.sync_admitted)
        if written is None or not conditions.true(written, ADMITTED):
            return written is not None
        since = (conditions.find(written, RESERVED) or {})["lastTransitionTime"]
        name = written["status"]["admission"]["clusterQueue"]
        text = f"Admitted by ClusterQueue {name}, wait time since reservation was {-seconds_to(since):.0f}s"
        await self._hands.normal(written, "Admitted", text)
        return True

    async def _while_reserved(self, key: Key, obj: Obj) -> None:
        if await self._failed_checks(key, obj) or await self._stopped(key, obj):
            return
        waits = [await self._not_ready(key, obj), await self._too_long(key, obj)]
        times = [one for one in waits if one]
        if times:
            self.queue.add_after(key, min(times))

    async def _failed_checks(self, key: Key, obj: Obj) -> bool:
        if conditions.true(obj, EVICTED) or not conditions.has_check(obj, "Retry", "Rejected"):
            return False
        rejected = [one for one in obj["status"]["admissionChecks"] if one["state"] == "Rejected"]
        if not rejected:
            await self._evict(key, "AdmissionCheck", "At least one admission check is false")
            return True
        names = ",".join(one["name"] for one in rejected)
        text = f"Admission check(s): {names}, were rejected"
        written = await self._hands.status(key, lambda obj: conditions.put(obj, DEACTIVATING, True, "AdmissionCheck", text))
        if written is not None:
            name, message = rejected[0]["name"], rejected[0].get("message", "")
            told = f"Deactivating workload because AdmissionCheck for {name} was Rejected: {message}"
            await self._hands.warning(written, "AdmissionCheckRejected", told)
        return True

    async def _evict(self, key: Key, reason: str, message: str, cause: str = "", backoff: Any = None) -> None:
        def stop(obj: Obj) -> None:
            if backoff is not None:
                backoff(obj)
            conditions.evict(obj, reason, message, cause)

        written = await self._hands.status(key, stop)
        if written is not None:
            await self._hands.normal(written, f"EvictedDueTo{reason}", message)

    async def _stopped(self, key: Key, obj: Obj) -> bool:
        """A queue that is drained evicts what runs; one that is held takes back what was only reserved."""
        local, queue = self._queues(key, obj)
        lname, cname = obj["spec"].get("queueName") or "", obj["status"]["admission"]["clusterQueue"]
        for kind, name, home in (("LocalQueue", lname, local), ("ClusterQueue", cname, queue)):
            policy = spec_of(home or {}).get("stopPolicy") or "None"
            if conditions.true(obj, ADMITTED):
                if policy == "HoldAndDrain" and not conditions.true(obj, EVICTED):
                    await self._evict(key, f"{kind}Stopped", f"The {kind} is stopped")
                    return True
            elif home is None or home["metadata"].get("deletionTimestamp"):
                return await self._inadmissible(key, f"{kind} {name} is terminating or missing")
            elif policy != "None":
                return await self._inadmissible(key, f"{kind} {name} is stopped")
        return False

    async def _inadmissible(self, key: Key, message: str) -> bool:
        written = await self._hands.status(key, lambda obj: conditions.unreserve(obj, "Inadmissible", message))
        return written is not None

    async def _not_ready(self, key: Key, obj: Obj) -> float:
        """The time left to get ready, where that counts."""
        config = self._config.pods_ready
        due = to_be_ready(obj, config) if config is not None else None
        if config is None or due is None:
            return 0
        cause, left = due
        if left > 0:
            return left
        count = ((obj["status"].get("requeueState") or {}).get("count") or 0) + 1
        if config.limit is not None and count > config.limit:
            text = "exceeding the maximum number of re-queuing retries"
            await self._hands.status(key, lambda obj: conditions.put(obj, DEACTIVATING, True, "RequeuingLimitExceeded", text))
            return 0
        wait = min(config.base * 2 ** (count - 1), config.most)
        at = clock.rfc3339(clock.now() + timedelta(seconds=wait))

        def backoff(obj: Obj) -> None:
            obj["status"]["requeueState"] = {"count": count, "requeueAt": at}

        await self._evict(key, "PodsReadyTimeout", f"Exceeded the PodsReady timeout {key[0]}/{key[1]}", cause, backoff)
        return 0

    async def _too_long(self, key: Key, obj: Obj) -> float:
        left = to_run(obj)
        if left is None or left > 0:
            return left or 0

        def over(obj: Obj) -> None:
            conditions.put(obj, DEACTIVATING, True, "MaximumExecutionTimeExceeded", "exceeding the maximum execution time")
            obj["status"].pop("accumulatedPastExecutionTimeSeconds", None)

        if not conditions.true(obj, DEACTIVATING):
            written = await self._hands.status(key, over)
            if written is not None:
                text = f"The maximum execution time ({obj['spec']['maximumExecutionTimeSeconds']}s) exceeded"
                await self._hands.warning(written, "MaximumExecutionTimeExceeded", text)
        return 0

    async def _outside(self, key: Key, obj: Obj) -> None:
        """Say why a Workload is in no queue that works."""
        local, queue = self._queues(key, obj)
        name = obj["spec"].get("queueName") or ""
        message = ""
        if local is None:
            message = f"LocalQueue {name} doesn't exist"
        elif stopped(local):
            message = f"LocalQueue {name} is inactive"
        elif queue is None:
            message = f"ClusterQueue {spec_of(local).get('clusterQueue') or ''} doesn't exist"
        elif self._ledger.problem(queue["metadata"]["name"]) is not None:
            message = f"ClusterQueue {queue['metadata']['name']} is inactive"
        if message:
            await self._inadmissible(key, message)
