"""Kueue: what happens after a job was queued: checks, stops, changes, ends; and JobSets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.jobsets import Played, replicated
from tests.support.kueue import GROUP, PRIORITY, QUEUE

if TYPE_CHECKING:
    from tests.support.kueue import Desk

CLUSTER = "kueue"


def test_admission_checks(desk: Desk) -> None:
    desk.check("look")
    strategy = {"admissionChecks": [{"name": desk.own("look")}]}
    desk.queue("q", {"name": "f", "cpu": 2}, admissionChecksStrategy=strategy)
    desk.job("a", "q").ok(201)
    desk.until_is("a", "QuotaReserved")
    desk.until(lambda: (desk.workloads()["a"]["status"].get("admissionChecks") or [{}])[0].get("state") == "Pending", "it is asked")
    desk.settles("check_pending", lambda: desk.picture("a"))
    update = {
        "name": "main",
        "nodeSelector": {"slice": "s1"},
        "labels": {"l": "1"},
        "tolerations": [{"key": "t", "operator": "Exists"}],
    }
    desk.set_check("a", "look", "Ready", podSetUpdates=[update])
    desk.until_runs("a")
    desk.settles("check_ready", lambda: desk.picture("a"))


def test_a_check_that_wants_another_try(desk: Desk) -> None:
    desk.check("look")
    strategy = {"admissionChecks": [{"name": desk.own("look")}]}
    desk.queue("q", {"name": "f", "cpu": 2}, admissionChecksStrategy=strategy)
    desk.job("a", "q").ok(201)
    desk.until_is("a", "QuotaReserved")
    desk.set_check("a", "look", "Retry")
    desk.until_is("a", "Requeued", reason="BackoffFinished")
    desk.until_is("a", "QuotaReserved")
    desk.settles("check_retry", lambda: desk.picture("a"))


def test_a_check_that_refuses(desk: Desk) -> None:
    desk.check("look")
    strategy = {"admissionChecks": [{"name": desk.own("look")}]}
    desk.queue("q", {"name": "f", "cpu": 2}, admissionChecksStrategy=strategy)
    desk.job("a", "q").ok(201)
    desk.until_is("a", "QuotaReserved")
    desk.set_check("a", "look", "Rejected")
    desk.until_is("a", "Evicted")
    desk.until_is("a", "QuotaReserved", "False")
    desk.until_is("a", "Requeued", "False")
    desk.settles("check_rejected", lambda: desk.picture("a"))


def test_a_queue_on_hold(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.change_queue("q", stopPolicy="Hold").ok()
    desk.until(lambda: desk.queue_status("q")["conditions"]["Active"][0] == "False", "it is stopped")
    desk.job("b", "q").ok(201)
    desk.until_waits("b", "inactive")
    desk.settles("hold", lambda: {**desk.picture("a", "b"), "queue": desk.queue_status("q")["conditions"]})
    desk.change_queue("q", stopPolicy="None").ok()
    desk.until_runs("b")


def test_a_queue_that_is_drained(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.change_queue("q", stopPolicy="HoldAndDrain").ok()
    desk.until_is("a", "Requeued", "False")
    desk.until(lambda: desk.get_job("a")["spec"]["suspend"], "a is stopped")
    desk.until_waits("a", "inactive")
    desk.settles("drained", lambda: desk.picture("a"))
    desk.change_queue("q", stopPolicy="None").ok()
    desk.until_runs("a")
    desk.settles("goes_on", lambda: desk.picture("a"))


def test_a_local_queue_that_is_drained(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.api.patch(desk.local_path("q"), {"spec": {"stopPolicy": "HoldAndDrain"}}).ok()
    desk.until_is("a", "Requeued", "False")
    desk.until_waits("a", "inactive")
    desk.settles("local_drained", lambda: {**desk.picture("a"), "local": desk.local_status("q")["conditions"]})
    desk.api.patch(desk.local_path("q"), {"spec": {"stopPolicy": "None"}}).ok()
    desk.until_runs("a")


def test_namespaces_that_are_not_welcome(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2}, namespaceSelector={"matchLabels": {"team": "x"}})
    desk.job("a", "q").ok(201)
    desk.until_waits("a", "selector")
    desk.settles("selector", lambda: desk.picture("a"))
    desk.api.patch(f"/api/v1/namespaces/{desk.ns}", {"metadata": {"labels": {"team": "x"}}}).ok()
    desk.until_runs("a")


def test_deactivation(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.api.patch(desk.path("a"), {"spec": {"active": False}}).ok()
    desk.until_is("a", "Requeued", "False")
    desk.until_is("a", "QuotaReserved", "False")
    desk.until(lambda: desk.get_job("a")["spec"]["suspend"], "a is stopped")
    desk.settles("deactivated", lambda: desk.picture("a"))
    desk.api.patch(desk.path("a"), {"spec": {"active": True}}).ok()
    desk.until_runs("a")
    desk.settles("reactivated", lambda: desk.picture("a"))


def test_a_workload_that_is_deleted(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 2})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    before = desk.workloads()["a"]["metadata"]["uid"]
    desk.api.delete(desk.path("a")).ok()
    desk.until(lambda: desk.workloads().get("a", {"metadata": {"uid": before}})["metadata"]["uid"] != before, "a new Workload")
    desk.until_runs("a")


def test_a_job_that_is_deleted(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.job("b", "q").ok(201)
    desk.until_waits("b", "more needed")
    desk.api.delete(f"/apis/batch/v1/namespaces/{desk.ns}/jobs/a", {"propagationPolicy": "Background"}).ok()
    desk.until_runs("b")
    desk.until(lambda: "a" not in desk.workloads(), "its Workload is gone")


def test_another_queue(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.queue("r", {"name": "f", "cpu": 2})
    desk.job("a", "q", cpu=2).ok(201)
    desk.until_waits("a", "maximum capacity")
    desk.change_job("a", {"metadata": {"labels": {QUEUE: "r"}}}).ok()
    desk.until_runs("a")
    refused = desk.change_job("a", {"metadata": {"labels": {QUEUE: "q"}}})
    desk.settles("another_queue", lambda: {**desk.picture("a"), "refused": [refused.status, refused.json["message"]]})


def test_other_priorities(desk: Desk) -> None:
    desk.priority("low", 1)
    desk.priority("high", 100)
    desk.queue("q", {"name": "f", "cpu": 1}, preemption={"withinClusterQueue": "LowerPriority"})
    desk.job("a", "q", priority="low").ok(201)
    desk.until_runs("a")
    desk.job("b", "q", priority="low").ok(201)
    desk.until_waits("b", "more needed")
    desk.change_job("b", {"metadata": {"labels": {PRIORITY: desk.own("high")}}}).ok()
    desk.until_runs("b")
    desk.settles("other_priority", lambda: desk.picture("b"))


def test_fewer_pods(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 3})
    desk.job("a", "q", pods=5, annotations={"kueue.x-k8s.io/job-min-parallelism": "2"}).ok(201)
    desk.until_runs("a")
    desk.settles("partial", lambda: desk.picture("a"))


def test_pods_that_are_done(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 3})
    desk.job("a", "q", pods=3).ok(201)
    desk.until_runs("a")
    desk.job("b", "q", cpu=1).ok(201)
    desk.until_waits("b", "more needed")
    query = {"labelSelector": "batch.kubernetes.io/job-name=a"}
    core = f"/api/v1/namespaces/{desk.ns}/pods"
    pods = desk.until(lambda: len(found := desk.api.get(core, query).ok().json["items"]) == 3 and found, "pods")
    desk.api.patch(f"{core}/{pods[0]['metadata']['name']}/status", {"status": {"phase": "Succeeded"}}).ok()
    desk.until_runs("b")
    desk.settles("reclaimable", lambda: desk.picture("a", "b"))


def test_the_default_queue(desk: Desk) -> None:
    desk.queue("default", {"name": "f", "cpu": 3})
    spec = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    made = desk.api.post(
        f"/apis/batch/v1/namespaces/{desk.ns}/jobs", {"metadata": {"name": "a"}, "spec": {"template": {"spec": spec}}}
    )
    name = made.ok(201).json["metadata"]["labels"][QUEUE]
    desk.compare("default_queue", {"queue": name, "suspend": made.json["spec"]["suspend"]})
    desk.until_runs("a")


def test_what_is_in_use_stays(desk: Desk) -> None:
    desk.queue("q", {"name": "f", "cpu": 1})
    desk.job("a", "q").ok(201)
    desk.until_runs("a")
    desk.api.delete(f"{GROUP}/resourceflavors/{desk.own('f')}").ok()
    desk.api.delete(f"{GROUP}/clusterqueues/{desk.own('q')}").ok()
    desk.tick()
    seen = {"queue": desk.get_queue("q")["metadata"]["finalizers"]}
    desk.compare("in_use", seen)
    desk.finish("a")
    desk.until(lambda: desk.api.get(f"{GROUP}/clusterqueues/{desk.own('q')}").status == 404, "the queue is gone")
    desk.until(lambda: desk.api.get(f"{GROUP}/resourceflavors/{desk.own('f')}").status == 404, "the flavor is gone")


def test_a_jobset_is_admitted(desk: Desk) -> None:
    desk.flavor("f", nodeLabels={"pool": "one"})
    desk.queue("q", {"name": "f", "cpu": 8})
    js = Played(desk.api, desk.ns)
    pod = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "500m"}}}]}
    js.create(replicated("a", 2, pods=2, pod=pod), replicated("b", pod=pod), labels={QUEUE: "q"}).ok(201)
    desk.until_is("js", "Admitted")
    js.until(lambda: not js.get()["spec"]["suspend"], "it is started")
    js.until_counted("a", active=2)
    workload = desk.workloads()["js"]
    counts = {pods["name"]: pods["count"] for pods in workload["spec"]["podSets"]}
    selectors = [one["template"]["spec"]["template"]["spec"].get("nodeSelector") for one in js.get()["spec"]["replicatedJobs"]]
    desk.compare("jobset", {"counts": counts, "admission": workload["status"]["admission"], "selectors": selectors})


def test_a_jobset_is_preempted(desk: Desk) -> None:
    desk.priority("high", 100)
    desk.flavor("f", nodeLabels={"pool": "one"})
    desk.queue("q", {"name": "f", "cpu": 2}, preemption={"withinClusterQueue": "LowerPriority"})
    js = Played(desk.api, desk.ns)
    pod = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": 1}}}]}
    js.create(replicated("a", 2, pod=pod), labels={QUEUE: "q"}).ok(201)
    desk.until_is("js", "Admitted")
    js.until_counted("a", active=2)
    desk.job("b", "q", cpu=2, priority="high").ok(201)
    desk.until_runs("b")
    js.until_counted("a", suspended=2)
    desk.until_waits("js", "more needed")

    def look() -> dict[str, Any]:
        spec = js.get()["spec"]
        selector = spec["replicatedJobs"][0]["template"]["spec"]["template"]["spec"].get("nodeSelector")
        conditions = {one["type"]: [one["status"], one["reason"]] for one in desk.workloads()["js"]["status"]["conditions"]}
        return {"selector": selector, "suspend": spec["suspend"], "conditions": conditions}

    desk.settles("jobset_preempted", look)
