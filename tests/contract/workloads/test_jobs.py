"""Jobs from their first pod to their last condition. What is expected was recorded from the real controller."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.jobs import done, job
from tests.support.waiting import eventually
from tests.support.workloads import Lab, summary, template

if TYPE_CHECKING:
    from tests.support.clusters import Cluster

CLUSTER = "hands"


@pytest.fixture
def lab(cluster: Cluster, ns: str) -> Lab:
    return Lab(cluster, ns)


def test_one_pod(lab: Lab) -> None:
    job(lab)
    (pod,) = lab.pods(1)
    lab.phase(pod, "Running", ready=True)
    lab.until("Job", "work", lambda found: found["status"].get("ready") == 1)
    lab.phase(pod, "Succeeded", 0)
    done(lab, "one pod")


def test_running(lab: Lab) -> None:
    job(lab, completions=5, parallelism=3)
    pods = lab.pods(3)
    lab.phase(pods[0], "Running", ready=True)
    lab.phase(pods[1], "Running")
    found = lab.until("Job", "work", lambda found: found["status"].get("ready") == 1)
    lab.check("jobs", "running", {"status": found["status"], "pods": [summary(pod) for pod in pods], "spec": found["spec"]})


def test_more_completions_than_parallelism(lab: Lab) -> None:
    job(lab, completions=3, parallelism=2)
    first, second = lab.pods(2)
    lab.phase(first, "Succeeded", 0)
    lab.phase(second, "Succeeded", 0)
    (third,) = lab.pods(1)
    lab.phase(third, "Succeeded", 0)
    done(lab, "three in two")


def test_work_queue(lab: Lab) -> None:
    """Without completions one success is enough, and nothing new is started then."""
    job(lab, parallelism=3, completions=None)
    first, second, third = lab.pods(3)
    lab.phase(first, "Succeeded", 0)
    found = lab.until("Job", "work", lambda found: found["status"].get("succeeded") == 1)
    assert found["status"]["active"] == 2
    lab.phase(second, "Succeeded", 0)
    lab.phase(third, "Failed", 1)
    done(lab, "work queue")


def test_indexed(lab: Lab) -> None:
    job(lab, completions=4, parallelism=4, completionMode="Indexed")
    pods = lab.pods(4)
    by_index = {pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: pod for pod in pods}
    for index in ("0", "2", "3"):
        lab.phase(by_index[index], "Succeeded", 0)
    found = lab.until("Job", "work", lambda found: found["status"].get("succeeded") == 3)
    assert found["status"]["completedIndexes"] == "0,2,3"
    lab.phase(by_index["1"], "Succeeded", 0)
    done(lab, "indexed")


def test_index_texts(lab: Lab) -> None:
    job(lab, completions=7, parallelism=7, completionMode="Indexed")
    for pod in lab.pods(7):
        if pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] in "12456":
            lab.phase(pod, "Succeeded", 0)
    found = lab.until("Job", "work", lambda found: found["status"].get("succeeded") == 5)
    assert found["status"]["completedIndexes"] == "1,2,4-6"


def test_long_name(lab: Lab) -> None:
    name = "a" * 60
    job(lab, name, completions=1, completionMode="Indexed")
    (pod,) = lab.pods(1)
    assert pod["metadata"]["generateName"] == "a" * 55 + "-0-"
    assert pod["spec"]["hostname"] == "a" * 60 + "-0"


def test_own_variables_and_finalizers_stay(lab: Lab) -> None:
    env = [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]
    containers = [
        {"name": "main", "image": "example.com/app:1", "env": env},
        {"name": "second", "image": "example.com/app:1", "env": [{"name": "X", "value": "y"}]},
    ]
    job(lab, completions=1, completionMode="Indexed", pod={"containers": containers})
    (pod,) = lab.pods(1)
    assert pod["spec"]["containers"][0]["env"] == env
    index = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['batch.kubernetes.io/job-completion-index']"}}
    assert pod["spec"]["containers"][1]["env"] == [
        {"name": "X", "value": "y"},
        {"name": "JOB_COMPLETION_INDEX", "valueFrom": index},
    ]


def test_suspended_from_the_start(lab: Lab) -> None:
    job(lab, suspend=True)
    found = lab.until_condition("Job", "work", "Suspended")
    lab.check("jobs", "born suspended", {"status": found["status"], "events": lab.events("Job", "work", "Suspended")})
    assert lab.items("Pod") == []
    lab.patch("Job", "work", {"spec": {"suspend": False}})
    (pod,) = lab.pods(1)
    lab.phase(pod, "Succeeded", 0)
    done(lab, "born suspended, resumed")


def test_suspend_and_resume(lab: Lab) -> None:
    job(lab, parallelism=2, completions=2)
    first, _ = lab.pods(2)
    lab.phase(first, "Succeeded", 0)
    lab.until("Job", "work", lambda found: found["status"].get("succeeded") == 1)
    lab.patch("Job", "work", {"spec": {"suspend": True}})
    lab.until_condition("Job", "work", "Suspended")
    lab.settles(
        "jobs",
        "suspended",
        lambda: {"status": lab.get("Job", "work")["status"], "events": lab.events("Job", "work", "Suspended")},
    )
    lab.patch("Job", "work", {"spec": {"suspend": False}})
    lab.until_condition("Job", "work", "Suspended", "False")
    (pod,) = lab.pods(1)
    lab.phase(pod, "Succeeded", 0)
    done(lab, "suspended and resumed")


def test_fewer_and_more_at_once(lab: Lab) -> None:
    job(lab, parallelism=3, completions=6)
    pods = lab.pods(3)
    lab.phase(pods[1], "Running", ready=True)
    lab.until("Job", "work", lambda found: found["status"].get("ready") == 1)
    lab.patch("Job", "work", {"spec": {"parallelism": 1}})
    (left,) = lab.pods(1)
    assert left["metadata"]["name"] == pods[1]["metadata"]["name"]
    found = lab.until("Job", "work", lambda found: found["status"].get("active") == 1)
    assert found["status"].get("failed") is None
    lab.patch("Job", "work", {"spec": {"parallelism": 4}})
    lab.pods(4)


def test_elastic_indexed(lab: Lab) -> None:
    job(lab, parallelism=3, completions=3, completionMode="Indexed")
    lab.pods(3)
    lab.patch("Job", "work", {"spec": {"parallelism": 1, "completions": 1}})
    (pod,) = lab.pods(1)
    assert pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "0"
    lab.phase(pod, "Succeeded", 0)
    done(lab, "elastic")


def test_success_policy(lab: Lab) -> None:
    spec: dict[str, Any] = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
    job(lab, **spec, successPolicy={"rules": [{"succeededIndexes": "1-2", "succeededCount": 1}]})
    by_index = {pod["spec"]["hostname"]: pod for pod in lab.pods(3)}
    lab.phase(by_index["work-2"], "Succeeded", 0)
    done(lab, "success policy")


def test_deleted_pod_is_replaced(lab: Lab) -> None:
    job(lab, backoffLimit=2, pod={"nodeName": lab.nowhere})
    (pod,) = lab.pods(1)
    lab.delete("Pod", pod["metadata"]["name"])
    lab.until("Job", "work", lambda found: (found["status"].get("failed"), found["status"].get("terminating")) == (1, 1))
    lab.remove(pod)


def test_replaced_only_once_failed(lab: Lab) -> None:
    job(lab, backoffLimit=2, podReplacementPolicy="Failed", pod={"nodeName": lab.nowhere})
    (pod,) = lab.pods(1)
    lab.delete("Pod", pod["metadata"]["name"])
    found = lab.until("Job", "work", lambda found: found["status"].get("terminating") == 1)
    assert found["status"].get("active") is None
    assert found["status"].get("failed") is None
    lab.settles("jobs", "waiting for a pod to end", lambda: {"status": lab.get("Job", "work")["status"]})
    lab.phase(pod, "Failed", 137)
    found = lab.until("Job", "work", lambda found: found["status"].get("failed") == 1)
    assert len(lab.pods(1)) == 1


def test_ttl(lab: Lab) -> None:
    job(lab, ttlSecondsAfterFinished=1)
    (pod,) = lab.pods(1)
    lab.phase(pod, "Succeeded", 0)
    eventually(lambda: lab.gone("Job", "work"), what="the Job is gone")
    eventually(lambda: not lab.items("Pod"), what="its pods are gone")


def test_deletion_takes_the_pods(lab: Lab) -> None:
    job(lab, parallelism=2)
    lab.pods(2)
    lab.delete("Job", "work", propagationPolicy="Background")
    eventually(lambda: not lab.items("Pod"), what="its pods are gone")


def test_orphans_lose_their_finalizer(lab: Lab) -> None:
    job(lab)
    lab.pods(1)
    lab.caught_up()
    lab.delete("Job", "work", propagationPolicy="Orphan")

    def free() -> bool:
        (pod,) = lab.items("Pod")
        return "finalizers" not in pod["metadata"] and "ownerReferences" not in pod["metadata"]

    eventually(free, what="the pod is free")


def test_managed_by_another(lab: Lab) -> None:
    job(lab, managedBy="example.com/other")
    time.sleep(1.5)
    assert lab.items("Pod") == []
    assert lab.get("Job", "work")["status"] == {}


def test_pods_that_cannot_be_made(lab: Lab) -> None:
    lab.allow_pods(1)
    job(lab, parallelism=3, completions=3)
    lab.pods(1)
    told = lab.events("Job", "work", "FailedCreate")
    failed = next(event for event in told if event["reason"] == "FailedCreate")
    name = failed["message"].split('"')[1]
    assert failed["message"] == (
        f'Error creating: pods "{name}" is forbidden: exceeded quota: none, requested: pods=1, used: pods=1, limited: pods=1'
    )
    assert failed["type"] == "Warning"


def test_one_fails_beside_one_that_is_ready(lab: Lab) -> None:
    job(lab, parallelism=2, completions=2)
    first, second = lab.pods(2)
    lab.phase(first, "Running", ready=True)
    lab.until("Job", "work", lambda found: found["status"].get("ready") == 1)
    lab.phase(second, "Failed", 1)
    lab.settles("jobs", "one fails beside a ready one", lambda: {"status": lab.get("Job", "work")["status"]})


def test_adoption(lab: Lab) -> None:
    """A Job takes in pods that carry its labels, and lets go of those that lose them."""
    selector = {"matchLabels": {"own": "yes"}}
    body = {"selector": selector, "manualSelector": True, "template": template(labels={"own": "yes"}, restartPolicy="Never")}
    pod = {"metadata": {"name": "stray", "labels": {"own": "yes"}}, "spec": template(restartPolicy="Never")["spec"]}
    lab.api.post(lab.path("Pod"), pod).ok(201)
    lab.caught_up()
    lab.create("Job", "work", body)

    def adopted() -> bool:
        metadata = lab.get("Pod", "stray")["metadata"]
        return metadata.get("finalizers") == ["batch.kubernetes.io/job-tracking"] and "ownerReferences" in metadata

    eventually(adopted, what="the stray pod is adopted")
    assert lab.get("Job", "work")["spec"]["parallelism"] == 1
    lab.phase("stray", "Succeeded", 0)
    found = lab.until_condition("Job", "work", "Complete")
    pods = [summary(pod) for pod in lab.items("Pod")]
    lab.check("jobs", "adoption", {"status": found["status"], "pods": pods, "events": lab.events("Job", "work", "Completed")})
