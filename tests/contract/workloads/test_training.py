"""JobSets made from TrainingJobs: taken by the webhooks, admitted by Kueue, and followed by the commands of `train`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.jobsets import Played
from tests.training.test_compile import JOBS, job

from sliceworks.cli import main
from sliceworks.training.admissible import Park, never
from sliceworks.training.compile import PRIORITY, jobset

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.kueue import Desk

CLUSTER = "kueue"
_PLENTY = {"cpu": "100k", "memory": "100Ti", "google.com/tpu": "1k", "nvidia.com/gpu": "1k"}


def test_every_kind_of_job_is_taken_admitted_and_started(desk: Desk) -> None:
    desk.queue("queue", {"name": "all", **_PLENTY})
    desk.api.post(f"/api/v1/namespaces/{desk.ns}/serviceaccounts", {"metadata": {"name": "trainer"}}).ok(201)
    desk.api.post(f"/api/v1/namespaces/{desk.ns}/serviceaccounts", {"metadata": {"name": "uploader"}}).ok(201)
    low = desk.priority("low", 250)
    wanted: set[str] = set()
    for name, text in JOBS.items():
        made = jobset(job(text, name), namespace=desk.ns)
        if PRIORITY in made["metadata"]["labels"]:
            made["metadata"]["labels"][PRIORITY] = low
        desk.api.post(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{desk.ns}/jobsets", made).ok(201)
        for each in made["spec"]["replicatedJobs"]:
            wanted |= {f"{name}-{each['name']}-{number}" for number in range(each["replicas"])}
    for name in JOBS:
        desk.until_is(name, "Admitted")

    def started() -> bool:
        jobs = desk.api.get(f"/apis/batch/v1/namespaces/{desk.ns}/jobs").ok().json["items"]
        running = {each["metadata"]["name"] for each in jobs if not each["spec"].get("suspend")}
        return running == wanted

    desk.until(started, "all Jobs")
    # Followers of a slice that has its pool alone wait for their leader; everybody else is there.
    pods = f"/api/v1/namespaces/{desk.ns}/pods"
    for name in JOBS:
        query = {"labelSelector": f"jobset.sigs.k8s.io/jobset-name={name},batch.kubernetes.io/job-completion-index=0"}
        expected = sum(each.startswith(f"{name}-") for each in wanted)
        desk.until(lambda: len(desk.api.get(pods, query).ok().json["items"]) == expected, f"first pods of {name}")  # noqa: B023


Train = Callable[..., tuple[int, str, str]]


@pytest.fixture
def train(desk: Desk, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Train:
    """`sliceworks train` in the case's namespace: its exit code, and what it printed."""

    def run(command: str, *arguments: str) -> tuple[int, str, str]:
        where = [] if command == "top" else ["-n", desk.ns]
        code = main.run(["train", command, *where, "--kubeconfig", str(cluster.kubeconfig), *arguments])
        return code, *capsys.readouterr()

    return run


def test_commands_follow_a_job_from_its_submission_to_its_end(desk: Desk, train: Train) -> None:
    desk.queue("queue", {"name": "all", **_PLENTY})
    played = Played(desk.api, desk.ns, "first")
    flags = ("--queue", "queue", "--type", "l4-1", "--image", "i", "-q", "--restarts", "1")
    code, out, err = train("submit", "first", *flags)
    assert (code, out.splitlines()[-1].split()[-2:]) == (0, ["0", "none"]), err
    code, _, err = train("submit", "first", *flags)
    assert (code, err.splitlines()[0]) == (1, f"error: there is already a job first in {desk.ns}")

    # It runs, and begins again in its place: other pods, the same Workload, no restart counted.
    desk.until_is("first", "Admitted")
    played.run("first-slice-0")
    assert train("wait", "first", "--until", "running", "--timeout", "60s")[0] == 0
    assert "running: 1 of 1 hosts are ready" in train("show", "first")[1]
    [before] = played.pods("first-slice-0")
    workload = desk.workloads()["first"]["metadata"]["uid"]
    assert train("restart", "first", "-y") == (0, "jobset/first begins again\n", "")
    played.until(
        lambda: [each["metadata"]["uid"] for each in played.pods("first-slice-0")] != [before["metadata"]["uid"]], "new pods"
    )
    played.run("first-slice-0")
    assert train("wait", "first", "--until", "running", "--timeout", "60s")[0] == 0
    assert (played.restarts(), desk.workloads()["first"]["metadata"]["uid"]) == (0, workload)
    desk.until_is("first", "Admitted")

    # It ends, and is submitted once more.
    played.succeed("first-slice-0")
    assert train("wait", "first", "--timeout", "60s")[0] == 0
    ended = played.get()
    assert train("restart", "first", "-y") == (0, "jobset/first is submitted again\n", "")
    desk.until_is("first", "Admitted")
    played.until(lambda: not played.get()["spec"].get("suspend"), "it is started again")
    again = played.get()
    assert again["metadata"]["uid"] != ended["metadata"]["uid"]
    assert pod_spec(again) == pod_spec(ended)

    # It fails twice, which is once too often.
    for _ in range(2):
        attempt = played.restarts()
        exits(played, 1)
        played.until(lambda: played.restarts() > attempt or played.condition("Failed"), "the failure counts")  # noqa: B023
    code, _, err = train("wait", "first", "-q")
    assert (code, err.splitlines()[0].startswith("error: first failed: jobset failed")) == (1, True), err
    assert "slice-0/0" in train("show", "first")[1]
    assert train("list", "-o", "wide")[1].splitlines()[1].split()[5:7] == ["failed", "1"]
    assert train("cancel", "first", "-y") == (0, "jobset/first is cancelled\n", "")


def pod_spec(jobset: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return found


def own(desk: Desk, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in objects if each["metadata"]["name"].startswith(f"{desk.ns}-")]


def test_what_a_queue_can_ever_hold_is_judged_as_kueue_judges_it(desk: Desk) -> None:
    """A queue of 8 that may borrow 8, beside one of 16 that lends 12, and one that may borrow anything."""
    rest = {"cpu": "100k", "memory": "100Ti"}
    desk.queue("small", {"name": "gpus", "nvidia.com/gpu": [8, 8], **rest}, cohort="team")
    desk.queue("large", {"name": "gpus", "nvidia.com/gpu": [16, None, 12], **rest}, cohort="team")
    desk.queue("poor", {"name": "gpus", "nvidia.com/gpu": 0, **rest}, cohort="team")
    group = "/apis/kueue.x-k8s.io/v1beta2"
    read = [
        tuple(own(desk, desk.api.get(f"{group}/{plural}").ok().json["items"])) for plural in ("clusterqueues", "resourceflavors")
    ]
    for queue, most in (("small", 16), ("large", 24), ("poor", 20)):
        for count in (most, most + 1):
            name = f"{queue}-{count}"
            text = f"slices: {{type: l4-1, count: {count}}}, cpu: '1', memory: 1Gi, queue: {queue}"
            made = jobset(job(text, name), namespace=desk.ns)
            told = never(made, desk.own(queue), "l4-1", Park(*read))
            bound = [each.problem.partition("is asked for, ")[2].split()[0] for each in told]
            assert bound == ([] if count == most else [str(most)])
            desk.api.post(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{desk.ns}/jobsets", made).ok(201)
            if count == most:
                desk.until_is(name, "QuotaReserved")
            else:
                desk.until_is(name, "QuotaReserved", "False", text=f"maximum capacity ({most})")
            desk.api.delete(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{desk.ns}/jobsets/{name}")
            desk.until(lambda: name not in desk.workloads(), f"{name} is gone")  # noqa: B023


@pytest.mark.parametrize(
    ("machines", "taken_back"), [((["100k", 0, 0], ["100Ti", 0, 0]), True), ((0, 0), False)], ids=["own", "borrowed"]
)
def test_chips_that_are_lent_are_taken_back_by_who_borrows_nothing_else(
    desk: Desk, machines: tuple[Any, Any], taken_back: bool
) -> None:
    """So each queue of a cohort has CPU and memory of its own, as the queues of an environment do."""
    cpu, memory = machines
    reclaim = {"reclaimWithinCohort": "Any"}
    desk.queue("lender", {"name": "gpus", "nvidia.com/gpu": 8, "cpu": cpu, "memory": memory}, cohort="team", preemption=reclaim)
    desk.queue("taker", {"name": "gpus", "nvidia.com/gpu": 8, "cpu": cpu, "memory": memory}, cohort="team", preemption=reclaim)
    desk.queue("rest", {"name": "gpus", "nvidia.com/gpu": 0, "cpu": "100k", "memory": "100Ti"}, cohort="team")
    for name, queue, count in (("own", "taker", 8), ("lent", "taker", 8), ("late", "lender", 8)):
        text = f"slices: {{type: l4-1, count: {count}}}, cpu: '1', memory: 1Gi, queue: {queue}"
        made = jobset(job(text, name), namespace=desk.ns)
        desk.api.post(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{desk.ns}/jobsets", made).ok(201)
        if name != "late":
            desk.until_is(name, "QuotaReserved")
    if taken_back:
        desk.until_is("late", "QuotaReserved")
        gone = [name for name in ("own", "lent") if desk.condition(name, "Evicted").get("reason") == "Preempted"]
        assert len(gone) == 1
    else:
        desk.until_is("late", "QuotaReserved", "False", text="insufficient unused quota for nvidia.com/gpu")


def test_exit_codes_end_a_job_start_it_again_or_do_so_for_free(desk: Desk) -> None:
    desk.queue("queue", {"name": "all", **_PLENTY})
    rules = "[{exitCodes: [42], action: fail}, {exitCodes: [75], action: restart-for-free}]"
    text = f"slices: {{type: l4-1}}, restarts: {{max: 1, rules: {rules}}}"
    for name in ("ends", "goes-on"):
        made = jobset(job(text, name), namespace=desk.ns)
        desk.api.post(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{desk.ns}/jobsets", made).ok(201)
    ends, goes_on = (Played(desk.api, desk.ns, name) for name in ("ends", "goes-on"))
    exits(ends, 42)
    ends.until(lambda: ends.condition("Failed"), "it fails at once")
    assert ends.restarts() == 0
    for number, code in enumerate((75, 75, 1), start=1):
        exits(goes_on, code)
        goes_on.until(lambda: goes_on.restarts() == number, f"restart {number}")  # noqa: B023
    assert (goes_on.condition("Failed"), goes_on.status().get("restartsCountTowardsMax")) == (False, 1)
    exits(goes_on, 1)
    goes_on.until(lambda: goes_on.condition("Failed"), "the second that counts is one too many")


def exits(played: Played, code: int) -> None:
    """The one host of a job's present attempt ends with a code."""
    state = {"name": "trainer", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    state["state"] = {"terminated": {"exitCode": code, "reason": "Error"}}
    attempt = str(played.restarts())
    [pod] = played.until(lambda: of_attempt(played, attempt), f"a pod of attempt {attempt}")
    path = f"/api/v1/namespaces/{played.namespace}/pods/{pod['metadata']['name']}/status"
    played.api.patch(path, {"status": {"phase": "Failed", "containerStatuses": [state]}}).ok()


def of_attempt(played: Played, attempt: str) -> list[dict[str, Any]]:
    pods = played.pods(f"{played.name}-slice-0")
    return [each for each in pods if each["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == attempt]
