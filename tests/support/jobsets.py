"""Drives one JobSet in a contract test: creates it, acts as the kubelet of its pods, and compares it with recordings."""

from __future__ import annotations

import re
from hashlib import sha1
from typing import TYPE_CHECKING, Any

from tests.support import goldens
from tests.support.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.http import Answer, Api

Obj = dict[str, Any]
GROUP = "/apis/jobset.x-k8s.io/v1alpha2"
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR = "alpha.jobset.sigs.k8s.io/node-selector"
POOL = "cloud.google.com/gke-nodepool"
_TWICE = ("JobCreationFailed", "HeadlessServiceCreationFailed")
_SUFFIX = re.compile(r"(-\d+-\d+-)[bcdfghjklmnpqrstvwxz2456789]{5}$")


def replicated(name: str, replicas: int = 1, *, pods: int = 1, metadata: Obj | None = None, **more: Any) -> Obj:
    """A replicated Job whose pods no scheduler places: the test sets their status. `job` and `pod` extend their specs."""
    job, pod, pod_metadata = more.pop("job", {}), more.pop("pod", {}), more.pop("pod_metadata", None)
    template: Obj = {"spec": {"containers": [{"name": "c", "image": "x"}], "schedulerName": "nobody", **pod}}
    if pod_metadata:
        template["metadata"] = pod_metadata
    spec = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": template, **job}
    result: Obj = {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}
    if metadata:
        result["template"]["metadata"] = metadata
    return result


class JobSetDriver:
    """One JobSet in its own namespace."""

    def __init__(self, api: Api, namespace: str, name: str = "js") -> None:
        self.api, self.namespace, self.name = api, namespace, name
        self.home = f"{GROUP}/namespaces/{namespace}/jobsets"
        self.path = f"{self.home}/{name}"
        self._batch, self._core = f"/apis/batch/v1/namespaces/{namespace}", f"/api/v1/namespaces/{namespace}"

    def body(self, *jobs: Obj, annotations: Obj | None = None, labels: Obj | None = None, **spec: Any) -> Obj:
        metadata: Obj = {"name": self.name}
        if annotations:
            metadata["annotations"] = annotations
        if labels:
            metadata["labels"] = labels
        return {
            "apiVersion": "jobset.x-k8s.io/v1alpha2",
            "kind": "JobSet",
            "metadata": metadata,
            "spec": {**spec, "replicatedJobs": list(jobs)},
        }

    def create(self, *jobs: Obj, annotations: Obj | None = None, labels: Obj | None = None, **spec: Any) -> Answer:
        return self.api.post(self.home, self.body(*jobs, annotations=annotations, labels=labels, **spec))

    def get(self) -> Obj:
        result: Obj = self.api.get(self.path).ok().json
        return result

    def gone(self) -> bool:
        return self.api.get(self.path).status == 404

    def change(self, **spec: Any) -> Answer:
        return self.api.patch(self.path, {"spec": spec})

    def status(self) -> Obj:
        return self.get().get("status") or {}

    def restarts(self) -> int:
        return int(self.status().get("restarts", 0))

    def condition(self, kind: str, status: str = "True") -> bool:
        return any(
            (condition["type"], condition["status"]) == (kind, status) for condition in self.status().get("conditions") or ()
        )

    def jobs(self) -> dict[str, Obj]:
        return {job["metadata"]["name"]: job for job in self.api.get(f"{self._batch}/jobs").ok().json["items"]}

    def pods(self, job: str = "") -> list[Obj]:
        query = {"labelSelector": f"batch.kubernetes.io/job-name={job}"} if job else None
        items = self.api.get(f"{self._core}/pods", query).ok().json["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def until(self, look: Callable[[], Any], what: str) -> Any:
        return eventually(look, what=what)

    def until_jobs(self, *names: str) -> None:
        self.until(lambda: sorted(self.jobs()) == sorted(names), f"Jobs {names}")

    def until_pods(self, job: str, count: int) -> list[Obj]:
        result: list[Obj] = self.until(lambda: len(pods := self.pods(job)) == count and pods, f"{count} pods of {job}")
        return result

    def until_counted(self, name: str, **counts: int) -> None:
        """Wait for these counters in the status of a replicated Job."""

        def holds() -> bool:
            entries = {item["name"]: item for item in self.status().get("replicatedJobsStatus") or ()}
            return name in entries and all(entries[name][field] == count for field, count in counts.items())

        self.until(holds, f"{name}: {counts}")

    def run(self, job: str, count: int = 1) -> None:
        """Set all pods of a Job to running and ready."""
        for pod in self.until_pods(job, count):
            self._set(pod, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})

    def succeed(self, job: str, count: int = 1) -> None:
        """Set all pods of a Job to succeeded and wait until the Job completes."""
        for pod in self.until_pods(job, count):
            self._set(pod, {"phase": "Succeeded"})
        self.until(lambda: job not in (jobs := self.jobs()) or _ended(jobs[job]), f"{job} ends")

    def fail(self, job: str, count: int = 1, code: int = 1) -> None:
        """Set the first pod of a Job to failed."""
        state = {"name": "c", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
        state["state"] = {"terminated": {"exitCode": code, "reason": "Error"}}
        self._set(self.until_pods(job, count)[0], {"phase": "Failed", "containerStatuses": [state]})

    def _set(self, pod: Obj, status: Obj) -> None:
        self.api.patch(f"{self._core}/pods/{pod['metadata']['name']}/status", {"status": status}).ok()

    def bind(self, pod: Obj, node: str) -> None:
        """Bind a pod to a node, as a scheduler does."""
        name = pod["metadata"]["name"]
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        self.api.post(f"{self._core}/pods/{name}/binding", {"metadata": {"name": name}, "target": target}).ok()

    def events(self, *, creation: bool = False) -> list[list[str]]:
        """The events of the JobSet, oldest first. Creation events are left out by default, because the real JobSet may repeat them
        when its cache lags.
        """
        query = {"fieldSelector": f"involvedObject.kind=JobSet,involvedObject.name={self.name}"}
        items = self.api.get(f"{self._core}/events", query).ok().json["items"]
        items = [event for event in items if creation or event["reason"] not in _TWICE]
        reported = sorted(items, key=lambda event: (event["eventTime"], event["metadata"]["name"]))
        return [
            [event["type"], event["reason"], event["message"], event["reportingComponent"], event["action"]] for event in reported
        ]

    def attempts(self, label: str = "restart-attempt") -> dict[str, str]:
        """The restart attempt of each Job."""
        return {name: job["metadata"]["labels"].get(f"jobset.sigs.k8s.io/{label}", "") for name, job in self.jobs().items()}

    def picture(self, *, whole: bool = True, ordered: bool = True) -> Obj:
        """The JobSet, its Jobs, Services and events, without what differs between runs.

        Jobs may be summarized. Events may be sorted, where their order depends on timing.
        """
        show = _whole_job if whole else _brief_job
        events = self.events()
        services = self.api.get(f"{self._core}/services").ok().json["items"]
        return {
            "jobset": _plain(self.get()) if not self.gone() else None,
            "jobs": {name: show(job) for name, job in self.jobs().items()},
            "services": {service["metadata"]["name"]: _plain(service) for service in services},
            "events": events if ordered else sorted(map(str, events)),
        }

    def words(self) -> dict[str, str]:
        """Strings of this run and their placeholders in recordings."""
        keys = {sha1(f"{self.namespace}/{name}".encode()).hexdigest(): f"KEY({name})" for name in self.jobs()}
        return {**keys, self.namespace: "NAMESPACE"}

    def check(self, case: str, *, real: bool, seen: Any = None, whole: bool = False) -> None:
        """Compare with the recording of the real JobSet: `seen`, or the whole picture once it is stable."""
        if seen is None:
            self.settles(case, lambda: self.picture(whole=whole), real=real)
        else:
            goldens.check("workloads_jobset", case, seen, real=real, words=self.words())

    def settles(self, case: str, look: Callable[[], Any], *, real: bool) -> None:
        """Wait until the state equals the recorded final state of the real JobSet."""

        def same() -> bool:
            goldens.check("workloads_jobset", case, look(), real=real, words=self.words())
            return True

        self.until(same, f"the picture {case}")


def pod_picture(pod: Obj) -> Obj:
    """The fields of a pod that JobSet may change."""
    metadata, spec = pod["metadata"], pod["spec"]
    kept = {key: spec.get(key) for key in ("affinity", "nodeSelector", "subdomain", "hostname")}
    labels = {key: value for key, value in metadata["labels"].items() if "jobset" in key}
    return {"name": _SUFFIX.sub(r"\1SUFFIX", metadata["name"]), "labels": labels, "annotations": metadata["annotations"], **kept}


def _whole_job(job: Obj) -> Obj:
    return {key: value for key, value in _plain(job).items() if key != "status"}


def _brief_job(job: Obj) -> Obj:
    labels = job["metadata"]["labels"]
    attempts = {key: labels.get(f"jobset.sigs.k8s.io/{key}") for key in ("restart-attempt", "job-restart-attempt")}
    return {**attempts, "suspend": job["spec"]["suspend"], "deleting": "deletionTimestamp" in job["metadata"]}


def _ended(job: Obj) -> bool:
    return any(
        condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
        for condition in (job.get("status") or {}).get("conditions") or ()
    )


def _plain(obj: Obj) -> Obj:
    metadata = {
        key: value for key, value in obj["metadata"].items() if key not in ("managedFields", "resourceVersion", "generation")
    }
    return {**obj, "metadata": metadata}
