"""Queues, flavors and jobs of one contract test, and the state that Kueue gives them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.support import goldens
from tests.support.polling import eventually, pass_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.clusters import Cluster
    from tests.support.http import Answer

Obj = dict[str, Any]
GROUP = "/apis/kueue.x-k8s.io/v1beta2"
QUEUE, PRIORITY = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
TOLD = (
    "CreatedWorkload",
    "QuotaReserved",
    "Admitted",
    "Started",
    "Stopped",
    "Preempted",
    "EvictedDueToPreempted",
    "FinishedWorkload",
)
"""Reasons of events that tests compare."""
_WAITED = re.compile(r"was \d+s")
_OWN = ("controller-uid", "batch.kubernetes.io/controller-uid")


class KueueHarness:
    """One namespace; cluster-scoped objects are prefixed with its name."""

    def __init__(self, cluster: Cluster, ns: str) -> None:
        self.api, self.ns, self.real = cluster.api, ns, cluster.name == "real"

    def own(self, name: str) -> str:
        return f"{self.ns}-{name}"

    def make(self, kind: str, plural: str, name: str, spec: Obj, *, namespaced: bool = False) -> Answer:
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": name}, "spec": spec}
        home = f"{GROUP}/namespaces/{self.ns}" if namespaced else GROUP
        return self.api.post(f"{home}/{plural}", body)

    def flavor(self, name: str, **spec: Any) -> str:
        self.make("ResourceFlavor", "resourceflavors", self.own(name), spec).ok(201)
        return self.own(name)

    def groups(self, *flavors: Obj) -> list[Obj]:
        """One resource group; each flavor is `{"name": …, resource: nominal or [nominal, borrowing, lending]}`."""
        resources = [key for key in flavors[0] if key != "name"]
        return [
            {
                "coveredResources": resources,
                "flavors": [
                    {"name": self.own(flavor["name"]), "resources": [_quota(key, flavor[key]) for key in resources]}
                    for flavor in flavors
                ],
            }
        ]

    def queue(self, name: str, *flavors: Obj, cohort: str = "", local: bool = True, **spec: Any) -> str:
        """Create a ClusterQueue, its missing flavors and a LocalQueue of the same name, and wait until both report status."""
        for flavor in flavors:
            if self.api.get(f"{GROUP}/resourceflavors/{self.own(flavor['name'])}").status == 404:
                self.flavor(flavor["name"])
        full: Obj = {"namespaceSelector": {}, "resourceGroups": self.groups(*flavors) if flavors else [], **spec}
        if cohort:
            full["cohortName"] = self.own(cohort)
        self.make("ClusterQueue", "clusterqueues", self.own(name), full).ok(201)
        if local:
            self.local(name, self.own(name))
            self.until(lambda: self.local_status(name)["conditions"], f"the LocalQueue {name} has a status")
        self.until(lambda: self._condition(self.get_queue(name), "Active"), f"{name} has a status")
        return self.own(name)

    def local(self, name: str, cluster_queue: str, **spec: Any) -> None:
        self.make("LocalQueue", "localqueues", name, {"clusterQueue": cluster_queue, **spec}, namespaced=True).ok(201)

    def priority(self, name: str, value: int) -> str:
        body = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": self.own(name)},
            "value": value,
        }
        self.api.post(f"{GROUP}/workloadpriorityclasses", body).ok(201)
        return self.own(name)

    def check(self, name: str) -> str:
        """Create an admission check whose controller is the test."""
        self.make("AdmissionCheck", "admissionchecks", self.own(name), {"controllerName": "example.com/desk"}).ok(201)
        condition = {
            "type": "Active",
            "status": "True",
            "reason": "Active",
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        self.api.patch(f"{GROUP}/admissionchecks/{self.own(name)}/status", {"status": {"conditions": [condition]}}).ok()
        return self.own(name)

    def job(self, name: str, queue: str, *, cpu: Any = 1, pods: int = 1, priority: str = "", **more: Any) -> Answer:
        labels = {QUEUE: queue, **more.pop("labels", {})}
        if priority:
            labels[PRIORITY] = self.own(priority)
        metadata: Obj = {"name": name, "labels": labels}
        if "annotations" in more:
            metadata["annotations"] = more.pop("annotations")
        requests = more.pop("requests", {"cpu": cpu})
        container = {"name": "c", "image": "x", "resources": {"requests": requests}}
        spec = {"restartPolicy": "Never", "schedulerName": "no-scheduler", "containers": [container], **more.pop("pod", {})}
        body = {"metadata": metadata, "spec": {"parallelism": pods, "completions": pods, "template": {"spec": spec}, **more}}
        return self.api.post(self._jobs(), body)

    def _jobs(self, name: str = "") -> str:
        return f"/apis/batch/v1/namespaces/{self.ns}/jobs" + (f"/{name}" if name else "")

    def get_job(self, name: str) -> Obj:
        result: Obj = self.api.get(self._jobs(name)).ok().json
        return result

    def change_job(self, name: str, body: Obj) -> Answer:
        return self.api.patch(self._jobs(name), body)

    def get_queue(self, name: str) -> Obj:
        result: Obj = self.api.get(f"{GROUP}/clusterqueues/{self.own(name)}").ok().json
        return result

    def change_queue(self, name: str, **spec: Any) -> Answer:
        return self.api.patch(f"{GROUP}/clusterqueues/{self.own(name)}", {"spec": spec})

    def local_path(self, name: str) -> str:
        return f"{GROUP}/namespaces/{self.ns}/localqueues/{name}"

    def workloads(self) -> dict[str, Obj]:
        """The Workloads by the names of their jobs."""
        items = self.api.get(f"{GROUP}/namespaces/{self.ns}/workloads").ok().json["items"]
        return {item["metadata"]["ownerReferences"][0]["name"]: item for item in items if item["metadata"].get("ownerReferences")}

    def path(self, name: str) -> str:
        workload = self.workloads()[name]["metadata"]["name"]
        return f"{GROUP}/namespaces/{self.ns}/workloads/{workload}"

    def tick(self) -> None:
        """Wait for the next second, because creation timestamps have a resolution of one second."""
        pass_time(1.1)

    def until(self, look: Callable[[], Any], what: str) -> Any:
        return eventually(look, what=what)

    def _condition(self, obj: Obj, kind: str) -> Obj | None:
        return next(
            (condition for condition in (obj.get("status") or {}).get("conditions") or () if condition["type"] == kind), None
        )

    def condition(self, name: str, kind: str) -> Obj:
        workload = self.workloads().get(name)
        return (self._condition(workload, kind) if workload else None) or {}

    def wait_condition(self, name: str, kind: str, status: str = "True", reason: str = "", text: str = "") -> None:
        def holds() -> bool:
            result = self.condition(name, kind)
            return (
                bool(result)
                and result["status"] == status
                and result["reason"] == (reason or result["reason"])
                and text in result["message"]
            )

        self.until(holds, f"{name}: {kind}={status} {reason} {text}")

    def wait_admitted(self, *names: str) -> None:
        for name in names:
            self.wait_condition(name, "Admitted")
            self.until(lambda: not self.get_job(name)["spec"]["suspend"], f"{name} is started")  # noqa: B023

    def wait_pending(self, name: str, text: str) -> None:
        self.wait_condition(name, "QuotaReserved", "False", text=text)

    def finish(self, name: str, count: int = 1) -> None:
        """Set all pods of a Job to succeeded."""
        query = {"labelSelector": f"batch.kubernetes.io/job-name={name}"}
        core = f"/api/v1/namespaces/{self.ns}/pods"
        pods = self.until(
            lambda: len(result := self.api.get(core, query).ok().json["items"]) == count and result, f"pods of {name}"
        )
        for pod in pods:
            self.api.patch(f"{core}/{pod['metadata']['name']}/status", {"status": {"phase": "Succeeded"}}).ok()

    def set_check(self, name: str, check: str, state: str, **more: Any) -> None:
        """Set the state of an admission check of a Workload."""

        def write() -> bool:
            path = self.path(name)
            workload = self.api.get(path).ok().json
            for one in (workload.get("status") or {}).get("admissionChecks") or ():
                if one["name"] == self.own(check):
                    now = "2026-01-01T00:00:00Z"
                    one |= {"state": state, "message": f"is {state}", "lastTransitionTime": now, **more}
                    return self.api.put(f"{path}/status", workload).status == 200
            return False

        self.until(write, f"{check} is {state} for {name}")

    def picture(self, *names: str) -> Obj:
        """The Workloads of these jobs and the node selectors they were started with."""
        workloads = self.workloads()
        return {name: {"workload": workload_picture(workloads.get(name)), "job": _job(self.get_job(name))} for name in names}

    def events(self, *reasons: str) -> list[list[str]]:
        """The events of this namespace, without those whose count depends on timing."""
        items = self.api.get(f"/api/v1/namespaces/{self.ns}/events").ok().json["items"]
        result = [
            [
                item["involvedObject"]["kind"],
                item["type"],
                item["reason"],
                _WAITED.sub("was Ns", item["message"]),
                (item.get("source") or {}).get("component", ""),
            ]
            for item in items
            if item["reason"] in reasons
        ]
        return sorted(result)

    def queue_status(self, name: str) -> Obj:
        status = self.get_queue(name).get("status") or {}
        return {**status, "conditions": brief(status.get("conditions"))}

    def local_status(self, name: str) -> Obj:
        status = self.api.get(self.local_path(name)).ok().json.get("status") or {}
        return {**status, "conditions": brief(status.get("conditions"))}

    def settles(self, case: str, look: Callable[[], Any]) -> None:
        """Wait until the state equals the recorded final state of the real Kueue, which writes in several steps."""

        def same() -> bool:
            self.compare(case, look())
            return True

        eventually(same, what=case)

    def compare(self, case: str, seen: Any) -> None:
        """Compare with the recording of the real Kueue."""
        words = {item["metadata"]["name"]: f"WORKLOAD({name})" for name, item in self.workloads().items()}
        goldens.check("workloads_kueue", case, seen, real=self.real, words={**words, self.ns: "NS"})


def _quota(name: str, value: Any) -> Obj:
    values = value if isinstance(value, list) else [value]
    fields = dict(zip(("nominalQuota", "borrowingLimit", "lendingLimit"), values, strict=False))
    return {"name": name, **{field: str(amount) for field, amount in fields.items() if amount is not None}}


def brief(conditions: Any) -> Obj:
    """Conditions by type."""
    return {condition["type"]: [condition["status"], condition["reason"], condition["message"]] for condition in conditions or ()}


def workload_picture(workload: Obj | None) -> Obj | None:
    """A Workload without what differs between runs."""
    if workload is None:
        return None
    status, spec = workload.get("status") or {}, workload["spec"]
    pod_sets = [{key: pods[key] for key in ("name", "count", "minCount") if key in pods} for pods in spec["podSets"]]
    kept = ("admission", "reclaimablePods", "resourceRequests", "schedulingStats")
    checks = [{key: one.get(key) for key in ("name", "state", "message")} for one in status.get("admissionChecks") or ()]
    return {
        "spec": {**{key: value for key, value in spec.items() if key != "podSets"}, "podSets": pod_sets},
        "conditions": brief(status.get("conditions")),
        "checks": checks,
        **{key: status[key] for key in kept if status.get(key)},
    }


def _job(job: Obj) -> Obj:
    template = job["spec"]["template"]
    labels = {key: value for key, value in (template["metadata"].get("labels") or {}).items() if key not in _OWN}
    return {
        "suspend": job["spec"]["suspend"],
        "parallelism": job["spec"].get("parallelism"),
        "labels": labels,
        "annotations": template["metadata"].get("annotations"),
        "nodeSelector": template["spec"].get("nodeSelector"),
        "tolerations": template["spec"].get("tolerations"),
    }
