"""Answers from objects alone: what a cluster seldom shows, and what people may not see."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import evidence as given

from sliceworks.cli import why_page
from sliceworks.training.why import kinds
from sliceworks.training.why.evidence import Evidence
from sliceworks.training.why.explain import explain

if TYPE_CHECKING:
    from sliceworks.training.why.answer import Answer

TESTS = Path(__file__).parents[2]


def names(found: Evidence) -> list[str]:
    return [each.kind.name for each in explain(found).causes]


def first(found: Evidence) -> str:
    return explain(found).causes[0].words


def test_every_cause_has_a_test() -> None:
    files = [*(TESTS / "contract").rglob("test_*.py"), *(TESTS / "training" / "why").glob("*.py")]
    text = "\n".join(file.read_text() for file in files)
    assert len({each.name for each in kinds.KINDS}) == len(kinds.KINDS) >= 20
    assert [each.name for each in kinds.KINDS if f'"{each.name}"' not in text] == []


def test_a_cluster_without_kueue() -> None:
    found = given.queued(kueue=False, workload=None, local_queue=None, cluster_queue=None, cohort=())
    assert names(found) == ["kueue-missing"]


def test_kueue_that_has_not_looked_yet() -> None:
    assert names(given.queued(workload=None)) == ["not-seen-by-kueue"]


def test_who_may_not_see_the_cluster_queue_hears_what_kueue_says() -> None:
    seen = {"cluster_queue": None, "cohort": (), "hidden": frozenset({"ClusterQueue"}), "unseen": ("ClusterQueue cq: not allowed",)}
    found = Evidence(now=given.NOW, jobset=given.jobset(), workload=given.workload(), local_queue=given.local(), **seen)  # type: ignore[arg-type]
    answer = explain(found)
    assert [each.kind.name for each in answer.causes] == ["waits-in-queue"]
    assert answer.causes[0].said == "couldn't assign flavors"
    assert "Could not be seen:\n  ClusterQueue cq: not allowed" in why_page.page(answer)


def test_newer_kueue_gives_reasons() -> None:
    for reason, name in (
        ("WaitingForQuota", "quota-in-use"),
        ("ExceedsMaxQuota", "quota-too-small"),
        ("NoMatchingFlavor", "no-flavor-fits"),
    ):
        told = given.conditions(QuotaReserved=("False", reason, "so it is"))
        hidden = frozenset({"ClusterQueue"})
        found = Evidence(
            now=given.NOW, jobset=given.jobset(), workload=given.workload(told=told), local_queue=given.local(), hidden=hidden
        )
        assert names(found) == [name]


def test_a_local_queue_that_may_not_be_seen_is_not_missing() -> None:
    found = Evidence(now=given.NOW, jobset=given.jobset(), workload=given.workload(), hidden=frozenset({"LocalQueue"}))
    assert names(found) == ["waits-in-queue"]


def test_a_namespace_that_no_queue_selects() -> None:
    queue = given.cluster_queue()
    del queue["spec"]["namespaceSelector"]
    assert first(given.queued(cluster_queue=queue)) == "The ClusterQueue cq selects no namespace at all."


def test_what_one_pod_set_takes_is_not_there_for_the_next() -> None:
    asked = given.workload(chips=12)
    asked["spec"]["podSets"].append({**asked["spec"]["podSets"][0], "name": "more"})
    assert names(given.queued(workload=asked)) == ["quota-too-small"]
    assert "It asks for 24 TPU chips of v4; cq never has more than 16" in first(given.queued(workload=asked))


def test_kueues_own_count_goes_before_ours() -> None:
    counted = [{"name": "slice", "resources": {given.TPU: "32"}}]
    assert names(given.queued(workload=given.workload(resourceRequests=counted))) == ["quota-too-small"]


def test_cohorts_within_cohorts_lend_too() -> None:
    own = given.cluster_queue(4, used=4, cohortName="left")
    other = given.cluster_queue(16, name="other", cohortName="right")
    cohorts = tuple({"metadata": {"name": name}, "spec": {"parentName": "top"}} for name in ("left", "right"))
    asked = given.workload(chips=12)
    found = given.queued(cluster_queue=own, cohort=(own, other), cohorts=cohorts, workload=asked)
    assert names(found) == ["waits-in-queue"]  # there is room: Kueue is about to take it
    assert names(given.queued(cluster_queue=own, cohort=(own, other), workload=asked, cohorts=())) == ["quota-too-small"]


def test_what_a_queue_keeps_to_itself_is_not_counted() -> None:
    own = given.cluster_queue(4, cohortName="all")
    other = given.cluster_queue(16, used=16, name="other", cohortName="all", limits={"lendingLimit": "4"})
    found = given.queued(cluster_queue=own, cohort=(own, other), workload=given.workload(chips=8))
    assert first(found).startswith("It asks for 8 TPU chips of v4; 4 of 8 TPU chips are free.")


def test_many_holders_are_counted_and_ends_are_told_in_order() -> None:
    late, soon = given.holder("late", 4, run_seconds="7200"), given.holder("soon", 4, run_seconds="4000")
    others = [given.holder(f"other-{number}", 1) for number in range(5)]
    ready = {"replicatedJobsStatus": [{"name": "slice", "ready": 1}]}
    bound = given.jobset(suspend=False, status=ready)
    bound["spec"]["replicatedJobs"][0]["template"]["spec"]["activeDeadlineSeconds"] = 9000
    full = given.cluster_queue(16, used=16)
    found = explain(given.queued(cluster_queue=full, holders=(late, soon, *others), holder_jobsets={("team", "other-0"): bound}))
    assert "1 TPU chip by team/other-2 (priority 0); 2 TPU chips by 2 more" in found.causes[0].words
    told = [(each.who.name, each.why) for each in found.releases]
    assert told[:3] == [
        ("soon", "by its own estimate"),
        ("late", "by its own estimate"),
        ("other-0", "at the latest, by its deadline"),
    ]
    assert "nobody knows when" in why_page.page(found)


def test_a_holder_that_has_not_started_does_not_end_by_its_estimate() -> None:
    full = given.cluster_queue(16, used=16)
    starting = {("team", "a"): given.jobset(suspend=False)}
    found = explain(given.queued(cluster_queue=full, holders=(given.holder("a", 16, run_seconds="60"),), holder_jobsets=starting))
    assert "16 TPU chips of v4 when team/a ends; it has not started yet" in why_page.page(found)


def test_holders_that_were_not_all_found_are_told_as_such() -> None:
    full = given.cluster_queue(16, used=16)
    found = given.queued(cluster_queue=full, holders=(given.holder("a", 4),), all_holders=False)
    assert "In use, as far as was looked: 4 TPU chips by team/a" in first(found)


def test_the_line_of_those_who_wait() -> None:
    head = tuple(given.workload(f"j{number}", priority=5) for number in range(6))
    full = given.cluster_queue(16, used=16)
    full["status"]["pendingWorkloads"] = 40
    found = explain(given.queued(cluster_queue=full, workload=given.workload(priority=5), place=9, head=head))
    assert [each.kind.name for each in found.causes] == ["quota-in-use", "behind-others"]
    assert found.ahead is not None
    assert (found.ahead.position, found.ahead.total, len(found.ahead.first)) == (10, 40, 5)
    page = why_page.page(found)
    assert "It is number 10 of 40 in the queue:" in page
    assert "  and 4 more" in page


def test_the_first_in_line_has_nobody_ahead() -> None:
    found = explain(given.queued(place=0, head=(given.workload(),)))
    assert found.ahead is not None
    assert (found.ahead.position, found.ahead.first) == (1, ())
    assert "behind-others" not in [each.kind.name for each in found.causes]


def evicted(reason: str, message: str = "", *, active: bool = True) -> Evidence:
    told = given.conditions(Evicted=("True", reason, message), QuotaReserved=("False", "Pending", ""))
    asked = given.workload(told=told, admissionChecks=[{"name": "look", "state": "Pending", "message": "Previously: Retry"}])
    asked["spec"]["active"] = active
    return given.queued(workload=asked)


def test_each_reason_of_an_eviction_is_a_cause_of_its_own() -> None:
    assert names(evicted("AdmissionCheck"))[0] == "check-retry"
    assert names(evicted("NodeFailures"))[0] == "evicted"
    assert names(evicted("DeactivatedDueToMaximumExecutionTimeExceeded", active=False)) == ["deadline"]
    assert names(evicted("Deactivated", active=False)) == ["deactivated"]


def test_preempted_by_one_who_may_not_be_seen() -> None:
    told = given.conditions(
        Evicted=("True", "Preempted", ""), Preempted=("True", "InCohortReclamation", "to accommodate (UID: 1, JobUID: 2)")
    )
    assert first(given.queued(workload=given.workload(told=told))) == (
        "Another job took its place because that queue took back what it had lent; its own priority is 0."
    )


def test_a_reservation_that_is_full() -> None:
    told = given.conditions(sliceworks_dev__SlicesReady=("False", "ReservationExhausted", "no machines left"))
    found = Evidence(now=given.NOW, jobset=given.jobset(queue="", suspend=False, told=told))
    assert names(found) == ["reservation-full"]


@pytest.mark.parametrize(
    ("reason", "name"), [("Stockout", "stockout"), ("NotFound", "slice-refused"), ("Something", "slice-refused")]
)
def test_what_the_slice_controller_remembers_before_admission(reason: str, name: str) -> None:
    notes = {"slices.sliceworks.dev/attempts": f'{{"job-slice-0": [1, 0.0, "{reason}"]}}'}
    told = given.conditions(QuotaReserved=("True", "QuotaReserved", ""))
    asked = given.workload(told=told, admissionChecks=[{"name": "c", "state": "Pending", "message": "0 of 1 slices"}])
    checks = {"c": {"kind": "AdmissionCheck", "metadata": {"name": "c"}, "spec": {"controllerName": "sliceworks.dev/slices"}}}
    found = given.queued(jobset=given.jobset(metadata={"annotations": notes}), workload=asked, checks=checks)
    assert names(found) == [name, "check-pending"]


def test_an_annotation_that_somebody_spoilt_says_nothing() -> None:
    told = given.conditions(QuotaReserved=("True", "QuotaReserved", ""))
    asked = given.workload(told=told, admissionChecks=[{"name": "c", "state": "Pending"}])
    checks = {"c": {"kind": "AdmissionCheck", "metadata": {"name": "c"}, "spec": {"controllerName": "sliceworks.dev/slices"}}}
    spoilt = given.jobset(metadata={"annotations": {"slices.sliceworks.dev/attempts": "[1"}})
    assert names(given.queued(jobset=spoilt, workload=asked, checks=checks)) == ["pool-being-made", "check-pending"]


def test_nodes_that_may_not_be_seen() -> None:
    found = given.started(given.unplaced(), hidden=frozenset({"Node"}))
    assert names(found) == ["unschedulable"]
    assert explain(found).causes[0].said == "0/1 nodes are available"


def test_a_host_too_few_in_each_pool() -> None:
    exclusive = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
    leader = given.unplaced()
    leader["metadata"]["annotations"] = exclusive
    nodes = tuple(given.node(f"n{number}", f"pool-{number % 3}") for number in range(6))
    job = given.jobset(given.part(replicas=2, pods=3), queue="", suspend=False)
    found = given.started(leader, jobset=job, nodes={"type=v4": nodes})
    assert first(found) == "It needs 2 node pools of 3 hosts, each alone; there are 0."


def test_small_pods_share_hosts() -> None:
    job = given.jobset(given.part(replicas=1, pods=5), queue="", suspend=False)
    found = given.started(given.unplaced(), jobset=job, nodes={"type=v4": (given.node("a", chips=8), given.node("b", chips=8))})
    assert first(found) == "It needs room for 5 pods, and the 2 hosts that fit have room for 4."


def test_hosts_that_are_in_use_by_nobody_who_is_known() -> None:
    found = given.started(given.unplaced(), nodes={"type=v4": (given.node(),)})
    assert names(found) == ["unschedulable"]
    found = given.started(given.unplaced(), nodes={"type=v4": (given.node(),)}, guests={"n": ("team/other",)})
    assert names(found) == ["hosts-in-use"]


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (None, "1 pod finds no place: there is no claim data in team."),
        ({"metadata": {"name": "data"}, "status": {"phase": "Pending"}}, "the claim data is pending, not bound to a volume."),
    ],
)
def test_a_claim_that_is_not_bound(claim: dict[str, Any] | None, words: str) -> None:
    waiting = given.unplaced()
    waiting["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    found = given.started(waiting, nodes={"type=v4": (given.node(),)}, claims={"data": claim})
    assert names(found) == ["volume"]
    assert words in first(found)


def test_a_container_that_runs_out_of_memory_again_and_again() -> None:
    state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    status = {
        "name": "trainer",
        "state": state,
        "lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}},
        "restartCount": 3,
    }
    assert names(given.started(given.pod(containerStatuses=[status]))) == ["out-of-memory"]


def test_an_init_container_counts_too() -> None:
    status = {"name": "fetch", "image": "y", "state": {"waiting": {"reason": "ErrImagePull"}}}
    assert names(given.started(given.pod(phase="Pending", initContainerStatuses=[status]))) == ["image-pull"]


def test_alike_pods_are_told_once() -> None:
    status = {"name": "trainer", "image": "x", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    pods = [given.pod(f"p{number}", "Pending", containerStatuses=[status]) for number in range(64)]
    [cause] = explain(given.started(*pods)).causes
    assert cause.words == "64 pods cannot pull x."


def test_failed_for_a_reason_that_left_no_pods() -> None:
    told = given.conditions(Failed=("True", "FailedJobs", "jobset failed due to one or more job failures"))
    found = Evidence(now=given.NOW, jobset=given.jobset(told=told))
    assert names(found) == ["failed"]


def test_started_again_after_a_failure() -> None:
    told = given.conditions(RestartingJobSet=("True", "DefaultFailurePolicy", "applying RestartJobSet failure policy action"))
    again = given.jobset(queue="", suspend=False, told=told, status={"restarts": 2}, failurePolicy={"maxRestarts": 3})
    found = given.started(jobset=again)
    assert names(found) == ["restarting"]
    assert first(found) == "It is started again, 2 of 3 times so far."


def told(kind: str, name: str, reason: str, message: str) -> dict[str, Any]:
    return {"involvedObject": {"kind": kind, "name": name}, "reason": reason, "message": message, "metadata": {}}


def test_just_starting() -> None:
    assert names(given.started()) == ["starting"]
    made = given.pod("p", phase="Pending")
    assert first(given.started(made)) == "The containers of 1 pod are being made."
    pulling = told("Pod", "p", "Pulling", 'Pulling image "x"')
    assert "their image is being pulled" in first(given.started(made, events=(pulling,)))


def test_running_after_restarts() -> None:
    status = {"restarts": 2, "replicatedJobsStatus": [{"name": "slice", "ready": 1}]}
    again = told("JobSet", "job", "RestartJobSetFailurePolicyAction", "applying RestartJobSet (first failed job: job-slice-0)")
    found = given.started(jobset=given.jobset(queue="", suspend=False, status=status), events=(again,))
    [cause] = explain(found).causes
    assert (cause.kind.name, cause.words) == ("running", "All of its parts are ready. It was started again 2 times before.")
    assert "job-slice-0" in cause.said


def page(answer: Answer, width: int) -> list[str]:
    return why_page.page(answer, width).splitlines()


def test_a_page_fits_its_terminal() -> None:
    full = given.cluster_queue(16, used=16)
    found = explain(given.queued(cluster_queue=full, holders=(given.holder("a-job-with-a-name", 16),)))
    for width in (60, 80, 100):
        assert max(len(line) for line in page(found, width)) <= width
    assert page(found, 80)[0] == "job waits: the quota of its queue is in use."


def test_data_is_plain() -> None:
    found = why_page.data(explain(given.queued()))
    assert found["causes"][0]["seenIn"][0] == {
        "kind": "Workload",
        "namespace": "team",
        "name": "w-job",
        "field": "status.conditions[QuotaReserved]",
    }
    assert (found["ahead"], found["state"]) == (None, "queued")


def test_a_pod_may_know_more_than_its_jobset() -> None:
    ready = given.conditions(sliceworks_dev__SlicesReady=("True", "Ready", "1 of 1 slices are ready"))
    leader = given.unplaced()
    leader["status"]["conditions"] += given.conditions(sliceworks_dev__SliceReady=("False", "Stockout", "tried once in vain"))
    found = given.started(leader, jobset=given.jobset(queue="", suspend=False, told=ready))
    assert names(found) == ["stockout"]
    leader["spec"]["nodeName"] = "n"
    assert "stockout" not in names(found)


def test_a_try_after_one_that_failed_still_tells_why_that_failed() -> None:
    making = given.conditions(sliceworks_dev__SlicesReady=("False", "Provisioning", "0 of 1 slices are ready"))
    notes = {"slices.sliceworks.dev/attempts": '{"job-slice-0": [3, 0.0, "QuotaExceeded"]}'}
    job = given.jobset(queue="", suspend=False, told=making, metadata={"annotations": notes})
    failed = told("JobSet", "job", "NodePoolCreationFailed", "Quota 'TPU_V4' exceeded")
    found = given.started(jobset=job, events=(failed,))
    assert names(found) == ["project-quota"]
    assert first(found).endswith("It is just being tried again.")
    assert explain(found).causes[0].said == "Quota 'TPU_V4' exceeded"
