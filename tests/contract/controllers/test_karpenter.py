"""The real Karpenter with its kwok provider: nodes for pending pods, on the twin and on the real control plane."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.chainsaw import apply, locate
from tests.support.clusters import real_enabled
from tests.support.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.http import Answer, Api

Object = dict[str, Any]
pytestmark = [
    pytest.mark.long(120),
    pytest.mark.real,
    pytest.mark.skipif(not real_enabled(), reason="needs Karpenter built from its Go module: SLICEWORKS_REAL=1"),
]
CLAIMS, NODES = "/apis/karpenter.sh/v1/nodeclaims", "/api/v1/nodes"
CLASS = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
CAPACITY = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
BAD: dict[str, Object] = {
    "weight that is too high": {"weight": 101},
    "unknown policy": {"disruption": {"consolidationPolicy": "Never", "consolidateAfter": "0s"}},
    "duration that is not valid": {"disruption": {"consolidateAfter": "soon"}},
    "budget over 100 %": {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "101%"}]}},
    "schedule without a duration": {"disruption": {"consolidateAfter": "0s", "budgets": [{"nodes": "1", "schedule": "@daily"}]}},
    "requirement without values": {"requirements": [{"key": "zone", "operator": "In"}]},
    "requirement of its own domain": {"requirements": [{"key": "karpenter.sh/nodepool", "operator": "In", "values": ["a"]}]},
    "no node class": {"nodeClassRef": {"group": "", "kind": "", "name": ""}},
}


@pytest.fixture(scope="module", autouse=True)
def controller(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Karpenter, for all tests of this file."""
    from tests.real import karpenter

    with karpenter.running(cluster, tmp_path_factory.mktemp("karpenter")):
        apply(cluster.api, {"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}})
        yield


def pool(name: str, **changes: Any) -> Object:
    """A NodePool of simulated nodes that are deleted as soon as they are empty."""
    spec = {"nodeClassRef": CLASS, "requirements": [CAPACITY], "expireAfter": "Never"}
    spec |= {key: changes.pop(key) for key in tuple(changes) if key in spec}
    labels = {"sliceworks.dev/node": "simulated", "team": name}
    disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {"disruption": disruption, "template": {"metadata": {"labels": labels}, "spec": spec}, **changes},
    }


def run_pod(api: Api, ns: str, name: str, team: str, cpu: str) -> str:
    """Create a pod that only fits on nodes of a pool; returns its path."""
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": cpu}}}
    body = {"metadata": {"name": name}, "spec": {"nodeSelector": {"team": team}, "containers": [container]}}
    api.post(f"/api/v1/namespaces/{ns}/pods", body).ok(201)
    return f"/api/v1/namespaces/{ns}/pods/{name}"


def in_pool(api: Api, path: str, name: str) -> list[Object]:
    items: list[Object] = api.get(path, {"labelSelector": f"karpenter.sh/nodepool={name}"}).ok(200).json["items"]
    return items


def is_true(obj: Object, kind: str) -> bool:
    return any(item["type"] == kind and item["status"] == "True" for item in obj["status"].get("conditions", []))


def await_running(api: Api, pod: str) -> Object:
    def running() -> Object | None:
        found: Object = api.get(pod).ok(200).json
        return found if found["status"].get("phase") == "Running" else None

    return eventually(running, what=f"{pod} runs")


def test_node_is_created_for_a_pending_pod_and_deleted_when_empty(api: Api, ns: str, unique_name: str) -> None:
    apply(api, pool(unique_name))
    pod = run_pod(api, ns, "large", unique_name, "5")
    bound = await_running(api, pod)
    [claim] = eventually(lambda: [item for item in in_pool(api, CLAIMS, unique_name) if is_true(item, "Ready")])
    [node] = in_pool(api, NODES, unique_name)
    assert bound["spec"]["nodeName"] == node["metadata"]["name"] == claim["status"]["nodeName"]
    assert [is_true(claim, kind) for kind in ("Launched", "Registered", "Initialized")] == [True] * 3
    assert claim["metadata"]["labels"]["node.kubernetes.io/instance-type"] in node["metadata"]["labels"].values()
    assert "karpenter.sh/unregistered" not in [taint["key"] for taint in node["spec"].get("taints", [])]
    found = api.get(locate(api, pool(unique_name))).json["status"]
    eventually(lambda: api.get(locate(api, pool(unique_name))).json["status"]["nodes"] == 1, what="the pool counts its node")
    assert is_true({"status": found}, "Ready")
    api.delete(pod).ok()
    eventually(lambda: not in_pool(api, NODES, unique_name), what="the empty node is deleted", seconds=180)
    eventually(lambda: not in_pool(api, CLAIMS, unique_name), what="its claim is deleted")


def test_pool_is_deleted_with_its_nodes(api: Api, ns: str, unique_name: str) -> None:
    apply(api, pool(unique_name))
    pods = [run_pod(api, ns, f"small-{index}", unique_name, "500m") for index in range(3)]
    nodes = {await_running(api, pod)["spec"]["nodeName"] for pod in pods}
    assert nodes == {node["metadata"]["name"] for node in in_pool(api, NODES, unique_name)}
    api.delete(locate(api, pool(unique_name))).ok()
    eventually(lambda: api.get(locate(api, pool(unique_name))).status == 404, what="the pool is deleted")
    eventually(lambda: not in_pool(api, NODES, unique_name), what="its nodes are deleted")
    eventually(lambda: not api.get(f"/api/v1/namespaces/{ns}/pods").names, what="its pods are evicted")


def test_limit_of_a_pool_is_kept(api: Api, ns: str, unique_name: str) -> None:
    apply(api, pool(unique_name, limits={"cpu": "2"}))
    pod = run_pod(api, ns, "large", unique_name, "5")

    def events() -> list[str]:
        selector = {"fieldSelector": "involvedObject.name=large,source=karpenter"}
        return [item["reason"] for item in api.get(f"/api/v1/namespaces/{ns}/events", selector).ok(200).json["items"]]

    eventually(lambda: "FailedScheduling" in events(), what="Karpenter reports that no node may be created")
    assert not in_pool(api, CLAIMS, unique_name)
    api.delete(pod).ok()


@pytest.mark.parametrize("case", BAD)
def test_invalid_pools_are_rejected(cluster: Cluster, api: Api, case: str) -> None:
    rejected: Answer = api.post(locate(api, pool("bad")).rpartition("/")[0], pool("bad", **BAD[case]))
    goldens.check("controllers_karpenter", case, rejected.refusal, real=cluster.name == "real")
