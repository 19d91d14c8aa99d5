"""Hosts, timelines, summaries and usage, from objects as a cluster stores them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.training.test_compile import job

from sliceworks.base.errors import UsageError
from sliceworks.training import log_source
from sliceworks.training.jobset import build_jobset
from sliceworks.training.lifecycle import restore_manifest
from sliceworks.training.log_source import PodSelection
from sliceworks.training.queue_status import compute_usage
from sliceworks.training.status import list_hosts, status_line
from sliceworks.training.timeline import build_timeline

Object = dict[str, Any]


def stored(text: str = "slices: {type: v4-16, count: 2}", **status: Any) -> Object:
    created = build_jobset(job(text), namespace="team")
    created["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": "u1", "resourceVersion": "5"}
    return {**created, "status": {"restarts": 0, **status}}


def pod(slice_: int, index: int, *, attempt: int = 0, job_: str = "slice", **status: Any) -> Object:
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": job_,
        "jobset.sigs.k8s.io/job-index": str(slice_),
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
    }
    metadata = {
        "name": f"train-{job_}-{slice_}-{index}-{attempt}",
        "namespace": "team",
        "uid": f"{job_}{slice_}{index}{attempt}",
        "labels": labels,
        "annotations": {"batch.kubernetes.io/job-completion-index": str(index)},
        "creationTimestamp": f"2026-01-01T00:0{attempt}:00Z",
    }
    return {
        "metadata": metadata,
        "spec": {"nodeName": status.pop("node", "n1"), "containers": [{"name": "trainer"}]},
        "status": status,
    }


def container(state: Object, **more: Any) -> list[Object]:
    return [{"name": "trainer", "restartCount": 0, "state": state, "lastState": {}, **more}]


READY = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:05:00Z"}]


def test_hosts_without_pods_are_listed() -> None:
    result = list_hosts(stored(), [pod(0, 0, phase="Running", conditions=READY), pod(1, 1, phase="Pending", node="")])
    assert [(item.label, item.state) for item in result] == [
        ("slice-0/0", "running"),
        ("slice-0/1", "no pod yet"),
        ("slice-1/0", "no pod yet"),
        ("slice-1/1", "unscheduled"),
    ]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({"phase": "Pending", "containerStatuses": container({"waiting": {"reason": "ImagePullBackOff"}})}, "ImagePullBackOff"),
        (
            {"phase": "Failed", "containerStatuses": container({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})},
            "OOMKilled, exit code 137",
        ),
        ({"phase": "Failed", "containerStatuses": container({"terminated": {"exitCode": 3}})}, "Error, exit code 3"),
        ({"phase": "Succeeded", "containerStatuses": container({"terminated": {"exitCode": 0}})}, "succeeded"),
        ({"phase": "Failed", "reason": "Evicted"}, "evicted"),
        (
            {
                "phase": "Pending",
                "node": "",
                "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            },
            "unschedulable",
        ),
    ],
)
def test_host_state_has_a_reason(status: Object, expected: str) -> None:
    assert list_hosts(stored(), [pod(0, 0, **status)])[0].state == expected


def test_newer_attempt_counts() -> None:
    result = list_hosts(stored(), [pod(0, 0, attempt=1, phase="Pending", node=""), pod(0, 0, phase="Failed")])
    assert (result[0].attempt, result[0].state) == (1, "unscheduled")


def test_timeline_has_durations() -> None:
    result = stored(
        conditions=[{"type": "Suspended", "status": "False", "lastTransitionTime": "2026-01-01T00:04:00Z", "message": "resumed"}]
    )
    workload = {
        "status": {
            "conditions": [
                {"type": "Admitted", "status": "True", "lastTransitionTime": "2026-01-01T00:03:00Z", "message": "admitted"},
                {"type": "Evicted", "status": "False", "lastTransitionTime": "2026-01-01T00:01:00Z"},
            ]
        }
    }
    steps = build_timeline(result, workload, [pod(0, 0, conditions=READY)])
    assert [(step.event, step.after, step.source) for step in steps] == [
        ("submitted", 0, "JobSet"),
        ("admitted", 180, "Workload"),
        ("started", 60, "JobSet"),
        ("1 of 4 pods ready", 60, "Pod"),
    ]
    pods = [pod(number // 2, number % 2, conditions=READY) for number in range(3)]
    assert build_timeline(result, workload, pods)[-1].event == "3 of 4 pods ready"
    assert build_timeline(result, workload, [*pods, pod(1, 1, phase="Succeeded")])[-1].event == "last pod ready"


def test_summary_line_of_a_job() -> None:
    waits = {"status": {"conditions": [{"type": "QuotaReserved", "status": "False", "message": "no room"}]}}
    queued = stored()
    queued["spec"]["suspend"] = True
    assert status_line(queued, None, []) == "queued in queue"
    assert status_line(queued, waits, []) == "queued in queue: no room"
    reserved = {"status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]}}
    assert status_line(queued, reserved, []) == "queued: quota reserved in queue, admission checks pending"
    assert (
        status_line(stored(restarts=2), None, [pod(0, 0, conditions=READY)]) == "starting: 1 of 4 hosts are ready, after 2 restarts"
    )
    done = stored(conditions=[{"type": "Failed", "status": "True", "message": "jobset failed"}])
    assert status_line(done, None, []) == "failed: jobset failed"


def test_unready_helper_does_not_affect_job_state() -> None:
    ready = [{"name": "slice", "ready": 1, "succeeded": 0}, {"name": "janitor", "ready": 0, "succeeded": 0}]
    text = "slices: {type: v4-16}, helpers: [{name: janitor, image: i}]"
    assert status_line(stored(text, replicatedJobsStatus=ready), None, []).startswith("running")


def test_hosts_are_selected_by_slice_host_and_helper() -> None:
    pods = [pod(number, index) for number in (1, 0) for index in (1, 0)] + [pod(0, 0, job_="tensorboard")]
    result = stored("slices: {type: v4-16, count: 2}, helpers: [{name: tensorboard, image: i}]")

    def label(choice: PodSelection) -> list[str]:
        return [item.host.label for item in log_source.list_sources(result, pods, choice)]

    assert label(PodSelection()) == ["slice-0/0", "slice-0/1", "slice-1/0", "slice-1/1"]
    assert label(PodSelection(slice=1)) == ["slice-1/0", "slice-1/1"]
    assert label(PodSelection(slice=0, host=1)) == ["slice-0/1"]
    assert label(PodSelection(helper="tensorboard")) == ["tensorboard-0/0"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (PodSelection(slice=2), "slice 2 does not exist: the job has 2, counted from 0"),
        (PodSelection(host=9), "host 9 does not exist: the job has 2, counted from 0"),
        (PodSelection(helper="board"), "train has no helper 'board'"),
    ],
)
def test_unknown_selection_is_an_error(choice: PodSelection, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        choice.check(stored())


def test_previous_attempt_is_an_older_pod_or_container() -> None:
    result = stored()
    old, new = pod(0, 0), pod(0, 0, attempt=1)
    both = log_source.list_sources(result, [new, old], PodSelection())
    assert [item.uid for item in log_source.latest(both)] == [new["metadata"]["uid"]]
    assert [item.uid for item in log_source.previous(both)] == [old["metadata"]["uid"]]
    again = pod(0, 0, containerStatuses=container({"running": {}}, lastState={"terminated": {"exitCode": 1}}))
    [before] = log_source.previous(log_source.list_sources(result, [again], PodSelection()))
    assert before.previous
    assert log_source.previous(log_source.list_sources(result, [new], PodSelection())) == []


def test_restored_manifest_equals_the_submitted_one() -> None:
    expected = build_jobset(job("slices: {type: v4-16}"), namespace="team")
    running = stored("slices: {type: v4-16}")
    running["spec"]["suspend"] = False
    template = running["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    pod_sets = [{"name": "slice", "template": {"metadata": dict(template["metadata"]), "spec": dict(template["spec"])}}]
    template["spec"]["nodeSelector"] = {**template["spec"]["nodeSelector"], "flavor": "chosen"}
    template["spec"]["tolerations"] = [*template["spec"]["tolerations"], {"key": "flavor"}]
    template["metadata"]["labels"] = {**template["metadata"]["labels"], "kueue.x-k8s.io/podset": "slice"}
    assert restore_manifest(running, {"spec": {"podSets": pod_sets}}) == expected


def test_used_chips_are_counted_by_team_queue_and_type() -> None:
    quota = {"name": "google.com/tpu", "nominalQuota": "32"}
    queue = {
        "metadata": {"name": "slices"},
        "spec": {
            "resourceGroups": [{"coveredResources": ["google.com/tpu"], "flavors": [{"name": "v4-16", "resources": [quota]}]}]
        },
        "status": {
            "admittedWorkloads": 1,
            "flavorsReservation": [{"name": "v4-16", "resources": [{"name": "google.com/tpu", "total": "8"}]}],
        },
    }
    admission = {"podSetAssignments": [{"resourceUsage": {"google.com/tpu": "8", "cpu": "700"}}]}
    works: list[Object] = [
        {"metadata": {"namespace": "a", "name": "w"}, "spec": {"queueName": "q"}, "status": {"admission": admission}},
        {
            "metadata": {"namespace": "a", "name": "done"},
            "spec": {"queueName": "q"},
            "status": {"admission": admission, "conditions": [{"type": "Finished", "status": "True"}]},
        },
        {"metadata": {"namespace": "b", "name": "x", "creationTimestamp": "t"}, "spec": {"queueName": "q"}},
    ]
    spaces: list[Object] = [{"metadata": {"name": "a", "labels": {"sliceworks.dev/team": "research"}}}, {"metadata": {"name": "b"}}]
    local = [{"metadata": {"namespace": name, "name": "q"}, "spec": {"clusterQueue": "slices"}} for name in "ab"]
    result = compute_usage([queue], local, works, spaces)
    assert [(team.name, team.used, team.jobs, team.waiting) for team in result.teams] == [("research", 8, 1, 0), ("b", 0, 0, 1)]
    assert [(queue.name, queue.used, queue.quota, queue.waiting) for queue in result.queues] == [("slices", 8, 32, 1)]
    assert [(item.name, item.used, item.quota) for item in result.types] == [("v4-16", 8, 32)]
