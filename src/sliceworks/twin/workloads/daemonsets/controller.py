"""The DaemonSet controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, NotFound
from sliceworks.kube.resources import owner_reference
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.workloads.daemonsets import decide
from sliceworks.twin.workloads.dependents import REVISIONS, Dependents
from sliceworks.twin.workloads.hands import PodHands, slow_start
from sliceworks.twin.workloads.hashes import safe_hash
from sliceworks.twin.workloads.nodehealth.lifecycle import NODES
from sliceworks.twin.workloads.pods import PODS, Pod, Pods
from sliceworks.twin.workloads.replicasets import min_ready, next_available

if TYPE_CHECKING:
    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.daemonsets.decide import Obj

DAEMON_SETS = "apps/daemonsets"
_BATCH = 0.2
"""Seconds in which changes of nodes are gathered."""
_MOST_AT_ONCE = 250
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"

Key = tuple[str, str]


class DaemonSets(Controller[Key]):
    """Looks at a DaemonSet when it, one of its pods or what matters of a node changes."""

    workers = 2
    watches = frozenset({DAEMON_SETS, PODS, NODES})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._pods, self._dependents = world.shared(Pods), world.shared(Dependents)
        self._hands = PodHands(world, "daemon-set-controller", "daemonset-controller")
        self._nodes: dict[str, decide.Node] = {}
        self._known: dict[Key, None] = {}
        self._targets: dict[Key, str] = {}

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
                self._targets[change.namespace, change.name] = _target(change.obj)

    def _observe_node(self, change: Change) -> None:
        before = self._nodes.get(change.name)
        if change.type == "DELETED":
            self._nodes.pop(change.name, None)
        else:
            taints = (change.obj.get("spec") or {}).get("taints") or ()
            after = decide.Node(change.obj["metadata"].get("labels") or {}, tuple(taints))
            if after == before:
                return
            self._nodes[change.name] = after
        for key in self._known:
            self.queue.add_after(key, _BATCH)

    async def sync(self, key: Key) -> None:
        found = self.world.get(DAEMON_SETS, *key)
        if found is None or found["metadata"].get("deletionTimestamp"):
            return
        short = await self._remember(found)
        await self._act(found, short, decide.keep(await self._look(found, short)))
        await self._act(found, short, decide.roll(await self._look(found, short)))
        daemons = await self._look(found, short)
        status = decide.status(daemons)
        old = found.get("status") or {}
        if status != {name: value for name, value in old.items() if name not in ("collisionCount", "conditions")}:
            path = f"/apis/apps/v1/namespaces/{key[0]}/daemonsets/{key[1]}/status"
            await self.world.send(self._hands.user, "PUT", path, {**found, "status": status})
        pods = [pod for there in daemons.pods.values() for pod in there]
        if (wait := next_available(pods, min_ready(found), daemons.now)) is not None:
            self.queue.add_after(key, wait)

    async def _look(self, found: Obj, short: str) -> decide.Daemons:
        by_node: dict[str, list[Pod]] = {}
        for pod in await self._hands.claim(found, self._pods):
            target = pod.node or self._targets.get((pod.namespace, pod.name), "")
            by_node.setdefault(target, []).append(pod)
        return decide.Daemons(found, self._nodes, by_node, short, clock.now())

    async def _act(self, found: Obj, short: str, work: decide.Work) -> None:
        for node, pod in work.ended:
            place = f"{pod.namespace}/{pod.name} on node {node}"
            if pod.phase == "Failed":
                words = f"Found failed daemon pod {place}, will try to kill it"
                await self._hands.recorder.warning(found, "FailedDaemonPod", words)
            else:
                words = f"Found succeeded daemon pod {place}, will try to delete it"
                await self._hands.recorder.normal(found, "SucceededDaemonPod", words)
        nodes, template = work.create[:_MOST_AT_ONCE], _template(found, short)
        _, error = await slow_start(len(nodes), lambda number: self._hands.create(found, _placed(template, nodes[number])))
        for pod in work.delete[:_MOST_AT_ONCE]:
            await self._hands.delete(found, pod)
        if error is not None:
            raise error

    async def _remember(self, found: Obj) -> str:
        """The short name of the newest template, once a revision holds it; older ones beyond the limit are forgotten."""
        metadata, template = found["metadata"], found["spec"]["template"]
        data = {"spec": {"template": {**template, "$patch": "replace"}}}
        places = self._dependents.owned_by(REVISIONS, metadata["uid"])
        revisions = [each for place in places if (each := self.world.get(REVISIONS, *place)) is not None]
        revisions.sort(key=lambda each: int(each["revision"]))
        path = f"/apis/apps/v1/namespaces/{metadata['namespace']}/controllerrevisions"
        newest = next((each for each in revisions if each["data"] == data), None)
        number = int(revisions[-1]["revision"]) + 1 if revisions else 1
        if newest is None:
            newest = await self._create_revision(found, path, data, number)
        elif newest is not revisions[-1]:
            body = {**newest, "revision": number}
            newest = await self.world.send(self._hands.user, "PUT", f"{path}/{newest['metadata']['name']}", body)
        short = str(newest["metadata"]["labels"][decide.HASH])
        await self._forget(found, path, revisions, short)
        return short

    async def _create_revision(self, found: Obj, path: str, data: Obj, number: int) -> Obj:
        metadata, template = found["metadata"], found["spec"]["template"]
        short = safe_hash(template, (found.get("status") or {}).get("collisionCount"))
        labels = {**((template.get("metadata") or {}).get("labels") or {}), decide.HASH: short}
        place = {"name": f"{metadata['name']}-{short}", "namespace": metadata["namespace"], "labels": labels}
        if metadata.get("annotations"):
            place["annotations"] = metadata["annotations"]
        place["ownerReferences"] = [owner_reference(found)]
        body = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": place, "data": data, "revision": number}
        try:
            return await self.world.send(self._hands.user, "POST", path, body)
        except AlreadyExists:
            return await self.world.send(self._hands.user, "GET", f"{path}/{place['name']}")

    async def _forget(self, found: Obj, path: str, revisions: list[Obj], short: str) -> None:
        live = {short, *(pod.labels.get(decide.HASH) for pod in self._pods.owned_by(found["metadata"]["uid"]))}
        old = [each for each in revisions if each["metadata"]["labels"].get(decide.HASH) not in live]
        for each in old[: max(0, len(old) - int(found["spec"].get("revisionHistoryLimit", 10)))]:
            try:
                await self.world.send(self._hands.user, "DELETE", f"{path}/{each['metadata']['name']}")
            except NotFound:
                continue


def _template(found: Obj, short: str) -> Obj:
    template = found["spec"]["template"]
    metadata, spec = template.get("metadata") or {}, template["spec"]
    labels = {**(metadata.get("labels") or {}), decide.HASH: short}
    generation = (found["metadata"].get("annotations") or {}).get("deprecated.daemonset.template.generation")
    if generation is not None:
        labels[decide.GENERATION] = generation
    return {"metadata": {**metadata, "labels": labels}, "spec": {**spec, "tolerations": decide.tolerations(spec)}}


def _placed(template: Obj, node: str) -> Obj:
    """The template for one node, which its affinity names."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = template["spec"].get("affinity") or {}
    chosen = {
        **(affinity.get("nodeAffinity") or {}),
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
    }
    return {**template, "spec": {**template["spec"], "affinity": {**affinity, "nodeAffinity": chosen}}}


def _target(pod: Obj) -> str:
    """The node that a pod without one is meant for."""
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for each in term.get("matchFields") or ():
            if each.get("key") == "metadata.name" and each.get("operator") == "In" and len(each.get("values") or ()) == 1:
                return str(each["values"][0])
    return ""
