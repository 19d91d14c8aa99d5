"""The Jobs that a JobSet makes."""

from __future__ import annotations

from hashlib import sha1

from tests.support.jobset_objects import jobset, replicated

from sliceworks.twin.workloads.jobset import keys
from sliceworks.twin.workloads.jobset.children import job_for, read, take_over


def test_names_labels_and_owner() -> None:
    a, b = replicated("a", 2, groupName="g"), replicated("b", 3, groupName="g")
    job = job_for(jobset(a, replicated("other"), b), b, 2, own_attempt=None)
    metadata = job["metadata"]
    assert metadata["name"] == "js-b-2"
    assert metadata["ownerReferences"][0] | {"uid": "u", "controller": True, "kind": "JobSet"} == metadata["ownerReferences"][0]
    assert metadata["labels"] == {
        keys.NAME: "js",
        keys.UID: "u",
        keys.REPLICATED_JOB: "b",
        keys.RESTART_ATTEMPT: "0",
        keys.REPLICAS: "3",
        keys.GLOBAL_REPLICAS: "6",
        keys.JOB_INDEX: "2",
        keys.JOB_KEY: sha1(b"ns/js-b-2").hexdigest(),
        keys.JOB_GLOBAL_INDEX: "5",
        keys.GROUP_NAME: "g",
        keys.GROUP_REPLICAS: "5",
        keys.JOB_GROUP_INDEX: "4",
    }
    assert metadata["annotations"] == metadata["labels"]
    assert job["spec"]["template"]["metadata"] == {key: metadata[key] for key in ("labels", "annotations")}
    assert job["spec"]["template"]["spec"]["subdomain"] == "js"
    assert job["spec"]["suspend"] is False


def test_the_coordinators_address() -> None:
    a = replicated("a", 2)
    chosen = {"replicatedJob": "a", "jobIndex": 1}
    job = job_for(jobset(a, coordinator=chosen, network={"subdomain": "sub"}), a, 0, own_attempt=3)
    assert job["metadata"]["labels"][keys.COORDINATOR] == "js-a-1-0.sub"
    assert job["metadata"]["labels"][keys.JOB_RESTART_ATTEMPT] == "3"
    assert "subdomain" not in job["spec"]["template"]["spec"]


def test_nodes_that_were_marked_for_a_job() -> None:
    a = replicated("a")
    a["template"]["metadata"] = {"annotations": {keys.EXCLUSIVE: "rack", keys.NODE_SELECTOR: "true"}}
    job = job_for(jobset(a, annotations={keys.EXCLUSIVE: "pool"}), a, 0, own_attempt=None)
    assert job["metadata"]["annotations"][keys.EXCLUSIVE] == "rack"
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {keys.NAMESPACED_JOB: "ns_js-a-0"}
    assert pod["tolerations"] == [{"key": keys.NO_SCHEDULE, "operator": "Exists", "effect": "NoSchedule"}]
    assert "nodeSelector" not in a["template"]["spec"]["template"]["spec"], "the JobSet itself stays as it is"


def test_labels_that_are_no_numbers_are_not_believed() -> None:
    job = {
        "metadata": {"name": "j", "labels": {keys.RESTART_ATTEMPT: "x", keys.JOB_INDEX: "¹"}},
        "spec": {"parallelism": 2, "completions": 1},
    }
    seen = read(job)
    assert (seen.attempt, seen.index, seen.pods) == (None, None, 1)


def test_a_resumed_job_keeps_what_others_added() -> None:
    same = {"key": "same", "operator": "Exists"}
    pods = {"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"tolerations": [same]}}
    take_over(
        pods, {"metadata": {"labels": {"b": "3"}}, "spec": {"tolerations": [same, {"key": "new"}], "nodeSelector": {"n": "1"}}}
    )
    assert pods == {
        "metadata": {"labels": {"a": "1", "b": "3"}},
        "spec": {"tolerations": [same, {"key": "new"}], "nodeSelector": {"n": "1"}},
    }
