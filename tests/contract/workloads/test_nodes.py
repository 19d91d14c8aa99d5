"""Played nodes: what a kubelet writes, through any API server, and what controllers and the scheduler make of it."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.contract.conftest import unique
from tests.support.players import make_node, player
from tests.support.waiting import eventually
from tests.support.workloads import Lab, template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.clusters import Cluster

Object = dict[str, Any]
_IDENTITY = re.compile(rb"containerd://[0-9a-f]{64}")


@pytest.fixture(scope="module")
def played(cluster: Cluster) -> Iterator[None]:
    with player(cluster):
        yield


class Place(Lab):
    """A namespace with a node of its own."""

    def __init__(self, cluster: Cluster, ns: str) -> None:
        super().__init__(cluster, ns)
        self.cluster = cluster
        self.node = ""

    def add_node(self, **annotations: str) -> str:
        made = make_node(self.cluster, unique("host"), **annotations)
        self.node = made["metadata"]["name"]
        self.words |= {
            self.node: "NODE",
            made["spec"]["podCIDR"].removesuffix("0/24"): "RANGE.",
            made["status"]["addresses"][0]["address"]: "HOST",
        }
        return self.node

    def run(self, name: str = "p", policy: str = "Never", notes: Object | None = None, **spec: Any) -> Object:
        found = {"containers": [{"name": "main", "image": "example.com/app:1"}], "nodeName": self.node, "restartPolicy": policy}
        annotations = {f"sliceworks.dev/{key}": value for key, value in (notes or {}).items()}
        return self.create("Pod", name, {**found, **spec}, annotations=annotations)

    def until_phase(self, phase: str, name: str = "p") -> Object:
        return self.until("Pod", name, lambda pod: pod["status"]["phase"] == phase, f"{name} {phase}")

    def until_state(self, look: Callable[[Object], Any], name: str = "p") -> Object:
        def seen(pod: Object) -> bool:
            return any(look(status) for status in pod["status"].get("containerStatuses") or ())

        return self.until("Pod", name, seen)

    def get_node(self) -> Object:
        found: Object = self.api.get(f"/api/v1/nodes/{self.node}").ok(200).json
        return found

    def note(self, **annotations: str | None) -> None:
        notes = {f"sliceworks.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self.api.patch(f"/api/v1/nodes/{self.node}", {"metadata": {"annotations": notes}}).ok(200)

    def check(self, module: str, case: str, seen: Any) -> None:
        super().check(module, case, orjson.loads(_IDENTITY.sub(b"containerd://ID", orjson.dumps(seen))))

    def ready(self) -> Object:
        def look() -> Object | None:
            found = [each for each in self.get_node()["status"].get("conditions") or () if each["type"] == "Ready"]
            return found[0] if found else None

        return eventually(look, what="a Ready condition")


@pytest.fixture
def place(cluster: Cluster, ns: str, played: None) -> Place:
    made = Place(cluster, ns)
    made.add_node()
    return made


def test_a_node_boots(place: Place) -> None:
    eventually(lambda: place.ready()["status"] == "True")
    status = place.get_node()["status"]
    place.check(
        "played_nodes", "a node boots", {name: status[name] for name in ("conditions", "addresses", "nodeInfo", "capacity")}
    )


def test_a_node_takes_time_to_boot(cluster: Cluster, ns: str, played: None) -> None:
    place = Place(cluster, ns)
    place.add_node(boot_seconds="3")
    assert not place.get_node()["status"].get("conditions")
    eventually(lambda: place.ready()["status"] == "True")


def test_a_node_has_a_lease(place: Place) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{place.node}"
    found = eventually(lambda: (answer := place.api.get(path)).status == 200 and answer.json)
    assert found["spec"]["holderIdentity"] == place.node
    assert found["spec"]["leaseDurationSeconds"] >= 40
    assert found["metadata"]["ownerReferences"][0]["uid"] == place.get_node()["metadata"]["uid"]


def test_start_up(place: Place) -> None:
    place.run()
    place.check("played_nodes", "a pod runs", place.until_phase("Running")["status"])


def test_init_containers_and_sidecars(place: Place) -> None:
    first = {"name": "first", "image": "example.com/init:1"}
    place.run(initContainers=[first, {"name": "proxy", "image": "example.com/proxy:1", "restartPolicy": "Always"}])
    place.check("played_nodes", "a pod with init containers runs", place.until_phase("Running")["status"])


def test_the_hosts_network(place: Place) -> None:
    place.run(hostNetwork=True)
    found = place.until_phase("Running")["status"]
    assert found["podIP"] == found["hostIP"]


def test_an_image_is_pulled(place: Place) -> None:
    place.run(notes={"image-pull-seconds": "3"})
    waits = place.until_state(lambda status: status["state"].get("waiting"))
    place.check("played_nodes", "an image is pulled", waits["status"])
    place.check("played_nodes", "an image was pulled", place.until_phase("Running")["status"])


def test_an_image_is_missing(place: Place) -> None:
    place.run(notes={"image-pull": "fail"})
    waits = place.until_state(lambda status: status["state"].get("waiting"))
    place.check("played_nodes", "an image is missing", waits["status"])
    place.patch("Pod", "p", {"metadata": {"annotations": {"sliceworks.dev/image-pull": None}}})
    place.until_phase("Running")


def test_readiness_takes_time(place: Place) -> None:
    place.run(notes={"ready-seconds": "2"})
    first = place.until_phase("Running")
    assert [each["status"] for each in first["status"]["conditions"] if each["type"] == "Ready"] == ["False"]
    place.until_condition("Pod", "p", "Ready")


def test_readiness_gates(place: Place) -> None:
    place.run(readinessGates=[{"conditionType": "example.com/attached"}])
    place.until_condition("Pod", "p", "ContainersReady")
    place.check("played_nodes", "a closed gate", place.get("Pod", "p")["status"]["conditions"])
    conditions = [*place.get("Pod", "p")["status"]["conditions"], {"type": "example.com/attached", "status": "True"}]
    place.patch("Pod", "p", {"status": {"conditions": conditions}}, "/status")
    place.until_condition("Pod", "p", "Ready")
    place.check("played_nodes", "an open gate", place.get("Pod", "p")["status"]["conditions"])


def test_completion(place: Place) -> None:
    place.run(notes={"run-seconds": "1"})
    place.check("played_nodes", "a pod succeeds", place.until_phase("Succeeded")["status"])


def test_failure(place: Place) -> None:
    place.run(notes={"run-seconds": "1", "exit-code": "3"})
    place.check("played_nodes", "a pod fails", place.until_phase("Failed")["status"])


def test_one_of_two_containers_is_done(place: Place) -> None:
    both = [{"name": name, "image": "example.com/app:1"} for name in ("main", "other")]
    place.run(notes={"run-seconds": "1", "container": "main"}, containers=both)
    found = place.until_state(lambda status: status["state"].get("terminated"))
    place.check("played_nodes", "one of two containers is done", found["status"])


def test_a_crash_loop(place: Place) -> None:
    place.run(policy="Always", notes={"fail": "crash", "exit-code": "2"})
    found = place.until_state(lambda status: status["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")
    place.check("played_nodes", "a crash loop", found["status"])
    place.until_state(lambda status: status["restartCount"] == 2)


def test_a_failure_that_happens_once(place: Place) -> None:
    place.run(policy="OnFailure", notes={"fail": "crash", "fail-times": "1"})
    found = place.until_state(lambda status: status["restartCount"] == 1 and status["ready"])
    place.check("played_nodes", "a failure that happens once", found["status"])


def test_out_of_memory(place: Place) -> None:
    place.run(notes={"fail": "oom"})
    place.check("played_nodes", "out of memory", place.until_phase("Failed")["status"])


def test_eviction_by_the_node(place: Place) -> None:
    place.run()
    place.until_phase("Running")
    place.patch("Pod", "p", {"metadata": {"annotations": {"sliceworks.dev/fail": "evict"}}})
    place.check("played_nodes", "evicted", place.until_phase("Failed")["status"])


def test_deletion(place: Place) -> None:
    place.run(policy="Always")
    place.until_phase("Running")
    place.patch("Pod", "p", {"metadata": {"finalizers": ["example.com/wait"]}})
    place.delete("Pod", "p")
    place.check("played_nodes", "deleted", place.until_phase("Failed")["status"])
    found = place.until("Pod", "p", lambda pod: pod["metadata"]["deletionGracePeriodSeconds"] == 0)
    assert found["metadata"]["finalizers"] == ["example.com/wait"]
    place.patch("Pod", "p", {"metadata": {"finalizers": None}})
    eventually(lambda: place.gone("Pod", "p"))


def test_deletion_takes_time(place: Place) -> None:
    place.run(notes={"stop-seconds": "2", "stop-exit-code": "0"})
    place.until_phase("Running")
    place.delete("Pod", "p")
    assert place.get("Pod", "p")["metadata"]["deletionGracePeriodSeconds"] == 30
    eventually(lambda: place.gone("Pod", "p"))


def test_a_pod_that_never_ran_is_deleted(place: Place) -> None:
    place.run(notes={"image-pull": "fail"})
    place.until_state(lambda status: status["state"].get("waiting"))
    place.delete("Pod", "p")
    eventually(lambda: place.gone("Pod", "p"))


def test_preemption_of_a_machine(place: Place) -> None:
    eventually(lambda: place.ready()["status"] == "True")
    place.run()
    place.until_phase("Running")
    place.note(state="preempted", shutdown_seconds="4")
    place.check("played_nodes", "preempted", place.until_phase("Failed")["status"])
    found = eventually(lambda: (ready := place.ready())["status"] == "False" and ready)
    place.check("played_nodes", "a node is preempted", found)
    eventually(lambda: place.api.get(f"/api/v1/nodes/{place.node}").status == 404)


def test_maintenance(place: Place) -> None:
    eventually(lambda: place.ready()["status"] == "True")
    place.note(state="maintenance", maintenance_seconds="2")
    began = eventually(lambda: (ready := place.ready())["status"] == "False" and ready)["lastTransitionTime"]
    ended = eventually(lambda: (ready := place.ready())["status"] == "True" and ready)["lastTransitionTime"]
    assert (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds() >= 2
    assert "sliceworks.dev/state" not in (place.get_node()["metadata"].get("annotations") or {})


def test_a_silent_machine_does_nothing(place: Place) -> None:
    eventually(lambda: place.ready()["status"] == "True")
    place.note(state="silent")
    place.run()
    place.run("other", notes={"run-seconds": "0"})
    eventually(lambda: place.get_node()["metadata"]["annotations"])
    assert place.get("Pod", "other")["status"]["phase"] == "Pending"
    place.note(state=None)
    place.until_phase("Running")
    place.until_phase("Succeeded", "other")


def chosen(place: Place, **notes: str) -> Object:
    """A template for pods that run on the case's own node."""
    found = template(labels={"app": "web"}, nodeSelector={"kubernetes.io/hostname": place.node})
    found["metadata"]["annotations"] = {f"sliceworks.dev/{key.replace('_', '-')}": value for key, value in notes.items()}
    return found


def test_a_deployment_becomes_available(place: Place) -> None:
    body = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": chosen(place)}
    place.create("Deployment", "web", body)
    found = place.until("Deployment", "web", lambda seen: seen["status"].get("availableReplicas") == 3)
    [owned] = place.items("ReplicaSet")
    place.words[owned["metadata"]["labels"]["pod-template-hash"]] = "HASH"
    place.check("played_nodes", "a deployment becomes available", found["status"])


def test_an_indexed_job_completes(place: Place) -> None:
    pod = chosen(place, run_seconds="1")
    pod["spec"]["restartPolicy"] = "Never"
    place.create("Job", "work", {"completions": 4, "parallelism": 2, "completionMode": "Indexed", "template": pod})
    found = place.until_condition("Job", "work", "Complete")
    place.check("played_nodes", "an indexed job completes", found["status"])
    assert {each["status"]["phase"] for each in place.items("Pod")} == {"Succeeded"}


def test_a_job_gives_up(place: Place) -> None:
    pod = chosen(place, run_seconds="0", exit_code="5")
    pod["spec"]["restartPolicy"] = "Never"
    place.create("Job", "work", {"backoffLimit": 0, "template": pod})
    found = place.until_condition("Job", "work", "Failed")
    place.check("played_nodes", "a job gives up", found["status"])
