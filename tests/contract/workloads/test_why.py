"""Every cause of `train why` between a queue and a container, produced on the twin and on the real control plane.

Pending jobs have pods that no scheduler places; scheduled jobs have simulated nodes, separate for each test.
"""

from __future__ import annotations

import itertools
from hashlib import sha1
from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.conftest import unique
from tests.support.access import RBAC, account, grant
from tests.support.diagnosis import DiagnosisClient, cause, create, diagnosis_client, replicated_job, scheduled_job
from tests.support.jobsets import EXCLUSIVE, GROUP, POOL
from tests.support.slice_thread import SliceThread, slice_thread
from tests.support.slices_controller import jobset

from sliceworks.controllers.slices.node_pool import pool_name
from sliceworks.training.queues import MEMBER_RULES
from sliceworks.twin.nodes.node_shape import NodeShape, build_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.kueue import KueueHarness
    from tests.support.kueue_install import Settings

    from sliceworks.training.diagnosis.model import Diagnosis

Obj = dict[str, Any]
_numbers = itertools.count(500)
pytestmark = pytest.mark.long(60)


@pytest.fixture(scope="module")
def slices(cluster: Cluster, kueue: Settings) -> Iterator[SliceThread]:
    """The slices controller, its cloud, and simulated nodes."""
    with slice_thread(cluster, zones=("us-central2-b", "us-central2-a")) as running:
        yield running


@pytest.fixture(scope="module")
def diagnosis(cluster: Cluster, slices: SliceThread) -> Iterator[DiagnosisClient]:
    with diagnosis_client(cluster, slices) as created:
        yield created


class Case:
    """One namespace with its queues and a diagnosis client."""

    def __init__(self, harness: KueueHarness, diagnosis: DiagnosisClient) -> None:
        self.harness, self.api, self.ns, self._asks = harness, harness.api, harness.ns, diagnosis

    def create(self, name: str, *parts: Obj, **more: Any) -> None:
        create(self.api, self.ns, name, *parts, **more)

    def why(self, name: str, *causes: str) -> Diagnosis:
        return self._asks.until(self.ns, name, *causes)

    def wait_for_message(self, name: str, cause: str, text: str) -> None:
        """Wait until a cause quotes a message: events arrive later than conditions."""
        self.harness.until(lambda: text in self.why(name, cause).causes[0].reported, text)

    def nodes(self, count: int = 1, **shape: Any) -> Obj:
        """Create nodes for this test; returns their selector."""
        pool = unique("pool")
        for node in build_nodes(NodeShape(pool=pool, **shape), count, first=next(_numbers)):
            self.api.post("/api/v1/nodes", node).ok(201)
        return {POOL: pool}

    def drop(self, name: str) -> None:
        self.api.delete(self.jobset(name)).ok()

    def jobset(self, name: str) -> str:
        return f"{GROUP}/namespaces/{self.ns}/jobsets/{name}"

    def pod(self, name: str) -> Obj:
        query = {"labelSelector": f"jobset.sigs.k8s.io/jobset-name={name}"}
        path = f"/api/v1/namespaces/{self.ns}/pods"
        result: Obj = self.harness.until(lambda: self.api.get(path, query).ok().json["items"], f"a pod of {name}")[0]
        return result

    def pod_path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.ns}/pods/{name}"


@pytest.fixture
def case(harness: KueueHarness, diagnosis: DiagnosisClient) -> Case:
    return Case(harness, diagnosis)


# Queues.


def test_missing_queue(case: Case) -> None:
    case.harness.queue("tpu-jobs", {"name": "f", "cpu": 4})
    case.create("a", replicated_job({"cpu": 1}), queue="tpu-job")
    result = cause(case.why("a", "queue-not-found"), "queue-not-found")
    assert "It has: tpu-jobs." in result.message
    assert result.remedy == "submit it to tpu-jobs"
    assert str(result.sources[0]) == f"JobSet {case.ns}/a, metadata.labels[kueue.x-k8s.io/queue-name]"


def test_missing_cluster_queue(case: Case) -> None:
    case.harness.local("q", "nowhere")
    case.create("a", replicated_job({"cpu": 1}), queue="q")
    assert "references the ClusterQueue nowhere, which does not exist" in case.why("a", "no-cluster-queue").causes[0].message


def test_stopped_queues(case: Case) -> None:
    for name in ("q", "r"):
        case.harness.queue(name, {"name": "f", "cpu": 4})
    case.api.patch(case.harness.local_path("q"), {"spec": {"stopPolicy": "Hold"}}).ok()
    case.harness.change_queue("r", stopPolicy="HoldAndDrain").ok()
    case.harness.until(lambda: case.harness.local_status("q")["conditions"]["Active"][0] == "False", "q is stopped")
    case.harness.until(lambda: case.harness.queue_status("r")["conditions"]["Active"][0] == "False", "r is stopped")
    for name in ("q", "r"):
        case.create(name, replicated_job({"cpu": 1}), queue=name)
    [result] = case.why("q", "queue-stopped").causes
    assert str(result.sources[0]) == f"LocalQueue {case.ns}/q, spec.stopPolicy"
    [result] = case.why("r", "cluster-queue-stopped").causes
    assert str(result.sources[0]) == f"ClusterQueue {case.harness.own('r')}, spec.stopPolicy"


def test_missing_flavor(case: Case) -> None:
    harness = case.harness
    groups = harness.groups({"name": "later", "cpu": 4})
    harness.make("ClusterQueue", "clusterqueues", harness.own("q"), {"namespaceSelector": {}, "resourceGroups": groups}).ok(201)
    harness.local("q", harness.own("q"))
    case.create("a", replicated_job({"cpu": 1}), queue="q")
    assert harness.own("later") in case.why("a", "flavor-missing").causes[0].reported


def test_missing_admission_check(case: Case) -> None:
    strategy = {"admissionChecks": [{"name": case.harness.own("later")}]}
    case.harness.queue("q", {"name": "f", "cpu": 4}, admissionChecksStrategy=strategy)
    case.create("a", replicated_job({"cpu": 1}), queue="q")
    assert "(AdmissionCheckNotFound)" in case.why("a", "queue-inactive").causes[0].message


def test_namespace_not_selected(case: Case) -> None:
    case.harness.queue("q", {"name": "f", "cpu": 4}, namespaceSelector={"matchLabels": {"team": "vision"}})
    case.create("a", replicated_job({"cpu": 1}), queue="q")
    [result] = case.why("a", "namespace-not-selected").causes
    assert f"selects namespaces with team=vision; {case.ns} does not match" in result.message


def test_resource_without_quota(case: Case) -> None:
    case.harness.queue("q", {"name": "f", "cpu": 4})
    case.create(
        "a",
        replicated_job({"cpu": 1, "google.com/tpu": 4}, pod={"container": {"resources": {"limits": {"google.com/tpu": 4}}}}),
        queue="q",
    )
    assert "It requests google.com/tpu" in case.why("a", "resource-not-covered").causes[0].message


def test_flavors_do_not_match(case: Case) -> None:
    case.harness.flavor("spot", nodeTaints=[{"key": "spot", "value": "yes", "effect": "NoSchedule"}])
    case.harness.flavor("v4", nodeLabels={"type": "v4"})
    case.harness.queue("q", {"name": "spot", "cpu": 4}, {"name": "v4", "cpu": 4})
    case.create("a", replicated_job({"cpu": 1}, pod={"nodeSelector": {"type": "v5p"}}), queue="q")
    [result] = case.why("a", "no-flavor-fits").causes
    assert f"{case.harness.own('spot')}: the taint spot is not tolerated" in result.message
    assert f"{case.harness.own('v4')}: its nodes do not match type=v5p" in result.message


def test_request_above_total_quota(case: Case) -> None:
    case.harness.queue("q", {"name": "f", "cpu": 4})
    case.create("a", replicated_job({"cpu": 2}, replicas=3), queue="q")
    result = cause(case.why("a", "quota-too-small"), "quota-too-small")
    assert result.message == f"It requests 6 CPUs of {case.harness.own('f')}; the maximum of {case.harness.own('q')} is 4 CPUs."
    assert result.remedy.startswith("request 2 of 3 slices")


def test_quota_is_used(case: Case) -> None:
    case.harness.queue("q", {"name": "f", "cpu": 4})
    case.create("a", replicated_job({"cpu": 3}, pod_metadata={"annotations": {"sliceworks.dev/run-seconds": "3600"}}), queue="q")
    case.harness.wait_condition("a", "Admitted")
    case.harness.until(lambda: case.harness.get_queue("q")["status"].get("reservingWorkloads") == 1, "the queue counts it")
    case.create("b", replicated_job({"cpu": 2}), queue="q")
    result = case.why("b", "quota-in-use")
    first = result.causes[0]
    assert (
        f"It requests 2 CPUs of {case.harness.own('f')}; 1 of 4 CPUs is free. In use: 3 CPUs by {case.ns}/a (priority 0)."
        == first.message
    )
    assert str(first.sources[0]) == f"ClusterQueue {case.harness.own('q')}, status.flavorsReservation[{case.harness.own('f')}]"
    [release] = result.releases
    assert (release.job.name, release.amount, release.basis) == (
        "a",
        f"3 CPUs of {case.harness.own('f')}",
        "it has not started yet",
    )


def test_borrowing_limit(case: Case) -> None:
    case.harness.queue("q", {"name": "f", "cpu": [2, 1]}, cohort="all")
    case.harness.queue("r", {"name": "f", "cpu": 6}, cohort="all")
    case.create("a", replicated_job({"cpu": 2}), queue="q")
    case.harness.wait_condition("a", "Admitted")
    case.create("b", replicated_job({"cpu": 2}), queue="q")
    case.create("c", replicated_job({"cpu": 4}), queue="q")
    for name in ("b", "c"):
        result = case.why(name, "borrowing-limit").causes[0]
        assert "has a nominal quota of 2 CPUs and may borrow at most 1 CPU from the cohort" in result.message


def test_higher_priority_jobs_are_ahead(case: Case) -> None:
    case.harness.queue("q", {"name": "f", "cpu": 1})
    high, low = case.harness.priority("high", 100), case.harness.priority("low", 10)
    case.create("runs", replicated_job({"cpu": 1}), queue="q")
    case.harness.wait_condition("runs", "Admitted")
    case.create("low", replicated_job({"cpu": 1}), queue="q", priority=low)
    case.create("high", replicated_job({"cpu": 1}), queue="q", priority=high)
    case.create("later", replicated_job({"cpu": 1}), queue="q", priority=high)
    for name in ("high", "later"):
        case.harness.wait_pending(name, "more needed")
    result = case.why("low", "quota-in-use", "lower-priority")
    assert result.ahead is not None
    assert (result.ahead.position, result.ahead.total) == (3, 3)
    assert sorted(str(item) for item in result.ahead.first) == [f"{case.ns}/high", f"{case.ns}/later"]
    assert cause(result, "lower-priority").remedy == "wait for them, or submit it with a priority above 100"
    assert case.why("high", "quota-in-use").ahead is not None


def test_job_was_preempted(case: Case) -> None:
    case.harness.queue("q", {"name": "f", "cpu": 1}, preemption={"withinClusterQueue": "LowerPriority"})
    high = case.harness.priority("high", 100)
    case.create("low", replicated_job({"cpu": 1}), queue="q")
    case.harness.wait_condition("low", "Admitted")
    case.create("high", replicated_job({"cpu": 1}), queue="q", priority=high)
    case.harness.wait_condition("high", "Admitted")
    case.harness.wait_pending("low", "more needed")
    result = case.why("low", "preempted", "quota-in-use")
    assert f"It was preempted by {case.ns}/high (priority 100) because it has a higher priority" in result.causes[0].message
    assert "or submit it with a priority above 100 to preempt" in result.causes[1].remedy


def test_admission_checks(case: Case) -> None:
    strategy = {"admissionChecks": [{"name": case.harness.check("look")}]}
    case.harness.queue("q", {"name": "f", "cpu": 4}, admissionChecksStrategy=strategy)
    case.create("a", replicated_job({"cpu": 1}), queue="q")
    result = case.why("a", "check-pending").causes[0]
    assert "(controller example.com/desk) is pending" in result.message
    case.harness.set_check("a", "look", "Rejected")
    result = case.why("a", "check-rejected").causes[0]
    assert case.harness.own("look") in f"{result.message} {result.reported}"


def test_deactivated_workload(case: Case) -> None:
    case.harness.queue("q", {"name": "f", "cpu": 4})
    case.create("a", replicated_job({"cpu": 1}), queue="q")
    case.harness.wait_condition("a", "Admitted")
    case.api.patch(case.harness.path("a"), {"spec": {"active": False}}).ok()
    assert case.why("a", "deactivated").causes[0].sources[0].field == "spec.active"


def test_diagnosis_with_member_permissions(case: Case, cluster: Cluster) -> None:
    """The permissions are those of a team member of an Environment."""
    case.harness.queue("q", {"name": "f", "cpu": 4})
    case.create("a", replicated_job({"cpu": 3}), queue="q")
    case.harness.wait_condition("a", "Admitted")
    case.create("b", replicated_job({"cpu": 2}), queue="q")
    case.harness.wait_pending("b", "insufficient unused quota")
    robot = account(case.api, case.ns)
    grant(case.api, case.ns, *MEMBER_RULES)
    path = f"{RBAC}/namespaces/{case.ns}/rolebindings"
    subjects = [{"kind": "ServiceAccount", "name": "robot", "namespace": case.ns}]
    edit = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    case.api.post(path, {"metadata": {"name": "edit"}, "roleRef": edit, "subjects": subjects}).ok(201)
    # Roles and bindings arrive at the API server's authorizer on separate watches.
    both = (f"{GROUP}/namespaces/{case.ns}/jobsets", f"/api/v1/namespaces/{case.ns}/pods")
    case.harness.until(lambda: [robot.get(item).status for item in both] == [200, 200], "the permissions are in force")
    with diagnosis_client(cluster, token=robot.token or "") as member:
        result = member.until(case.ns, "b", "pending-in-queue")
        assert "insufficient unused quota for cpu" in result.causes[0].reported
        reported = "Its jobs: 1 pending, 1 with quota: a (3 CPUs of"
        case.harness.until(lambda: reported in member.diagnose_job(case.ns, "b").causes[0].message, reported)
        assert f"ClusterQueue {case.harness.own('q')}: forbidden" in result.unreadable


# The JobSet itself.


def test_jobset_is_suspended(case: Case) -> None:
    case.create("a", replicated_job({"cpu": 1}), suspend=True)
    assert case.why("a", "suspended").summary == "a is suspended by a user."


def test_jobset_is_being_deleted(case: Case) -> None:
    case.create("a", replicated_job({"cpu": 1}), suspend=True, metadata={"finalizers": ["example.com/hold"]})
    case.drop("a")
    assert "example.com/hold" in case.why("a", "deleting").causes[0].message
    case.api.patch(case.jobset("a"), {"metadata": {"finalizers": None}}).ok()


def test_dependency_is_pending(case: Case) -> None:
    first = replicated_job({"cpu": 1}, "first")
    second = replicated_job({"cpu": 1}, "second", dependsOn=[{"name": "first", "status": "Complete"}])
    case.create("a", first, second)
    case.pod("a")
    assert "The replicated job second starts when first is complete." in [
        cause.message for cause in case.why("a", "not-scheduled", "replicated-job-blocked").causes
    ]


def test_jobset_runs_and_completes(case: Case) -> None:
    selector = case.nodes()
    case.create("long", scheduled_job(selector, notes={"run-seconds": "3600"}))
    case.create("short", scheduled_job(selector, notes={"run-seconds": "0"}))
    assert case.why("long", "running").state == "running"
    assert case.why("short", "completed").state == "completed"


def test_active_deadline_exceeded(case: Case) -> None:
    case.create(
        "a",
        scheduled_job(case.nodes(), notes={"run-seconds": "3600"}, job={"activeDeadlineSeconds": 1}),
        failurePolicy={"maxRestarts": 0},
    )
    assert "ran longer than 1s" in case.why("a", "deadline").causes[0].message


def test_out_of_memory_without_restarts_left(case: Case) -> None:
    part = scheduled_job(case.nodes(), notes={"run-seconds": "3600", "fail": "oom"})
    case.create("a", part, failurePolicy={"maxRestarts": 1})
    result = case.why("a", "out-of-memory", "restart-limit-reached")
    assert "It used its one restart." in [cause.message for cause in result.causes]


def test_exit_code(case: Case) -> None:
    case.create("a", scheduled_job(case.nodes(), notes={"run-seconds": "0", "exit-code": "3"}))
    assert case.why("a", "exit-code").causes[0].message == "The container trainer of 1 pod exited with code 3."


# Scheduling.


def test_no_node_matches_selector(case: Case) -> None:
    selector = case.nodes()
    case.create("a", scheduled_job({**selector, "cloud.google.com/gke-tpu-topology": "9x9"}))
    [result] = case.why("a", "no-matching-pool").causes
    assert result.message == "1 pod is unschedulable: no node has the label cloud.google.com/gke-tpu-topology=9x9."


def test_affinity_excludes_nodes(case: Case) -> None:
    selector = case.nodes(spot=True)
    never = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "cloud.google.com/gke-spot", "operator": "DoesNotExist"}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": never}}
    case.create("a", scheduled_job(selector, pod={"affinity": affinity}))
    assert "do not match cloud.google.com/gke-spot DoesNotExist" in case.why("a", "no-matching-pool").causes[0].message


def test_untolerated_taint(case: Case) -> None:
    selector = case.nodes(2, taints=({"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"},))
    case.create("a", scheduled_job(selector))
    [result] = case.why("a", "taint").causes
    assert "matching hosts: 2, all with the untolerated taint google.com/tpu=present:NoSchedule" in result.message
    assert result.sources[0].kind == "Node"


def test_insufficient_hosts(case: Case) -> None:
    case.create("a", scheduled_job(case.nodes(), requests={"cpu": "3"}, pods=2))
    assert "It needs 2 hosts; the cluster has 1 that match." in case.why("a", "too-few-hosts").causes[0].message


def test_hosts_are_too_small(case: Case) -> None:
    case.create("a", scheduled_job(case.nodes(), requests={"cpu": "30"}))
    assert "matching hosts: 1, but none has 30 CPUs" in case.why("a", "too-few-hosts").causes[0].message


def test_hosts_are_occupied(case: Case) -> None:
    selector = case.nodes()
    case.create("a", scheduled_job(selector, requests={"cpu": "3"}))
    case.why("a", "running")
    case.create("b", scheduled_job(selector, requests={"cpu": "3"}))
    assert f"in use by {case.ns}/a" in case.why("b", "hosts-in-use").causes[0].message


def test_followers_wait_for_their_leader(case: Case) -> None:
    part = scheduled_job(
        {POOL: "nowhere"}, replicas=2, pods=4, job={"completionMode": "Indexed"}, metadata={"annotations": {EXCLUSIVE: POOL}}
    )
    case.create("a", part)
    reported = "Not created yet: 6 followers of 2 slices"
    case.harness.until(
        lambda: reported in cause(case.why("a", "no-matching-pool", "followers-pending"), "followers-pending").message, reported
    )


def test_pods_are_rejected(case: Case) -> None:
    case.create("a", scheduled_job(case.nodes(), pod={"serviceAccountName": "missing"}))
    assert 'serviceaccount "missing" not found' in case.why("a", "pods-rejected").causes[0].reported


# Containers.


def test_image_pull_fails(case: Case) -> None:
    case.create("a", scheduled_job(case.nodes(), notes={"image-pull": "fail"}))
    assert case.why("a", "image-pull").causes[0].message == "1 pod cannot pull example.com/train:1."


def test_crash_loop(case: Case) -> None:
    part = scheduled_job(
        case.nodes(), notes={"fail": "crash", "run-seconds": "3600"}, pod={"restartPolicy": "OnFailure"}, job={"backoffLimit": 50}
    )
    case.create("a", part)
    assert "exits with exit code 1 soon after it starts" in case.why("a", "crash-loop").causes[0].message


def test_host_is_preempted(case: Case) -> None:
    selector = case.nodes()
    case.create("a", scheduled_job(selector, notes={"run-seconds": "3600"}))
    case.why("a", "running")
    node = case.pod("a")["spec"]["nodeName"]
    case.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"sliceworks.dev/state": "preempted"}}}).ok()
    assert "lost its host" in case.why("a", "host-lost").causes[0].message


def test_pod_is_not_ready(case: Case) -> None:
    case.create("a", scheduled_job(case.nodes(), notes={"ready-seconds": "3600", "run-seconds": "3600"}))
    assert case.why("a", "not-ready").causes[0].sources[0].kind == "Pod"


def test_missing_secret(case: Case) -> None:
    """The simulated kubelet does not read secrets: the test writes what a kubelet writes."""
    case.create("a", replicated_job({"cpu": 1}), failurePolicy={"maxRestarts": 0})
    name = case.pod("a")["metadata"]["name"]
    waits = {"reason": "CreateContainerConfigError", "message": 'secret "wandb" not found'}
    status = {
        "name": "trainer",
        "image": "example.com/train:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"waiting": waits},
    }
    case.api.patch(f"{case.pod_path(name)}/status", {"status": {"containerStatuses": [status]}}).ok()
    assert case.why("a", "missing-config").causes[0].reported == 'CreateContainerConfigError: secret "wandb" not found'


@pytest.mark.parametrize(
    ("volume", "expected"), [({"secret": {"secretName": "s"}}, "missing-config"), ({"nfs": {"server": "x", "path": "/"}}, "volume")]
)
def test_volume_mount_fails(case: Case, volume: Obj, expected: str) -> None:
    case.create("a", replicated_job({"cpu": 1}, pod={"volumes": [{"name": "data", **volume}]}))
    pod = case.pod("a")
    event = {
        "metadata": {"generateName": "a-"},
        "involvedObject": {"kind": "Pod", "namespace": case.ns, "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
        "reason": "FailedMount",
        "type": "Warning",
        "message": 'MountVolume.SetUp failed for volume "data" : it is not there',
    }
    case.api.post(f"/api/v1/namespaces/{case.ns}/events", event).ok(201)
    assert 'volume "data"' in case.why("a", expected).causes[0].reported


# Slices. A fault of the cloud lasts as long as its test.


def slicing(case: Case, name: str = "a", **more: Any) -> None:
    body = jobset(name, more.pop("replicas", 1), namespace=case.ns, seconds=600, **more)
    case.api.post(f"{GROUP}/namespaces/{case.ns}/jobsets", body).ok(201)


def done(case: Case, slices: SliceThread, name: str = "a") -> None:
    """Wait until the pools are deleted, because the pods of the next test would use them."""
    case.drop(name)
    label = "google.com/tpu-provisioner-jobset-namespace"
    case.harness.until(
        lambda: all(pool["config"]["labels"].get(label) != case.ns for pool in slices.pools().values()), "pools deleted"
    )


def test_node_pools_are_being_created(case: Case, slices: SliceThread) -> None:
    with slices.fault(fault="StuckOperations"):
        slicing(case)
        result = case.why("a", "pool-provisioning", "followers-pending").causes[0]
        case.harness.until(
            lambda: {"NodePool", "Operation"} <= {item.kind for item in case.why("a", "pool-provisioning").causes[0].sources},
            "pools",
        )
        assert result.message.startswith("Its node pools are being created.")
        assert f"JobSet {case.ns}/a, status.conditions[sliceworks.dev/SlicesReady]" in map(str, result.sources)
    done(case, slices)


def test_stockout(case: Case, slices: SliceThread) -> None:
    with slices.fault(fault="Stockout"):
        slicing(case, selector={"topology.kubernetes.io/zone": "us-central2-b"})
        case.wait_for_message("a", "stockout", "does not have enough resources available")
        assert "remove the zone us-central2-b from the job" in case.why("a", "stockout").causes[0].remedy
        case.drop("a")


def test_project_quota_exceeded(case: Case, slices: SliceThread) -> None:
    with slices.fault(fault="MachineQuotaExceeded"):
        slicing(case)
        case.wait_for_message("a", "project-quota", "Quota")
        case.drop("a")


def test_missing_reservation(case: Case, slices: SliceThread) -> None:
    slicing(case, selector={"cloud.google.com/reservation-name": "nowhere"})
    case.wait_for_message("a", "reservation-not-found", 'reservation "nowhere" not found')
    case.drop("a")


def test_impossible_slice(case: Case, slices: SliceThread) -> None:
    slicing(case, topology="3x3x3")
    case.wait_for_message("a", "slice-rejected", "3x3x3 is not a tpu-v4-podslice topology")
    case.drop("a")


def test_pools_are_drained(case: Case, slices: SliceThread) -> None:
    slicing(case, annotations={"slices.sliceworks.dev/drain": "true"})
    assert case.why("a", "draining").causes[0].remedy.startswith("`sliceworks slices drain --undo`")
    case.drop("a")


def test_slices_were_released(case: Case, slices: SliceThread) -> None:
    """Its two slices have different sizes, so that neither can replace the other."""
    [large] = jobset("a", topology="2x2x4", pods=4, seconds=600)["spec"]["replicatedJobs"]
    body = jobset("a", namespace=case.ns, seconds=600, annotations={"slices.sliceworks.dev/time-limit": "2s"})
    body["spec"]["replicatedJobs"].append({**large, "name": "large"})
    key = sha1(f"{case.ns}/a-large-0".encode()).hexdigest()
    with slices.fault(fault="Stockout", match={"nodePool": pool_name("a", key)}):
        case.api.post(f"{GROUP}/namespaces/{case.ns}/jobsets", body).ok(201)
        reported = "1 of 2 slices were not ready within 2s"
        case.wait_for_message("a", "slices-released", reported)
        case.drop("a")


def test_slices_are_created_before_admission(case: Case, slices: SliceThread) -> None:
    labels = {"cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice", "cloud.google.com/gke-tpu-topology": "2x2x2"}
    case.harness.make(
        "AdmissionCheck", "admissionchecks", case.harness.own("slices"), {"controllerName": "sliceworks.dev/slices"}
    ).ok(201)
    case.harness.flavor(
        "v4", nodeLabels=labels, tolerations=[{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}]
    )
    strategy = {"admissionChecks": [{"name": case.harness.own("slices")}]}
    case.harness.queue("q", {"name": "v4", "google.com/tpu": 16}, admissionChecksStrategy=strategy)
    with slices.fault(fault="Stockout"):
        none = dict.fromkeys(labels)
        slicing(case, replicas=2, labels={"kueue.x-k8s.io/queue-name": "q"}, selector=none, suspend=True)
        result = case.why("a", "stockout", "check-pending")
        assert "0 of 2 slices are ready" in cause(result, "check-pending").reported
        case.drop("a")
