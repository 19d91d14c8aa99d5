"""The StatefulSet controller: ordered or parallel creation, deletion and rolling update."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, ApiError, Conflict
from sliceworks.twin.controllers.builtin import statefulset_identity
from sliceworks.twin.controllers.builtin.pod_control import (
    PodControl,
    is_available,
    min_ready_seconds,
    pod_key,
    seconds_to_available,
)
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName
from sliceworks.twin.controllers.runtime.pod_index import Pod, PodIndex
from sliceworks.twin.controllers.runtime.resource_keys import CLAIMS, PODS, REVISIONS, STATEFUL_SETS
from sliceworks.twin.controllers.runtime.revisions import REVISION_LABEL, RevisionHistory, next_number, revision_template

if TYPE_CHECKING:
    from datetime import datetime

    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext


class StatefulPodControl:
    """Creates, deletes and updates the pods and volume claims of StatefulSets."""

    def __init__(self, context: ControllerContext, pods: PodIndex, pod_control: PodControl) -> None:
        self._context, self._pods, self._pod_control = context, pods, pod_control
        self._writer, self._recorder = pod_control.writer, pod_control.recorder

    async def create_pod(self, stateful_set: Object, template: Object, ordinal: int, revision: str) -> None:
        """Create a pod and its volume claims."""
        pod = statefulset_identity.new_pod(stateful_set, template, ordinal, revision)
        await self.create_claims(stateful_set, ordinal)
        subject = f"Create Pod {pod['metadata']['name']} in StatefulSet {stateful_set['metadata']['name']}"
        try:
            await self._writer.create(PODS, stateful_set["metadata"]["namespace"], pod)
        except AlreadyExists:
            raise
        except ApiError as error:
            await self._recorder.warning(stateful_set, "FailedCreate", f"{subject} failed error: {error.message}")
            raise
        await self.update_claim_owners(stateful_set, ordinal)
        await self._recorder.normal(stateful_set, "SuccessfulCreate", f"{subject} successful")

    async def create_claims(self, stateful_set: Object, ordinal: int) -> None:
        namespace, name = stateful_set["metadata"]["namespace"], stateful_set["metadata"]["name"]
        for claim in statefulset_identity.volume_claims(stateful_set, ordinal).values():
            if self._context.get(CLAIMS, namespace, claim["metadata"]["name"]) is None:
                await self._writer.create(CLAIMS, namespace, claim)
                message = f"Create Claim {claim['metadata']['name']} Pod {name}-{ordinal} in StatefulSet {name} success"
                await self._recorder.normal(stateful_set, "SuccessfulCreate", message)

    async def update_claim_owners(self, stateful_set: Object, ordinal: int) -> None:
        """Set the owners of volume claims by spec.persistentVolumeClaimRetentionPolicy."""
        namespace = stateful_set["metadata"]["namespace"]
        pod = self._pods.get(namespace, f"{stateful_set['metadata']['name']}-{ordinal}")
        for template in statefulset_identity.volume_claims(stateful_set, ordinal).values():
            claim = self._context.get(CLAIMS, namespace, template["metadata"]["name"])
            if claim is None:
                continue
            refs = claim["metadata"].get("ownerReferences") or []
            desired = statefulset_identity.claim_owners(stateful_set, pod, ordinal, refs)
            if {ref["uid"] for ref in refs} != {ref["uid"] for ref in desired}:
                claim["metadata"]["ownerReferences"] = desired
                await self._writer.update(CLAIMS, claim)

    async def delete_pod(self, stateful_set: Object, pod: Pod) -> None:
        await self._writer.delete(pod_key(pod))
        message = f"Delete Pod {pod.name} in StatefulSet {stateful_set['metadata']['name']} successful"
        await self._recorder.normal(stateful_set, "SuccessfulDelete", message)

    async def update_identity(self, pod: Pod) -> None:
        """Set the name and index labels of an adopted pod."""
        labels = {
            statefulset_identity.POD_NAME_LABEL: pod.name,
            statefulset_identity.POD_INDEX_LABEL: str(statefulset_identity.ordinal(pod.name)),
        }
        await self._pod_control.patch(pod, {"labels": labels})


class StatefulSetUpdate:
    """One reconcile of a StatefulSet's pods, and the resulting status."""

    def __init__(
        self,
        control: StatefulPodControl,
        stateful_set: Object,
        revisions: tuple[Object, Object],
        pods: list[Pod],
        now: datetime,
    ) -> None:
        self._control, self._set, self._pods, self.now = control, stateful_set, pods, now
        self._current, self._update = revisions
        self._min_ready = min_ready_seconds(stateful_set)
        self._is_parallel = stateful_set["spec"].get("podManagementPolicy") == "Parallel"
        ordinals = statefulset_identity.ordinals(stateful_set)
        by_ordinal = {statefulset_identity.ordinal(pod.name): pod for pod in pods}
        self._replicas = {ordinal: by_ordinal.get(ordinal) for ordinal in ordinals}
        self._condemned = [
            by_ordinal[ordinal] for ordinal in sorted(by_ordinal, reverse=True) if ordinal >= 0 and ordinal not in ordinals
        ]
        self._updating = 0

    async def run(self) -> None:
        """Create missing pods, then delete surplus pods, then delete outdated pods."""
        for ordinal, pod in self._replicas.items():
            if await self._process_replica(ordinal, pod) and not self._is_parallel:
                return
        for pod in self._condemned:
            await self._control.update_claim_owners(self._set, statefulset_identity.ordinal(pod.name))
        for pod in self._condemned:
            if await self._process_condemned(pod) and not self._is_parallel:
                return
        await self._roll_out()

    async def _process_replica(self, ordinal: int, pod: Pod | None) -> bool:
        """Whether an ordered StatefulSet has to wait for this replica."""
        if pod is None:
            await self._create(ordinal)
            return True
        if pod.finished:
            if not pod.deleting:
                await self._control.delete_pod(self._set, pod)
            return True
        if pod.phase == "Pending":
            await self._control.create_claims(self._set, ordinal)
            await self._control.update_claim_owners(self._set, ordinal)
        if not self._is_parallel and not self._is_healthy(pod):
            return True
        if pod.labels.get(statefulset_identity.POD_NAME_LABEL) != pod.name:
            await self._control.update_identity(pod)
        await self._control.update_claim_owners(self._set, ordinal)
        return False

    async def _create(self, ordinal: int) -> None:
        strategy = self._set["spec"].get("updateStrategy") or {}
        start = statefulset_identity.ordinals(self._set).start
        rolling = strategy.get("rollingUpdate")
        if rolling is None:
            partition = int((self._set.get("status") or {}).get("currentReplicas") or 0) if _is_rolling_update(self._set) else 0
        else:
            partition = int(rolling.get("partition") or 0)
        revision = self._current if ordinal < start + partition else self._update
        await self._control.create_pod(self._set, revision_template(revision), ordinal, revision["metadata"]["name"])

    async def _process_condemned(self, pod: Pod) -> bool:
        if pod.deleting:
            return True
        if not self._is_parallel and not self._is_healthy(pod) and pod is not self._first_unhealthy():
            return True
        await self._control.delete_pod(self._set, pod)
        return True

    def _first_unhealthy(self) -> Pod | None:
        pods = [*(pod for pod in self._replicas.values() if pod is not None), *reversed(self._condemned)]
        return next((pod for pod in pods if not self._is_healthy(pod)), None)

    async def _roll_out(self) -> None:
        strategy = self._set["spec"].get("updateStrategy") or {}
        if not _is_rolling_update(self._set):
            return
        partition = int((strategy.get("rollingUpdate") or {}).get("partition") or 0)
        for pod in reversed(list(self._replicas.values())[partition:]):
            if pod is None:
                return
            if pod.labels.get(REVISION_LABEL) != self._update["metadata"]["name"] and not pod.deleting:
                await self._control.delete_pod(self._set, pod)
                self._updating = 1
                return
            if not self._is_healthy(pod):
                return

    def _is_healthy(self, pod: Pod) -> bool:
        return not pod.deleting and pod.phase == "Running" and is_available(pod, self._min_ready, self.now)

    def status(self, collisions: int) -> Object:
        """The status of the pods as they were before `run`."""
        pods = [pod for pod in (*self._replicas.values(), *self._condemned) if pod is not None and pod.phase]
        running = [pod for pod in pods if pod.ready and pod.phase == "Running"]
        current, update = self._current["metadata"]["name"], self._update["metadata"]["name"]
        revisions = [pod.labels.get(REVISION_LABEL) for pod in pods if not pod.deleting]
        counts = {
            "readyReplicas": len(running),
            "currentReplicas": revisions.count(current) - self._updating,
            "updatedReplicas": revisions.count(update),
        }
        replicas, desired = len(pods), len(statefulset_identity.ordinals(self._set))
        if _is_rolling_update(self._set) and counts["updatedReplicas"] == counts["readyReplicas"] == replicas == desired:
            counts["currentReplicas"], current = counts["updatedReplicas"], update
        return {
            "observedGeneration": self._set["metadata"].get("generation", 0),
            "replicas": replicas,
            **{name: count for name, count in counts.items() if count},
            "availableReplicas": sum(1 for pod in running if is_available(pod, self._min_ready, self.now)),
            "currentRevision": current,
            "updateRevision": update,
            "collisionCount": collisions,
        }


def _is_rolling_update(stateful_set: Object) -> bool:
    return bool((stateful_set["spec"].get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate")


class StatefulSetController(Controller[NamespacedName]):
    """Creates the numbered pods of StatefulSets, and updates them from the last to the first."""

    workers = 5
    watches = frozenset({STATEFUL_SETS, PODS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.shared_index(PodIndex)
        self._pod_control = PodControl(context, "statefulset-controller", "statefulset-controller")
        self._stateful_pods = StatefulPodControl(context, self._pods, self._pod_control)
        self._writer = self._pod_control.writer
        self._history = RevisionHistory(context, self._writer)
        self._known: set[NamespacedName] = set()

    def observe(self, change: Change) -> None:
        if change.resource == STATEFUL_SETS:
            if change.type == "DELETED":
                self._known.discard((change.namespace, change.name))
            else:
                self._known.add((change.namespace, change.name))
                self.queue.add((change.namespace, change.name))
            return
        for pod in (self._pods.before, self._pods.after):
            if pod is None:
                continue
            if pod.owner_kind == "StatefulSet":
                self.queue.add((pod.namespace, pod.owner_name))
            elif not pod.owner and (key := (pod.namespace, statefulset_identity.parent_name(pod.name))) in self._known:
                self.queue.add(key)

    async def sync(self, key: NamespacedName) -> None:
        stateful_set = self.context.get(STATEFUL_SETS, *key)
        if stateful_set is None:
            return
        # 1. Claim pods and find the revisions.
        pods = await self._pod_control.claim(stateful_set, self._pods, parent_name=key[1])
        revisions = self._history.list_revisions(stateful_set)
        current, update, collisions = await self._get_revisions(stateful_set, revisions)
        # 2. Create and delete pods: one, or with Parallel all at once.
        step = StatefulSetUpdate(self._stateful_pods, stateful_set, (current, update), pods, clock.now())
        failure: ApiError | None = None
        if not stateful_set["metadata"].get("deletionTimestamp"):
            try:
                await step.run()
            except AlreadyExists:
                pass
            except ApiError as error:
                failure = error
        # 3. Write the status and delete old revisions.
        await self._update_status(stateful_set, step.status(collisions))
        used = {current["metadata"]["name"], update["metadata"]["name"], *(pod.labels.get(REVISION_LABEL) for pod in pods)}
        await self._history.delete_old(
            stateful_set, (revision for revision in revisions if revision["metadata"]["name"] not in used)
        )
        if failure is not None:
            raise failure
        if (wait := seconds_to_available(pods, min_ready_seconds(stateful_set), step.now)) is not None:
            self.queue.add_after(key, wait)

    async def _get_revisions(self, stateful_set: Object, revisions: list[Object]) -> tuple[Object, Object, int]:
        """The current revision, the update revision and the collision count."""
        status = stateful_set.get("status") or {}
        collisions = int(status.get("collisionCount") or 0)
        update = await self._history.find_equal(stateful_set, revisions)
        if update is None:
            update, collisions = await self._create_revision(stateful_set, next_number(revisions), collisions)
        current = next(
            (revision for revision in revisions if revision["metadata"]["name"] == status.get("currentRevision")), update
        )
        return current, update, collisions

    async def _create_revision(self, stateful_set: Object, number: int, collisions: int) -> tuple[Object, int]:
        namespace = stateful_set["metadata"]["namespace"]
        while True:
            revision = statefulset_identity.new_revision(stateful_set, number, collisions)
            try:
                return (await self._writer.create(REVISIONS, namespace, revision)).object(), collisions
            except AlreadyExists:
                existing = self.context.get(REVISIONS, namespace, revision["metadata"]["name"])
                if existing is not None and existing["data"] == revision["data"]:
                    name = revision["metadata"]["name"]
                    raise Conflict(f"controllerrevision {namespace}/{name} belongs to another StatefulSet") from None
                collisions += 1

    async def _update_status(self, stateful_set: Object, status: Object) -> None:
        old = stateful_set.get("status") or {}
        fields = (*status, "currentReplicas", "updatedReplicas", "readyReplicas")
        if any(status.get(name) != old.get(name) for name in fields):
            await self._writer.update_status(STATEFUL_SETS, stateful_set, status)
