"""Pods, pod groups, Deployments and StatefulSets in queues, and the state that Kueue gives them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support import goldens
from tests.support.kueue import GROUP, PRIORITY, QUEUE, KueueHarness, brief, workload_picture

if TYPE_CHECKING:
    from tests.support.http import Answer

Obj = dict[str, Any]
NAME, TOTAL = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
SERVING, FAST, RETRIABLE = (
    f"kueue.x-k8s.io/{word}" for word in ("pod-group-serving", "pod-group-fast-admission", "retriable-in-group")
)


class KueuePodHarness(KueueHarness):
    """One namespace whose pods no scheduler places."""

    @property
    def core(self) -> str:
        return f"/api/v1/namespaces/{self.ns}/pods"

    def pod(self, name: str, queue: str = "q", *, cpu: Any = 1, priority: str = "", **more: Any) -> Answer:
        """Create a pod; `group` and `total` add it to a pod group."""
        labels, annotations = {**({QUEUE: queue} if queue else {}), **more.pop("labels", {})}, dict(more.pop("annotations", {}))
        if priority:
            labels[PRIORITY] = self.own(priority)
        if "group" in more:
            labels[NAME] = more.pop("group")
        if "total" in more:
            annotations[TOTAL] = str(more.pop("total"))
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        spec = {"schedulerName": "no-scheduler", "automountServiceAccountToken": False, "containers": [container], **more}
        return self.api.post(self.core, {"metadata": {"name": name, "labels": labels, "annotations": annotations}, "spec": spec})

    def deployment(self, name: str, queue: str = "q", replicas: int = 1, cpu: Any = 1, **labels: str) -> Answer:
        return self.api.post(self.deployments(), self._maker(name, queue, replicas, cpu, labels))

    def stateful(self, name: str, queue: str = "q", replicas: int = 1, cpu: Any = 1, **labels: str) -> Answer:
        """Create a StatefulSet."""
        created = self._maker(name, queue, replicas, cpu, labels)
        return self.api.post(self.statefuls(), {**created, "spec": {**created["spec"], "serviceName": name}})

    def _maker(self, name: str, queue: str, replicas: int, cpu: Any, labels: dict[str, str]) -> Obj:
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"schedulerName": "no-scheduler", "automountServiceAccountToken": False, "containers": [container]},
        }
        spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
        metadata = {"name": name, "labels": {**({QUEUE: queue} if queue else {}), **labels}}
        return {"metadata": metadata, "spec": spec}

    def statefuls(self, name: str = "") -> str:
        return f"/apis/apps/v1/namespaces/{self.ns}/statefulsets" + (f"/{name}" if name else "")

    def deployments(self, name: str = "") -> str:
        return f"/apis/apps/v1/namespaces/{self.ns}/deployments" + (f"/{name}" if name else "")

    def get_pod(self, name: str) -> Obj:
        result: Obj = self.api.get(f"{self.core}/{name}").ok().json
        return result

    def pods(self) -> dict[str, Obj]:
        return {pod["metadata"]["name"]: pod for pod in self.api.get(self.core).ok().json["items"]}

    def phase(self, name: str, phase: str, **status: Any) -> None:
        """Set a pod's phase, as a kubelet does."""
        ready = "True" if phase == "Running" else "False"
        conditions = [{"type": "Ready", "status": ready}]
        self.api.patch(f"{self.core}/{name}/status", {"status": {"phase": phase, "conditions": conditions, **status}}).ok()

    def group(self, name: str) -> Obj:
        """The Workload of a pod group, or None."""
        response = self.api.get(f"{GROUP}/namespaces/{self.ns}/workloads/{name}")
        result: Obj = {} if response.status == 404 else response.ok().json
        return result

    def group_condition(self, name: str, kind: str) -> str:
        result = brief((self.group(name).get("status") or {}).get("conditions"))
        return str(result.get(kind, ["None"])[0])

    def wait_ungated(self, *names: str) -> None:
        for name in names:
            self.until(lambda: not self.get_pod(name)["spec"].get("schedulingGates"), f"{name} has no scheduling gate")  # noqa: B023

    def wait_deleted(self, *names: str) -> None:
        self.until(lambda: not set(names) & set(self.pods()), f"{names} are deleted")

    def pod_pictures(self, *names: str) -> Obj:
        """The labels, gates and selectors that Kueue put on pods."""
        pods = self.pods()
        return {name: _pod(pods[name]) if name in pods else None for name in names}

    def pod_workload(self, name: str) -> Obj | None:
        """The Workload of a pod without a group."""
        return workload_picture(self.workloads().get(name))

    def group_picture(self, name: str) -> Obj | None:
        workload = self.group(name)
        if not workload:
            return None
        metadata = workload["metadata"]
        owners = sorted([ref["kind"], ref["name"], str(ref.get("controller"))] for ref in metadata.get("ownerReferences") or ())
        marks = {key: metadata.get(key) for key in ("labels", "annotations")}
        return {**(workload_picture(workload) or {}), "owners": owners, **marks}

    def compare(self, case: str, seen: Any) -> None:
        words = {item["metadata"]["name"]: f"WORKLOAD({name})" for name, item in self.workloads().items() if not _grouped(item)}
        goldens.check("workloads_kueue_pods", case, seen, real=self.real, words={**words, self.ns: "NS"})


def _grouped(workload: Obj) -> bool:
    return "kueue.x-k8s.io/is-group-workload" in (workload["metadata"].get("annotations") or {})


def _pod(pod: Obj) -> Obj:
    metadata, spec = pod["metadata"], pod["spec"]
    targets = [condition for condition in pod["status"].get("conditions") or () if condition["type"] == "TerminationTarget"]
    return {
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "finalizers": metadata.get("finalizers"),
        "gates": [gate["name"] for gate in spec.get("schedulingGates") or ()],
        "nodeSelector": spec.get("nodeSelector"),
        "tolerations": [toleration["key"] for toleration in spec.get("tolerations") or ()],
        "target": [[target["status"], target["reason"], target["message"]] for target in targets],
        "leaving": "deletionTimestamp" in metadata,
    }
