"""JobSets of TrainingJobs: accepted by the webhooks, admitted by Kueue, and followed by the `train` commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.jobsets import JobSetDriver
from tests.training.test_compile import JOBS, job

from sliceworks.cli import main
from sliceworks.training.admissibility import QueueObjects, explain_inadmissible
from sliceworks.training.jobset import build_jobset
from sliceworks.training.status import PRIORITY_LABEL

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.kueue import KueueHarness

CLUSTER = "kueue"
_PLENTY = {"cpu": "100k", "memory": "100Ti", "google.com/tpu": "1k", "nvidia.com/gpu": "1k"}


def test_every_kind_of_job_is_admitted_and_started(harness: KueueHarness) -> None:
    harness.queue("queue", {"name": "all", **_PLENTY})
    harness.api.post(f"/api/v1/namespaces/{harness.ns}/serviceaccounts", {"metadata": {"name": "trainer"}}).ok(201)
    harness.api.post(f"/api/v1/namespaces/{harness.ns}/serviceaccounts", {"metadata": {"name": "uploader"}}).ok(201)
    low = harness.priority("low", 250)
    desired: set[str] = set()
    for name, text in JOBS.items():
        created = build_jobset(job(text, name), namespace=harness.ns)
        if PRIORITY_LABEL in created["metadata"]["labels"]:
            created["metadata"]["labels"][PRIORITY_LABEL] = low
        strict = {"fieldValidation": "Strict"}  # this JobSet knows all fields
        harness.api.post(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{harness.ns}/jobsets", created, strict).ok(201)
        for replicated_job in created["spec"]["replicatedJobs"]:
            desired |= {f"{name}-{replicated_job['name']}-{number}" for number in range(replicated_job["replicas"])}
    for name in JOBS:
        harness.wait_condition(name, "Admitted")

    def started() -> bool:
        jobs = harness.api.get(f"/apis/batch/v1/namespaces/{harness.ns}/jobs").ok().json["items"]
        running = {job["metadata"]["name"] for job in jobs if not job["spec"].get("suspend")}
        return running == desired

    harness.until(started, "all Jobs")
    # Followers of an exclusively placed slice wait for their leader; all other pods exist.
    pods = f"/api/v1/namespaces/{harness.ns}/pods"
    for name in JOBS:
        query = {"labelSelector": f"jobset.sigs.k8s.io/jobset-name={name},batch.kubernetes.io/job-completion-index=0"}
        expected = sum(item.startswith(f"{name}-") for item in desired)
        harness.until(lambda: len(harness.api.get(pods, query).ok().json["items"]) == expected, f"first pods of {name}")  # noqa: B023


Train = Callable[..., tuple[int, str, str]]


@pytest.fixture
def train(harness: KueueHarness, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Train:
    """Run `sliceworks train` in the test's namespace; returns its exit code and output."""

    def run(command: str, *arguments: str) -> tuple[int, str, str]:
        where = [] if command == "top" else ["-n", harness.ns]
        code = main.run(["train", command, *where, "--kubeconfig", str(cluster.kubeconfig), *arguments])
        return code, *capsys.readouterr()

    return run


def test_commands_follow_job_to_completion(harness: KueueHarness, train: Train) -> None:
    harness.queue("queue", {"name": "all", **_PLENTY})
    played = JobSetDriver(harness.api, harness.ns, "first")
    flags = ("--queue", "queue", "--type", "l4-1", "--image", "i", "-q", "--restarts", "1")
    code, out, err = train("submit", "first", *flags)
    assert (code, out.splitlines()[-1].split()[-2:]) == (0, ["0", "none"]), err
    code, _, err = train("submit", "first", *flags)
    assert (code, err.splitlines()[0]) == (1, f"error: job first already exists in namespace {harness.ns}")

    # It runs and restarts in place: new pods, the same Workload, no counted restart.
    harness.wait_condition("first", "Admitted")
    played.run("first-slice-0")
    assert train("wait", "first", "--until", "running", "--timeout", "60s")[0] == 0
    assert "running: 1 of 1 hosts are ready" in train("show", "first")[1]
    [before] = played.pods("first-slice-0")
    workload = harness.workloads()["first"]["metadata"]["uid"]
    assert train("restart", "first", "-y") == (0, "jobset/first restarted\n", "")
    played.until(
        lambda: [pod["metadata"]["uid"] for pod in played.pods("first-slice-0")] != [before["metadata"]["uid"]], "new pods"
    )
    played.run("first-slice-0")
    assert train("wait", "first", "--until", "running", "--timeout", "60s")[0] == 0
    assert (played.restarts(), harness.workloads()["first"]["metadata"]["uid"]) == (0, workload)
    harness.wait_condition("first", "Admitted")

    # It completes and is submitted again.
    played.succeed("first-slice-0")
    assert train("wait", "first", "--timeout", "60s")[0] == 0
    ended = played.get()
    assert train("restart", "first", "-y") == (0, "jobset/first resubmitted\n", "")
    harness.wait_condition("first", "Admitted")
    played.until(lambda: not played.get()["spec"].get("suspend"), "it is started again")
    again = played.get()
    assert again["metadata"]["uid"] != ended["metadata"]["uid"]
    assert pod_spec(again) == pod_spec(ended)

    # It fails twice, which exceeds its restarts.
    for _ in range(2):
        attempt = played.restarts()
        exits(played, 1)
        played.until(lambda: played.restarts() > attempt or played.condition("Failed"), "the failure counts")  # noqa: B023
    code, _, err = train("wait", "first", "-q")
    assert (code, err.splitlines()[0].startswith("error: first failed: jobset failed")) == (1, True), err
    assert "slice-0/0" in train("show", "first")[1]
    assert train("list", "-o", "wide")[1].splitlines()[1].split()[5:7] == ["failed", "1"]
    assert train("cancel", "first", "-y") == (0, "jobset/first cancelled\n", "")


def pod_spec(jobset: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    return result


def own(harness: KueueHarness, objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [obj for obj in objects if obj["metadata"]["name"].startswith(f"{harness.ns}-")]


def test_admissible_check_matches_kueue(harness: KueueHarness) -> None:
    """A queue of 8 that may borrow 8, a queue of 16 that lends 12, and a queue with unlimited borrowing."""
    rest = {"cpu": "100k", "memory": "100Ti"}
    harness.queue("small", {"name": "gpus", "nvidia.com/gpu": [8, 8], **rest}, cohort="team")
    harness.queue("large", {"name": "gpus", "nvidia.com/gpu": [16, None, 12], **rest}, cohort="team")
    harness.queue("poor", {"name": "gpus", "nvidia.com/gpu": 0, **rest}, cohort="team")
    group = "/apis/kueue.x-k8s.io/v1beta2"
    read = [
        tuple(own(harness, harness.api.get(f"{group}/{plural}").ok().json["items"]))
        for plural in ("clusterqueues", "resourceflavors")
    ]
    for queue, most in (("small", 16), ("large", 24), ("poor", 20)):
        for count in (most, most + 1):
            name = f"{queue}-{count}"
            text = f"slices: {{type: l4-1, count: {count}}}, cpu: '1', memory: 1Gi, queue: {queue}"
            created = build_jobset(job(text, name), namespace=harness.ns)
            reported = explain_inadmissible(created, harness.own(queue), "l4-1", QueueObjects(*read))
            bound = [item.message.partition("maximum is ")[2].split()[0] for item in reported]
            assert bound == ([] if count == most else [str(most)])
            harness.api.post(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{harness.ns}/jobsets", created).ok(201)
            if count == most:
                harness.wait_condition(name, "QuotaReserved")
            else:
                harness.wait_condition(name, "QuotaReserved", "False", text=f"maximum capacity ({most})")
            harness.api.delete(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{harness.ns}/jobsets/{name}")
            harness.until(lambda: name not in harness.workloads(), f"{name} is deleted")  # noqa: B023


@pytest.mark.parametrize(
    ("machines", "taken_back"), [((["100k", 0, 0], ["100Ti", 0, 0]), True), ((0, 0), False)], ids=["own", "borrowed"]
)
def test_lent_chips_are_reclaimed(harness: KueueHarness, machines: tuple[Any, Any], taken_back: bool) -> None:
    """Each queue of a cohort has its own CPU and memory, as the queues of an environment do."""
    cpu, memory = machines
    reclaim = {"reclaimWithinCohort": "Any"}
    harness.queue("lender", {"name": "gpus", "nvidia.com/gpu": 8, "cpu": cpu, "memory": memory}, cohort="team", preemption=reclaim)
    harness.queue("taker", {"name": "gpus", "nvidia.com/gpu": 8, "cpu": cpu, "memory": memory}, cohort="team", preemption=reclaim)
    harness.queue("rest", {"name": "gpus", "nvidia.com/gpu": 0, "cpu": "100k", "memory": "100Ti"}, cohort="team")
    for name, queue, count in (("own", "taker", 8), ("lent", "taker", 8), ("late", "lender", 8)):
        text = f"slices: {{type: l4-1, count: {count}}}, cpu: '1', memory: 1Gi, queue: {queue}"
        created = build_jobset(job(text, name), namespace=harness.ns)
        harness.api.post(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{harness.ns}/jobsets", created).ok(201)
        if name != "late":
            harness.wait_condition(name, "QuotaReserved")
    if taken_back:
        harness.wait_condition("late", "QuotaReserved")
        deleted = [name for name in ("own", "lent") if harness.condition(name, "Evicted").get("reason") == "Preempted"]
        assert len(deleted) == 1
    else:
        harness.wait_condition("late", "QuotaReserved", "False", text="insufficient unused quota for nvidia.com/gpu")


def test_exit_codes_fail_or_restart_job(harness: KueueHarness) -> None:
    harness.queue("queue", {"name": "all", **_PLENTY})
    rules = "[{exitCodes: [42], action: fail}, {exitCodes: [75], action: restart-for-free}]"
    text = f"slices: {{type: l4-1}}, restarts: {{max: 1, rules: {rules}}}"
    for name in ("ends", "goes-on"):
        created = build_jobset(job(text, name), namespace=harness.ns)
        harness.api.post(f"/apis/jobset.x-k8s.io/v1alpha2/namespaces/{harness.ns}/jobsets", created).ok(201)
    ends, goes_on = (JobSetDriver(harness.api, harness.ns, name) for name in ("ends", "goes-on"))
    exits(ends, 42)
    ends.until(lambda: ends.condition("Failed"), "it fails at once")
    assert ends.restarts() == 0
    for number, code in enumerate((75, 75, 1), start=1):
        exits(goes_on, code)
        goes_on.until(lambda: goes_on.restarts() == number, f"restart {number}")  # noqa: B023
    assert (goes_on.condition("Failed"), goes_on.status().get("restartsCountTowardsMax")) == (False, 1)
    exits(goes_on, 1)
    goes_on.until(lambda: goes_on.condition("Failed"), "the second that counts is one too many")


def exits(played: JobSetDriver, code: int) -> None:
    """The only host of the current attempt exits with a code."""
    state = {"name": "trainer", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    state["state"] = {"terminated": {"exitCode": code, "reason": "Error"}}
    attempt = str(played.restarts())
    [pod] = played.until(lambda: of_attempt(played, attempt), f"a pod of attempt {attempt}")
    path = f"/api/v1/namespaces/{played.namespace}/pods/{pod['metadata']['name']}/status"
    played.api.patch(path, {"status": {"phase": "Failed", "containerStatuses": [state]}}).ok()


def of_attempt(played: JobSetDriver, attempt: str) -> list[dict[str, Any]]:
    pods = played.pods(f"{played.name}-slice-0")
    return [pod for pod in pods if pod["metadata"]["labels"]["jobset.sigs.k8s.io/restart-attempt"] == attempt]
