"""A namespace of a cluster with workload controllers: creates objects, acts as the kubelet, and summarizes the results."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING, Any

from tests.support import goldens
from tests.support.polling import PATIENCE, eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.clusters import Cluster

Object = dict[str, Any]
_numbers = itertools.count()
_AGAIN = {"Suspended", "Resumed", "SawCompletedJob", "FailedDaemonPod"}
"""Reasons of events that a controller emits before it writes; with a stale cache it emits them again."""
_SUFFIX = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?=$|[ \",])")
_PATHS = {
    "Pod": "/api/v1",
    "Service": "/api/v1",
    "Endpoints": "/api/v1",
    "PersistentVolumeClaim": "/api/v1",
    "Job": "/apis/batch/v1",
    "CronJob": "/apis/batch/v1",
    "Deployment": "/apis/apps/v1",
    "ReplicaSet": "/apis/apps/v1",
    "ReplicationController": "/api/v1",
    "StatefulSet": "/apis/apps/v1",
    "DaemonSet": "/apis/apps/v1",
    "ControllerRevision": "/apis/apps/v1",
    "EndpointSlice": "/apis/discovery.k8s.io/v1",
    "PodDisruptionBudget": "/apis/policy/v1",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2",
    "LeaderWorkerSet": "/apis/leaderworkerset.x-k8s.io/v1",
}


def template(*, labels: Object | None = None, **spec: Any) -> Object:
    """A pod template with one container; no node runs it."""
    result: Object = {"spec": {"containers": [{"name": "main", "image": "example.com/app:1"}], **spec}}
    return {"metadata": {"labels": labels}, **result} if labels else result


class WorkloadHarness:
    """A namespace with methods to create, update and observe objects in it."""

    def __init__(self, cluster: Cluster, ns: str) -> None:
        self.cluster, self.api, self.ns, self.real = cluster, cluster.api, ns, cluster.name == "real"
        # Unique for each test: the node lifecycle controller evicts pods from a node that has been missing for 40 s, even since an
        # earlier test.
        self.nowhere = f"nowhere-{ns}"
        self.words: dict[str, str] = {self.nowhere: "nowhere", ns: "NS"}

    def path(self, kind: str, name: str = "") -> str:
        plural = "endpoints" if kind == "Endpoints" else f"{kind.lower()}s"
        return f"{_PATHS[kind]}/namespaces/{self.ns}/{plural}" + (f"/{name}" if name else "")

    def create(self, kind: str, name: str, spec: Object, **metadata: Any) -> Object:
        body = {"metadata": {"name": name, **metadata}, "spec": spec}
        result: Object = self.api.post(self.path(kind), body).ok(201).json
        return result

    def get(self, kind: str, name: str) -> Object:
        result: Object = self.api.get(self.path(kind, name)).ok(200).json
        return result

    def gone(self, kind: str, name: str) -> bool:
        return self.api.get(self.path(kind, name)).status == 404

    def patch(self, kind: str, name: str, body: Object, below: str = "") -> Object:
        result: Object = self.api.patch(self.path(kind, name) + below, body).ok(200).json
        return result

    def delete(self, kind: str, name: str, **options: Any) -> None:
        self.api.delete(self.path(kind, name), options or None).ok()

    def items(self, kind: str, selector: str = "") -> list[Object]:
        query = {"labelSelector": selector} if selector else None
        result: list[Object] = self.api.get(self.path(kind), query).ok(200).json["items"]
        return sorted(result, key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]))

    def pods(self, count: int | None = None, selector: str = "", **fields: Any) -> list[Object]:
        """Wait until the namespace has this many pods that are not being deleted."""

        def find() -> list[Object] | bool:
            result = [pod for pod in self.items("Pod", selector) if "deletionTimestamp" not in pod["metadata"]]
            result = [pod for pod in result if pod["status"].get("phase") not in ("Succeeded", "Failed")]
            return (result or True) if count is None or len(result) == count else False

        result = eventually(find, what=f"{count} pods")
        return result if isinstance(result, list) else []

    def until(self, kind: str, name: str, matches: Callable[[Object], Any], what: str = "", seconds: float = PATIENCE) -> Object:
        """Wait until `look` accepts the object."""

        def seen() -> Object | None:
            result = self.get(kind, name)
            return result if matches(result) else None

        return eventually(seen, seconds, what=what or f"{kind} {name}")

    def until_condition(self, kind: str, name: str, condition: str, status: str = "True", seconds: float = PATIENCE) -> Object:
        def matches(obj: Object) -> bool:
            return any(
                item["type"] == condition and item["status"] == status for item in obj.get("status", {}).get("conditions", ())
            )

        return self.until(kind, name, matches, f"{kind} {name} to be {condition}={status}", seconds)

    def phase(self, pod: Object | str, phase: str, code: int | None = None, *, ready: bool = False, **status: Any) -> None:
        """Set a pod's phase and conditions, as a kubelet does."""
        name = pod if isinstance(pod, str) else pod["metadata"]["name"]
        now = eventually(lambda: self.get("Pod", name))["metadata"]["creationTimestamp"]
        body: Object = {"phase": phase, **status}
        if code is not None:
            ended = {"exitCode": code, "reason": "Error" if code else "Completed", "startedAt": now, "finishedAt": now}
            body["containerStatuses"] = [_container(state={"terminated": ended})]
        if phase != "Pending":
            # A finished pod is not ready: the real controllers read this condition, not the phase.
            state = "True" if ready else "False"
            body["conditions"] = [{"type": "Ready", "status": state, "lastTransitionTime": now}, *status.get("conditions", ())]
        if phase == "Running":
            body["containerStatuses"] = [_container(state={"running": {"startedAt": now}}, ready=ready)]
        self.patch("Pod", name, {"status": body}, "/status")

    def all_ready(self, count: int, selector: str = "") -> list[Object]:
        """Wait for this many pods and make them ready."""
        result = self.pods(count, selector)
        for pod in result:
            self.phase(pod, "Running", ready=True)
        return result

    def wait_synced(self) -> None:
        """Wait until the controllers know all pods: pods arrive on a separate watch.

        A pod that is created last is counted last. The garbage collector deletes it after it knows it, and then it knows all
        earlier pods.
        """
        home, mark = "/apis/apps/v1/namespaces/default/replicasets", f"mark-{self.ns}-{next(_numbers)}"
        labels = {"mark": mark}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template(labels=labels)}
        self.api.post(home, {"metadata": {"name": mark}, "spec": spec}).ok(201)
        path, query = f"{home}/{mark}", {"labelSelector": f"mark={mark}"}
        eventually(lambda: self.api.get(path).ok(200).json["status"].get("replicas") == 1, what="controllers that know all pods")
        self.api.delete(path, {"propagationPolicy": "Background"}).ok()
        eventually(lambda: not self.api.get("/api/v1/namespaces/default/pods", query).ok(200).names, what="its pod is deleted")

    def allow_pods(self, most: int) -> str:
        """Create a quota for pods and wait until the API server enforces it: it then rejects a Secret."""
        quotas, hard = f"/api/v1/namespaces/{self.ns}/resourcequotas", {"pods": str(most), "count/secrets": "0"}
        self.api.post(quotas, {"metadata": {"name": "none"}, "spec": {"hard": hard}}).ok(201)
        secrets, probe = f"/api/v1/namespaces/{self.ns}/secrets", {"metadata": {"name": "probe"}}
        eventually(lambda: self.api.post(secrets, probe, {"dryRun": "All"}).status == 403, what="a quota that is kept")
        return f"{quotas}/none"

    def remove(self, pod: Object | str) -> None:
        """Finish the deletion of a pod, as a kubelet does."""
        name = pod if isinstance(pod, str) else pod["metadata"]["name"]
        self.delete("Pod", name, gracePeriodSeconds=0)

    def events(self, kind: str, name: str, last: str = "", at_least: int = 1) -> list[Object]:
        """The events of an object, once one with this reason was seen this often."""

        def find() -> list[Object] | None:
            query = {"fieldSelector": f"involvedObject.kind={kind},involvedObject.name={name}"}
            result: list[Object] = self.api.get(f"/api/v1/namespaces/{self.ns}/events", query).ok(200).json["items"]
            seen = sum(event["count"] for event in result if event["reason"] == last)
            return result if not last or seen >= at_least else None

        result = eventually(find, what=f"the event {last} on {kind} {name}")
        reported = [
            {name: event.get(name) for name in ("type", "reason", "message")}
            | {"count": 1 if event["reason"] in _AGAIN else event["count"], "by": event["source"]["component"]}
            for event in result
        ]
        return sorted(
            reported, key=lambda event: (event["reason"], self._named(_SUFFIX.sub("", event["message"])), event["message"])
        )

    def _named(self, text: str) -> str:
        for own, word in self.words.items():
            text = text.replace(own, word)
        return text

    def settles(self, module: str, case: str, matches: Callable[[], Any]) -> None:
        """Wait until the state equals the recorded final state of the real cluster."""

        def same() -> bool:
            self.check(module, case, matches())
            return True

        eventually(same, what=case)

    def check(self, module: str, case: str, seen: Any) -> None:
        """Compare with the recording of the real cluster."""
        goldens.check(f"workloads_{module}", case, _plain(seen), real=self.real, words=self.words)


def _container(**fields: Any) -> Object:
    return {"name": "main", "image": "example.com/app:1", "imageID": "", "restartCount": 0, "ready": False, **fields}


def _plain(value: Any) -> Any:
    """The value without the random suffixes of names."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return _SUFFIX.sub("-XXXXX", value) if isinstance(value, str) else value


def summary(pod: Object) -> Object:
    """The relevant fields of a pod that a controller created."""
    metadata = pod["metadata"]
    owners = [{key: ref[key] for key in ("kind", "name", "controller")} for ref in metadata.get("ownerReferences", ())]
    return {
        "name": metadata["name"],
        "generateName": metadata.get("generateName"),
        "labels": metadata.get("labels"),
        "annotations": metadata.get("annotations"),
        "finalizers": metadata.get("finalizers"),
        "owners": owners,
        "hostname": pod["spec"].get("hostname"),
        "subdomain": pod["spec"].get("subdomain"),
        "env": [container.get("env") for container in pod["spec"]["containers"]],
        "phase": pod["status"].get("phase"),
        "deleting": "deletionTimestamp" in metadata,
    }
