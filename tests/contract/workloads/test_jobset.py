"""JobSets from creation to completion: child objects, conditions and events, on both clusters."""

from __future__ import annotations

import pytest
from tests.support.http import TABLE
from tests.support.jobsets import JobSetDriver, replicated

pytestmark = pytest.mark.controllers
CLUSTER = "jobsets"


def test_children_of_two_replicated_jobs(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("workers", 2, pods=2), replicated("driver")).ok(201)
    js.until_jobs("js-workers-0", "js-workers-1", "js-driver-0")
    js.until_counted("workers", active=2)
    js.until_counted("driver", active=1)
    js.check("two_replicated_jobs", real=real, whole=True)


def test_defaults_and_normal_forms(js: JobSetDriver, real: bool) -> None:
    resources = {"limits": {"google.com/tpu": "4", "cpu": "1000m"}, "requests": {"memory": "1024Mi"}}
    init = [{"name": "i", "image": "x", "ports": [{"containerPort": 80}]}]
    pod = {"containers": [{"name": "c", "image": "x", "resources": resources}], "initContainers": init}
    rules = [{"action": "FailJobSet", "name": ""}, {"action": "RestartJobSet", "name": "own"}]
    job = {"name": "a", "template": {"spec": {"template": {"spec": {**pod, "schedulerName": "nobody"}}}}}
    js.create(job, failurePolicy={"rules": rules}).ok(201)
    js.until_counted("a", active=1)
    js.check("defaults", real=real, whole=True)


def test_groups(js: JobSetDriver, real: bool) -> None:
    jobs = (replicated("a", 2, groupName="one"), replicated("b", groupName="two"), replicated("c", groupName="one"))
    js.create(*jobs, suspend=True).ok(201)
    js.until(lambda: js.condition("Suspended") and len(js.jobs()) == 4, "suspended Jobs")
    js.until_counted("c", suspended=1)
    js.check("groups", real=real, whole=True)


def test_coordinator(js: JobSetDriver, real: bool) -> None:
    chosen = {"replicatedJob": "b", "jobIndex": 1, "podIndex": 1}
    js.create(replicated("a"), replicated("b", 2, pods=2), coordinator=chosen, network={"subdomain": "here"}, suspend=True).ok(201)
    js.until_counted("b", suspended=2)
    js.check("coordinator", real=real, whole=True)


def test_metadata_of_templates(js: JobSetDriver, real: bool) -> None:
    metadata = {"labels": {"mine": "1", "jobset.sigs.k8s.io/job-index": "9"}, "annotations": {"also": "2"}, "name": "ignored"}
    pods = {"labels": {"pods": "3"}, "annotations": {"theirs": "4"}}
    js.create(replicated("a", metadata=metadata, pod_metadata=pods), labels={"top": "5"}, annotations={"on": "top"}).ok(201)
    js.until_counted("a", active=1)
    js.check("metadata", real=real, whole=True)


def test_dns_hostnames_disabled(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a"), network={"enableDNSHostnames": False}).ok(201)
    js.until_counted("a", active=1)
    js.check("no_hostnames", real=real, whole=True)


def test_only_ready_pods_are_published(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a"), network={"subdomain": "elsewhere", "publishNotReadyAddresses": False}).ok(201)
    js.until_counted("a", active=1)
    js.check("subdomain", real=real, whole=True)


def test_deleted_service_is_recreated(js: JobSetDriver) -> None:
    js.create(replicated("a")).ok(201)
    js.until_counted("a", active=1)
    path = f"/api/v1/namespaces/{js.namespace}/services/js"
    uid = js.api.get(path).ok().json["metadata"]["uid"]
    js.api.delete(path).ok()
    js.until(lambda: (result := js.api.get(path)).status == 200 and result.json["metadata"]["uid"] != uid, "another Service")


def test_jobset_of_another_controller_is_ignored(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a"), managedBy="example.com/other").ok(201)
    other = JobSetDriver(js.api, js.namespace, "own")
    other.create(replicated("a"), managedBy="jobset.sigs.k8s.io/jobset-controller").ok(201)
    other.until_counted("a", active=1)
    assert sorted(js.jobs()) == ["own-a-0"]
    js.check("managed_elsewhere", real=real, seen=js.picture()["jobset"])


def test_success_policy_all(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a", 2, pods=2), replicated("b")).ok(201)
    js.succeed("js-a-0", 2)
    js.until_counted("a", succeeded=1, active=1)
    js.run("js-a-1", 2)
    js.run("js-b-0")
    js.until_counted("b", ready=1)
    js.succeed("js-a-1", 2)
    js.succeed("js-b-0")
    js.until(lambda: js.condition("Completed"), "Completed")
    js.until_counted("b", succeeded=1)
    js.check("all_succeed", real=real)


def test_success_policy_any(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a", 2), replicated("b"), successPolicy={"operator": "Any"}).ok(201)
    js.until_counted("b", active=1)
    js.until_counted("a", active=2)
    js.succeed("js-a-1")
    js.until(lambda: js.condition("Completed"), "Completed")
    js.until_jobs("js-a-1")
    js.until_counted("b", active=0)
    js.check("any_succeeds", real=real)


@pytest.mark.parametrize("operator", ["All", "Any"])
def test_success_policy_targets(js: JobSetDriver, real: bool, operator: str) -> None:
    js.create(replicated("a", 2), replicated("b"), successPolicy={"operator": operator, "targetReplicatedJobs": ["b"]}).ok(201)
    js.until_counted("a", active=2)
    js.succeed("js-b-0")
    js.until(lambda: js.condition("Completed"), "Completed")
    js.until_jobs("js-b-0")
    js.until_counted("a", active=0)
    js.check(f"target_{operator}", real=real)


def test_ttl_deletes_finished_jobset(js: JobSetDriver) -> None:
    js.create(replicated("a"), ttlSecondsAfterFinished=2).ok(201)
    js.succeed("js-a-0")
    js.until(lambda: js.gone() or js.condition("Completed"), "Completed")
    js.until(js.gone, "the JobSet is deleted")
    js.until_jobs()


def test_job_name_conflict(js: JobSetDriver, real: bool) -> None:
    job = {"metadata": {"name": "js-a-0"}, "spec": {"suspend": True, "template": replicated("a")["template"]["spec"]["template"]}}
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    js.api.post(f"/apis/batch/v1/namespaces/{js.namespace}/jobs", job).ok(201)
    js.create(replicated("a")).ok(201)
    js.until(lambda: js.events(creation=True), "an event")
    js.check("taken", real=real, seen=js.events(creation=True)[0])


def test_generated_name(js: JobSetDriver) -> None:
    body = js.body(replicated("a"))
    body["metadata"] = {"generateName": "made-"}
    name = js.api.post(js.home, body).ok(201).json["metadata"]["name"]
    created = JobSetDriver(js.api, js.namespace, name)
    created.until_counted("a", active=1)
    job = created.jobs()[f"{name}-a-0"]
    assert job["spec"]["template"]["spec"]["subdomain"] == name
    assert job["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == name


def test_deleted_job_is_recreated(js: JobSetDriver) -> None:
    js.create(replicated("a", 2)).ok(201)
    js.until_counted("a", active=2)
    uid = js.jobs()["js-a-1"]["metadata"]["uid"]
    js.api.delete(f"/apis/batch/v1/namespaces/{js.namespace}/jobs/js-a-1").ok()
    js.until(lambda: (jobs := js.jobs()).keys() == {"js-a-0", "js-a-1"} and jobs["js-a-1"]["metadata"]["uid"] != uid, "another Job")
    assert js.attempts() == {"js-a-0": "0", "js-a-1": "0"}
    assert js.restarts() == 0


def test_finished_jobset_stays_finished(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a"), replicated("b"), successPolicy={"operator": "Any"}).ok(201)
    js.succeed("js-a-0")
    js.until(lambda: js.condition("Completed"), "Completed")
    js.until_jobs("js-a-0")
    js.api.delete(f"/apis/batch/v1/namespaces/{js.namespace}/jobs/js-a-0").ok()
    js.change(suspend=True).ok()
    js.until_counted("a", succeeded=0)
    js.check("over", real=real)


def test_table_columns(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a"), suspend=True).ok(201)
    js.until_counted("a", suspended=1)
    shown = js.api.get(js.home, accept=TABLE).ok().json
    columns = [{key: item[key] for key in ("name", "type", "priority")} for item in shown["columnDefinitions"]]
    js.check("table", real=real, seen={"columns": columns, "cells": [row["cells"][:-1] for row in shown["rows"]]})


def test_repeated_apply_changes_nothing(js: JobSetDriver) -> None:
    body = js.body(replicated("a"))
    js.api.apply(js.path, body).ok(201)
    js.until_counted("a", active=1)
    again = js.api.apply(js.path, body).ok(200).json
    assert again["metadata"]["generation"] == 1
    body["spec"]["ttlSecondsAfterFinished"] = 60
    assert js.api.apply(js.path, body).ok(200).json["metadata"]["generation"] == 2


def test_deletion_deletes_all_children(js: JobSetDriver) -> None:
    js.create(replicated("a", 2, pods=2)).ok(201)
    js.until_pods("js-a-0", 2)
    js.until_pods("js-a-1", 2)
    js.api.delete(js.path).ok()
    js.until(js.gone, "the JobSet is deleted")
    js.until_jobs()
    js.until(lambda: not js.pods(), "no pods")
    path = f"/api/v1/namespaces/{js.namespace}/services"
    js.until(lambda: not js.api.get(path).ok().names, "no Service")
