"""The DaemonSet controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists
from sliceworks.kube.node_affinity import parse_taints
from sliceworks.twin.controllers.builtin import daemonset_plan
from sliceworks.twin.controllers.builtin.pod_control import PodControl, min_ready_seconds, seconds_to_available, slow_start_batch
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import NamespacedName
from sliceworks.twin.controllers.runtime.pod_index import Pod, PodIndex
from sliceworks.twin.controllers.runtime.resource_keys import DAEMON_SETS, NODES, PODS, REVISIONS
from sliceworks.twin.controllers.runtime.revisions import REVISION_LABEL, RevisionHistory, compute_hash, new_revision, next_number

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object
    from sliceworks.twin.controllers.runtime.controller_context import ControllerContext

_BATCH_SECONDS = 0.2
"""Node changes within this period are handled by one reconcile."""
_BURST_REPLICAS = 250
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class DaemonSetController(Controller[NamespacedName]):
    """Runs one pod of each DaemonSet on every eligible node."""

    workers = 2
    watches = frozenset({DAEMON_SETS, PODS, NODES})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._pods = context.shared_index(PodIndex)
        self._pod_control = PodControl(context, "daemon-set-controller", "daemonset-controller")
        self._writer, self._recorder = self._pod_control.writer, self._pod_control.recorder
        self._history = RevisionHistory(context, self._writer)
        self._nodes: dict[str, daemonset_plan.Node] = {}
        self._known: dict[NamespacedName, None] = {}
        self._targets: dict[NamespacedName, str] = {}

    def observe(self, change: Change) -> None:
        if change.resource == NODES:
            self._observe_node(change)
        elif change.resource == DAEMON_SETS:
            key = (change.namespace, change.name)
            if change.type == "DELETED":
                self._known.pop(key, None)
            else:
                self._known[key] = None
                self.queue.add(key)
        else:
            for pod in (self._pods.before, self._pods.after):
                if pod is not None and pod.owner_kind == "DaemonSet":
                    self.queue.add((pod.namespace, pod.owner_name))
            after = self._pods.after
            if after is None or after.node or after.owner_kind != "DaemonSet":
                self._targets.pop((change.namespace, change.name), None)
            else:
                self._targets[change.namespace, change.name] = _target_node(change.obj)

    def _observe_node(self, change: Change) -> None:
        before = self._nodes.get(change.name)
        if change.type == "DELETED":
            self._nodes.pop(change.name, None)
        else:
            taints = parse_taints((change.obj.get("spec") or {}).get("taints") or ())
            after = daemonset_plan.Node(change.obj["metadata"].get("labels") or {}, taints)
            if after == before:
                return
            self._nodes[change.name] = after
        for key in self._known:
            self.queue.add_after(key, _BATCH_SECONDS)

    async def sync(self, key: NamespacedName) -> None:
        daemon_set = self.context.get(DAEMON_SETS, *key)
        if daemon_set is None or daemon_set["metadata"].get("deletionTimestamp"):
            return
        revision_hash = await self._sync_revisions(daemon_set)
        for plan in (daemonset_plan.manage, daemonset_plan.rolling_update):
            await self._sync_pods(daemon_set, revision_hash, plan(await self._get_state(daemon_set, revision_hash)))
        state = await self._get_state(daemon_set, revision_hash)
        status = daemonset_plan.compute_status(state)
        old = daemon_set.get("status") or {}
        if status != {name: value for name, value in old.items() if name not in ("collisionCount", "conditions")}:
            await self._writer.update_status(DAEMON_SETS, daemon_set, status)
        pods = [pod for on_node in state.pods.values() for pod in on_node]
        if (wait := seconds_to_available(pods, min_ready_seconds(daemon_set), state.now)) is not None:
            self.queue.add_after(key, wait)

    async def _get_state(self, daemon_set: Object, revision_hash: str) -> daemonset_plan.DaemonSetState:
        by_node: dict[str, list[Pod]] = {}
        for pod in await self._pod_control.claim(daemon_set, self._pods):
            target = pod.node or self._targets.get((pod.namespace, pod.name), "")
            by_node.setdefault(target, []).append(pod)
        return daemonset_plan.DaemonSetState(daemon_set, self._nodes, by_node, revision_hash, clock.now())

    async def _sync_pods(self, daemon_set: Object, revision_hash: str, changes: daemonset_plan.PodChanges) -> None:
        for node, pod in changes.finished:
            subject = f"{pod.namespace}/{pod.name} on node {node}"
            if pod.phase == "Failed":
                message = f"Found failed daemon pod {subject}, will try to kill it"
                await self._recorder.warning(daemon_set, "FailedDaemonPod", message)
            else:
                message = f"Found succeeded daemon pod {subject}, will try to delete it"
                await self._recorder.normal(daemon_set, "SucceededDaemonPod", message)
        nodes, template = changes.create[:_BURST_REPLICAS], _pod_template(daemon_set, revision_hash)
        _, error = await slow_start_batch(
            len(nodes), lambda number: self._pod_control.create(daemon_set, _for_node(template, nodes[number]))
        )
        for pod in changes.delete[:_BURST_REPLICAS]:
            await self._pod_control.delete(daemon_set, pod)
        if error is not None:
            raise error

    async def _sync_revisions(self, daemon_set: Object) -> str:
        """The hash of the current template, after its revision was created and old ones deleted."""
        revisions = self._history.list_revisions(daemon_set)
        revision = await self._history.find_equal(daemon_set, revisions)
        if revision is None:
            revision = await self._create_revision(daemon_set, next_number(revisions))
        revision_hash = str(revision["metadata"]["labels"][REVISION_LABEL])
        pods = self._pods.owned_by(daemon_set["metadata"]["uid"])
        used = {revision_hash, *(pod.labels.get(REVISION_LABEL) for pod in pods)}
        unused = (revision for revision in revisions if revision["metadata"]["labels"].get(REVISION_LABEL) not in used)
        await self._history.delete_old(daemon_set, unused)
        return revision_hash

    async def _create_revision(self, daemon_set: Object, number: int) -> Object:
        namespace, collisions = daemon_set["metadata"]["namespace"], (daemon_set.get("status") or {}).get("collisionCount")
        revision_hash = compute_hash(daemon_set["spec"]["template"], collisions)
        name = f"{daemon_set['metadata']['name']}-{revision_hash}"
        revision = new_revision(daemon_set, name, {REVISION_LABEL: revision_hash}, number)
        try:
            return (await self._writer.create(REVISIONS, namespace, revision)).object()
        except AlreadyExists:
            existing = self.context.get(REVISIONS, namespace, name)
            if existing is None:
                raise
            return existing


def _pod_template(daemon_set: Object, revision_hash: str) -> Object:
    template = daemon_set["spec"]["template"]
    metadata, spec = template.get("metadata") or {}, template["spec"]
    labels = {**(metadata.get("labels") or {}), REVISION_LABEL: revision_hash}
    generation = daemonset_plan.template_generation(daemon_set)
    if generation is not None:
        labels[daemonset_plan.TEMPLATE_GENERATION] = generation
    return {"metadata": {**metadata, "labels": labels}, "spec": {**spec, "tolerations": daemonset_plan.daemon_tolerations(spec)}}


def _for_node(template: Object, node: str) -> Object:
    """The template with a node affinity that names the node."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = template["spec"].get("affinity") or {}
    node_affinity = {**(affinity.get("nodeAffinity") or {}), _REQUIRED: {"nodeSelectorTerms": [term]}}
    return {**template, "spec": {**template["spec"], "affinity": {**affinity, "nodeAffinity": node_affinity}}}


def _target_node(pod: Object) -> str:
    """The node that an unscheduled pod's node affinity names."""
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("operator") == "In" and len(field.get("values") or ()) == 1:
                return str(field["values"][0])
    return ""
