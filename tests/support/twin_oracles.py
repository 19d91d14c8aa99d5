"""Watches a twin's store: quota is never reserved twice, pods are placed only where they fit, no pod starts without what it needs,
no Job has more pods than it may have, and time never goes back.

Written without the twin's own arithmetic.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.store.watch_cache import Change

Obj = dict[str, Any]
FlavorResource = tuple[str, str]
_GROUP = "kueue.x-k8s.io"


class QuotaOracle:
    """Checks each reservation at the time it is written: against the queue, its borrowing limit, and what its cohort lends."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._queues: dict[str, Obj] = {}
        self._cohorts: dict[str, Obj] = {}
        self._reserved: dict[tuple[str, str], tuple[str, Counter[FlavorResource]]] = {}

    def observe(self, change: Change) -> None:
        kinds = {f"{_GROUP}/clusterqueues": self._queues, f"{_GROUP}/cohorts": self._cohorts}
        if change.resource in kinds:
            if change.type == "DELETED":
                kinds[change.resource].pop(change.name, None)
            else:
                kinds[change.resource][change.name] = change.obj.get("spec") or {}
        elif change.resource == f"{_GROUP}/workloads":
            self._observe_workload((change.namespace, change.name), change)

    @property
    def reserved(self) -> dict[tuple[str, str], str]:
        """The Workloads with reserved quota, and their ClusterQueues."""
        return {key: queue for key, (queue, _) in self._reserved.items()}

    def fits_nominal_quota(self, queue: str, requests: Counter[str]) -> bool:
        """Whether one flavor of a ClusterQueue has room for these requests within the queue's own quota, and its cohort too."""
        spec = self._queues.get(queue) or {}
        for group in spec.get("resourceGroups") or ():
            for flavor in group["flavors"]:
                if all(self._has_room(queue, spec, (flavor["name"], name), amount) for name, amount in requests.items()):
                    return True
        return False

    def _has_room(self, queue: str, spec: Obj, flavor_resource: FlavorResource, amount: Fraction | int) -> bool:
        used = self._used(flavor_resource)
        used[queue] += amount
        return used[queue] <= _quota(spec, flavor_resource)[0] and self._excess(queue, spec, flavor_resource, used) is None

    def _observe_workload(self, key: tuple[str, str], change: Change) -> None:
        before = self._reserved.pop(key, None)
        admission = (change.obj.get("status") or {}).get("admission")
        if change.type == "DELETED" or not admission or not _is_true(change.obj, "QuotaReserved"):
            return
        # Kueue releases the quota of a Workload that is deactivated before its pods have stopped.
        is_active = change.obj["spec"].get("active", True)
        self._reserved[key] = (admission["clusterQueue"], _usage(change.obj, admission) if is_active else Counter())
        if before is None:
            for flavor_resource in self._reserved[key][1]:
                self._check(key, admission["clusterQueue"], flavor_resource)

    def _check(self, key: tuple[str, str], queue: str, flavor_resource: FlavorResource) -> None:
        spec, used = self._queues.get(queue), self._used(flavor_resource)
        if spec is None:
            return
        excess = self._excess(queue, spec, flavor_resource, used)
        if excess is not None:
            self._tell(key, flavor_resource, *excess)

    def _excess(
        self, queue: str, spec: Obj, flavor_resource: FlavorResource, used: defaultdict[str, Fraction]
    ) -> tuple[str, Fraction, Fraction] | None:
        """What has more reserved than it may have, with both amounts: the queue, or its cohort; None if neither has."""
        cohort = spec.get("cohortName") or ""
        nominal, borrowing, _ = _quota(spec, flavor_resource)
        limit = nominal if not cohort else None if borrowing is None else nominal + borrowing
        if limit is not None and used[queue] > limit:
            return f"ClusterQueue {queue}", used[queue], limit
        if not cohort:
            return None
        lent, total = Fraction(0), _quota(self._cohorts.get(cohort) or {}, flavor_resource)[0]
        for name, member in self._queues.items():
            if (member.get("cohortName") or "") == cohort:
                nominal, _, lending = _quota(member, flavor_resource)
                kept = max(Fraction(0), nominal - lending) if lending is not None else Fraction(0)
                total += nominal - kept
                lent += max(Fraction(0), used[name] - kept)
                if name == queue and used[queue] <= kept:
                    return None  # It uses nothing that the cohort shares.
        return (f"cohort {cohort}", lent, total) if lent > total else None

    def _used(self, flavor_resource: FlavorResource) -> defaultdict[str, Fraction]:
        used: defaultdict[str, Fraction] = defaultdict(Fraction)
        for queue, usage in self._reserved.values():
            used[queue] += usage[flavor_resource]
        return used

    def _tell(self, key: tuple[str, str], flavor_resource: FlavorResource, where: str, used: Fraction, limit: Fraction) -> None:
        flavor, resource = flavor_resource
        amount = f"{float(used):g} of {float(limit):g} {resource} of {flavor}"
        self.wrong.append(f"{clock.loop_time():.1f} {'/'.join(key)} is admitted, and {where} has {amount} reserved")


def _usage(workload: Obj, admission: Obj) -> Counter[FlavorResource]:
    """What a Workload has reserved, without its reclaimable pods."""
    counts = {pods["name"]: pods["count"] for pods in workload["spec"]["podSets"]}
    for pods in (workload.get("status") or {}).get("reclaimablePods") or ():
        counts[pods["name"]] -= pods["count"]
    usage: Counter[FlavorResource] = Counter()
    for pods in admission["podSetAssignments"]:
        count = pods.get("count") or 0
        share = Fraction(min(count, counts[pods["name"]]), count) if count else Fraction(0)
        for resource, flavor in (pods.get("flavors") or {}).items():
            usage[flavor, resource] += quantity.parse(pods["resourceUsage"][resource]) * share  # type: ignore[assignment]
    return usage


def _quota(spec: Obj, flavor_resource: FlavorResource) -> tuple[Fraction, Fraction | None, Fraction | None]:
    """The nominal quota, the borrowing limit and the lending limit."""
    for group in spec.get("resourceGroups") or ():
        for flavor in group["flavors"]:
            for resource in flavor["resources"]:
                if (flavor["name"], resource["name"]) == flavor_resource:
                    limits = (resource.get(name) for name in ("borrowingLimit", "lendingLimit"))
                    borrowing, lending = (None if limit is None else quantity.parse(str(limit)) for limit in limits)
                    return quantity.parse(str(resource["nominalQuota"])), borrowing, lending
    return Fraction(0), None, None


def _is_true(obj: Obj, kind: str) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == kind and condition["status"] == "True" for condition in conditions)


class TimeOracle:
    """Checks that no object is created, and no condition changes, before its predecessor or in the future."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._transitions: dict[tuple[str, str, str, str], str] = {}
        self._now = ""

    def observe(self, change: Change) -> None:
        key, metadata, now = (change.resource, change.namespace, change.name), change.obj.get("metadata") or {}, clock.timestamp()
        if now < self._now:
            self.wrong.append(f"the clock went from {self._now} to {now}")
        self._now = now
        if change.type == "DELETED":
            for entry in [item for item in self._transitions if item[:3] == key]:
                del self._transitions[entry]
            return
        if (created := metadata.get("creationTimestamp") or "") > now:
            self.wrong.append(f"{'/'.join(key)} was created at {created}, after {now}")
        status = change.obj.get("status")
        for condition in (status.get("conditions") if isinstance(status, dict) else None) or ():
            since, last = condition.get("lastTransitionTime") or "", self._transitions.get((*key, condition["type"]), "")
            if since > now or since < last:
                reported = f"{'/'.join(key)}: {condition['type']} changed at {since}, before it at {last}; now is {now}"
                self.wrong.append(reported)
            self._transitions[*key, condition["type"]] = since


class SourceOracle:
    """Checks that no container starts while a Secret, ConfigMap, claim, service account or image of its pod is missing."""

    _KINDS = ("/secrets", "/configmaps", "/persistentvolumeclaims", "/serviceaccounts")

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.checked = 0
        self._existing: set[tuple[str, str, str]] = set()
        self._started: set[str] = set()

    def observe(self, change: Change) -> None:
        if change.resource in self._KINDS:
            key = (change.resource[1:], change.namespace, change.name)
            (self._existing.discard if change.type == "DELETED" else self._existing.add)(key)
        elif change.resource == "/pods" and change.type != "DELETED" and self._has_started(change.obj):
            self._check(change.obj)

    def _has_started(self, pod: Obj) -> bool:
        """Whether a container of a pod runs that did not run before."""
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        uid = pod["metadata"]["uid"]
        if uid in self._started or not any("running" in (status.get("state") or {}) for status in statuses):
            return False
        self._started.add(uid)
        return True

    def _check(self, pod: Obj) -> None:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        needed = set(_needed_objects(pod["spec"]))
        self.checked += 1
        missing = sorted(f"{kind} {item}" for kind, item in needed if (kind, namespace, item) not in self._existing)
        if (pod["metadata"].get("annotations") or {}).get("sliceworks.dev/image-pull") == "fail":
            missing.append("image")
        if missing:
            self.wrong.append(f"{clock.loop_time():.1f} pod {name} runs without {', '.join(missing)}")


class PlacementOracle:
    """Checks each placement of a pod: its node matches the selector and the flavors that Kueue assigned, has no taint that the pod
    does not tolerate, and has room."""

    DELAY = 5.0
    """How long a scheduler may not have heard of a taint."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._nodes: dict[str, Obj] = {}
        self._tainted: dict[tuple[str, str, str], float] = {}
        self._placed: dict[str, tuple[str, Counter[str]]] = {}
        self._flavors: dict[str, Obj] = {}
        self._admissions: dict[tuple[str, str], Obj] = {}

    def observe(self, change: Change) -> None:
        if change.resource == "/nodes":
            self._observe_node(change)
        elif change.resource == f"{_GROUP}/resourceflavors":
            self._flavors[change.name] = (change.obj.get("spec") or {}).get("nodeLabels") or {}
        elif change.resource == f"{_GROUP}/workloads":
            self._admissions[change.namespace, change.name] = (change.obj.get("status") or {}).get("admission") or {}
        elif change.resource == "/pods":
            uid = change.obj["metadata"]["uid"]
            before, node = self._placed.pop(uid, None), change.obj["spec"].get("nodeName", "")
            if change.type != "DELETED" and node and not _is_finished_pod(change.obj):
                self._placed[uid] = (node, _pod_requests(change.obj["spec"]))
                if before is None:
                    self._check(change.obj, node)

    def _observe_node(self, change: Change) -> None:
        self._tainted = {key: since for key, since in self._tainted.items() if key[0] != change.name} | {
            (key := (change.name, taint["key"], taint["effect"])): self._tainted.get(key, clock.loop_time())
            for taint in (change.obj.get("spec") or {}).get("taints") or ()
            if change.type != "DELETED" and taint["effect"] != "PreferNoSchedule"
        }
        if change.type == "DELETED":
            self._nodes.pop(change.name, None)
        else:
            self._nodes[change.name] = change.obj

    def _check(self, pod: Obj, name: str) -> None:
        node, wrong = self._nodes.get(name), []
        if node is None:
            return  # The node was deleted while the pod was being bound.
        labels = node["metadata"].get("labels") or {}
        for key, value in {**(pod["spec"].get("nodeSelector") or {}), **self._flavor_labels(pod)}.items():
            if labels.get(key) != value:
                wrong.append(f"the label {key} of the node is {labels.get(key)}, not {value}")
        for (tainted, key, effect), since in self._tainted.items():
            if tainted == name and not _tolerates(pod["spec"], key, effect) and clock.loop_time() - since > self.DELAY:
                wrong.append(f"the node has the taint {key}:{effect} since {since:.1f}")
        used: Counter[str] = Counter()
        for placed, requests in self._placed.values():
            if placed == name:
                used.update(requests)
        for resource, amount in _pod_requests(pod["spec"]).items():
            allocatable = quantity.parse(str((node["status"].get("allocatable") or {}).get(resource, "0")))
            if amount and used[resource] > allocatable:
                wrong.append(f"the node has {float(allocatable):g} {resource}, and its pods request {float(used[resource]):g}")
        self.wrong += [f"{clock.loop_time():.1f} {pod['metadata']['name']} is placed on {name}: {reported}" for reported in wrong]

    def _flavor_labels(self, pod: Obj) -> dict[str, str]:
        """The node labels of the flavors that Kueue assigned to a pod's pod set."""
        metadata = pod["metadata"]
        workload = (metadata.get("annotations") or {}).get("kueue.x-k8s.io/workload", "")
        pod_set = (metadata.get("labels") or {}).get("kueue.x-k8s.io/podset", "")
        assignments = self._admissions.get((metadata.get("namespace", ""), workload), {}).get("podSetAssignments") or ()
        flavors = {flavor for item in assignments if item["name"] == pod_set for flavor in (item.get("flavors") or {}).values()}
        return {key: value for flavor in flavors for key, value in self._flavors.get(flavor, {}).items()}


class JobOracle:
    """Checks that a Job has no more pods than it may have, none while it is suspended, and none when its quota is released."""

    PATIENCE = 90.0
    DELAY = 5.0
    """How long the status of a Job may not count a new pod: Kueue releases quota once the status counts none."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._jobs: dict[str, Obj] = {}
        self._jobsets: dict[str, Obj] = {}
        self._pods: dict[str, dict[str, str]] = defaultdict(dict)
        self._created: dict[str, float] = {}
        self._reserved: set[str] = set()
        self._surplus: dict[str, float] = {}

    def observe(self, change: Change) -> None:
        metadata = change.obj.get("metadata") or {}
        uid, owner = metadata.get("uid", ""), next((item["uid"] for item in metadata.get("ownerReferences") or ()), "")
        if change.resource == "/pods":
            self._created.setdefault(uid, clock.loop_time())
            is_active = change.type != "DELETED" and not _is_finished_pod(change.obj) and "deletionTimestamp" not in metadata
            (self._pods[owner].__setitem__(uid, change.name) if is_active else self._pods[owner].pop(uid, None))
        elif change.resource in ("batch/jobs", "jobset.x-k8s.io/jobsets"):
            objects = self._jobs if change.resource == "batch/jobs" else self._jobsets
            objects.pop(uid, None) if change.type == "DELETED" else objects.update({uid: change.obj})
        elif change.resource == f"{_GROUP}/workloads":
            self._observe_workload(change, uid, owner)

    def _observe_workload(self, change: Change, uid: str, owner: str) -> None:
        is_reserved = change.type != "DELETED" and _is_true(change.obj, "QuotaReserved")
        if uid in self._reserved and not is_reserved and change.type != "DELETED" and not _is_true(change.obj, "Finished"):
            jobs = [owner, *(job for job, obj in self._jobs.items() if _owner_of(obj) == owner)]
            old = clock.loop_time() - self.DELAY
            if active := sorted(name for job in jobs for uid, name in self._pods.get(job, {}).items() if self._created[uid] < old):
                self.wrong.append(f"{clock.loop_time():.1f} the quota of {change.name} is released while it has the pods {active}")
        (self._reserved.add if is_reserved else self._reserved.discard)(uid)

    def check(self) -> None:
        """Report what has had too many pods, or active Jobs, for too long."""
        now, before, self._surplus = clock.loop_time(), self._surplus, {}
        for uid, job in self._jobs.items():
            jobset = self._jobsets.get(_owner_of(job), {})
            is_over = any(_is_true(obj, kind) for obj in (job, jobset) for kind in ("Complete", "Completed", "Failed"))
            allowed = 0 if is_over or job["spec"].get("suspend") else int(job["spec"].get("parallelism", 1))
            if len(self._pods.get(uid, ())) <= allowed:
                continue
            since = self._surplus[uid] = before.get(uid, now)
            if now - since > self.PATIENCE:
                pods = sorted(self._pods[uid].values())
                self.wrong.append(f"{now:.1f} {job['metadata']['name']} may have {allowed} pods and has {pods} since {since:.1f}")


def _tolerates(spec: Obj, key: str, effect: str) -> bool:
    tolerations = spec.get("tolerations") or ()
    return any(item.get("key", key) == key and (item.get("effect") or effect) == effect for item in tolerations)


def _owner_of(obj: Obj) -> str:
    return next((str(item["uid"]) for item in obj["metadata"].get("ownerReferences") or ()), "")


def _is_finished_pod(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def _pod_requests(spec: Obj) -> Counter[str]:
    """What a pod takes of a node."""
    return container_requests(spec) + Counter({"pods": 1})


def container_requests(spec: Obj) -> Counter[str]:
    """What the containers of a pod request together."""
    total: Counter[str] = Counter()
    for container in spec["containers"]:
        for resource, amount in ((container.get("resources") or {}).get("requests") or {}).items():
            total[resource] += quantity.parse(str(amount))  # type: ignore[assignment]
    return total


class OwnerOracle:
    """Checks that nothing outlives its owners, and no pod its node, for minutes; what finalizers keep is at least being deleted."""

    PATIENCE = 300.0

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self._objects: dict[tuple[str, str, str], Obj] = {}
        self._uids: Counter[str] = Counter()
        self._lost: dict[str, float] = {}

    def observe(self, change: Change) -> None:
        key = (change.resource, change.namespace, change.name)
        if before := self._objects.pop(key, None):
            self._uids[before["uid"]] -= 1
        metadata = change.obj.get("metadata") or {}
        if change.type == "DELETED" or not metadata.get("uid"):
            return
        node = (change.obj.get("spec") or {}).get("nodeName", "") if change.resource == "/pods" else ""
        owners = [reference["uid"] for reference in metadata.get("ownerReferences") or ()]
        self._objects[key] = {"uid": metadata["uid"], "owners": owners, "node": node, "ending": "deletionTimestamp" in metadata}
        self._uids[metadata["uid"]] += 1

    def check(self) -> None:
        """Report what has had no owner, or no node, since too long ago."""
        now, before, self._lost = clock.loop_time(), self._lost, {}
        for key, obj in self._objects.items():
            has_owner = not obj["owners"] or any(self._uids[uid] for uid in obj["owners"])
            has_node = not obj["node"] or ("/nodes", "", obj["node"]) in self._objects
            if has_node and (obj["ending"] or has_owner):
                continue
            since = self._lost[obj["uid"]] = before.get(obj["uid"], now)
            if now - since > self.PATIENCE:
                missing = "its node" if has_owner else "all of its owners"
                self.wrong.append(f"{now:.1f} {'/'.join(key)} has outlived {missing} since {since:.1f}")


def _needed_objects(spec: Obj) -> Iterator[tuple[str, str]]:
    """The objects without which a kubelet does not start a pod: collection and name."""
    yield "serviceaccounts", spec.get("serviceAccountName") or "default"
    for volume in spec.get("volumes") or ():
        if "secret" in volume:
            yield "secrets", volume["secret"]["secretName"]
        if "configMap" in volume:
            yield "configmaps", volume["configMap"]["name"]
        if "persistentVolumeClaim" in volume:
            yield "persistentvolumeclaims", volume["persistentVolumeClaim"]["claimName"]
    for container in spec["containers"]:
        for source in container.get("envFrom") or ():
            if "secretRef" in source:
                yield "secrets", source["secretRef"]["name"]
            if "configMapRef" in source:
                yield "configmaps", source["configMapRef"]["name"]
        for variable in container.get("env") or ():
            source = variable.get("valueFrom") or {}
            if "secretKeyRef" in source:
                yield "secrets", source["secretKeyRef"]["name"]
            if "configMapKeyRef" in source:
                yield "configmaps", source["configMapKeyRef"]["name"]
