"""Admission checks of Kueue Workloads: node pools before admission, and the state of the check."""

from __future__ import annotations

from typing import Any

from tests.support.slice_snapshots import NOW, TPU, decided, jobset, kinds, one, only, pool, seconds_after_now, workload

from sliceworks.controllers.slices import node_pool_requirements, well_known
from sliceworks.controllers.slices.model import (
    CreateNodePool,
    DeleteNodePool,
    ObjectReference,
    Problem,
    SetAdmissionCheck,
    SetCondition,
)

# Kueue.

POD = {"metadata": {}, "spec": {"containers": [{"resources": {"requests": {"google.com/tpu": 4}}}]}}
FLAVORS = {"v5p": {"nodeLabels": TPU}}
CHECKS: dict[str, Any] = {"checks": frozenset({"slices"}), "flavors": FLAVORS}


def _queued(replicas: int = 2, **more: Any) -> Any:
    return jobset(replicas=replicas, queued=True, suspended=True, suspended_since=seconds_after_now(-9000), pod=POD, **more)


def test_workload_with_quota_gets_pools_before_pods() -> None:
    decision = decided(_queued(), workload(), **CHECKS)
    creates = only(decision, CreateNodePool)
    assert [item.job.name for item in creates] == ["js-slice-0", "js-slice-1"]
    assert creates[0].body["initialNodeCount"] == 4
    assert creates[0].regarding.kind == "Workload"
    check = one(decision, SetAdmissionCheck)
    assert (check.check, check.state, check.message) == ("slices", "Pending", "0 of 2 slices are ready")


def test_pool_matches_future_pod() -> None:
    create = only(decided(_queued(), workload(), **CHECKS), CreateNodePool)[0]
    assert create.body["config"]["labels"][well_known.POOL_HASH] == pod_digest()


def pod_digest() -> str:
    spec = {"nodeSelector": TPU, **POD["spec"]}
    return node_pool_requirements.for_job(node_pool_requirements.read("tpu", {}, spec), 4).digest


def test_check_is_ready_when_all_slices_are_ready() -> None:
    digest = pod_digest()
    pools = [pool(index, digest=digest) for index in range(2)]
    check = one(decided(_queued(), workload(), *pools, **CHECKS), SetAdmissionCheck)
    assert (check.state, check.message) == ("Ready", "2 slices are ready")
    assert check.podsets == ("slice",)
    assert check.selector == {well_known.POOL_JOBSET_NAME: "js", well_known.POOL_JOBSET_NAMESPACE: "ml"}
    assert not only(decided(_queued(), workload(state="Ready"), *pools, **CHECKS), SetAdmissionCheck, DeleteNodePool)


def test_check_is_retried_after_timeout() -> None:
    late = workload(reserved_since=seconds_after_now(-2000))
    check = one(decided(_queued(), late, pool(0, digest=pod_digest()), **CHECKS), SetAdmissionCheck)
    assert check.state == "Retry"
    assert check.message == "1 of 2 slices are ready; timed out after 30m0s"


def test_check_reports_cloud_error() -> None:
    cloud_error = Problem("Unauthenticated", "the credentials have expired")
    check = one(
        decided(_queued(), workload(reserved_since=seconds_after_now(-2000)), cloud_error=cloud_error, **CHECKS), SetAdmissionCheck
    )
    assert (check.state, check.message, check.event) == ("Pending", "the credentials have expired", True)
    condition = workload(message="the credentials have expired")
    assert kinds(decided(_queued(), condition, cloud_error=cloud_error, **CHECKS)) == []


def test_invalid_time_limit_is_rejected() -> None:
    wrong = Problem("BadRequest", "'soon' is not a duration")
    decision = decided(_queued(time_limit=wrong), workload(), **CHECKS)
    assert not only(decision, CreateNodePool)
    check = one(decision, SetAdmissionCheck)
    assert (check.state, check.message) == ("Rejected", "'soon' is not a duration")


def test_pools_are_kept_while_workload_has_quota() -> None:
    digest = pod_digest()
    assert only(decided(_queued(), workload(active=False), pool(0, digest=digest, created=NOW - 400), **CHECKS), DeleteNodePool)
    assert only(decided(_queued(), workload(state="Retry"), pool(0, digest=digest, created=NOW - 400), **CHECKS), DeleteNodePool)


def test_invalid_requirements_are_rejected() -> None:
    flavors = {"v5p": {"nodeLabels": {**TPU, "cloud.google.com/gke-tpu-topology": "5x5x5"}}}
    check = one(decided(_queued(), workload(), checks=frozenset({"slices"}), flavors=flavors), SetAdmissionCheck)
    assert check.state == "Rejected"
    assert "5x5x5 is not a " in check.message


def test_other_checks_are_ignored() -> None:
    assert kinds(decided(_queued(), workload(), flavors=FLAVORS)) == []


def test_workload_without_slices_is_ready() -> None:
    plain = jobset(queued=True, suspended=True, pod={"metadata": {}, "spec": {"containers": [{}]}})
    assert one(decided(plain, workload(), **CHECKS), SetAdmissionCheck).message == "no slices needed"
    assert one(decided(workload("unknown"), **CHECKS), SetAdmissionCheck).state == "Ready"


def test_admission_check_becomes_active() -> None:
    check = ObjectReference("kueue.x-k8s.io/v1beta2", "AdmissionCheck", "", "slices")
    tell = one(decided(inactive_checks=(check,)), SetCondition)
    assert (tell.regarding, tell.condition, tell.status) == (check, "Active", "True")
