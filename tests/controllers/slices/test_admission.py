"""Kueue asks for capacity first: what its Workloads are answered, and what is made for them."""

from __future__ import annotations

from typing import Any

from tests.support.slice_asks import TPU
from tests.support.slice_pictures import (
    NOW,
    decided,
    jobset,
    kinds,
    moment,
    one,
    only,
    pool,
    workload,
)

from sliceworks.controllers.slices import asks, words
from sliceworks.controllers.slices.views import Problem, Subject
from sliceworks.controllers.slices.world import Answer, Create, Delete, Tell

# Kueue.

POD = {"metadata": {}, "spec": {"containers": [{"resources": {"requests": {"google.com/tpu": 4}}}]}}
FLAVORS = {"v5p": {"nodeLabels": TPU}}
CHECKS: dict[str, Any] = {"checks": frozenset({"slices"}), "flavors": FLAVORS}


def _queued(replicas: int = 2, **more: Any) -> Any:
    return jobset(replicas=replicas, queued=True, suspended=True, suspended_since=moment(-9000), pod=POD, **more)


def test_a_workload_with_quota_gets_its_pools_before_its_pods() -> None:
    decision = decided(_queued(), workload(), **CHECKS)
    creates = only(decision, Create)
    assert [each.job.name for each in creates] == ["js-slice-0", "js-slice-1"]
    assert creates[0].body["initialNodeCount"] == 4
    assert creates[0].about.kind == "Workload"
    answer = one(decision, Answer)
    assert (answer.check, answer.state, answer.message) == ("slices", "Pending", "0 of 2 slices are ready")


def test_the_pool_is_what_the_pod_will_ask_for() -> None:
    create = only(decided(_queued(), workload(), **CHECKS), Create)[0]
    assert create.body["config"]["labels"][words.POOL_HASH] == asks_of_the_pod()


def asks_of_the_pod() -> str:
    spec = {"nodeSelector": TPU, **POD["spec"]}
    return asks.of_job(asks.read("tpu", {}, spec), 4).digest


def test_it_is_admitted_when_all_are_ready() -> None:
    digest = asks_of_the_pod()
    pools = [pool(index, digest=digest) for index in range(2)]
    answer = one(decided(_queued(), workload(), *pools, **CHECKS), Answer)
    assert (answer.state, answer.message) == ("Ready", "2 slices are ready")
    assert answer.podsets == ("slice",)
    assert answer.selector == {words.POOL_JOBSET_NAME: "js", words.POOL_JOBSET_NAMESPACE: "ml"}
    assert not only(decided(_queued(), workload(state="Ready"), *pools, **CHECKS), Answer, Delete)


def test_it_queues_again_when_they_are_not_to_be_had() -> None:
    late = workload(reserved_since=moment(-2000))
    answer = one(decided(_queued(), late, pool(0, digest=asks_of_the_pod()), **CHECKS), Answer)
    assert answer.state == "Retry"
    assert answer.message == "1 of 2 slices are ready; given back after 30m0s"


def test_it_is_told_why_nothing_is_done_while_the_cloud_cannot_be_asked() -> None:
    trouble = Problem("Unauthenticated", "the credentials have expired")
    answer = one(decided(_queued(), workload(reserved_since=moment(-2000)), trouble=trouble, **CHECKS), Answer)
    assert (answer.state, answer.message, answer.event) == ("Pending", "the credentials have expired", True)
    told = workload(message="the credentials have expired")
    assert kinds(decided(_queued(), told, trouble=trouble, **CHECKS)) == []


def test_a_time_limit_that_is_none_is_refused() -> None:
    wrong = Problem("BadRequest", "'soon' is no time")
    decision = decided(_queued(time_limit=wrong), workload(), **CHECKS)
    assert not only(decision, Create)
    assert (one(decision, Answer).state, one(decision, Answer).message) == ("Rejected", "'soon' is no time")


def test_its_pools_are_kept_only_while_it_has_quota() -> None:
    digest = asks_of_the_pod()
    assert only(decided(_queued(), workload(active=False), pool(0, digest=digest, created=NOW - 400), **CHECKS), Delete)
    assert only(decided(_queued(), workload(state="Retry"), pool(0, digest=digest, created=NOW - 400), **CHECKS), Delete)


def test_what_cannot_be_is_rejected() -> None:
    flavors = {"v5p": {"nodeLabels": {**TPU, "cloud.google.com/gke-tpu-topology": "5x5x5"}}}
    answer = one(decided(_queued(), workload(), checks=frozenset({"slices"}), flavors=flavors), Answer)
    assert answer.state == "Rejected"
    assert "5x5x5 is no topology" in answer.message


def test_checks_of_others_are_left_to_them() -> None:
    assert kinds(decided(_queued(), workload(), flavors=FLAVORS)) == []


def test_workloads_without_slices_pass() -> None:
    plain = jobset(queued=True, suspended=True, pod={"metadata": {}, "spec": {"containers": [{}]}})
    assert one(decided(plain, workload(), **CHECKS), Answer).message == "no slices are wanted"
    assert one(decided(workload("unknown"), **CHECKS), Answer).state == "Ready"


def test_a_check_is_marked_as_looked_after() -> None:
    check = Subject("kueue.x-k8s.io/v1beta2", "AdmissionCheck", "", "slices")
    tell = one(decided(idle_checks=(check,)), Tell)
    assert (tell.about, tell.condition, tell.status) == (check, "Active", "True")
