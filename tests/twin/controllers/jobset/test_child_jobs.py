"""Construction and parsing of child Jobs."""

from __future__ import annotations

from hashlib import sha1

from tests.support.jobset_objects import jobset, replicated

from sliceworks.twin.controllers.jobset import jobset_api
from sliceworks.twin.controllers.jobset.child_jobs import construct_job, merge_pod_template, parse_child_job


def test_job_has_name_labels_and_owner() -> None:
    a, b = replicated("a", 2, groupName="g"), replicated("b", 3, groupName="g")
    job = construct_job(jobset(a, replicated("other"), b), b, 2, job_restart_attempt=None)
    metadata = job["metadata"]
    assert metadata["name"] == "js-b-2"
    assert metadata["ownerReferences"][0] | {"uid": "u", "controller": True, "kind": "JobSet"} == metadata["ownerReferences"][0]
    assert metadata["labels"] == {
        jobset_api.NAME_LABEL: "js",
        jobset_api.UID_LABEL: "u",
        jobset_api.REPLICATED_JOB: "b",
        jobset_api.RESTART_ATTEMPT: "0",
        jobset_api.REPLICAS: "3",
        jobset_api.GLOBAL_REPLICAS: "6",
        jobset_api.JOB_INDEX: "2",
        jobset_api.JOB_KEY: sha1(b"ns/js-b-2").hexdigest(),
        jobset_api.JOB_GLOBAL_INDEX: "5",
        jobset_api.GROUP_NAME: "g",
        jobset_api.GROUP_REPLICAS: "5",
        jobset_api.JOB_GROUP_INDEX: "4",
    }
    assert metadata["annotations"] == metadata["labels"]
    assert job["spec"]["template"]["metadata"] == {key: metadata[key] for key in ("labels", "annotations")}
    assert job["spec"]["template"]["spec"]["subdomain"] == "js"
    assert job["spec"]["suspend"] is False


def test_coordinator_label() -> None:
    a = replicated("a", 2)
    coordinator = {"replicatedJob": "a", "jobIndex": 1}
    job = construct_job(jobset(a, coordinator=coordinator, network={"subdomain": "sub"}), a, 0, job_restart_attempt=3)
    assert job["metadata"]["labels"][jobset_api.COORDINATOR] == "js-a-1-0.sub"
    assert job["metadata"]["labels"][jobset_api.JOB_RESTART_ATTEMPT] == "3"
    assert "subdomain" not in job["spec"]["template"]["spec"]


def test_node_selector_strategy_sets_selector_and_toleration() -> None:
    a = replicated("a")
    a["template"]["metadata"] = {"annotations": {jobset_api.EXCLUSIVE_TOPOLOGY: "rack", jobset_api.NODE_SELECTOR_STRATEGY: "true"}}
    job = construct_job(jobset(a, annotations={jobset_api.EXCLUSIVE_TOPOLOGY: "pool"}), a, 0, job_restart_attempt=None)
    assert job["metadata"]["annotations"][jobset_api.EXCLUSIVE_TOPOLOGY] == "rack"
    pod = job["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {jobset_api.NAMESPACED_JOB: "ns_js-a-0"}
    assert pod["tolerations"] == [{"key": jobset_api.NO_SCHEDULE_TAINT, "operator": "Exists", "effect": "NoSchedule"}]
    assert "nodeSelector" not in a["template"]["spec"]["template"]["spec"], "the JobSet itself must not change"


def test_labels_that_are_not_numbers_are_ignored() -> None:
    job = {
        "metadata": {"name": "j", "labels": {jobset_api.RESTART_ATTEMPT: "x", jobset_api.JOB_INDEX: "¹"}},
        "spec": {"parallelism": 2, "completions": 1},
    }
    child = parse_child_job(job)
    assert (child.restart_attempt, child.index, child.pods) == (None, None, 1)


def test_merge_pod_template_keeps_fields_that_others_added() -> None:
    same = {"key": "same", "operator": "Exists"}
    pods = {"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"tolerations": [same]}}
    merge_pod_template(
        pods, {"metadata": {"labels": {"b": "3"}}, "spec": {"tolerations": [same, {"key": "new"}], "nodeSelector": {"n": "1"}}}
    )
    assert pods == {
        "metadata": {"labels": {"a": "1", "b": "3"}},
        "spec": {"tolerations": [same, {"key": "new"}], "nodeSelector": {"n": "1"}},
    }
