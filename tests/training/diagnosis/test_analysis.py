"""Diagnoses from objects alone: rare states, and users with few permissions."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import evidence as given

from sliceworks.cli import train_description
from sliceworks.training.diagnosis import cause_catalog
from sliceworks.training.diagnosis.analysis import diagnose
from sliceworks.training.diagnosis.model import Evidence

if TYPE_CHECKING:
    from sliceworks.training.diagnosis.model import Diagnosis

TESTS = Path(__file__).parents[2]


def cause_names(evidence: Evidence) -> list[str]:
    return [cause.kind.name for cause in diagnose(evidence).causes]


def first_message(evidence: Evidence) -> str:
    return diagnose(evidence).causes[0].message


def test_every_cause_has_a_test() -> None:
    files = [*(TESTS / "contract").rglob("test_*.py"), *(TESTS / "training" / "diagnosis").glob("*.py")]
    text = "\n".join(file.read_text() for file in files)
    assert len({kind.name for kind in cause_catalog.CAUSES}) == len(cause_catalog.CAUSES) >= 20
    assert [kind.name for kind in cause_catalog.CAUSES if f'"{kind.name}"' not in text] == []


def test_kueue_missing() -> None:
    result = given.queued(kueue=False, workload=None, local_queue=None, cluster_queue=None, cohort=())
    assert cause_names(result) == ["kueue-missing"]


def test_workload_not_created_yet() -> None:
    assert cause_names(given.queued(workload=None)) == ["no-workload"]


def test_forbidden_cluster_queue_reports_kueues_message() -> None:
    seen = {
        "cluster_queue": None,
        "cohort": (),
        "hidden": frozenset({"ClusterQueue"}),
        "unreadable": ("ClusterQueue cq: forbidden",),
    }
    result = Evidence(now=given.NOW, jobset=given.jobset(), workload=given.workload(), local_queue=given.local(), **seen)  # type: ignore[arg-type]
    diagnosis = diagnose(result)
    assert [cause.kind.name for cause in diagnosis.causes] == ["pending-in-queue"]
    assert diagnosis.causes[0].reported == "couldn't assign flavors"
    assert "Could not be read:\n  ClusterQueue cq: forbidden" in train_description.describe_answer(diagnosis)


def test_reasons_of_newer_kueue_without_cluster_queue() -> None:
    for reason, name in (
        ("WaitingForQuota", "quota-in-use"),
        ("ExceedsMaxQuota", "quota-too-small"),
        ("NoMatchingFlavor", "no-flavor-fits"),
    ):
        reported = given.conditions(QuotaReserved=("False", reason, "so it is"))
        hidden = frozenset({"ClusterQueue"})
        result = Evidence(
            now=given.NOW,
            jobset=given.jobset(),
            workload=given.workload(status_conditions=reported),
            local_queue=given.local(),
            hidden=hidden,
        )
        assert cause_names(result) == [name]


def test_forbidden_local_queue_is_not_missing() -> None:
    result = Evidence(now=given.NOW, jobset=given.jobset(), workload=given.workload(), hidden=frozenset({"LocalQueue"}))
    assert cause_names(result) == ["pending-in-queue"]


def test_cluster_queue_without_namespace_selector() -> None:
    queue = given.cluster_queue()
    del queue["spec"]["namespaceSelector"]
    assert first_message(given.queued(cluster_queue=queue)) == "The ClusterQueue cq selects no namespaces."


def test_pod_sets_share_the_quota_of_a_flavor() -> None:
    workload = given.workload(chips=12)
    workload["spec"]["podSets"].append({**workload["spec"]["podSets"][0], "name": "more"})
    assert cause_names(given.queued(workload=workload)) == ["quota-too-small"]
    assert "It requests 24 TPU chips of v4; the maximum of cq is 16" in first_message(given.queued(workload=workload))


def test_resource_requests_of_kueue_take_precedence() -> None:
    counted = [{"name": "slice", "resources": {given.TPU: "32"}}]
    assert cause_names(given.queued(workload=given.workload(resourceRequests=counted))) == ["quota-too-small"]


def test_job_that_fits_and_is_not_admitted_for_minutes_has_a_cause() -> None:
    assert cause_names(given.queued()) == ["not-considered"]
    assert first_message(given.queued()).endswith("no job is ahead of it, but Kueue has not admitted it for 60m.")
    recent = given.workload(status_conditions=given.conditions(QuotaReserved=("False", "Pending", "insufficient quota")))
    recent["status"]["conditions"][0]["lastTransitionTime"] = "2026-01-01T11:59:30Z"
    assert cause_names(given.queued(workload=recent)) == ["pending-in-queue"]


def test_jobs_of_other_queues_that_kueue_waits_for_are_named() -> None:
    result = given.queued(unready=(given.workload("slow"),))
    assert cause_names(result) == ["others-not-ready"]
    assert first_message(result) == "Kueue admits no jobs until the pods of the admitted jobs are ready: team/slow."


def test_nested_cohorts_lend_quota() -> None:
    own = given.cluster_queue(4, used=4, cohortName="left")
    other = given.cluster_queue(16, name="other", cohortName="right")
    cohorts = tuple({"metadata": {"name": name}, "spec": {"parentName": "top"}} for name in ("left", "right"))
    workload = given.workload(chips=12, created="2026-01-01T11:59:50Z")
    result = given.queued(cluster_queue=own, cohort=(own, other), cohorts=cohorts, workload=workload)
    assert cause_names(result) == ["pending-in-queue"]  # quota is free: Kueue is about to admit it
    assert cause_names(given.queued(cluster_queue=own, cohort=(own, other), workload=workload, cohorts=())) == ["quota-too-small"]


def test_quota_above_the_lending_limit_is_not_shared() -> None:
    own = given.cluster_queue(4, cohortName="all")
    other = given.cluster_queue(16, used=16, name="other", cohortName="all", limits={"lendingLimit": "4"})
    result = given.queued(cluster_queue=own, cohort=(own, other), workload=given.workload(chips=8))
    assert first_message(result).startswith("It requests 8 TPU chips of v4; 4 of 8 TPU chips are free.")


def test_releases_are_sorted_by_end_and_long_lists_shortened() -> None:
    late, soon = given.holder("late", 4, run_seconds="7200"), given.holder("soon", 4, run_seconds="4000")
    others = [given.holder(f"other-{number}", 1) for number in range(5)]
    ready = {"replicatedJobsStatus": [{"name": "slice", "ready": 1}]}
    bound = given.jobset(suspend=False, status=ready)
    bound["spec"]["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] = 9000
    full = given.cluster_queue(16, used=16)
    result = diagnose(given.queued(cluster_queue=full, holders=(late, soon, *others), holder_jobsets={("team", "other-0"): bound}))
    assert "1 TPU chip by team/other-2 (priority 0); 2 TPU chips by 2 more" in result.causes[0].message
    releases = [(release.job.name, release.basis) for release in result.releases]
    assert releases[:3] == [
        ("soon", "by its estimate"),
        ("late", "by its estimate"),
        ("other-0", "at the latest, by its deadline"),
    ]
    assert "end time unknown" in train_description.describe_answer(result)


def test_estimate_of_a_job_with_steps_is_their_sum() -> None:
    holder = given.holder("steps", 16, run_seconds="3600")
    before = {"name": "before", "count": 1, "template": {"metadata": {"annotations": {"sliceworks.dev/run-seconds": "600"}}}}
    holder["spec"]["podSets"].append(before)
    result = diagnose(given.queued(cluster_queue=given.cluster_queue(16, used=16), holders=(holder,)))
    admitted_at = holder["status"]["conditions"][0]["lastTransitionTime"]
    assert result.releases[0].expected_at == datetime.fromisoformat(admitted_at) + timedelta(seconds=4200)


def test_release_of_a_job_that_has_not_started_has_no_time() -> None:
    full = given.cluster_queue(16, used=16)
    starting = {("team", "a"): given.jobset(suspend=False)}
    result = diagnose(given.queued(cluster_queue=full, holders=(given.holder("a", 16, run_seconds="60"),), holder_jobsets=starting))
    assert "16 TPU chips of v4 when team/a ends; it has not started yet" in train_description.describe_answer(result)


def test_incomplete_list_of_holders_is_marked() -> None:
    full = given.cluster_queue(16, used=16)
    result = given.queued(cluster_queue=full, holders=(given.holder("a", 4),), all_holders=False)
    assert "In use (incomplete list): 4 TPU chips by team/a" in first_message(result)


def test_position_in_queue() -> None:
    head = tuple(given.workload(f"j{number}", priority=5) for number in range(6))
    full = given.cluster_queue(16, used=16)
    full["status"]["pendingWorkloads"] = 40
    result = diagnose(given.queued(cluster_queue=full, workload=given.workload(priority=5), queue_index=9, head=head))
    assert [cause.kind.name for cause in result.causes] == ["quota-in-use", "jobs-ahead"]
    assert result.ahead is not None
    assert (result.ahead.position, result.ahead.total, len(result.ahead.first)) == (10, 40, 5)
    page = train_description.describe_answer(result)
    assert "Position 10 of 40 in the queue:" in page
    assert "  and 4 more" in page


def test_first_in_queue_has_no_jobs_ahead() -> None:
    result = diagnose(given.queued(queue_index=0, head=(given.workload(),)))
    assert result.ahead is not None
    assert (result.ahead.position, result.ahead.first) == (1, ())
    assert "jobs-ahead" not in [cause.kind.name for cause in result.causes]


def evicted(reason: str, message: str = "", *, active: bool = True) -> Evidence:
    reported = given.conditions(Evicted=("True", reason, message), QuotaReserved=("False", "Pending", ""))
    workload = given.workload(
        status_conditions=reported, admissionChecks=[{"name": "check", "state": "Pending", "message": "Previously: Retry"}]
    )
    workload["spec"]["active"] = active
    return given.queued(workload=workload)


def test_eviction_reasons_map_to_causes() -> None:
    assert cause_names(evicted("AdmissionCheck"))[0] == "check-retry"
    assert cause_names(evicted("NodeFailures"))[0] == "evicted"
    assert cause_names(evicted("DeactivatedDueToMaximumExecutionTimeExceeded", active=False)) == ["deadline"]
    assert cause_names(evicted("Deactivated", active=False)) == ["deactivated"]


def test_preempted_by_a_job_that_may_not_be_read() -> None:
    reported = given.conditions(
        Evicted=("True", "Preempted", ""), Preempted=("True", "InCohortReclamation", "to accommodate (UID: 1, JobUID: 2)")
    )
    assert first_message(given.queued(workload=given.workload(status_conditions=reported))) == (
        "It was preempted by another job to reclaim quota that its ClusterQueue had lent; its own priority is 0."
    )


def test_reservation_full() -> None:
    reported = given.conditions(sliceworks_dev__SlicesReady=("False", "ReservationExhausted", "no machines left"))
    result = Evidence(now=given.NOW, jobset=given.jobset(queue="", suspend=False, status_conditions=reported))
    assert cause_names(result) == ["reservation-full"]


@pytest.mark.parametrize(
    ("reason", "name"), [("Stockout", "stockout"), ("NotFound", "slice-rejected"), ("Something", "slice-rejected")]
)
def test_failed_attempts_before_admission(reason: str, name: str) -> None:
    notes = {"slices.sliceworks.dev/attempts": f'{{"job-slice-0": [1, 0.0, "{reason}"]}}'}
    reported = given.conditions(QuotaReserved=("True", "QuotaReserved", ""))
    workload = given.workload(
        status_conditions=reported, admissionChecks=[{"name": "c", "state": "Pending", "message": "0 of 1 slices"}]
    )
    checks = {"c": {"kind": "AdmissionCheck", "metadata": {"name": "c"}, "spec": {"controllerName": "sliceworks.dev/slices"}}}
    result = given.queued(jobset=given.jobset(metadata={"annotations": notes}), workload=workload, checks=checks)
    assert cause_names(result) == [name, "check-pending"]


def test_malformed_attempts_annotation_is_ignored() -> None:
    reported = given.conditions(QuotaReserved=("True", "QuotaReserved", ""))
    workload = given.workload(status_conditions=reported, admissionChecks=[{"name": "c", "state": "Pending"}])
    checks = {"c": {"kind": "AdmissionCheck", "metadata": {"name": "c"}, "spec": {"controllerName": "sliceworks.dev/slices"}}}
    malformed = given.jobset(metadata={"annotations": {"slices.sliceworks.dev/attempts": "[1"}})
    assert cause_names(given.queued(jobset=malformed, workload=workload, checks=checks)) == ["pool-provisioning", "check-pending"]


def test_forbidden_nodes() -> None:
    result = given.started(given.unplaced(), hidden=frozenset({"Node"}))
    assert cause_names(result) == ["unschedulable"]
    assert diagnose(result).causes[0].reported == "0/1 nodes are available"


def test_exclusive_node_pools_with_too_few_hosts() -> None:
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
    leader = given.unplaced()
    leader["metadata"]["annotations"] = exclusive
    nodes = tuple(given.node(f"n{number}", f"pool-{number % 3}") for number in range(6))
    job = given.jobset(given.part(replicas=2, pods=3), queue="", suspend=False)
    result = given.started(leader, jobset=job, nodes={"type=v4": nodes})
    assert first_message(result) == "It needs 2 exclusive node pools of 3 hosts; the cluster has 0."


def test_small_pods_share_hosts() -> None:
    job = given.jobset(given.part(replicas=1, pods=5), queue="", suspend=False)
    result = given.started(given.unplaced(), jobset=job, nodes={"type=v4": (given.node("a", chips=8), given.node("b", chips=8))})
    assert first_message(result) == "It needs capacity for 5 pods; the 2 hosts that match have capacity for 4."


def test_hosts_in_use_by_unknown_or_known_jobs() -> None:
    result = given.started(given.unplaced(), nodes={"type=v4": (given.node(),)})
    assert cause_names(result) == ["unschedulable"]
    result = given.started(given.unplaced(), nodes={"type=v4": (given.node(),)}, occupants={"n": ("team/other",)})
    assert cause_names(result) == ["hosts-in-use"]


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (None, "1 pod is unschedulable: the claim data does not exist in team."),
        ({"metadata": {"name": "data"}, "status": {"phase": "Pending"}}, "the claim data is pending, not bound to a volume."),
    ],
)
def test_claim_missing_or_not_bound(claim: dict[str, Any] | None, words: str) -> None:
    pod = given.unplaced()
    pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    result = given.started(pod, nodes={"type=v4": (given.node(),)}, claims={"data": claim})
    assert cause_names(result) == ["volume"]
    assert words in first_message(result)


def test_crash_loop_after_oom_kill_is_out_of_memory() -> None:
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    status = {
        "name": "trainer",
        "state": state,
        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
        "restartCount": 3,
    }
    assert cause_names(given.started(given.pod(containerStatuses=[status]))) == ["out-of-memory"]


def test_init_container_that_cannot_pull_its_image() -> None:
    status = {"name": "fetch", "image": "y", "state": {"waiting": {"reason": "ErrImagePull"}}}
    assert cause_names(given.started(given.pod(phase="Pending", initContainerStatuses=[status]))) == ["image-pull"]


def test_pods_with_the_same_failure_are_one_cause() -> None:
    status = {"name": "trainer", "image": "x", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    pods = [given.pod(f"p{number}", "Pending", containerStatuses=[status]) for number in range(64)]
    [cause] = diagnose(given.started(*pods)).causes
    assert cause.message == "64 pods cannot pull x."


def test_failed_without_pods() -> None:
    reported = given.conditions(Failed=("True", "FailedJobs", "jobset failed due to one or more job failures"))
    result = Evidence(now=given.NOW, jobset=given.jobset(status_conditions=reported))
    assert cause_names(result) == ["failed"]


def test_restarting_after_a_failure() -> None:
    reported = given.conditions(RestartingJobSet=("True", "DefaultFailurePolicy", "applying RestartJobSet failure policy action"))
    again = given.jobset(
        queue="", suspend=False, status_conditions=reported, status={"restarts": 2}, failurePolicy={"maxRestarts": 3}
    )
    result = given.started(jobset=again)
    assert cause_names(result) == ["restarting"]
    assert first_message(result) == "It is restarting: 2 of 3 restarts used."


def event(kind: str, name: str, reason: str, message: str) -> dict[str, Any]:
    return {"involvedObject": {"kind": kind, "name": name}, "reason": reason, "message": message, "metadata": {}}


def test_starting() -> None:
    created = given.pod("p", phase="Pending")
    assert first_message(given.started(created)) == "The containers of 1 pod are being created."
    pulling = event("Pod", "p", "Pulling", 'Pulling image "x"')
    assert "their image is being pulled" in first_message(given.started(created, events=(pulling,)))


def test_running_after_restarts() -> None:
    status = {"restarts": 2, "replicatedJobsStatus": [{"name": "slice", "ready": 1}]}
    again = event("JobSet", "job", "RestartJobSetFailurePolicyAction", "applying RestartJobSet (first failed job: job-slice-0)")
    result = given.started(jobset=given.jobset(queue="", suspend=False, status=status), events=(again,))
    [cause] = diagnose(result).causes
    assert (cause.kind.name, cause.message) == ("running", "All of its replicated jobs are ready. It was restarted 2 times.")
    assert "job-slice-0" in cause.reported


def page(answer: Diagnosis, width: int) -> list[str]:
    return train_description.describe_answer(answer, width).splitlines()


def test_page_fits_the_terminal() -> None:
    full = given.cluster_queue(16, used=16)
    result = diagnose(given.queued(cluster_queue=full, holders=(given.holder("a-job-with-a-name", 16),)))
    for width in (60, 80, 100):
        assert max(len(line) for line in page(result, width)) <= width
    assert page(result, 80)[0] == "job is pending: the quota of its queue is in use."


def test_json_output() -> None:
    result = train_description.answer_data(diagnose(given.queued()))
    assert result["causes"][0]["seenIn"][0] == {
        "kind": "Workload",
        "namespace": "team",
        "name": "w-job",
        "field": "status.conditions[QuotaReserved]",
    }
    assert (result["ahead"], result["state"]) == (None, "queued")


def test_condition_of_the_leader_pod_is_used_without_the_jobsets() -> None:
    ready = given.conditions(sliceworks_dev__SlicesReady=("True", "Ready", "1 of 1 slices are ready"))
    leader = given.unplaced()
    leader["status"]["conditions"] += given.conditions(sliceworks_dev__SliceReady=("False", "Stockout", "1 failed attempt"))
    result = given.started(leader, jobset=given.jobset(queue="", suspend=False, status_conditions=ready))
    assert cause_names(result) == ["stockout"]
    leader["spec"]["nodeName"] = "n"
    assert "stockout" not in cause_names(result)


def test_released_slices_do_not_explain_a_pending_job() -> None:
    released = given.conditions(sliceworks_dev__SlicesReady=("False", "Released", "0 slices are ready: the JobSet is suspended"))
    result = given.started(given.unplaced(), jobset=given.jobset(queue="", suspend=False, status_conditions=released))
    assert "slice-rejected" not in cause_names(result)


def test_missing_selector_is_named() -> None:
    problem = "spec.nodeSelector: cloud.google.com/gke-tpu-topology is required (such as 2x2x2)"
    reported = given.conditions(sliceworks_dev__SlicesReady=("False", "BadRequest", f"0 of 1 slices are ready: {problem}"))
    result = given.started(given.unplaced(), jobset=given.jobset(queue="", suspend=False, status_conditions=reported))
    assert cause_names(result) == ["slice-rejected"]


def test_the_message_of_the_condition_is_reported_not_the_newest_event() -> None:
    """The events of a JobSet may be about another one of its slices."""
    problem = "0 of 2 slices are ready: Invalid machine type; 8 failed attempts"
    reported = given.conditions(sliceworks_dev__SlicesReady=("False", "InvalidRequest", problem))
    job = given.jobset(queue="", suspend=False, status_conditions=reported)
    stockout = event("JobSet", "job", "NodePoolCreationFailed", "the zone does not have enough resources")
    result = diagnose(given.started(given.unplaced(), jobset=job, events=(stockout,)))
    assert result.causes[0].reported == problem


def test_retry_reports_the_failure_of_the_last_attempt() -> None:
    making = given.conditions(sliceworks_dev__SlicesReady=("False", "Provisioning", "0 of 1 slices are ready"))
    notes = {"slices.sliceworks.dev/attempts": '{"job-slice-0": [3, 0.0, "QuotaExceeded"]}'}
    job = given.jobset(queue="", suspend=False, status_conditions=making, metadata={"annotations": notes})
    failed = event("JobSet", "job", "NodePoolCreationFailed", "Quota 'TPU_V4' exceeded")
    result = given.started(jobset=job, events=(failed,))
    assert cause_names(result) == ["project-quota"]
    assert first_message(result).endswith("It is being retried.")
    assert diagnose(result).causes[0].reported == "Quota 'TPU_V4' exceeded"


def _admitted(**more: Any) -> Evidence:
    reported = given.conditions(QuotaReserved=("True", "QuotaReserved", ""), Admitted=("True", "Admitted", ""))
    return given.queued(workload=given.workload(status_conditions=reported), **more)


def test_admitted_job_that_is_not_resumed_has_a_cause() -> None:
    assert cause_names(_admitted()) == ["not-resumed"]
    assert "is still suspended" in first_message(_admitted())


def test_evicted_job_that_still_holds_quota_has_a_cause() -> None:
    for reason in ("ClusterQueueStopped", "Preempted"):
        reported = given.conditions(
            QuotaReserved=("True", "QuotaReserved", ""), Admitted=("True", "Admitted", ""), Evicted=("True", reason, "stopped")
        )
        assert "starting" not in cause_names(given.queued(workload=given.workload(status_conditions=reported)))


def _resumed(*jobs: dict[str, Any], pods: tuple[dict[str, Any], ...] = (), **spec: Any) -> Evidence:
    return _admitted(jobset=given.jobset(suspend=False, **spec), jobs=jobs, pods=pods)


def _job(**spec: Any) -> dict[str, Any]:
    labels = {"jobset.sigs.k8s.io/replicatedjob-name": "slice"}
    return {"metadata": {"name": "job-slice-0", "labels": labels}, "spec": {"parallelism": 2, "completions": 2, **spec}}


def _pending_pod(**spec: Any) -> dict[str, Any]:
    owners = [{"name": "job-slice-0"}]
    return {
        "metadata": {"name": "p", "ownerReferences": owners},
        "spec": {"containers": [], **spec},
        "status": {"phase": "Pending"},
    }


def test_resumed_job_without_jobs_pods_or_nodes_has_a_cause() -> None:
    assert cause_names(_resumed()) == ["no-jobs"]
    assert first_message(_resumed()) == "JobSet has created 0 of 1 Jobs of slice."
    assert first_message(_resumed(_job(suspend=True))) == "JobSet has not resumed 1 of 1 Jobs of slice."
    assert cause_names(_resumed(_job())) == ["no-pods"]
    assert cause_names(_resumed(_job(), pods=(_pending_pod(),))) == ["not-scheduled"]
    gated = _resumed(_job(), pods=(_pending_pod(schedulingGates=[{"name": "example.com/wait"}]),))
    assert first_message(gated) == "1 pod has no node yet; the scheduling gate example.com/wait is not removed."
    assert cause_names(_resumed(_job(), pods=(_pending_pod(nodeName="n"),))) == ["starting"]


def test_jobs_of_another_controller_or_that_cannot_be_created_have_a_cause() -> None:
    second = {**given.part("second"), "dependsOn": [{"name": "slice", "status": "Ready"}]}
    refused = event("JobSet", "job", "JobCreationFailed", "exceeded quota: no-jobs")
    result = _admitted(jobset=given.jobset(given.part(), second, suspend=False, managedBy="example.com/other"), events=(refused,))
    assert cause_names(result) == ["no-jobs", "replicated-job-blocked"]
    [cause, _] = diagnose(result).causes
    assert cause.message == "example.com/other, which manages it, has created 0 of 1 Jobs of slice."
    assert cause.reported == "exceeded quota: no-jobs"


def test_second_part_that_is_not_created_although_the_first_is_ready_is_the_cause() -> None:
    second = {**given.part("second"), "dependsOn": [{"name": "first", "status": "Ready"}]}
    job = {**_job(), "status": {"ready": 2}}
    job["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = "first"
    jobset = given.jobset(given.part("first", pods=2), second, suspend=False)
    assert first_message(_admitted(jobset=jobset, jobs=(job,), pods=(given.pod(),))) == "JobSet has created 0 of 1 Jobs of second."
    job["status"]["ready"] = 1
    assert cause_names(_admitted(jobset=jobset, jobs=(job,), pods=(given.pod(),)))[-1] == "earlier-step"


def test_counts_of_jobset_that_a_pending_pod_contradicts_are_not_believed() -> None:
    counted = given.jobset(suspend=False, status={"replicatedJobsStatus": [{"name": "slice", "ready": 1}]})
    assert cause_names(_admitted(jobset=counted, jobs=(_job(),), pods=(_pending_pod(nodeName="n"),))) == ["starting"]
    assert cause_names(_admitted(jobset=counted, jobs=(_job(),), pods=(_pending_pod(),))) == ["not-scheduled"]


def test_pod_that_is_not_deleted_in_time_is_the_cause() -> None:
    pod = given.pod()
    pod["metadata"]["deletionTimestamp"] = given.EARLIER
    pod["spec"]["nodeName"] = "n"
    node = {"metadata": {"name": "n"}, "status": {"conditions": given.conditions(Ready=("Unknown", "", ""))}}
    result = replace(_resumed(_job()), undeleted=(pod, pod), hosts={"n": node})
    assert cause_names(result) == ["pod-not-deleted"]
    due = f"The deletion of the pod job-slice-0-0-x and 1 other was due at {given.EARLIER}."
    assert first_message(result) == f"{due} Its host n is not ready since {given.EARLIER}."
    pod["metadata"]["finalizers"] = ["example.com/keep"]
    assert first_message(replace(_resumed(_job()), undeleted=(pod,))).endswith("It has the finalizers example.com/keep.")


def test_running_job_with_steps_after_it_is_running() -> None:
    later = {**given.part("after"), "dependsOn": [{"name": "slice", "status": "Complete"}]}
    ready = {"replicatedJobsStatus": [{"name": "slice", "ready": 1}]}
    pod = _pending_pod(nodeName="n") | {"status": {"phase": "Running"}}
    result = _admitted(jobset=given.jobset(given.part(), later, suspend=False, status=ready), jobs=(_job(),), pods=(pod,))
    assert cause_names(result) == ["running"]


def test_job_in_its_first_step_is_not_blocked() -> None:
    first, later = given.part("prepare"), {**given.part(), "dependsOn": [{"name": "prepare", "status": "Complete"}]}
    pod = _pending_pod(nodeName="n") | {"status": {"phase": "Running"}}
    step = _job()
    step["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"] = "prepare"
    result = _admitted(jobset=given.jobset(first, later, suspend=False), jobs=(step,), pods=(pod,))
    assert cause_names(result) == ["replicated-job-blocked"]
    step["status"] = {"active": 1, "ready": 1}
    assert cause_names(result) == ["earlier-step"]
    assert diagnose(result).summary == "job runs an earlier step."


def test_host_that_is_not_ready_is_the_cause() -> None:
    silent = {
        "metadata": {"name": "n"},
        "status": {"conditions": given.conditions(Ready=("Unknown", "NodeStatusUnknown", "stopped"))},
    }
    for pod in (_pending_pod(nodeName="n"), given.pod(status_conditions=given.conditions(Ready=("False", "", "")))):
        result = _resumed(_job(), pods=(pod,))
        assert cause_names(replace(result, hosts={"n": silent}))[0] == "host-lost"
    assert "The host n of 1 pod is not ready since" in first_message(replace(result, hosts={"n": silent}))


def test_host_that_does_not_report_the_containers_of_a_pod_is_the_cause() -> None:
    pod = _pending_pod(nodeName="n")
    pod["status"]["conditions"] = given.conditions(PodScheduled=("True", "", ""))
    result = _resumed(_job(), pods=(pod,))
    assert cause_names(result) == ["not-started"]
    assert first_message(result) == "The host n has not reported the containers of the pod p for 60m."
    pulling = {"reason": "Pulling", "involvedObject": {"kind": "Pod", "name": "p"}, "metadata": {}}
    assert cause_names(replace(result, events=(pulling,))) == ["starting"]
