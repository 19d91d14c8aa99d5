"""Simulated nodes: what a kubelet writes through any API server, and the reaction of controllers and the scheduler."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.contract.conftest import unique
from tests.support.polling import eventually
from tests.support.simulated_nodes import make_node, simulate_nodes
from tests.support.workloads import WorkloadHarness, template

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.clusters import Cluster

Object = dict[str, Any]
_IDENTITY = re.compile(rb"containerd://[0-9a-f]{64}")


@pytest.fixture(scope="module")
def simulated(cluster: Cluster) -> Iterator[None]:
    with simulate_nodes(cluster):
        yield


class NodeHarness(WorkloadHarness):
    """A namespace with its own node."""

    def __init__(self, cluster: Cluster, ns: str) -> None:
        super().__init__(cluster, ns)
        self.cluster = cluster
        self.node = ""

    def add_node(self, **annotations: str) -> str:
        created = make_node(self.cluster, unique("host"), **annotations)
        self.node = created["metadata"]["name"]
        self.words |= {
            self.node: "NODE",
            created["spec"]["podCIDR"].removesuffix("0/24"): "RANGE.",
            created["status"]["addresses"][0]["address"]: "HOST",
        }
        return self.node

    def run(self, name: str = "p", policy: str = "Never", notes: Object | None = None, **spec: Any) -> Object:
        result = {"containers": [{"name": "main", "image": "example.com/app:1"}], "nodeName": self.node, "restartPolicy": policy}
        annotations = {f"sliceworks.dev/{key}": value for key, value in (notes or {}).items()}
        return self.create("Pod", name, {**result, **spec}, annotations=annotations)

    def until_phase(self, phase: str, name: str = "p") -> Object:
        return self.until("Pod", name, lambda pod: pod["status"]["phase"] == phase, f"{name} {phase}")

    def until_state(self, look: Callable[[Object], Any], name: str = "p") -> Object:
        def seen(pod: Object) -> bool:
            return any(look(status) for status in pod["status"].get("containerStatuses") or ())

        return self.until("Pod", name, seen)

    def get_node(self) -> Object:
        result: Object = self.api.get(f"/api/v1/nodes/{self.node}").ok(200).json
        return result

    def note(self, **annotations: str | None) -> None:
        notes = {f"sliceworks.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
        self.api.patch(f"/api/v1/nodes/{self.node}", {"metadata": {"annotations": notes}}).ok(200)

    def check(self, module: str, case: str, seen: Any) -> None:
        super().check(module, case, orjson.loads(_IDENTITY.sub(b"containerd://ID", orjson.dumps(seen))))

    def ready(self) -> Object:
        def find() -> Object | None:
            result = [condition for condition in self.get_node()["status"].get("conditions") or () if condition["type"] == "Ready"]
            return result[0] if result else None

        return eventually(find, what="a Ready condition")


@pytest.fixture
def harness(cluster: Cluster, ns: str, simulated: None) -> NodeHarness:
    created = NodeHarness(cluster, ns)
    created.add_node()
    return created


def test_node_boots(harness: NodeHarness) -> None:
    eventually(lambda: harness.ready()["status"] == "True")
    status = harness.get_node()["status"]
    harness.check(
        "played_nodes", "a node boots", {name: status[name] for name in ("conditions", "addresses", "nodeInfo", "capacity")}
    )


def test_node_boot_takes_time(cluster: Cluster, ns: str, simulated: None) -> None:
    harness = NodeHarness(cluster, ns)
    harness.add_node(boot_seconds="3")
    assert not harness.get_node()["status"].get("conditions")
    eventually(lambda: harness.ready()["status"] == "True")


def test_node_has_lease(harness: NodeHarness) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{harness.node}"
    result = eventually(lambda: (response := harness.api.get(path)).status == 200 and response.json)
    assert result["spec"]["holderIdentity"] == harness.node
    assert result["spec"]["leaseDurationSeconds"] >= 40
    assert result["metadata"]["ownerReferences"][0]["uid"] == harness.get_node()["metadata"]["uid"]


def test_pod_starts(harness: NodeHarness) -> None:
    harness.run()
    harness.check("played_nodes", "a pod runs", harness.until_phase("Running")["status"])


def test_init_containers_and_sidecars(harness: NodeHarness) -> None:
    first = {"name": "first", "image": "example.com/init:1"}
    harness.run(initContainers=[first, {"name": "proxy", "image": "example.com/proxy:1", "restartPolicy": "Always"}])
    harness.check("played_nodes", "a pod with init containers runs", harness.until_phase("Running")["status"])


def test_host_network(harness: NodeHarness) -> None:
    harness.run(hostNetwork=True)
    result = harness.until_phase("Running")["status"]
    assert result["podIP"] == result["hostIP"]


def test_image_is_pulled(harness: NodeHarness) -> None:
    harness.run(notes={"image-pull-seconds": "3"})
    waits = harness.until_state(lambda status: status["state"].get("waiting"))
    harness.check("played_nodes", "an image is pulled", waits["status"])
    harness.check("played_nodes", "an image was pulled", harness.until_phase("Running")["status"])


def test_missing_image(harness: NodeHarness) -> None:
    harness.run(notes={"image-pull": "fail"})
    waits = harness.until_state(lambda status: status["state"].get("waiting"))
    harness.check("played_nodes", "an image is missing", waits["status"])
    harness.patch("Pod", "p", {"metadata": {"annotations": {"sliceworks.dev/image-pull": None}}})
    harness.until_phase("Running")


def test_readiness_takes_time(harness: NodeHarness) -> None:
    harness.run(notes={"ready-seconds": "2"})
    first = harness.until_phase("Running")
    assert [condition["status"] for condition in first["status"]["conditions"] if condition["type"] == "Ready"] == ["False"]
    harness.until_condition("Pod", "p", "Ready")


def test_readiness_gates(harness: NodeHarness) -> None:
    harness.run(readinessGates=[{"conditionType": "example.com/attached"}])
    harness.until_condition("Pod", "p", "ContainersReady")
    harness.check("played_nodes", "a closed gate", harness.get("Pod", "p")["status"]["conditions"])
    conditions = [*harness.get("Pod", "p")["status"]["conditions"], {"type": "example.com/attached", "status": "True"}]
    harness.patch("Pod", "p", {"status": {"conditions": conditions}}, "/status")
    harness.until_condition("Pod", "p", "Ready")
    harness.check("played_nodes", "an open gate", harness.get("Pod", "p")["status"]["conditions"])


def test_completion(harness: NodeHarness) -> None:
    harness.run(notes={"run-seconds": "1"})
    harness.check("played_nodes", "a pod succeeds", harness.until_phase("Succeeded")["status"])


def test_failure(harness: NodeHarness) -> None:
    harness.run(notes={"run-seconds": "1", "exit-code": "3"})
    harness.check("played_nodes", "a pod fails", harness.until_phase("Failed")["status"])


def test_one_of_two_containers_completes(harness: NodeHarness) -> None:
    both = [{"name": name, "image": "example.com/app:1"} for name in ("main", "other")]
    harness.run(notes={"run-seconds": "1", "container": "main"}, containers=both)
    result = harness.until_state(lambda status: status["state"].get("terminated"))
    harness.check("played_nodes", "one of two containers is done", result["status"])


def test_crash_loop(harness: NodeHarness) -> None:
    harness.run(policy="Always", notes={"fail": "crash", "exit-code": "2"})
    result = harness.until_state(lambda status: status["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff")
    harness.check("played_nodes", "a crash loop", result["status"])
    harness.until_state(lambda status: status["restartCount"] == 2)


def test_single_failure_is_restarted(harness: NodeHarness) -> None:
    harness.run(policy="OnFailure", notes={"fail": "crash", "fail-times": "1"})
    result = harness.until_state(lambda status: status["restartCount"] == 1 and status["ready"])
    harness.check("played_nodes", "a failure that happens once", result["status"])


def test_out_of_memory(harness: NodeHarness) -> None:
    harness.run(notes={"fail": "oom"})
    harness.check("played_nodes", "out of memory", harness.until_phase("Failed")["status"])


def test_eviction_by_the_node(harness: NodeHarness) -> None:
    harness.run()
    harness.until_phase("Running")
    harness.patch("Pod", "p", {"metadata": {"annotations": {"sliceworks.dev/fail": "evict"}}})
    harness.check("played_nodes", "evicted", harness.until_phase("Failed")["status"])


def test_deletion(harness: NodeHarness) -> None:
    harness.run(policy="Always")
    harness.until_phase("Running")
    harness.patch("Pod", "p", {"metadata": {"finalizers": ["example.com/wait"]}})
    harness.delete("Pod", "p")
    harness.check("played_nodes", "deleted", harness.until_phase("Failed")["status"])
    result = harness.until("Pod", "p", lambda pod: pod["metadata"]["deletionGracePeriodSeconds"] == 0)
    assert result["metadata"]["finalizers"] == ["example.com/wait"]
    harness.patch("Pod", "p", {"metadata": {"finalizers": None}})
    eventually(lambda: harness.gone("Pod", "p"))


def test_deletion_takes_time(harness: NodeHarness) -> None:
    harness.run(notes={"stop-seconds": "2", "stop-exit-code": "0"})
    harness.until_phase("Running")
    harness.delete("Pod", "p")
    assert harness.get("Pod", "p")["metadata"]["deletionGracePeriodSeconds"] == 30
    eventually(lambda: harness.gone("Pod", "p"))


def test_pending_pod_is_deleted(harness: NodeHarness) -> None:
    harness.run(notes={"image-pull": "fail"})
    harness.until_state(lambda status: status["state"].get("waiting"))
    harness.delete("Pod", "p")
    eventually(lambda: harness.gone("Pod", "p"))


def test_spot_preemption(harness: NodeHarness) -> None:
    eventually(lambda: harness.ready()["status"] == "True")
    harness.run()
    harness.until_phase("Running")
    harness.note(state="preempted", shutdown_seconds="4")
    harness.check("played_nodes", "preempted", harness.until_phase("Failed")["status"])
    result = eventually(lambda: (ready := harness.ready())["status"] == "False" and ready)
    harness.check("played_nodes", "a node is preempted", result)
    eventually(lambda: harness.api.get(f"/api/v1/nodes/{harness.node}").status == 404)


def test_maintenance(harness: NodeHarness) -> None:
    eventually(lambda: harness.ready()["status"] == "True")
    harness.note(state="maintenance", maintenance_seconds="2")
    started = eventually(lambda: (ready := harness.ready())["status"] == "False" and ready)["lastTransitionTime"]
    ended = eventually(lambda: (ready := harness.ready())["status"] == "True" and ready)["lastTransitionTime"]
    assert (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds() >= 2
    assert "sliceworks.dev/state" not in (harness.get_node()["metadata"].get("annotations") or {})


def test_unreachable_node_does_nothing(harness: NodeHarness) -> None:
    eventually(lambda: harness.ready()["status"] == "True")
    harness.note(state="silent")
    harness.run()
    harness.run("other", notes={"run-seconds": "0"})
    eventually(lambda: harness.get_node()["metadata"]["annotations"])
    assert harness.get("Pod", "other")["status"]["phase"] == "Pending"
    harness.note(state=None)
    harness.until_phase("Running")
    harness.until_phase("Succeeded", "other")


def template_on_node(harness: NodeHarness, **notes: str) -> Object:
    """A template for pods that run on the test's node."""
    result = template(labels={"app": "web"}, nodeSelector={"kubernetes.io/hostname": harness.node})
    result["metadata"]["annotations"] = {f"sliceworks.dev/{key.replace('_', '-')}": value for key, value in notes.items()}
    return result


def test_deployment_becomes_available(harness: NodeHarness) -> None:
    body = {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": template_on_node(harness)}
    harness.create("Deployment", "web", body)
    result = harness.until("Deployment", "web", lambda seen: seen["status"].get("availableReplicas") == 3)
    [owned] = harness.items("ReplicaSet")
    harness.words[owned["metadata"]["labels"]["pod-template-hash"]] = "HASH"
    harness.check("played_nodes", "a deployment becomes available", result["status"])


def test_indexed_job_completes(harness: NodeHarness) -> None:
    pod = template_on_node(harness, run_seconds="1")
    pod["spec"]["restartPolicy"] = "Never"
    harness.create("Job", "work", {"completions": 4, "parallelism": 2, "completionMode": "Indexed", "template": pod})
    result = harness.until_condition("Job", "work", "Complete")
    harness.check("played_nodes", "an indexed job completes", result["status"])
    assert {item["status"]["phase"] for item in harness.items("Pod")} == {"Succeeded"}


def test_job_fails_at_backoff_limit(harness: NodeHarness) -> None:
    pod = template_on_node(harness, run_seconds="0", exit_code="5")
    pod["spec"]["restartPolicy"] = "Never"
    harness.create("Job", "work", {"backoffLimit": 0, "template": pod})
    result = harness.until_condition("Job", "work", "Failed")
    harness.check("played_nodes", "a job gives up", result["status"])
