"""Kueue after a job was queued: admission checks, stop policies, updates, completion; and JobSets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.jobsets import JobSetDriver, replicated
from tests.support.kueue import GROUP, PRIORITY, QUEUE

if TYPE_CHECKING:
    from tests.support.kueue import KueueHarness

CLUSTER = "kueue"


def test_admission_checks(harness: KueueHarness) -> None:
    harness.check("look")
    strategy = {"admissionChecks": [{"name": harness.own("look")}]}
    harness.queue("q", {"name": "f", "cpu": 2}, admissionChecksStrategy=strategy)
    harness.job("a", "q").ok(201)
    harness.wait_condition("a", "QuotaReserved")
    harness.until(
        lambda: (harness.workloads()["a"]["status"].get("admissionChecks") or [{}])[0].get("state") == "Pending",
        "the check is pending",
    )
    harness.settles("check_pending", lambda: harness.picture("a"))
    update = {
        "name": "main",
        "nodeSelector": {"slice": "s1"},
        "labels": {"l": "1"},
        "tolerations": [{"key": "t", "operator": "Exists"}],
    }
    harness.set_check("a", "look", "Ready", podSetUpdates=[update])
    harness.wait_admitted("a")
    harness.settles("check_ready", lambda: harness.picture("a"))


def test_admission_check_retry(harness: KueueHarness) -> None:
    harness.check("look")
    strategy = {"admissionChecks": [{"name": harness.own("look")}]}
    harness.queue("q", {"name": "f", "cpu": 2}, admissionChecksStrategy=strategy)
    harness.job("a", "q").ok(201)
    harness.wait_condition("a", "QuotaReserved")
    harness.set_check("a", "look", "Retry")
    harness.wait_condition("a", "Requeued", reason="BackoffFinished")
    harness.wait_condition("a", "QuotaReserved")
    harness.settles("check_retry", lambda: harness.picture("a"))


def test_admission_check_rejection(harness: KueueHarness) -> None:
    harness.check("look")
    strategy = {"admissionChecks": [{"name": harness.own("look")}]}
    harness.queue("q", {"name": "f", "cpu": 2}, admissionChecksStrategy=strategy)
    harness.job("a", "q").ok(201)
    harness.wait_condition("a", "QuotaReserved")
    harness.set_check("a", "look", "Rejected")
    harness.wait_condition("a", "Evicted")
    harness.wait_condition("a", "QuotaReserved", "False")
    harness.wait_condition("a", "Requeued", "False")
    harness.settles("check_rejected", lambda: harness.picture("a"))


def test_queue_with_hold_policy(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    harness.change_queue("q", stopPolicy="Hold").ok()
    harness.until(lambda: harness.queue_status("q")["conditions"]["Active"][0] == "False", "it is stopped")
    harness.job("b", "q").ok(201)
    harness.wait_pending("b", "inactive")
    harness.settles("hold", lambda: {**harness.picture("a", "b"), "queue": harness.queue_status("q")["conditions"]})
    harness.change_queue("q", stopPolicy="None").ok()
    harness.wait_admitted("b")


def test_queue_with_hold_and_drain_policy(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    harness.change_queue("q", stopPolicy="HoldAndDrain").ok()
    harness.wait_condition("a", "Requeued", "False")
    harness.until(lambda: harness.get_job("a")["spec"]["suspend"], "a is stopped")
    harness.wait_pending("a", "inactive")
    harness.settles("drained", lambda: harness.picture("a"))
    harness.change_queue("q", stopPolicy="None").ok()
    harness.wait_admitted("a")
    harness.settles("goes_on", lambda: harness.picture("a"))


def test_local_queue_with_hold_and_drain_policy(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    harness.api.patch(harness.local_path("q"), {"spec": {"stopPolicy": "HoldAndDrain"}}).ok()
    harness.wait_condition("a", "Requeued", "False")
    harness.wait_pending("a", "inactive")
    harness.settles("local_drained", lambda: {**harness.picture("a"), "local": harness.local_status("q")["conditions"]})
    harness.api.patch(harness.local_path("q"), {"spec": {"stopPolicy": "None"}}).ok()
    harness.wait_admitted("a")


def test_namespace_selector_excludes_namespace(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2}, namespaceSelector={"matchLabels": {"team": "x"}})
    harness.job("a", "q").ok(201)
    harness.wait_pending("a", "selector")
    harness.settles("selector", lambda: harness.picture("a"))
    harness.api.patch(f"/api/v1/namespaces/{harness.ns}", {"metadata": {"labels": {"team": "x"}}}).ok()
    harness.wait_admitted("a")


def test_workload_is_deactivated(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    harness.api.patch(harness.path("a"), {"spec": {"active": False}}).ok()
    harness.wait_condition("a", "Requeued", "False")
    harness.wait_condition("a", "QuotaReserved", "False")
    harness.until(lambda: harness.get_job("a")["spec"]["suspend"], "a is stopped")
    harness.settles("deactivated", lambda: harness.picture("a"))
    harness.api.patch(harness.path("a"), {"spec": {"active": True}}).ok()
    harness.wait_admitted("a")
    harness.settles("reactivated", lambda: harness.picture("a"))


def test_deleted_workload_is_recreated(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 2})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    before = harness.workloads()["a"]["metadata"]["uid"]
    harness.api.delete(harness.path("a")).ok()
    harness.until(
        lambda: harness.workloads().get("a", {"metadata": {"uid": before}})["metadata"]["uid"] != before, "a new Workload"
    )
    harness.wait_admitted("a")


def test_workload_is_deleted_with_its_job(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 1})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    harness.job("b", "q").ok(201)
    harness.wait_pending("b", "more needed")
    harness.api.delete(f"/apis/batch/v1/namespaces/{harness.ns}/jobs/a", {"propagationPolicy": "Background"}).ok()
    harness.wait_admitted("b")
    harness.until(lambda: "a" not in harness.workloads(), "its Workload is deleted")


def test_queue_of_pending_job_changes(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 1})
    harness.queue("r", {"name": "f", "cpu": 2})
    harness.job("a", "q", cpu=2).ok(201)
    harness.wait_pending("a", "maximum capacity")
    harness.change_job("a", {"metadata": {"labels": {QUEUE: "r"}}}).ok()
    harness.wait_admitted("a")
    refused = harness.change_job("a", {"metadata": {"labels": {QUEUE: "q"}}})
    harness.settles("another_queue", lambda: {**harness.picture("a"), "refused": [refused.status, refused.json["message"]]})


def test_priority_changes(harness: KueueHarness) -> None:
    harness.priority("low", 1)
    harness.priority("high", 100)
    harness.queue("q", {"name": "f", "cpu": 1}, preemption={"withinClusterQueue": "LowerPriority"})
    harness.job("a", "q", priority="low").ok(201)
    harness.wait_admitted("a")
    harness.job("b", "q", priority="low").ok(201)
    harness.wait_pending("b", "more needed")
    harness.change_job("b", {"metadata": {"labels": {PRIORITY: harness.own("high")}}}).ok()
    harness.wait_admitted("b")
    harness.settles("other_priority", lambda: harness.picture("b"))


def test_parallelism_is_reduced(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 3})
    harness.job("a", "q", pods=5, annotations={"kueue.x-k8s.io/job-min-parallelism": "2"}).ok(201)
    harness.wait_admitted("a")
    harness.settles("partial", lambda: harness.picture("a"))


def test_finished_pods_release_quota(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 3})
    harness.job("a", "q", pods=3).ok(201)
    harness.wait_admitted("a")
    harness.job("b", "q", cpu=1).ok(201)
    harness.wait_pending("b", "more needed")
    query = {"labelSelector": "batch.kubernetes.io/job-name=a"}
    core = f"/api/v1/namespaces/{harness.ns}/pods"
    pods = harness.until(lambda: len(result := harness.api.get(core, query).ok().json["items"]) == 3 and result, "pods")
    harness.api.patch(f"{core}/{pods[0]['metadata']['name']}/status", {"status": {"phase": "Succeeded"}}).ok()
    harness.wait_admitted("b")
    harness.settles("reclaimable", lambda: harness.picture("a", "b"))


def test_default_local_queue(harness: KueueHarness) -> None:
    harness.queue("default", {"name": "f", "cpu": 3})
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    created = harness.api.post(
        f"/apis/batch/v1/namespaces/{harness.ns}/jobs", {"metadata": {"name": "a"}, "spec": {"template": {"spec": spec}}}
    )
    name = created.ok(201).json["metadata"]["labels"][QUEUE]
    harness.compare("default_queue", {"queue": name, "suspend": created.json["spec"]["suspend"]})
    harness.wait_admitted("a")


def test_objects_in_use_are_not_deleted(harness: KueueHarness) -> None:
    harness.queue("q", {"name": "f", "cpu": 1})
    harness.job("a", "q").ok(201)
    harness.wait_admitted("a")
    harness.api.delete(f"{GROUP}/resourceflavors/{harness.own('f')}").ok()
    harness.api.delete(f"{GROUP}/clusterqueues/{harness.own('q')}").ok()
    harness.tick()
    seen = {"queue": harness.get_queue("q")["metadata"]["finalizers"]}
    harness.compare("in_use", seen)
    harness.finish("a")
    harness.until(lambda: harness.api.get(f"{GROUP}/clusterqueues/{harness.own('q')}").status == 404, "the queue is deleted")
    harness.until(lambda: harness.api.get(f"{GROUP}/resourceflavors/{harness.own('f')}").status == 404, "the flavor is deleted")


def test_jobset_is_admitted(harness: KueueHarness) -> None:
    harness.flavor("f", nodeLabels={"pool": "one"})
    harness.queue("q", {"name": "f", "cpu": 8})
    js = JobSetDriver(harness.api, harness.ns)
    pod = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}}]}
    js.create(replicated("a", 2, pods=2, pod=pod), replicated("b", pod=pod), labels={QUEUE: "q"}).ok(201)
    harness.wait_condition("js", "Admitted")
    js.until(lambda: not js.get()["spec"]["suspend"], "it is started")
    js.until_counted("a", active=2)
    workload = harness.workloads()["js"]
    counts = {pods["name"]: pods["count"] for pods in workload["spec"]["podSets"]}
    selectors = [
        replicated_job["template"]["spec"]["template"]["spec"].get("nodeSelector")
        for replicated_job in js.get()["spec"]["replicatedJobs"]
    ]
    harness.compare("jobset", {"counts": counts, "admission": workload["status"]["admission"], "selectors": selectors})


def test_jobset_is_preempted(harness: KueueHarness) -> None:
    harness.priority("high", 100)
    harness.flavor("f", nodeLabels={"pool": "one"})
    harness.queue("q", {"name": "f", "cpu": 2}, preemption={"withinClusterQueue": "LowerPriority"})
    js = JobSetDriver(harness.api, harness.ns)
    pod = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": 1}}}]}
    js.create(replicated("a", 2, pod=pod), labels={QUEUE: "q"}).ok(201)
    harness.wait_condition("js", "Admitted")
    js.until_counted("a", active=2)
    harness.job("b", "q", cpu=2, priority="high").ok(201)
    harness.wait_admitted("b")
    js.until_counted("a", suspended=2)
    harness.wait_pending("js", "more needed")

    def find() -> dict[str, Any]:
        spec = js.get()["spec"]
        selector = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"].get("nodeSelector")
        conditions = {
            condition["type"]: [condition["status"], condition["reason"]]
            for condition in harness.workloads()["js"]["status"]["conditions"]
        }
        return {"selector": selector, "suspend": spec["suspend"], "conditions": conditions}

    harness.settles("jobset_preempted", find)
