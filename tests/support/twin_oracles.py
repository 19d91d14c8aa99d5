"""Watches a twin's store: quota is never reserved twice, no pod starts without what it needs, and time never goes back.

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
        cohort = spec.get("cohortName") or ""
        nominal, borrowing, _ = _quota(spec, flavor_resource)
        limit = nominal if not cohort else None if borrowing is None else nominal + borrowing
        if limit is not None and used[queue] > limit:
            self._tell(key, f"ClusterQueue {queue}", flavor_resource, used[queue], limit)
        if not cohort:
            return
        lent, total = Fraction(0), _quota(self._cohorts.get(cohort) or {}, flavor_resource)[0]
        for name, member in self._queues.items():
            if (member.get("cohortName") or "") == cohort:
                nominal, _, lending = _quota(member, flavor_resource)
                kept = max(Fraction(0), nominal - lending) if lending is not None else Fraction(0)
                total += nominal - kept
                lent += max(Fraction(0), used[name] - kept)
                if name == queue and used[queue] <= kept:
                    return  # It uses nothing that the cohort shares.
        if lent > total:
            self._tell(key, f"cohort {cohort}", flavor_resource, lent, total)

    def _used(self, flavor_resource: FlavorResource) -> defaultdict[str, Fraction]:
        used: defaultdict[str, Fraction] = defaultdict(Fraction)
        for queue, usage in self._reserved.values():
            used[queue] += usage[flavor_resource]
        return used

    def _tell(self, key: tuple[str, str], where: str, flavor_resource: FlavorResource, used: Fraction, limit: Fraction) -> None:
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
