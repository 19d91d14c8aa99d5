"""Replays many random scenarios at once on a cluster, step by step, and records after each step which workloads are admitted."""

from __future__ import annotations

import copy
import itertools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tests.support.kueue import GROUP, PRIORITY, QUEUE
from tests.support.kueue_namespaces import until_known
from tests.support.kueue_scenarios import STEPS, Job, Scenario
from tests.support.polling import eventually
from tests.support.quiescence import QuiescenceWatcher

if TYPE_CHECKING:
    from tests.support.http import Api

Obj = dict[str, Any]
_REST = 1.5


class Player:
    """`prefix` separates the scenarios of one run from those of others."""

    def __init__(self, api: Api, prefix: str, worlds: list[Scenario]) -> None:
        self._api, self._prefix, self._worlds = api, prefix, worlds
        self._aside, self._errands = f"{prefix}-aside", itertools.count()
        self.seen: dict[int, list[dict[str, str]]] = {scenario.seed: [] for scenario in worlds}
        self._made: set[tuple[int, str]] = set()
        self._deleted: set[tuple[int, str]] = set()

    def play(self) -> None:
        """Run all steps of all scenarios; after each, wait until the cluster is idle."""
        with ThreadPoolExecutor(8) as hands, QuiescenceWatcher(self._api, f"{GROUP}/workloads", essence=_essence) as quiet:
            list(hands.map(self._priority, range(1, 100)))
            list(hands.map(self._build, self._worlds))
            self._api.post("/api/v1/namespaces", {"metadata": {"name": self._aside}}).ok(201)
            until_known(self._api, self._aside)
            quiet.rest(_REST)
            for number in range(STEPS):
                list(hands.map(lambda world: self._step(world, world.steps[number]), self._worlds))  # noqa: B023
                self._note(self._still(quiet))

    def _priority(self, number: int) -> None:
        self._make("WorkloadPriorityClass", "workloadpriorityclasses", f"{self._prefix}-{number}", value=number)

    def evictions(self) -> dict[int, dict[str, int]]:
        """The number of preemptions of each job."""
        result: dict[int, dict[str, int]] = {scenario.seed: {} for scenario in self._worlds}
        for seed, job, workload in self._workloads():
            stats = ((workload.get("status") or {}).get("schedulingStats") or {}).get("evictions") or ()
            count = sum(one["count"] for one in stats)
            if count:
                result[seed][job] = count
        return result

    def _space(self, world: Scenario) -> str:
        return f"{self._prefix}-s{world.seed}"

    def _make(self, kind: str, plural: str, name: str, spec: Obj | None = None, namespace: str = "", **more: Any) -> None:
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, **more}
        if spec is not None:
            body["spec"] = spec
        home = f"{GROUP}/namespaces/{namespace}" if namespace else GROUP
        self._api.post(f"{home}/{plural}", body).ok(201)

    def _build(self, world: Scenario) -> None:
        space = self._space(world)
        self._api.post("/api/v1/namespaces", {"metadata": {"name": space}}).ok(201)
        for flavor in world.flavors:
            self._make("ResourceFlavor", "resourceflavors", f"{space}-{flavor}", {})
        for name, spec in world.cohorts.items():
            self._make("Cohort", "cohorts", f"{space}-{name}", self._renamed(spec, space))
        for name, spec in world.queues.items():
            self._make("ClusterQueue", "clusterqueues", f"{space}-{name}", {"namespaceSelector": {}, **self._renamed(spec, space)})
            self._make("LocalQueue", "localqueues", name, {"clusterQueue": f"{space}-{name}"}, space)

    def _renamed(self, spec: Obj, space: str) -> Obj:
        spec = copy.deepcopy(spec)
        for group in spec.get("resourceGroups") or ():
            for flavor in group["flavors"]:
                flavor["name"] = f"{space}-{flavor['name']}"
        for field in spec.keys() & {"cohortName", "parentName"}:
            spec[field] = f"{space}-{spec[field]}"
        return spec

    def _step(self, world: Scenario, step: Job | str) -> None:
        home = f"/apis/batch/v1/namespaces/{self._space(world)}/jobs"
        if isinstance(step, str):
            self._api.delete(f"{home}/{step}", {"propagationPolicy": "Background"}).ok()
            self._deleted.add((world.seed, step))
            return
        container = {"name": "c", "image": "x", "resources": {"requests": step.requests}}
        spec = {"restartPolicy": "Never", "schedulerName": "no-scheduler", "containers": [container]}
        labels = {QUEUE: step.queue, PRIORITY: f"{self._prefix}-{step.priority}"}
        job = {"parallelism": step.pods, "completions": step.pods, "template": {"spec": spec}}
        self._made.add((world.seed, step.name))
        self._api.post(home, {"metadata": {"name": step.name, "labels": labels}, "spec": job}).ok(201)

    def _workloads(self) -> list[tuple[int, str, Obj]]:
        items = self._api.get(f"{GROUP}/workloads").ok().json["items"]
        start = f"{self._prefix}-s"
        mine = [item for item in items if item["metadata"]["namespace"].startswith(start)]
        return [
            (int(item["metadata"]["namespace"].removeprefix(start)), item["metadata"]["ownerReferences"][0]["name"], item)
            for item in mine
        ]

    def _admitted(self) -> dict[int, dict[str, str]] | None:
        """The admitted flavors by job; None while a Workload is missing, is left over from a deleted job, or still has quota after
        its eviction.
        """
        result: dict[int, dict[str, str]] = {scenario.seed: {} for scenario in self._worlds}
        known = self._workloads()
        if {(seed, job) for seed, job, _ in known} != self._made - self._deleted or any(_leaving(one) for *_, one in known):
            return None
        for seed, job, workload in known:
            admission = (workload.get("status") or {}).get("admission")
            if admission is not None:
                flavors = sorted({name.rpartition("-")[2] for name in admission["podSetAssignments"][0]["flavors"].values()})
                result[seed][job] = ",".join(flavors)
        return result

    def _still(self, quiet: QuiescenceWatcher) -> dict[int, dict[str, str]]:
        """The admitted jobs, once nothing has changed for a while."""
        for _ in range(30):
            quiet.rest(_REST, self._errand)
            admitted = self._admitted()
            if admitted is not None:
                return admitted
        raise AssertionError("some Workloads were never created or never deleted")

    def _errand(self) -> None:
        """Submit a job to a missing queue and wait until Kueue reports that: a barrier in Kueue's work queue."""
        name = f"errand-{next(self._errands)}"
        container = {"name": "c", "image": "x"}
        spec = {"restartPolicy": "Never", "schedulerName": "no-scheduler", "containers": [container]}
        body = {"metadata": {"name": name, "labels": {QUEUE: "nowhere"}}, "spec": {"template": {"spec": spec}}}
        self._api.post(f"/apis/batch/v1/namespaces/{self._aside}/jobs", body).ok(201)
        workloads = f"{GROUP}/namespaces/{self._aside}/workloads"

        def told() -> bool:
            items = self._api.get(workloads).ok().json["items"]
            own = [item for item in items if item["metadata"]["ownerReferences"][0]["name"] == name]
            return any((item.get("status") or {}).get("conditions") for item in own)

        eventually(told, what="a word from Kueue")

    def _note(self, admitted: dict[int, dict[str, str]]) -> None:
        for seed, jobs in admitted.items():
            self.seen[seed].append(jobs)


def _essence(workload: Obj) -> Any:
    """The fields that a step may change; in a StrictFIFO queue the messages of pending workloads never stop changing."""
    status = workload.get("status") or {}
    states = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    return states, "admission" in status, workload["metadata"].get("deletionTimestamp")


def _leaving(workload: Obj) -> bool:
    status = workload.get("status") or {}
    states = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    return states.get("Evicted") == "True" and "admission" in status
