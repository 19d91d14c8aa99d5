"""Every cause of `train why` between a queue and a container, brought about on the twin and on the real thing, and asked for.

Jobs that wait in queues have pods that nobody schedules; jobs that are placed have our nodes, of which each case has its own.
"""

from __future__ import annotations

import itertools
from hashlib import sha1
from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.conftest import unique
from tests.support.access import RBAC, account, grant
from tests.support.jobsets import EXCLUSIVE, GROUP, POOL
from tests.support.slice_thread import SliceThread, slice_thread
from tests.support.slices import jobset
from tests.support.why import Asker, asker, asking, cause, create, placed

from sliceworks.controllers.slices.bodies import pool_name
from sliceworks.training.queues import MEMBER_RULES
from sliceworks.twin.nodes.shapes import Shape, node_objects

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.kueue import Desk
    from tests.support.kueue_settings import Settings

    from sliceworks.training.why.answer import Answer

Obj = dict[str, Any]
_numbers = itertools.count(500)
pytestmark = pytest.mark.long(60)


@pytest.fixture(scope="module")
def slices(cluster: Cluster, kueue: Settings) -> Iterator[SliceThread]:
    """The slice controller, its cloud, and our nodes."""
    with slice_thread(cluster, zones=("us-central2-b", "us-central2-a")) as running:
        yield running


@pytest.fixture(scope="module")
def asks(cluster: Cluster, slices: SliceThread) -> Iterator[Asker]:
    with asker(cluster, slices) as made:
        yield made


class Case:
    """One namespace, its queues, and the question."""

    def __init__(self, desk: Desk, asks: Asker) -> None:
        self.desk, self.api, self.ns, self._asks = desk, desk.api, desk.ns, asks

    def create(self, name: str, *parts: Obj, **more: Any) -> None:
        create(self.api, self.ns, name, *parts, **more)

    def why(self, name: str, *causes: str) -> Answer:
        return self._asks.until(self.ns, name, *causes)

    def says(self, name: str, cause: str, text: str) -> None:
        """Wait for somebody's words: events come a little later than conditions."""
        self.desk.until(lambda: text in self.why(name, cause).causes[0].said, text)

    def nodes(self, count: int = 1, **shape: Any) -> Obj:
        """Machines of this case's own; the selector that finds them."""
        pool = unique("pool")
        for node in node_objects(Shape(pool=pool, **shape), count, first=next(_numbers)):
            self.api.post("/api/v1/nodes", node).ok(201)
        return {POOL: pool}

    def drop(self, name: str) -> None:
        self.api.delete(self.jobset(name)).ok()

    def jobset(self, name: str) -> str:
        return f"{GROUP}/namespaces/{self.ns}/jobsets/{name}"

    def pod(self, name: str) -> Obj:
        query = {"labelSelector": f"jobset.sigs.k8s.io/jobset-name={name}"}
        path = f"/api/v1/namespaces/{self.ns}/pods"
        found: Obj = self.desk.until(lambda: self.api.get(path, query).ok().json["items"], f"a pod of {name}")[0]
        return found

    def pod_path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.ns}/pods/{name}"


@pytest.fixture
def case(desk: Desk, asks: Asker) -> Case:
    return Case(desk, asks)


# Queues.


def test_a_queue_that_does_not_exist(case: Case) -> None:
    case.desk.queue("tpu-jobs", {"name": "f", "cpu": 4})
    case.create("a", asking({"cpu": 1}), queue="tpu-job")
    found = cause(case.why("a", "no-such-queue"), "no-such-queue")
    assert "There are tpu-jobs." in found.words
    assert found.remedy == "submit it to tpu-jobs"
    assert str(found.seen_in[0]) == f"JobSet {case.ns}/a, metadata.labels[kueue.x-k8s.io/queue-name]"


def test_a_queue_that_leads_nowhere(case: Case) -> None:
    case.desk.local("q", "nowhere")
    case.create("a", asking({"cpu": 1}), queue="q")
    assert "leads to nowhere, which does not exist" in case.why("a", "no-cluster-queue").causes[0].words


def test_stopped_queues(case: Case) -> None:
    for name in ("q", "r"):
        case.desk.queue(name, {"name": "f", "cpu": 4})
    case.api.patch(case.desk.local_path("q"), {"spec": {"stopPolicy": "Hold"}}).ok()
    case.desk.change_queue("r", stopPolicy="HoldAndDrain").ok()
    case.desk.until(lambda: case.desk.local_status("q")["conditions"]["Active"][0] == "False", "q is stopped")
    case.desk.until(lambda: case.desk.queue_status("r")["conditions"]["Active"][0] == "False", "r is stopped")
    for name in ("q", "r"):
        case.create(name, asking({"cpu": 1}), queue=name)
    [found] = case.why("q", "queue-stopped").causes
    assert str(found.seen_in[0]) == f"LocalQueue {case.ns}/q, spec.stopPolicy"
    [found] = case.why("r", "cluster-queue-stopped").causes
    assert str(found.seen_in[0]) == f"ClusterQueue {case.desk.own('r')}, spec.stopPolicy"


def test_a_flavor_that_does_not_exist(case: Case) -> None:
    desk = case.desk
    groups = desk.groups({"name": "later", "cpu": 4})
    desk.make("ClusterQueue", "clusterqueues", desk.own("q"), {"namespaceSelector": {}, "resourceGroups": groups}).ok(201)
    desk.local("q", desk.own("q"))
    case.create("a", asking({"cpu": 1}), queue="q")
    assert desk.own("later") in case.why("a", "flavor-missing").causes[0].said


def test_a_check_that_does_not_exist(case: Case) -> None:
    strategy = {"admissionChecks": [{"name": case.desk.own("later")}]}
    case.desk.queue("q", {"name": "f", "cpu": 4}, admissionChecksStrategy=strategy)
    case.create("a", asking({"cpu": 1}), queue="q")
    assert "(AdmissionCheckNotFound)" in case.why("a", "queue-inactive").causes[0].words


def test_a_namespace_that_may_not(case: Case) -> None:
    case.desk.queue("q", {"name": "f", "cpu": 4}, namespaceSelector={"matchLabels": {"team": "vision"}})
    case.create("a", asking({"cpu": 1}), queue="q")
    [found] = case.why("a", "namespace-not-selected").causes
    assert f"is for namespaces with team=vision; {case.ns} has not" in found.words


def test_a_resource_that_the_queue_has_not(case: Case) -> None:
    case.desk.queue("q", {"name": "f", "cpu": 4})
    case.create(
        "a", asking({"cpu": 1, "google.com/tpu": 4}, pod={"container": {"resources": {"limits": {"google.com/tpu": 4}}}}), queue="q"
    )
    assert "It asks for google.com/tpu" in case.why("a", "resource-not-covered").causes[0].words


def test_flavors_that_do_not_fit(case: Case) -> None:
    case.desk.flavor("spot", nodeTaints=[{"key": "spot", "value": "yes", "effect": "NoSchedule"}])
    case.desk.flavor("v4", nodeLabels={"type": "v4"})
    case.desk.queue("q", {"name": "spot", "cpu": 4}, {"name": "v4", "cpu": 4})
    case.create("a", asking({"cpu": 1}, pod={"nodeSelector": {"type": "v5p"}}), queue="q")
    [found] = case.why("a", "no-flavor-fits").causes
    assert f"{case.desk.own('spot')}: the taint spot is not tolerated" in found.words
    assert f"{case.desk.own('v4')}: type=v5p is selected" in found.words


def test_more_than_there_ever_is(case: Case) -> None:
    case.desk.queue("q", {"name": "f", "cpu": 4})
    case.create("a", asking({"cpu": 2}, replicas=3), queue="q")
    found = cause(case.why("a", "quota-too-small"), "quota-too-small")
    assert found.words == f"It asks for 6 CPUs of {case.desk.own('f')}; {case.desk.own('q')} never has more than 4 CPUs."
    assert found.remedy.startswith("ask for 2 of 3 slices")


def test_quota_that_others_use(case: Case) -> None:
    case.desk.queue("q", {"name": "f", "cpu": 4})
    case.create("a", asking({"cpu": 3}, pod_metadata={"annotations": {"sliceworks.dev/run-seconds": "3600"}}), queue="q")
    case.desk.until_is("a", "Admitted")
    case.desk.until(lambda: case.desk.get_queue("q")["status"].get("reservingWorkloads") == 1, "the queue counts it")
    case.create("b", asking({"cpu": 2}), queue="q")
    found = case.why("b", "quota-in-use")
    first = found.causes[0]
    assert (
        f"It asks for 2 CPUs of {case.desk.own('f')}; 1 of 4 CPUs is free. In use: 3 CPUs by {case.ns}/a (priority 0)."
        == first.words
    )
    assert str(first.seen_in[0]) == f"ClusterQueue {case.desk.own('q')}, status.flavorsReservation[{case.desk.own('f')}]"
    [release] = found.releases
    assert (release.who.name, release.amount, release.why) == ("a", f"3 CPUs of {case.desk.own('f')}", "it has not started yet")


def test_more_than_may_be_borrowed(case: Case) -> None:
    case.desk.queue("q", {"name": "f", "cpu": [2, 1]}, cohort="all")
    case.desk.queue("r", {"name": "f", "cpu": 6}, cohort="all")
    case.create("a", asking({"cpu": 2}), queue="q")
    case.desk.until_is("a", "Admitted")
    case.create("b", asking({"cpu": 2}), queue="q")
    case.create("c", asking({"cpu": 4}), queue="q")
    for name in ("b", "c"):
        found = case.why(name, "borrowing-limit").causes[0]
        assert "has 2 CPUs of its own, and may borrow 1 CPU at most from the cohort" in found.words


def test_others_have_a_higher_priority(case: Case) -> None:
    case.desk.queue("q", {"name": "f", "cpu": 1})
    high, low = case.desk.priority("high", 100), case.desk.priority("low", 10)
    case.create("runs", asking({"cpu": 1}), queue="q")
    case.desk.until_is("runs", "Admitted")
    case.create("low", asking({"cpu": 1}), queue="q", priority=low)
    case.create("high", asking({"cpu": 1}), queue="q", priority=high)
    case.create("later", asking({"cpu": 1}), queue="q", priority=high)
    for name in ("high", "later"):
        case.desk.until_waits(name, "more needed")
    found = case.why("low", "quota-in-use", "lower-priority")
    assert found.ahead is not None
    assert (found.ahead.position, found.ahead.total) == (3, 3)
    assert sorted(str(each) for each in found.ahead.first) == [f"{case.ns}/high", f"{case.ns}/later"]
    assert cause(found, "lower-priority").remedy == "wait for them, or submit it with a priority above 100"
    assert case.why("high", "quota-in-use").ahead is not None


def test_preempted_by_another(case: Case) -> None:
    case.desk.queue("q", {"name": "f", "cpu": 1}, preemption={"withinClusterQueue": "LowerPriority"})
    high = case.desk.priority("high", 100)
    case.create("low", asking({"cpu": 1}), queue="q")
    case.desk.until_is("low", "Admitted")
    case.create("high", asking({"cpu": 1}), queue="q", priority=high)
    case.desk.until_is("high", "Admitted")
    case.desk.until_waits("low", "more needed")
    found = case.why("low", "preempted", "quota-in-use")
    assert f"{case.ns}/high took its place (priority 100) because it has a higher priority" in found.causes[0].words
    assert "or submit it with a priority above 100, which preempts" in found.causes[1].remedy


def test_admission_checks(case: Case) -> None:
    strategy = {"admissionChecks": [{"name": case.desk.check("look")}]}
    case.desk.queue("q", {"name": "f", "cpu": 4}, admissionChecksStrategy=strategy)
    case.create("a", asking({"cpu": 1}), queue="q")
    found = case.why("a", "check-pending").causes[0]
    assert "which example.com/desk answers, has not said yes" in found.words
    case.desk.set_check("a", "look", "Rejected")
    found = case.why("a", "check-rejected").causes[0]
    assert case.desk.own("look") in f"{found.words} {found.said}"


def test_a_workload_that_was_switched_off(case: Case) -> None:
    case.desk.queue("q", {"name": "f", "cpu": 4})
    case.create("a", asking({"cpu": 1}), queue="q")
    case.desk.until_is("a", "Admitted")
    case.api.patch(case.desk.path("a"), {"spec": {"active": False}}).ok()
    assert case.why("a", "deactivated").causes[0].seen_in[0].field == "spec.active"


def test_a_member_hears_what_a_member_may_see(case: Case, cluster: Cluster) -> None:
    """The rights are those that the members of an Environment's team have."""
    case.desk.queue("q", {"name": "f", "cpu": 4})
    case.create("a", asking({"cpu": 3}), queue="q")
    case.desk.until_is("a", "Admitted")
    case.create("b", asking({"cpu": 2}), queue="q")
    case.desk.until_waits("b", "insufficient unused quota")
    robot = account(case.api, case.ns)
    grant(case.api, case.ns, *MEMBER_RULES)
    path = f"{RBAC}/namespaces/{case.ns}/rolebindings"
    subjects = [{"kind": "ServiceAccount", "name": "robot", "namespace": case.ns}]
    edit = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"}
    case.api.post(path, {"metadata": {"name": "edit"}, "roleRef": edit, "subjects": subjects}).ok(201)
    # Roles and what binds them come to the API server's judge on lines of their own.
    both = (f"{GROUP}/namespaces/{case.ns}/jobsets", f"/api/v1/namespaces/{case.ns}/pods")
    case.desk.until(lambda: [robot.get(each).status for each in both] == [200, 200], "rights that are known")
    with asker(cluster, token=robot.token or "") as member:
        found = member.until(case.ns, "b", "waits-in-queue")
        assert "insufficient unused quota for cpu" in found.causes[0].said
        told = "Of the jobs in it 1 wait and 1 have quota: a (3 CPUs of"
        case.desk.until(lambda: told in member.ask(case.ns, "b").causes[0].words, told)
        assert f"ClusterQueue {case.desk.own('q')}: not allowed" in found.unseen


# The JobSet itself.


def test_suspended_by_hand(case: Case) -> None:
    case.create("a", asking({"cpu": 1}), suspend=True)
    assert case.why("a", "suspended").summary == "a is suspended by hand."


def test_being_deleted(case: Case) -> None:
    case.create("a", asking({"cpu": 1}), suspend=True, metadata={"finalizers": ["example.com/hold"]})
    case.drop("a")
    assert "example.com/hold" in case.why("a", "deleting").causes[0].words
    case.api.patch(case.jobset("a"), {"metadata": {"finalizers": None}}).ok()


def test_one_part_after_another(case: Case) -> None:
    first = asking({"cpu": 1}, "first")
    second = asking({"cpu": 1}, "second", dependsOn=[{"name": "first", "status": "Complete"}])
    case.create("a", first, second)
    case.pod("a")
    assert "The part second begins when first is complete." in [
        each.words for each in case.why("a", "waits-for-another-part").causes
    ]


def test_it_runs_and_completes(case: Case) -> None:
    selector = case.nodes()
    case.create("long", placed(selector, notes={"run-seconds": "3600"}))
    case.create("short", placed(selector, notes={"run-seconds": "0"}))
    assert case.why("long", "running").state == "running"
    assert case.why("short", "completed").state == "completed"


def test_a_deadline(case: Case) -> None:
    case.create(
        "a", placed(case.nodes(), notes={"run-seconds": "3600"}, job={"activeDeadlineSeconds": 1}), failurePolicy={"maxRestarts": 0}
    )
    assert "ran longer than 1s" in case.why("a", "deadline").causes[0].words


def test_out_of_memory_and_no_restart_left(case: Case) -> None:
    part = placed(case.nodes(), notes={"run-seconds": "3600", "fail": "oom"})
    case.create("a", part, failurePolicy={"maxRestarts": 1})
    found = case.why("a", "out-of-memory", "restarts-spent")
    assert "Its one restart is spent." in [each.words for each in found.causes]


def test_an_exit_code(case: Case) -> None:
    case.create("a", placed(case.nodes(), notes={"run-seconds": "0", "exit-code": "3"}))
    assert case.why("a", "exit-code").causes[0].words == "trainer of 1 pod ended with exit code 3."


# Places.


def test_no_node_is_selected(case: Case) -> None:
    selector = case.nodes()
    case.create("a", placed({**selector, "cloud.google.com/gke-tpu-topology": "9x9"}))
    [found] = case.why("a", "no-matching-pool").causes
    assert found.words == "1 pod finds no place: no node has the label cloud.google.com/gke-tpu-topology=9x9."


def test_nodes_that_affinity_leaves_out(case: Case) -> None:
    selector = case.nodes(spot=True)
    never = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "cloud.google.com/gke-spot", "operator": "DoesNotExist"}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": never}}
    case.create("a", placed(selector, pod={"affinity": affinity}))
    assert "not allowed by cloud.google.com/gke-spot DoesNotExist" in case.why("a", "no-matching-pool").causes[0].words


def test_a_taint(case: Case) -> None:
    selector = case.nodes(2, taints=({"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"},))
    case.create("a", placed(selector))
    [found] = case.why("a", "taint").causes
    assert "2 hosts would fit, but for the taint google.com/tpu=present:NoSchedule" in found.words
    assert found.seen_in[0].kind == "Node"


def test_too_few_hosts(case: Case) -> None:
    case.create("a", placed(case.nodes(), requests={"cpu": "3"}, pods=2))
    assert "It needs 2 hosts, and 1 fit." in case.why("a", "too-few-hosts").causes[0].words


def test_hosts_that_are_too_small(case: Case) -> None:
    case.create("a", placed(case.nodes(), requests={"cpu": "30"}))
    assert "1 host would fit, but none has 30 CPUs" in case.why("a", "too-few-hosts").causes[0].words


def test_hosts_that_others_are_on(case: Case) -> None:
    selector = case.nodes()
    case.create("a", placed(selector, requests={"cpu": "3"}))
    case.why("a", "running")
    case.create("b", placed(selector, requests={"cpu": "3"}))
    assert f"in use by {case.ns}/a" in case.why("b", "hosts-in-use").causes[0].words


def test_followers_wait_for_their_leader(case: Case) -> None:
    part = placed(
        {POOL: "nowhere"}, replicas=2, pods=4, job={"completionMode": "Indexed"}, metadata={"annotations": {EXCLUSIVE: POOL}}
    )
    case.create("a", part)
    told = "6 hosts of 2 slices wait until the first host"
    case.desk.until(lambda: told in cause(case.why("a", "no-matching-pool", "follower-waits"), "follower-waits").words, told)


def test_pods_that_are_refused(case: Case) -> None:
    case.create("a", placed(case.nodes(), pod={"serviceAccountName": "nobody"}))
    assert 'serviceaccount "nobody" not found' in case.why("a", "pods-refused").causes[0].said


# Containers.


def test_an_image_that_cannot_be_pulled(case: Case) -> None:
    case.create("a", placed(case.nodes(), notes={"image-pull": "fail"}))
    assert case.why("a", "image-pull").causes[0].words == "1 pod cannot pull example.com/train:1."


def test_a_crash_loop(case: Case) -> None:
    part = placed(
        case.nodes(), notes={"fail": "crash", "run-seconds": "3600"}, pod={"restartPolicy": "OnFailure"}, job={"backoffLimit": 50}
    )
    case.create("a", part)
    assert "ends with exit code 1 soon after it starts" in case.why("a", "crash-loop").causes[0].words


def test_a_host_that_is_taken_away(case: Case) -> None:
    selector = case.nodes()
    case.create("a", placed(selector, notes={"run-seconds": "3600"}))
    case.why("a", "running")
    node = case.pod("a")["spec"]["nodeName"]
    case.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"annotations": {"sliceworks.dev/state": "preempted"}}}).ok()
    assert "lost its host" in case.why("a", "host-lost").causes[0].words


def test_not_ready(case: Case) -> None:
    case.create("a", placed(case.nodes(), notes={"ready-seconds": "3600", "run-seconds": "3600"}))
    assert case.why("a", "not-ready").causes[0].seen_in[0].kind == "Pod"


def test_a_secret_that_is_not_there(case: Case) -> None:
    """No kubelet of ours looks for secrets: the case writes what one writes."""
    case.create("a", asking({"cpu": 1}), failurePolicy={"maxRestarts": 0})
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
    assert case.why("a", "missing-config").causes[0].said == 'CreateContainerConfigError: secret "wandb" not found'


@pytest.mark.parametrize(
    ("volume", "expected"), [({"secret": {"secretName": "s"}}, "missing-config"), ({"nfs": {"server": "x", "path": "/"}}, "volume")]
)
def test_a_volume_that_cannot_be_mounted(case: Case, volume: Obj, expected: str) -> None:
    case.create("a", asking({"cpu": 1}, pod={"volumes": [{"name": "data", **volume}]}))
    pod = case.pod("a")
    event = {
        "metadata": {"generateName": "a-"},
        "involvedObject": {"kind": "Pod", "namespace": case.ns, "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]},
        "reason": "FailedMount",
        "type": "Warning",
        "message": 'MountVolume.SetUp failed for volume "data" : it is not there',
    }
    case.api.post(f"/api/v1/namespaces/{case.ns}/events", event).ok(201)
    assert 'volume "data"' in case.why("a", expected).causes[0].said


# Slices. A fault of the cloud lasts as long as its case.


def slicing(case: Case, name: str = "a", **more: Any) -> None:
    body = jobset(name, more.pop("replicas", 1), namespace=case.ns, seconds=600, **more)
    case.api.post(f"{GROUP}/namespaces/{case.ns}/jobsets", body).ok(201)


def done(case: Case, slices: SliceThread, name: str = "a") -> None:
    """Its pools are given back: the next case's pods would go there."""
    case.drop(name)
    label = "google.com/tpu-provisioner-jobset-namespace"
    case.desk.until(
        lambda: all(pool["config"]["labels"].get(label) != case.ns for pool in slices.pools().values()), "pools given back"
    )


def test_pools_that_are_being_made(case: Case, slices: SliceThread) -> None:
    with slices.fault(fault="StuckOperations"):
        slicing(case)
        found = case.why("a", "pool-being-made", "follower-waits").causes[0]
        case.desk.until(
            lambda: {"NodePool", "Operation"} <= {each.kind for each in case.why("a", "pool-being-made").causes[0].seen_in}, "pools"
        )
        assert found.words.startswith("Its node pools are being made.")
        assert f"JobSet {case.ns}/a, status.conditions[sliceworks.dev/SlicesReady]" in map(str, found.seen_in)
    done(case, slices)


def test_a_zone_without_machines(case: Case, slices: SliceThread) -> None:
    with slices.fault(fault="Stockout"):
        slicing(case, selector={"topology.kubernetes.io/zone": "us-central2-b"})
        case.says("a", "stockout", "does not have enough resources available")
        assert "leave the zone us-central2-b open" in case.why("a", "stockout").causes[0].remedy
        case.drop("a")


def test_the_projects_quota(case: Case, slices: SliceThread) -> None:
    with slices.fault(fault="MachineQuotaExceeded"):
        slicing(case)
        case.says("a", "project-quota", "Quota")
        case.drop("a")


def test_a_reservation_that_does_not_exist(case: Case, slices: SliceThread) -> None:
    slicing(case, selector={"cloud.google.com/reservation-name": "nowhere"})
    case.says("a", "reservation-not-found", 'reservation "nowhere" not found')
    case.drop("a")


def test_a_slice_that_there_cannot_be(case: Case, slices: SliceThread) -> None:
    slicing(case, topology="3x3x3")
    case.says("a", "slice-refused", "3x3x3 is no topology of tpu-v4-podslice")
    case.drop("a")


def test_drained(case: Case, slices: SliceThread) -> None:
    slicing(case, annotations={"slices.sliceworks.dev/drain": "true"})
    assert case.why("a", "draining").causes[0].remedy.startswith("`sliceworks slices drain --undo`")
    case.drop("a")


def test_slices_that_were_given_back(case: Case, slices: SliceThread) -> None:
    """Its two slices are of two sizes, so that neither can take the other's place."""
    [large] = jobset("a", topology="2x2x4", pods=4, seconds=600)["spec"]["replicatedJobs"]
    body = jobset("a", namespace=case.ns, seconds=600, annotations={"slices.sliceworks.dev/time-limit": "2s"})
    body["spec"]["replicatedJobs"].append({**large, "name": "large"})
    key = sha1(f"{case.ns}/a-large-0".encode()).hexdigest()
    with slices.fault(fault="Stockout", match={"nodePool": pool_name("a", key)}):
        case.api.post(f"{GROUP}/namespaces/{case.ns}/jobsets", body).ok(201)
        told = "1 of 2 slices could not be had within 2s"
        case.says("a", "slices-given-back", told)
        case.drop("a")


def test_slices_before_admission(case: Case, slices: SliceThread) -> None:
    labels = {"cloud.google.com/gke-tpu-accelerator": "tpu-v4-podslice", "cloud.google.com/gke-tpu-topology": "2x2x2"}
    case.desk.make("AdmissionCheck", "admissionchecks", case.desk.own("slices"), {"controllerName": "sliceworks.dev/slices"}).ok(
        201
    )
    case.desk.flavor("v4", nodeLabels=labels, tolerations=[{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}])
    strategy = {"admissionChecks": [{"name": case.desk.own("slices")}]}
    case.desk.queue("q", {"name": "v4", "google.com/tpu": 16}, admissionChecksStrategy=strategy)
    with slices.fault(fault="Stockout"):
        none = dict.fromkeys(labels)
        slicing(case, replicas=2, labels={"kueue.x-k8s.io/queue-name": "q"}, selector=none, suspend=True)
        found = case.why("a", "stockout", "check-pending")
        assert "0 of 2 slices are ready" in cause(found, "check-pending").said
        case.drop("a")
