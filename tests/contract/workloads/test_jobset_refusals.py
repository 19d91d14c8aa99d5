"""Rejected JobSets and rejected updates of JobSets, with their messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.jobsets import JobSetDriver, replicated

if TYPE_CHECKING:
    from tests.support.http import Answer
    from tests.support.jobset_install import Gates

CLUSTER = "jobsets"
_LONG = "x" * 64
_PLAIN = (replicated("a"),)


def _rules(*rules: dict[str, Any], **policy: Any) -> dict[str, Any]:
    return {
        "failurePolicy": {**policy, "rules": [{"action": "FailJobSet", "name": f"r{n}", **rule} for n, rule in enumerate(rules)]}
    }


_REFUSED: dict[str, tuple[tuple[dict[str, Any], ...], dict[str, Any]]] = {
    "in_place": (_PLAIN, {"failurePolicy": {"restartStrategy": "InPlaceRestart"}}),
    "first_depends": ((replicated("a", dependsOn=[{"name": "b", "status": "Ready"}]), replicated("b")), {}),
    "depends_on_later": (
        (replicated("a"), replicated("b", dependsOn=[{"name": "c", "status": "Ready"}]), replicated("c")),
        {},
    ),
    "depends_on_cycle": (
        (
            replicated("a", dependsOn=[{"name": "b", "status": "Complete"}]),
            replicated("b", dependsOn=[{"name": "a", "status": "Complete"}]),
        ),
        {},
    ),
    "depends_in_order": (
        (replicated("a"), replicated("b", dependsOn=[{"name": "a", "status": "Ready"}])),
        {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
    ),
    "depends_status": ((replicated("a"), replicated("b", dependsOn=[{"name": "a", "status": "Started"}])), {}),
    "same_name_twice": ((replicated("a"), replicated("a")), {}),
    "subdomain": (_PLAIN, {"network": {"subdomain": "Not_Good"}}),
    "subdomain_number": (_PLAIN, {"network": {"subdomain": "1abc"}}),
    "subdomain_long": (_PLAIN, {"network": {"subdomain": _LONG}}),
    "subdomain_dots": (_PLAIN, {"network": {"subdomain": "a.b"}}),
    "manager": (_PLAIN, {"managedBy": "nobody"}),
    "manager_empty": (_PLAIN, {"managedBy": ""}),
    "manager_long": (_PLAIN, {"managedBy": f"example.com/{_LONG}"}),
    "manager_host": (_PLAIN, {"managedBy": "Bad_Host/path"}),
    "too_many_pods": ((replicated("a", 2**30, pods=4),), {}),
    "group_name": ((replicated("a", groupName="Bad_Group"),), {}),
    "group_name_long": ((replicated("a", groupName=_LONG),), {}),
    "job_name": ((replicated("Bad_Name"),), {}),
    "job_name_long": ((replicated("y" * 60),), {}),
    "pod_name_long": ((replicated("y" * 52, pods=100),), {}),
    "success_target": (_PLAIN, {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["a", "z"]}}),
    "success_operator": (_PLAIN, {"successPolicy": {"operator": "Some"}}),
    "rule_action": (_PLAIN, _rules({"action": "Panic"})),
    "rule_target": (_PLAIN, _rules({"targetReplicatedJobs": ["z"]})),
    "rule_reason": (_PLAIN, _rules({"onJobFailureReasons": ["Bored"]})),
    "rule_name": (_PLAIN, _rules({"name": "0-bad"})),
    "rule_name_long": (_PLAIN, _rules({"name": "r" * 129})),
    "rule_names_twice": (_PLAIN, _rules({"name": "same"}, {"name": "other"}, {"name": "same"})),
    "single_restarts_are_off": (_PLAIN, _rules({"action": "RestartJob"}, {"name": "0-bad"})),
    "coordinator_unknown": (_PLAIN, {"coordinator": {"replicatedJob": "z"}}),
    "coordinator_job": (_PLAIN, {"coordinator": {"replicatedJob": "a", "jobIndex": 1}}),
    "coordinator_pod": (_PLAIN, {"coordinator": {"replicatedJob": "a", "podIndex": 1}}),
    "coordinator_negative": (_PLAIN, {"coordinator": {"replicatedJob": "a", "jobIndex": -1}}),
    "coordinator_mode": ((replicated("a", job={"completionMode": "NonIndexed"}),), {"coordinator": {"replicatedJob": "a"}}),
    "coordinator_label": (_PLAIN, {"coordinator": {"replicatedJob": "a"}, "network": {"subdomain": "s" * 63}}),
    "order": (_PLAIN, {"startupPolicy": {"startupPolicyOrder": "Backwards"}}),
    "time_to_live": (_PLAIN, {"ttlSecondsAfterFinished": -1}),
    "several": (
        (replicated("a", groupName="Bad"), replicated("b", dependsOn=[{"name": "z", "status": "Ready"}])),
        {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["z"]}},
    ),
}


@pytest.mark.parametrize("case", _REFUSED)
def test_invalid_jobset_is_rejected(js: JobSetDriver, real: bool, case: str) -> None:
    jobs, spec = _REFUSED[case]
    _compare(js, case, js.create(*jobs, **spec), real)


def _with(**fields: Any) -> dict[str, Any]:
    return {"replicatedJobs": [{**replicated("a"), **fields}]}


def _pods(**spec: Any) -> dict[str, Any]:
    return _with(template={"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}], **spec}}}})


_UNREADABLE: dict[str, Any] = {
    "spec_list": [],
    "spec_text": "x",
    "jobs_object": {"replicatedJobs": {}},
    "jobs_texts": {"replicatedJobs": ["x"]},
    "jobs_null": {"replicatedJobs": [None]},
    "template_null": _with(template=None),
    "template_text": _with(template="x"),
    "template_absent": {"replicatedJobs": [{"name": "a"}]},
    "name_number": _with(name=3),
    "replicas_text": _with(replicas="x"),
    "replicas_large": _with(replicas=2**40),
    "replicas_fraction": _with(replicas=1.5),
    "network_text": {**_with(), "network": "x"},
    "subdomain_number": {**_with(), "network": {"subdomain": 3}},
    "rules_text": {**_with(), "failurePolicy": {"rules": "x"}},
    "rule_null": {**_with(), "failurePolicy": {"rules": [None]}},
    "rule_without_action": {**_with(), "failurePolicy": {"rules": [{"name": "x"}]}},
    "operator_absent": {**_with(), "successPolicy": {}},
    "order_absent": {**_with(), "startupPolicy": {}},
    "coordinator_empty": {**_with(), "coordinator": {}},
    "coordinator_text_index": {**_with(), "coordinator": {"replicatedJob": "a", "jobIndex": "x"}},
    "depends_text": _with(dependsOn="a"),
    "suspend_text": {**_with(), "suspend": "x"},
    "parallelism_text": _with(template={"spec": {"parallelism": "x", "template": {"spec": {}}}}),
    "containers_null": _pods(containers=None),
    "quantity": _pods(containers=[{"name": "c", "resources": {"limits": {"cpu": "abc"}}}]),
    "label_number": _with(template={"metadata": {"labels": {"a": 1}}, "spec": {"template": {"spec": {}}}}),
}


@pytest.mark.parametrize("case", _UNREADABLE)
def test_unreadable_jobset_is_rejected(js: JobSetDriver, real: bool, case: str) -> None:
    body = {**js.body(), "spec": _UNREADABLE[case]}
    _compare(js, f"unreadable_{case}", js.api.post(js.home, body), real)


def test_replicated_job_without_name_is_rejected(js: JobSetDriver, real: bool) -> None:
    job = {key: value for key, value in replicated("a").items() if key != "name"}
    js.create(job, suspend=True).ok(201)
    js.until(lambda: js.status() and js.events(), "a status and an event")
    js.check("nameless", real=real)


def test_jobset_without_jobs(js: JobSetDriver, real: bool) -> None:
    js.create().ok(201)
    js.until(lambda: js.picture()["services"], "a Service")
    js.check("no_jobs", real=real)


def test_too_many_replicas_for_job_restarts_are_rejected(js: JobSetDriver, real: bool, jobset: Gates) -> None:
    jobset.set(RestartJob=True)
    _compare(js, "too_many_replicas", js.create(replicated("a", 1025), **_rules({"action": "RestartJob"})), real)


_CHANGES: dict[str, dict[str, Any]] = {
    "network": {"network": {"subdomain": "other"}},
    "success_policy": {"successPolicy": {"operator": "Any"}},
    "failure_policy": {"failurePolicy": {"maxRestarts": 7}},
    "startup_policy": {"startupPolicy": {"startupPolicyOrder": "InOrder"}},
    "manager": {"managedBy": "example.com/other"},
}


@pytest.mark.parametrize("suspended", [False, True])
@pytest.mark.parametrize("case", _CHANGES)
def test_immutable_fields_are_rejected(js: JobSetDriver, real: bool, case: str, suspended: bool) -> None:
    js.create(replicated("a"), suspend=suspended, failurePolicy={"maxRestarts": 1}).ok(201)
    _compare(js, f"change_{case}_{suspended}", js.change(**_CHANGES[case]), real)


@pytest.mark.parametrize("suspended", [False, True])
@pytest.mark.parametrize("case", ["replicas", "image", "parallelism", "another", "rename", "nodes", "labels"])
def test_partly_mutable_replicated_jobs(js: JobSetDriver, real: bool, case: str, suspended: bool) -> None:
    js.create(replicated("a"), suspend=suspended).ok(201)
    jobs = js.get()["spec"]["replicatedJobs"]
    job = jobs[0]["template"]["spec"]
    pod = job["template"]
    if case == "replicas":
        jobs[0]["replicas"] = 2
    elif case == "image":
        pod["spec"]["containers"][0]["image"] = "y"
    elif case == "parallelism":
        job["parallelism"] = 3
    elif case == "another":
        jobs.append(replicated("b"))
    elif case == "rename":
        jobs[0]["name"] = "z"
    elif case == "nodes":
        pod["spec"]["nodeSelector"] = {"a": "b"}
    else:
        pod["metadata"]["labels"] = {"a": "b"}
    answer = js.change(replicatedJobs=jobs)
    seen = {"code": answer.status, "reason": answer.reason, "causes": [cause[:2] for cause in answer.causes]}
    goldens.check("workloads_jobset_refusals", f"jobs_{case}_{suspended}", seen, real=real, words=js.words())


def test_ttl_and_suspend_are_mutable(js: JobSetDriver) -> None:
    js.create(replicated("a")).ok(201)
    js.change(ttlSecondsAfterFinished=60, suspend=True).ok()
    js.api.patch(js.path, {"metadata": {"labels": {"a": "b"}}}).ok()
    js.change(coordinator={"replicatedJob": "nobody"}).ok()


def _compare(js: JobSetDriver, case: str, answer: Answer, real: bool) -> None:
    goldens.check("workloads_jobset_refusals", case, answer.refusal, real=real, words=js.words())
