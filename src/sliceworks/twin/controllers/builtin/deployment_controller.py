"""The Deployment controller: one step of a rollout or of scaling per reconcile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, ApiError
from sliceworks.kube.resources import controller_of
from sliceworks.twin.controllers.builtin import deployment_rollout
from sliceworks.twin.controllers.builtin.deployment_progress import (
    compute_rollout_status,
    compute_status,
    has_deadline,
    is_complete,
    new_condition,
    progressing_condition,
    seconds_to_deadline,
    set_condition,
)
from sliceworks.twin.controllers.builtin.deployment_rollout import desired_replicas
from sliceworks.twin.controllers.builtin.pod_control import min_ready_seconds, selector_of
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName, controller_user, object_key
from sliceworks.twin.controllers.runtime.object_index import OwnerIndex, SelectorIndex
from sliceworks.twin.controllers.runtime.pod_index import PodIndex
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import DEPLOYMENTS, PODS, REPLICA_SETS

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_UNLIMITED = (1 << 31) - 1


class ReplicaSetControl:
    """Scales, deletes, adopts and releases ReplicaSets, with events on the Deployment."""

    def __init__(self, context: ControllerContext, writer: ApiWriter, recorder: Recorder) -> None:
        self._context, self._writer, self._recorder = context, writer, recorder
        self._owners = context.shared_index(OwnerIndex)

    async def resize(self, deployment: Object, replica_set: Object, size: int, *, annotate: bool = False) -> bool:
        """Scale a ReplicaSet, which is modified in place; False if it has this size already."""
        before = desired_replicas(replica_set)
        if before == size and not (annotate and deployment_rollout.has_stale_sizes(deployment, replica_set)):
            return False
        replica_set["spec"]["replicas"] = size
        deployment_rollout.set_sizes(deployment, replica_set)
        replica_set.update(await self.update(replica_set))
        if before == size:
            return False
        direction = "up" if before < size else "down"
        name = replica_set["metadata"]["name"]
        await self._recorder.normal(
            deployment, "ScalingReplicaSet", f"Scaled {direction} replica set {name} from {before} to {size}"
        )
        return True

    async def delete_old(self, deployment: Object, old: list[Object]) -> None:
        """Delete the oldest empty ReplicaSets beyond spec.revisionHistoryLimit."""
        limit = deployment["spec"].get("revisionHistoryLimit", _UNLIMITED)
        candidates = [replica_set for replica_set in old if not replica_set["metadata"].get("deletionTimestamp")]
        if limit == _UNLIMITED or len(candidates) <= limit:
            return
        for replica_set in deployment_rollout.by_revision(candidates)[: len(candidates) - limit]:
            observed = deployment_rollout.status_count(replica_set, "observedGeneration")
            is_current = observed >= replica_set["metadata"].get("generation", 0)
            if is_current and deployment_rollout.status_count(replica_set, "replicas") == 0 == desired_replicas(replica_set):
                await self._writer.delete_if_exists(object_key(REPLICA_SETS, replica_set))

    async def claim(self, deployment: Object) -> list[Object]:
        """The Deployment's ReplicaSets, after it adopted matching orphans and released those that no longer match."""
        selector, metadata = selector_of(deployment), deployment["metadata"]
        sets: list[Object] = []
        deleting = bool(metadata.get("deletionTimestamp"))
        keys = [(key, True) for key in self._owners.owned_by(REPLICA_SETS, metadata["uid"])]
        keys += [(key, False) for key in self._owners.orphans(REPLICA_SETS, metadata["namespace"]) if not deleting]
        for key, is_owned in keys:
            replica_set = self._context.get(REPLICA_SETS, *key)
            if replica_set is None:
                continue
            matches = selector.matches(replica_set["metadata"].get("labels"))
            uid = replica_set["metadata"]["uid"]
            if is_owned and not matches and not deleting:
                await self._writer.release(object_key(REPLICA_SETS, replica_set), uid, metadata["uid"])
            elif is_owned:
                sets.append(replica_set)
            elif matches and not replica_set["metadata"].get("deletionTimestamp"):
                sets.append((await self._writer.adopt(object_key(REPLICA_SETS, replica_set), uid, deployment)).object())
        return sets

    async def update(self, replica_set: Object) -> Object:
        return (await self._writer.update(REPLICA_SETS, replica_set)).object()


class DeploymentController(Controller[NamespacedName]):
    """Scales the ReplicaSets of Deployments, and moves pods from old ReplicaSets to the one of the current template."""

    workers = 5
    watches = frozenset({DEPLOYMENTS, REPLICA_SETS, PODS})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods, self._owners = context.shared_index(PodIndex), context.shared_index(OwnerIndex)
        user = controller_user("deployment-controller")
        self._writer, self._recorder = ApiWriter(context, user), Recorder(context, user, "deployment-controller")
        self._set_control = ReplicaSetControl(context, self._writer, self._recorder)
        self._keys: dict[str, NamespacedName] = {}
        """The keys of Deployments by UID."""
        self._selectors = SelectorIndex()

    def observe(self, change: Change) -> None:
        if change.resource == DEPLOYMENTS:
            self._observe_deployment(change)
        elif change.resource == REPLICA_SETS:
            self._observe_set(change)
        elif self._pods.after is None and self._pods.before is not None and self._pods.before.owner_kind == "ReplicaSet":
            # Recreate waits for the last old pod to be deleted.
            replica_set = self.context.get(REPLICA_SETS, change.namespace, self._pods.before.owner_name)
            owner = controller_of(replica_set) if replica_set else None
            if owner is not None and owner["uid"] in self._keys:
                self.queue.add(self._keys[owner["uid"]])

    def _observe_deployment(self, change: Change) -> None:
        if change.type == "DELETED":
            self._selectors.remove(change.namespace, change.name)
            self._keys.pop(change.obj["metadata"]["uid"], None)
            return
        key = (change.namespace, change.name)
        self._keys[change.obj["metadata"]["uid"]] = key
        self._selectors.put(change.namespace, change.name, selector_of(change.obj))
        self.queue.add(key)

    def _observe_set(self, change: Change) -> None:
        owner = controller_of(change.obj)
        for uid in (self._owners.before, owner["uid"] if owner else ""):
            if uid in self._keys:
                self.queue.add(self._keys[uid])
        labels = change.obj["metadata"].get("labels")
        if owner is None and labels and change.type != "DELETED":
            for name in self._selectors.matching(change.namespace, labels):
                self.queue.add((change.namespace, name))

    async def sync(self, key: NamespacedName) -> None:
        deployment = self.context.get(DEPLOYMENTS, *key)
        if deployment is None:
            return
        sets = await self._set_control.claim(deployment)
        if deployment["metadata"].get("deletionTimestamp"):
            new_set = deployment_rollout.find_new_set(deployment, sets)
            await self._update_status(deployment, compute_status(deployment, [*_old_sets(sets, new_set), new_set], new_set))
            return
        await self._report_pause(deployment)
        new_set = await self._get_new_set(deployment, sets)
        old = _old_sets(sets, new_set)
        if deployment["spec"].get("paused") or _is_scaling(deployment, [*old, new_set]):
            await self._scale(deployment, new_set, old)
        elif deployment_rollout.is_rolling_update(deployment):
            await self._roll_over(key, deployment, sets, old)
        else:
            await self._recreate(key, deployment, sets, new_set, old)

    async def _scale(self, deployment: Object, new_set: Object | None, old: list[Object]) -> None:
        """Follow a change of spec.replicas without progressing the rollout."""
        sets = [*old, new_set]
        active = deployment_rollout.active_sets(sets)
        if len(active) <= 1:
            latest = active[0] if active else new_set or (deployment_rollout.by_age(old)[-1] if old else None)
            if latest is not None:
                await self._set_control.resize(deployment, latest, desired_replicas(deployment))
        elif _is_saturated(deployment, new_set):
            for replica_set in deployment_rollout.active_sets(old):
                await self._set_control.resize(deployment, replica_set, 0)
        elif deployment_rollout.is_rolling_update(deployment):
            sizes = deployment_rollout.proportional_sizes(deployment, active)
            for replica_set in active:
                await self._set_control.resize(deployment, replica_set, sizes[replica_set["metadata"]["name"]], annotate=True)
        if deployment["spec"].get("paused"):
            await self._set_control.delete_old(deployment, old)
        await self._update_status(deployment, compute_status(deployment, sets, new_set))

    async def _roll_over(self, key: NamespacedName, deployment: Object, sets: list[Object], old: list[Object]) -> None:
        """One step of a rolling update: scale up the new ReplicaSet if possible, else scale down old ones."""
        new_set = await self._get_new_set(deployment, sets, create=True)
        if new_set is None:
            return
        current: list[Object | None] = [*old, new_set]
        scaled = await self._scale_up(deployment, new_set, current) or await self._scale_down(deployment, new_set, old)
        if not scaled and is_complete(deployment, deployment.get("status") or {}):
            await self._set_control.delete_old(deployment, old)
        await self._sync_rollout_status(key, deployment, current, new_set)

    async def _scale_up(self, deployment: Object, new_set: Object, sets: list[Object | None]) -> bool:
        size = desired_replicas(new_set)
        if size == desired_replicas(deployment):
            return False
        target = (
            desired_replicas(deployment)
            if size > desired_replicas(deployment)
            else deployment_rollout.new_set_size(deployment, sets, size)
        )
        return await self._set_control.resize(deployment, new_set, target)

    async def _scale_down(self, deployment: Object, new_set: Object, old: list[Object]) -> bool:
        """Scale down old ReplicaSets: unhealthy pods first, then as many as availability allows."""
        active = deployment_rollout.by_age(deployment_rollout.active_sets(old))
        min_available = desired_replicas(deployment) - deployment_rollout.surge_and_unavailable(deployment)[1]
        unavailable = desired_replicas(new_set) - deployment_rollout.status_count(new_set, "availableReplicas")
        limit = deployment_rollout.total_desired([*old, new_set]) - min_available - unavailable
        if not active or limit <= 0:
            return False
        changed = False
        for replica_set, size in deployment_rollout.scale_down(active, limit, unavailable_only=True):
            changed |= await self._set_control.resize(deployment, replica_set, size)
        available = deployment_rollout.total_status_count([*active, new_set], "availableReplicas")
        for replica_set, size in deployment_rollout.scale_down(active, max(0, available - min_available)):
            changed |= await self._set_control.resize(deployment, replica_set, size)
        return changed

    async def _recreate(
        self, key: NamespacedName, deployment: Object, sets: list[Object], new_set: Object | None, old: list[Object]
    ) -> None:
        """Delete all old pods before the first new one is created."""
        scaled = False
        for replica_set in deployment_rollout.active_sets(old):
            scaled |= await self._set_control.resize(deployment, replica_set, 0)
        if scaled or self._has_old_pods(old):
            await self._sync_rollout_status(key, deployment, [*old, new_set], new_set)
            return
        new_set = new_set or await self._get_new_set(deployment, sets, create=True)
        if new_set is None:
            return
        await self._set_control.resize(deployment, new_set, desired_replicas(deployment))
        if is_complete(deployment, deployment.get("status") or {}):
            await self._set_control.delete_old(deployment, old)
        await self._sync_rollout_status(key, deployment, [*old, new_set], new_set)

    def _has_old_pods(self, old: list[Object]) -> bool:
        pods = (pod for replica_set in old for pod in self._pods.owned_by(replica_set["metadata"]["uid"]))
        return deployment_rollout.total_status_count(old, "replicas") > 0 or any(not pod.finished for pod in pods)

    async def _sync_rollout_status(
        self, key: NamespacedName, deployment: Object, sets: list[Object | None], new_set: Object | None
    ) -> None:
        status = compute_rollout_status(deployment, sets, new_set, clock.now())
        if (
            not await self._update_status(deployment, status)
            and (wait := seconds_to_deadline(deployment, status, clock.now())) is not None
        ):
            self.queue.add_after(key, wait)

    async def _get_new_set(self, deployment: Object, sets: list[Object], *, create: bool = False) -> Object | None:
        """The ReplicaSet of the current template, with its revision; with `create`, it is created if missing."""
        new_set = deployment_rollout.find_new_set(deployment, sets)
        revision = max(map(deployment_rollout.revision_number, _old_sets(sets, new_set)), default=0) + 1
        if new_set is not None:
            return await self._update_new_set(deployment, new_set, revision)
        return await self._create_new_set(deployment, sets, revision) if create else None

    async def _update_new_set(self, deployment: Object, new_set: Object, revision: int) -> Object:
        if deployment_rollout.annotate_set(deployment, new_set, revision) or min_ready_seconds(new_set) != min_ready_seconds(
            deployment
        ):
            new_set["spec"]["minReadySeconds"] = min_ready_seconds(deployment)
            new_set.update(await self._set_control.update(new_set))
            return new_set
        status: Object = dict(deployment.get("status") or {})
        annotations = deployment["metadata"].setdefault("annotations", {})
        known = new_set["metadata"]["annotations"][deployment_rollout.REVISION]
        is_stale = annotations.get(deployment_rollout.REVISION) != known
        annotations[deployment_rollout.REVISION] = known
        if has_deadline(deployment) and not progressing_condition(status):
            message = f'Found new replica set "{new_set["metadata"]["name"]}"'
            set_condition(status, new_condition("Progressing", "True", "FoundNewReplicaSet", message))
        await self._update_status(deployment, status, force=is_stale)
        return new_set

    async def _create_new_set(self, deployment: Object, sets: list[Object], revision: int) -> Object | None:
        replica_set = deployment_rollout.new_replica_set(deployment, sets, revision)
        name, namespace = replica_set["metadata"]["name"], replica_set["metadata"]["namespace"]
        try:
            new_set = (await self._writer.create(REPLICA_SETS, namespace, replica_set)).object()
        except AlreadyExists:
            await self._add_collision(deployment)
            return None
        except ApiError as error:
            await self._report_failure(deployment, f'Failed to create new replica set "{name}": {error.message}')
            raise
        if desired_replicas(new_set):
            await self._recorder.normal(
                deployment, "ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {desired_replicas(new_set)}"
            )
        status: Object = dict(deployment.get("status") or {})
        deployment["metadata"].setdefault("annotations", {})[deployment_rollout.REVISION] = str(revision)
        if has_deadline(deployment):
            set_condition(status, new_condition("Progressing", "True", "NewReplicaSetCreated", f'Created new replica set "{name}"'))
        await self._update_status(deployment, status, force=True)
        return new_set

    async def _add_collision(self, deployment: Object) -> None:
        """Count a hash collision, so that the next reconcile creates the ReplicaSet under another name."""
        status = dict(deployment.get("status") or {})
        status["collisionCount"] = status.get("collisionCount", 0) + 1
        await self._update_status(deployment, status)

    async def _report_failure(self, deployment: Object, message: str) -> None:
        if has_deadline(deployment):
            status: Object = dict(deployment.get("status") or {})
            set_condition(status, new_condition("Progressing", "False", "ReplicaSetCreateError", message))
            await self._update_status(deployment, status)
        await self._recorder.warning(deployment, "ReplicaSetCreateError", message)

    async def _report_pause(self, deployment: Object) -> None:
        status: Object = dict(deployment.get("status") or {})
        current = progressing_condition(status)
        if not has_deadline(deployment) or current.get("reason") == "ProgressDeadlineExceeded":
            return
        was_paused, paused = current.get("reason") == "DeploymentPaused", bool(deployment["spec"].get("paused"))
        if paused and not was_paused:
            set_condition(status, new_condition("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"))
        elif was_paused and not paused:
            set_condition(status, new_condition("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed"))
        await self._update_status(deployment, status)

    async def _update_status(self, deployment: Object, status: Object, *, force: bool = False) -> bool:
        """Write a changed status and update `deployment` in place; False if there was nothing to write."""
        if status == (deployment.get("status") or {}) and not force:
            return False
        deployment.update((await self._writer.update_status(DEPLOYMENTS, deployment, status)).object())
        return True


def _old_sets(sets: list[Object], new_set: Object | None) -> list[Object]:
    uid = new_set["metadata"]["uid"] if new_set is not None else ""
    return [replica_set for replica_set in sets if replica_set["metadata"]["uid"] != uid]


def _is_scaling(deployment: Object, sets: list[Object | None]) -> bool:
    """Whether spec.replicas differs from the size annotations of the ReplicaSets."""
    sizes = (
        deployment_rollout.annotation_number(replica_set, deployment_rollout.DESIRED_REPLICAS)
        for replica_set in deployment_rollout.active_sets(sets)
    )
    return any(size is not None and size != desired_replicas(deployment) for size in sizes)


def _is_saturated(deployment: Object, new_set: Object | None) -> bool:
    if new_set is None:
        return False
    sizes = (
        desired_replicas(new_set),
        deployment_rollout.annotation_number(new_set, deployment_rollout.DESIRED_REPLICAS),
        deployment_rollout.status_count(new_set, "availableReplicas"),
    )
    return all(size == desired_replicas(deployment) for size in sizes)
