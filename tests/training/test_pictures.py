"""Hosts, timelines, lines and use, from objects as a cluster has them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.training.test_compile import job

from sliceworks.base.errors import UsageError
from sliceworks.training import choosing
from sliceworks.training.again import fresh
from sliceworks.training.choosing import Choice
from sliceworks.training.compile import jobset
from sliceworks.training.hosts import hosts
from sliceworks.training.stages import line
from sliceworks.training.timeline import timeline
from sliceworks.training.usage import usage

Object = dict[str, Any]


def stored(text: str = "slices: {type: v4-16, count: 2}", **status: Any) -> Object:
    made = jobset(job(text), namespace="team")
    made["metadata"] |= {"creationTimestamp": "2026-01-01T00:00:00Z", "uid": "u1", "resourceVersion": "5"}
    return {**made, "status": {"restarts": 0, **status}}


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


def test_every_host_is_listed_whether_it_has_a_pod_or_not() -> None:
    found = hosts(stored(), [pod(0, 0, phase="Running", conditions=READY), pod(1, 1, phase="Pending", node="")])
    assert [(each.label, each.state) for each in found] == [
        ("slice-0/0", "running"),
        ("slice-0/1", "no pod yet"),
        ("slice-1/0", "no pod yet"),
        ("slice-1/1", "unscheduled"),
    ]


@pytest.mark.parametrize(
    ("status", "told"),
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
def test_the_state_of_a_host_says_what_is_wrong(status: Object, told: str) -> None:
    assert hosts(stored(), [pod(0, 0, **status)])[0].state == told


def test_of_two_attempts_the_newer_counts() -> None:
    found = hosts(stored(), [pod(0, 0, attempt=1, phase="Pending", node=""), pod(0, 0, phase="Failed")])
    assert (found[0].attempt, found[0].state) == (1, "unscheduled")


def test_a_timeline_tells_how_long_each_step_took() -> None:
    found = stored(
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
    steps = timeline(found, workload, [pod(0, 0, conditions=READY)])
    assert [(each.what, each.after, each.source) for each in steps] == [
        ("submitted", 0, "JobSet"),
        ("admitted", 180, "Workload"),
        ("started", 60, "JobSet"),
        ("1 of 4 pods ready", 60, "Pod"),
    ]
    pods = [pod(number // 2, number % 2, conditions=READY) for number in range(3)]
    assert timeline(found, workload, pods)[-1].what == "3 of 4 pods ready"
    assert timeline(found, workload, [*pods, pod(1, 1, phase="Succeeded")])[-1].what == "last pod ready"


def test_one_line_says_where_a_job_has_come_to() -> None:
    waits = {"status": {"conditions": [{"type": "QuotaReserved", "status": "False", "message": "no room"}]}}
    queued = stored()
    queued["spec"]["suspend"] = True
    assert line(queued, None, []) == "queued in queue"
    assert line(queued, waits, []) == "queued in queue: no room"
    reserved = {"status": {"conditions": [{"type": "QuotaReserved", "status": "True"}]}}
    assert line(queued, reserved, []) == "queued: queue has room for it, and it is checked"
    assert line(stored(restarts=2), None, [pod(0, 0, conditions=READY)]) == "starting: 1 of 4 hosts are ready, after 2 restarts"
    done = stored(conditions=[{"type": "Failed", "status": "True", "message": "jobset failed"}])
    assert line(done, None, []) == "failed: jobset failed"


def test_a_helper_that_is_not_ready_does_not_keep_a_job_from_running() -> None:
    ready = [{"name": "slice", "ready": 1, "succeeded": 0}, {"name": "janitor", "ready": 0, "succeeded": 0}]
    text = "slices: {type: v4-16}, helpers: [{name: janitor, image: i}]"
    assert line(stored(text, replicatedJobsStatus=ready), None, []).startswith("running")


def test_hosts_are_chosen_by_slice_host_and_helper() -> None:
    pods = [pod(number, index) for number in (1, 0) for index in (1, 0)] + [pod(0, 0, job_="tensorboard")]
    found = stored("slices: {type: v4-16, count: 2}, helpers: [{name: tensorboard, image: i}]")

    def label(choice: Choice) -> list[str]:
        return [each.host.label for each in choosing.sources(found, pods, choice)]

    assert label(Choice()) == ["slice-0/0", "slice-0/1", "slice-1/0", "slice-1/1"]
    assert label(Choice(slice=1)) == ["slice-1/0", "slice-1/1"]
    assert label(Choice(slice=0, host=1)) == ["slice-0/1"]
    assert label(Choice(helper="tensorboard")) == ["tensorboard-0/0"]


@pytest.mark.parametrize(
    ("choice", "told"),
    [
        (Choice(slice=2), "slice 2: there are 2, and they count from 0"),
        (Choice(host=9), "host 9: there are 2, and they count from 0"),
        (Choice(helper="board"), "train has no helper 'board'"),
    ],
)
def test_what_a_job_does_not_have_is_refused(choice: Choice, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        choice.check(stored())


def test_the_attempt_before_is_an_older_pod_or_an_earlier_run() -> None:
    found = stored()
    old, new = pod(0, 0), pod(0, 0, attempt=1)
    both = choosing.sources(found, [new, old], Choice())
    assert [each.uid for each in choosing.latest(both)] == [new["metadata"]["uid"]]
    assert [each.uid for each in choosing.previous(both)] == [old["metadata"]["uid"]]
    again = pod(0, 0, containerStatuses=container({"running": {}}, lastState={"terminated": {"exitCode": 1}}))
    [before] = choosing.previous(choosing.sources(found, [again], Choice()))
    assert before.previous
    assert choosing.previous(choosing.sources(found, [new], Choice())) == []


def test_a_job_made_anew_is_as_it_was_submitted() -> None:
    wanted = jobset(job("slices: {type: v4-16}"), namespace="team")
    running = stored("slices: {type: v4-16}")
    running["spec"]["suspend"] = False
    template = running["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    pod_sets = [{"name": "slice", "template": {"metadata": dict(template["metadata"]), "spec": dict(template["spec"])}}]
    template["spec"]["nodeSelector"] = {**template["spec"]["nodeSelector"], "flavor": "chosen"}
    template["spec"]["tolerations"] = [*template["spec"]["tolerations"], {"key": "flavor"}]
    template["metadata"]["labels"] = {**template["metadata"]["labels"], "kueue.x-k8s.io/podset": "slice"}
    assert fresh(running, {"spec": {"podSets": pod_sets}}) == wanted


def test_chips_in_use_are_counted_by_team_queue_and_type() -> None:
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
    found = usage([queue], local, works, spaces)
    assert [(each.name, each.used, each.jobs, each.waiting) for each in found.teams] == [("research", 8, 1, 0), ("b", 0, 0, 1)]
    assert [(each.name, each.used, each.quota, each.waiting) for each in found.queues] == [("slices", 8, 32, 1)]
    assert [(each.name, each.used, each.quota) for each in found.types] == [("v4-16", 8, 32)]
