"""JobSets from creation to their end: the objects they make, their conditions and their events, on both clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.http import TABLE
from tests.support.jobsets import Played, replicated

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api
    from tests.support.jobset_gates import Gates


@pytest.fixture
def js(api: Api, ns: str, jobset: Gates) -> Played:
    jobset.set()
    return Played(api, ns)


@pytest.fixture
def real(cluster: Cluster) -> bool:
    return cluster.name == "real"


def test_children_of_two_replicated_jobs(js: Played, real: bool) -> None:
    js.create(replicated("workers", 2, pods=2), replicated("driver")).ok(201)
    js.until_jobs("js-workers-0", "js-workers-1", "js-driver-0")
    js.until_counted("workers", active=2)
    js.until_counted("driver", active=1)
    js.check("two_replicated_jobs", real=real, whole=True)


def test_defaults_and_usual_forms(js: Played, real: bool) -> None:
    resources = {"limits": {"google.com/tpu": "4", "cpu": "1000m"}, "requests": {"memory": "1024Mi"}}
    init = [{"name": "i", "image": "x", "ports": [{"containerPort": 80}]}]
    pod = {"containers": [{"name": "c", "image": "x", "resources": resources}], "initContainers": init}
    rules = [{"action": "FailJobSet", "name": ""}, {"action": "RestartJobSet", "name": "own"}]
    job = {"name": "a", "template": {"spec": {"template": {"spec": {**pod, "schedulerName": "nobody"}}}}}
    js.create(job, failurePolicy={"rules": rules}).ok(201)
    js.until_counted("a", active=1)
    js.check("defaults", real=real, whole=True)


def test_groups(js: Played, real: bool) -> None:
    jobs = (replicated("a", 2, groupName="one"), replicated("b", groupName="two"), replicated("c", groupName="one"))
    js.create(*jobs, suspend=True).ok(201)
    js.until(lambda: js.condition("Suspended") and len(js.jobs()) == 4, "suspended Jobs")
    js.until_counted("c", suspended=1)
    js.check("groups", real=real, whole=True)


def test_coordinator(js: Played, real: bool) -> None:
    chosen = {"replicatedJob": "b", "jobIndex": 1, "podIndex": 1}
    js.create(replicated("a"), replicated("b", 2, pods=2), coordinator=chosen, network={"subdomain": "here"}, suspend=True).ok(201)
    js.until_counted("b", suspended=2)
    js.check("coordinator", real=real, whole=True)


def test_metadata_of_templates(js: Played, real: bool) -> None:
    metadata = {"labels": {"mine": "1", "jobset.sigs.k8s.io/job-index": "9"}, "annotations": {"also": "2"}, "name": "ignored"}
    pods = {"labels": {"pods": "3"}, "annotations": {"theirs": "4"}}
    js.create(replicated("a", metadata=metadata, pod_metadata=pods), labels={"top": "5"}, annotations={"on": "top"}).ok(201)
    js.until_counted("a", active=1)
    js.check("metadata", real=real, whole=True)


def test_no_hostnames(js: Played, real: bool) -> None:
    js.create(replicated("a"), network={"enableDNSHostnames": False}).ok(201)
    js.until_counted("a", active=1)
    js.check("no_hostnames", real=real, whole=True)


def test_subdomain_of_ready_pods_only(js: Played, real: bool) -> None:
    js.create(replicated("a"), network={"subdomain": "elsewhere", "publishNotReadyAddresses": False}).ok(201)
    js.until_counted("a", active=1)
    js.check("subdomain", real=real, whole=True)


def test_a_lost_service_is_made_again(js: Played) -> None:
    js.create(replicated("a")).ok(201)
    js.until_counted("a", active=1)
    path = f"/api/v1/namespaces/{js.namespace}/services/js"
    uid = js.api.get(path).ok().json["metadata"]["uid"]
    js.api.delete(path).ok()
    js.until(lambda: (found := js.api.get(path)).status == 200 and found.json["metadata"]["uid"] != uid, "another Service")


def test_another_controllers_jobset_is_left_alone(js: Played, real: bool) -> None:
    js.create(replicated("a"), managedBy="example.com/other").ok(201)
    other = Played(js.api, js.namespace, "own")
    other.create(replicated("a"), managedBy="jobset.sigs.k8s.io/jobset-controller").ok(201)
    other.until_counted("a", active=1)
    assert sorted(js.jobs()) == ["own-a-0"]
    js.check("managed_elsewhere", real=real, seen=js.picture()["jobset"])


def test_all_jobs_succeed(js: Played, real: bool) -> None:
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


def test_any_job_succeeds(js: Played, real: bool) -> None:
    js.create(replicated("a", 2), replicated("b"), successPolicy={"operator": "Any"}).ok(201)
    js.until_counted("b", active=1)
    js.until_counted("a", active=2)
    js.succeed("js-a-1")
    js.until(lambda: js.condition("Completed"), "Completed")
    js.until_jobs("js-a-1")
    js.until_counted("b", active=0)
    js.check("any_succeeds", real=real)


@pytest.mark.parametrize("operator", ["All", "Any"])
def test_success_of_the_targets_is_enough(js: Played, real: bool, operator: str) -> None:
    js.create(replicated("a", 2), replicated("b"), successPolicy={"operator": operator, "targetReplicatedJobs": ["b"]}).ok(201)
    js.until_counted("a", active=2)
    js.succeed("js-b-0")
    js.until(lambda: js.condition("Completed"), "Completed")
    js.until_jobs("js-b-0")
    js.until_counted("a", active=0)
    js.check(f"target_{operator}", real=real)


def test_time_to_live(js: Played) -> None:
    js.create(replicated("a"), ttlSecondsAfterFinished=2).ok(201)
    js.succeed("js-a-0")
    js.until(lambda: js.gone() or js.condition("Completed"), "Completed")
    js.until(js.gone, "the JobSet is gone")
    js.until_jobs()


def test_failure_without_a_policy(js: Played, real: bool) -> None:
    js.create(replicated("a", 2), replicated("b")).ok(201)
    js.until_counted("a", active=2)
    js.fail("js-a-1")
    js.until(lambda: js.condition("Failed"), "Failed")
    js.until_jobs("js-a-1")
    js.until_counted("b", active=0)
    js.check("no_policy", real=real)


def test_restarts_until_there_were_too_many(js: Played, real: bool) -> None:
    js.create(replicated("a", 2), failurePolicy={"maxRestarts": 1}).ok(201)
    js.until_counted("a", active=2)
    js.fail("js-a-0")
    js.until(lambda: js.restarts() == 1, "a restart")
    js.until(lambda: _attempts(js) == {"js-a-0": "1", "js-a-1": "1"}, "new Jobs")
    js.until_counted("a", active=2)
    js.check("restarting", real=real)
    js.run("js-a-0")
    js.run("js-a-1")
    js.until(lambda: js.condition("RestartingJobSet", "False"), "restarted")
    js.until_counted("a", ready=2)
    js.check("restarted", real=real)
    js.fail("js-a-1")
    js.until(lambda: js.condition("Failed"), "Failed")
    js.until_jobs("js-a-1")
    js.until_counted("a", active=0)
    js.check("too_many_restarts", real=real)


def test_a_rule_fails_the_jobset(js: Played, real: bool) -> None:
    rules = [{"name": "at_once", "action": "FailJobSet", "onJobFailureReasons": ["BackoffLimitExceeded"]}]
    js.create(replicated("a"), failurePolicy={"maxRestarts": 3, "rules": rules}).ok(201)
    js.fail("js-a-0")
    js.until(lambda: js.condition("Failed"), "Failed")
    js.until_counted("a", failed=1)
    js.check("rule_fails", real=real)


def test_a_rule_that_does_not_match_restarts(js: Played, real: bool) -> None:
    rules = [{"name": "late", "action": "FailJobSet", "onJobFailureReasons": ["DeadlineExceeded"]}]
    js.create(replicated("a"), failurePolicy={"maxRestarts": 3, "rules": rules}).ok(201)
    js.fail("js-a-0")
    js.until(lambda: _attempts(js) == {"js-a-0": "1"}, "new Job")
    js.until_counted("a", active=1)
    js.check("no_rule_matches", real=real)


def test_restarts_that_do_not_count(js: Played, real: bool) -> None:
    rules = [{"name": "free", "action": "RestartJobSetAndIgnoreMaxRestarts", "targetReplicatedJobs": ["b"]}]
    js.create(replicated("a"), replicated("b"), failurePolicy={"maxRestarts": 0, "rules": rules}).ok(201)
    js.until_counted("a", active=1)
    js.fail("js-b-0")
    js.until(lambda: _attempts(js) == {"js-a-0": "1", "js-b-0": "1"}, "new Jobs")
    js.until_counted("a", active=1)
    js.until_counted("b", active=1)
    js.check("uncounted", real=real)
    js.fail("js-a-0")
    js.until(lambda: js.condition("Failed"), "Failed")
    js.until_jobs("js-a-0")
    js.until_counted("b", active=0)
    js.check("uncounted_then_counted", real=real)


def test_the_first_rule_that_matches_counts(js: Played, real: bool) -> None:
    rules = [
        {"name": "other", "action": "FailJobSet", "targetReplicatedJobs": ["b"]},
        {"name": "never", "action": "FailJobSet", "onJobFailureMessagePatterns": ["^no such text$", "("]},
        {"name": "first", "action": "RestartJobSet", "onJobFailureMessagePatterns": ["back ?off limit"]},
        {"name": "second", "action": "FailJobSet"},
    ]
    js.create(replicated("a"), replicated("b"), failurePolicy={"maxRestarts": 1, "rules": rules}).ok(201)
    js.until_counted("b", active=1)
    js.fail("js-a-0")
    js.until(lambda: _attempts(js) == {"js-a-0": "1", "js-b-0": "1"}, "new Jobs")
    js.until_counted("a", active=1)
    js.until_counted("b", active=1)
    js.check("first_rule", real=real)


def test_the_reason_is_what_the_job_says(js: Played, real: bool) -> None:
    rules = [{"name": "exit_code", "action": "FailJobSet", "onJobFailureReasons": ["PodFailurePolicy"]}]
    policy = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
    job = replicated("a", job={"backoffLimit": 5, "podFailurePolicy": policy}, pod={"restartPolicy": "Never"})
    js.create(job, failurePolicy={"maxRestarts": 3, "rules": rules}).ok(201)
    js.fail("js-a-0", code=42)
    js.until(lambda: js.condition("Failed"), "Failed")
    js.until_counted("a", failed=1)
    js.check("reason_of_job", real=real)


def test_blocking_recreate(js: Played, real: bool) -> None:
    js.create(replicated("a", 2), failurePolicy={"maxRestarts": 1, "restartStrategy": "BlockingRecreate"}).ok(201)
    js.until_counted("a", active=2)
    path = f"/apis/batch/v1/namespaces/{js.namespace}/jobs/js-a-1"
    js.api.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}}).ok()
    js.fail("js-a-0")
    js.until(lambda: sorted(js.jobs()) == ["js-a-1"] and js.restarts() == 1, "only the held Job is left")
    js.until_counted("a", active=0)
    js.check("blocked", real=real)
    js.api.patch(path, {"metadata": {"finalizers": None}}).ok()
    js.until(lambda: _attempts(js) == {"js-a-0": "1", "js-a-1": "1"}, "new Jobs")


def test_recreate_does_not_wait(js: Played) -> None:
    js.create(replicated("a", 2), failurePolicy={"maxRestarts": 1}).ok(201)
    js.until_counted("a", active=2)
    path = f"/apis/batch/v1/namespaces/{js.namespace}/jobs/js-a-1"
    js.api.patch(path, {"metadata": {"finalizers": ["example.com/hold"]}}).ok()
    js.fail("js-a-0")
    js.until(lambda: _attempts(js) == {"js-a-0": "1", "js-a-1": "0"}, "one new Job beside the held one")
    js.api.patch(path, {"metadata": {"finalizers": None}}).ok()
    js.until(lambda: _attempts(js) == {"js-a-0": "1", "js-a-1": "1"}, "new Jobs")


def test_one_job_is_restarted(js: Played, real: bool, jobset: Gates) -> None:
    jobset.set(RestartJob=True)
    rules = [{"name": "single", "action": "RestartJob", "targetReplicatedJobs": ["a"]}]
    js.create(replicated("a", 2), replicated("b"), failurePolicy={"maxRestarts": 1, "rules": rules}).ok(201)
    js.until_counted("a", active=2)
    before = js.jobs()["js-a-0"]["metadata"]["uid"]
    js.fail("js-a-1")
    js.until(lambda: _attempts(js, "job-restart-attempt").get("js-a-1") == "1", "a new Job")
    js.until_counted("a", active=2)
    assert js.jobs()["js-a-0"]["metadata"]["uid"] == before
    js.check("one_job", real=real, whole=True)
    js.fail("js-a-0")
    js.until(lambda: js.condition("Failed"), "Failed")
    js.until_jobs("js-a-0")
    js.until_counted("b", active=0)
    js.check("one_job_too_often", real=real)


def test_one_job_is_restarted_without_counting(js: Played, real: bool, jobset: Gates) -> None:
    jobset.set(RestartJob=True)
    js.create(replicated("a"), failurePolicy={"rules": [{"name": "free", "action": "RestartJobAndIgnoreMaxRestarts"}]}).ok(201)
    for number in "123":
        js.fail("js-a-0")
        js.until(lambda: _attempts(js, "job-restart-attempt").get("js-a-0") == number, "a new Job")  # noqa: B023
    js.until_counted("a", active=1)
    js.check("one_job_uncounted", real=real)


def test_start_in_order(js: Played, real: bool) -> None:
    js.create(replicated("a", 2), replicated("b"), startupPolicy={"startupPolicyOrder": "InOrder"}).ok(201)
    js.until_jobs("js-a-0", "js-a-1")
    js.until_counted("a", active=2)
    js.check("order_first", real=real)
    js.run("js-a-0")
    js.until_counted("a", ready=1)
    assert "js-b-0" not in js.jobs()
    js.run("js-a-1")
    js.until_jobs("js-a-0", "js-a-1", "js-b-0")
    js.run("js-b-0")
    js.until(lambda: js.condition("StartupPolicyCompleted"), "all are started")
    js.until_counted("b", ready=1)
    js.check("order_last", real=real)


@pytest.mark.parametrize("wanted", ["Ready", "Complete"])
def test_dependencies(js: Played, real: bool, wanted: str) -> None:
    depends = [{"name": "a", "status": wanted}]
    js.create(replicated("a", 2), replicated("b", dependsOn=depends), replicated("c")).ok(201)
    js.until_jobs("js-a-0", "js-a-1", "js-c-0")
    js.run("js-a-0")
    js.run("js-a-1")
    js.until_counted("a", ready=2)
    if wanted == "Complete":
        assert "js-b-0" not in js.jobs()
        js.succeed("js-a-0")
        js.succeed("js-a-1")
    js.until_jobs("js-a-0", "js-a-1", "js-b-0", "js-c-0")
    js.until_counted("b", active=1)
    js.check(f"depends_{wanted}", real=real)


def test_suspended_from_the_start(js: Played, real: bool) -> None:
    js.create(replicated("a", 2), replicated("b"), suspend=True).ok(201)
    js.until_counted("a", suspended=2)
    js.until_counted("b", suspended=1)
    js.check("suspended", real=real)
    js.change(suspend=False).ok()
    js.until(lambda: js.condition("Suspended", "False"), "resumed")
    js.until_counted("a", active=2, suspended=0)
    js.until_counted("b", active=1)
    js.check("resumed", real=real, whole=True)


def test_resumed_with_other_nodes(js: Played, real: bool) -> None:
    pod = {"nodeSelector": {"old": "1"}, "tolerations": [{"key": "old", "operator": "Exists"}]}
    js.create(replicated("a", pod=pod, pod_metadata={"labels": {"l": "1"}}), suspend=True).ok(201)
    js.until_counted("a", suspended=1)
    changed = js.get()
    template = changed["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["metadata"] = {"labels": {"l": "2", "m": "3"}, "annotations": {"n": "4"}}
    template["spec"]["nodeSelector"] = {"new": "5"}
    template["spec"]["tolerations"] = [{"key": "new", "operator": "Exists"}]
    template["spec"]["schedulingGates"] = [{"name": "example.com/gate"}]
    js.api.put(js.path, changed).ok()
    js.change(suspend=False).ok()
    js.until_counted("a", active=1)
    seen = js.picture()
    spec = seen["jobs"]["js-a-0"]["spec"]["template"]["spec"]
    spec["tolerations"].sort(key=lambda each: each["key"])  # their order is left to chance
    js.check("resumed_elsewhere", real=real, seen=seen)


def test_suspended_while_it_runs(js: Played, real: bool) -> None:
    js.create(replicated("a", 2)).ok(201)
    js.until_counted("a", active=2)
    js.change(suspend=True).ok()
    js.until_counted("a", suspended=2, active=0)
    js.until(lambda: not js.pods(), "no pods")
    js.check("suspended_later", real=real)
    js.change(suspend=False).ok()
    js.until_counted("a", active=2, suspended=0)
    js.until(lambda: js.condition("Suspended", "False"), "resumed")
    js.check("resumed_later", real=real)


def test_suspended_in_order(js: Played, real: bool) -> None:
    js.create(replicated("a"), replicated("b"), startupPolicy={"startupPolicyOrder": "InOrder"}, suspend=True).ok(201)
    js.until_counted("a", suspended=1)
    js.until_counted("b", suspended=1)
    js.check("order_suspended", real=real)
    js.change(suspend=False).ok()
    js.until_counted("a", active=1)
    js.check("order_resumed", real=real)
    js.run("js-a-0")
    js.until_counted("b", active=1)
    js.run("js-b-0")
    js.until(lambda: js.condition("StartupPolicyCompleted"), "all are started")
    js.until(lambda: js.condition("Suspended", "False"), "resumed")
    js.until_counted("b", ready=1)
    js.check("order_resumed_all", real=real)


def test_a_restart_that_is_suspended(js: Played, real: bool) -> None:
    js.create(replicated("a"), failurePolicy={"maxRestarts": 2}).ok(201)
    js.fail("js-a-0")
    js.until(lambda: _attempts(js) == {"js-a-0": "1"}, "new Job")
    js.until_counted("a", active=1)
    js.change(suspend=True).ok()
    js.until_counted("a", suspended=1, active=0)
    js.check("restart_suspended", real=real)


def test_a_name_that_is_taken(js: Played, real: bool) -> None:
    job = {"metadata": {"name": "js-a-0"}, "spec": {"suspend": True, "template": replicated("a")["template"]["spec"]["template"]}}
    job["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    js.api.post(f"/apis/batch/v1/namespaces/{js.namespace}/jobs", job).ok(201)
    js.create(replicated("a")).ok(201)
    js.until(lambda: js.events(creation=True), "an event")
    js.check("taken", real=real, seen=js.events(creation=True)[0])


def test_a_generated_name(js: Played) -> None:
    body = js.body(replicated("a"))
    body["metadata"] = {"generateName": "made-"}
    name = js.api.post(js.home, body).ok(201).json["metadata"]["name"]
    made = Played(js.api, js.namespace, name)
    made.until_counted("a", active=1)
    job = made.jobs()[f"{name}-a-0"]
    assert job["spec"]["template"]["spec"]["subdomain"] == name
    assert job["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] == name


def test_a_lost_job_is_made_again(js: Played) -> None:
    js.create(replicated("a", 2)).ok(201)
    js.until_counted("a", active=2)
    uid = js.jobs()["js-a-1"]["metadata"]["uid"]
    js.api.delete(f"/apis/batch/v1/namespaces/{js.namespace}/jobs/js-a-1").ok()
    js.until(lambda: (jobs := js.jobs()).keys() == {"js-a-0", "js-a-1"} and jobs["js-a-1"]["metadata"]["uid"] != uid, "another Job")
    assert _attempts(js) == {"js-a-0": "0", "js-a-1": "0"}
    assert js.restarts() == 0


def test_what_is_over_stays_over(js: Played, real: bool) -> None:
    js.create(replicated("a"), replicated("b"), successPolicy={"operator": "Any"}).ok(201)
    js.succeed("js-a-0")
    js.until(lambda: js.condition("Completed"), "Completed")
    js.until_jobs("js-a-0")
    js.api.delete(f"/apis/batch/v1/namespaces/{js.namespace}/jobs/js-a-0").ok()
    js.change(suspend=True).ok()
    js.until_counted("a", succeeded=0)
    js.check("over", real=real)


def test_a_restart_begins_with_the_first_again(js: Played, real: bool) -> None:
    order = {"startupPolicyOrder": "InOrder"}
    js.create(replicated("a"), replicated("b"), startupPolicy=order, failurePolicy={"maxRestarts": 1}).ok(201)
    js.run("js-a-0")
    js.run("js-b-0")
    js.until(lambda: js.condition("StartupPolicyCompleted"), "all are started")
    js.until_counted("b", ready=1)
    js.fail("js-b-0")
    js.until(lambda: _attempts(js) == {"js-a-0": "1"}, "only the first again")
    js.until_counted("a", active=1)
    js.check("order_restarted", real=real, seen=_unordered(js))
    js.run("js-a-0")
    js.run("js-b-0")
    js.until(lambda: js.condition("StartupPolicyCompleted") and js.condition("RestartingJobSet", "False"), "all are started")
    js.until_counted("b", ready=1)
    js.check("order_restarted_all", real=real, seen=_unordered(js))


def test_dependencies_while_suspended(js: Played, real: bool) -> None:
    js.create(replicated("a"), replicated("b", dependsOn=[{"name": "a", "status": "Complete"}]), suspend=True).ok(201)
    js.until_counted("a", suspended=1)
    js.check("depends_suspended", real=real)
    js.change(suspend=False).ok()
    js.succeed("js-a-0")
    js.until_counted("b", active=1)
    js.check("depends_resumed", real=real)


def test_how_it_is_listed(js: Played, real: bool) -> None:
    js.create(replicated("a"), suspend=True).ok(201)
    js.until_counted("a", suspended=1)
    shown = js.api.get(js.home, accept=TABLE).ok().json
    columns = [{key: each[key] for key in ("name", "type", "priority")} for each in shown["columnDefinitions"]]
    js.check("table", real=real, seen={"columns": columns, "cells": [row["cells"][:-1] for row in shown["rows"]]})


def test_applied_twice(js: Played) -> None:
    body = js.body(replicated("a"))
    js.api.apply(js.path, body).ok(201)
    js.until_counted("a", active=1)
    again = js.api.apply(js.path, body).ok(200).json
    assert again["metadata"]["generation"] == 1
    body["spec"]["ttlSecondsAfterFinished"] = 60
    assert js.api.apply(js.path, body).ok(200).json["metadata"]["generation"] == 2


def test_deletion_takes_everything_along(js: Played) -> None:
    js.create(replicated("a", 2, pods=2)).ok(201)
    js.until_pods("js-a-0", 2)
    js.until_pods("js-a-1", 2)
    js.api.delete(js.path).ok()
    js.until(js.gone, "the JobSet is gone")
    js.until_jobs()
    js.until(lambda: not js.pods(), "no pods")
    path = f"/api/v1/namespaces/{js.namespace}/services"
    js.until(lambda: not js.api.get(path).ok().names, "no Service")


def _attempts(js: Played, label: str = "restart-attempt") -> dict[str, str]:
    """The attempt that each Job belongs to."""
    return {name: job["metadata"]["labels"].get(f"jobset.sigs.k8s.io/{label}", "") for name, job in js.jobs().items()}


def _unordered(js: Played) -> dict[str, Any]:
    """The picture without the order of events, where that depends on how much of a failing Job was seen."""
    seen = js.picture(whole=False)
    return {**seen, "events": sorted(map(str, seen["events"]))}
