"""Exclusive placement: one Job per topology domain, and the changes of JobSet's webhooks to its pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.jobsets import EXCLUSIVE, NODE_SELECTOR, POOL, JobSetDriver, pod_picture, replicated

if TYPE_CHECKING:
    from tests.support.http import Api

CLUSTER = "jobsets"


@pytest.fixture
def node(api: Api, unique_name: str) -> str:
    """A node in the pool `blue`."""
    labels = {POOL: "blue", "kubernetes.io/hostname": unique_name}
    api.post("/api/v1/nodes", {"metadata": {"name": unique_name, "labels": labels}}).ok(201)
    return unique_name


def test_pods_without_exclusive_placement(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a", pods=2)).ok(201)
    js.check("ordinary_pods", real=real, seen=_pictures(js.until_pods("js-a-0", 2)))


def test_leader_has_anti_affinity(js: JobSetDriver, real: bool) -> None:
    js.create(replicated("a", 2, pods=2), annotations={EXCLUSIVE: POOL}).ok(201)
    pods = [*js.until_pods("js-a-0", 1), *js.until_pods("js-a-1", 1)]
    js.check("leaders", real=real, seen=_pictures(pods))


def test_followers_have_node_selector_of_leader(js: JobSetDriver, real: bool, node: str) -> None:
    js.create(replicated("a", pods=3, pod={"nodeSelector": {"own": "1"}}), annotations={EXCLUSIVE: POOL}).ok(201)
    js.bind(js.until_pods("js-a-0", 1)[0], node)
    js.check("followers", real=real, seen=_pictures(js.until_pods("js-a-0", 3)))


def test_exclusive_placement_of_one_replicated_job(js: JobSetDriver, real: bool) -> None:
    metadata = {"annotations": {EXCLUSIVE: POOL}}
    js.create(replicated("a", pods=2, metadata=metadata), replicated("b", pods=2)).ok(201)
    pods = [*js.until_pods("js-a-0", 1), *js.until_pods("js-b-0", 2)]
    js.check("one_replicated_job", real=real, seen=_pictures(pods))


def test_user_affinity_is_kept(js: JobSetDriver, real: bool) -> None:
    own = {"labelSelector": {"matchLabels": {"a": "b"}}, "topologyKey": "zone"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}
    js.create(replicated("a", pods=2, pod={"affinity": affinity}), annotations={EXCLUSIVE: POOL}).ok(201)
    js.check("own_affinities", real=real, seen=_pictures(js.until_pods("js-a-0", 1)))


@pytest.mark.parametrize("where", ["jobset", "job"])
def test_node_selector_strategy(js: JobSetDriver, real: bool, where: str) -> None:
    annotations = {EXCLUSIVE: POOL, NODE_SELECTOR: "true"}
    if where == "jobset":
        js.create(replicated("a", pods=2), annotations=annotations).ok(201)
    else:
        js.create(replicated("a", pods=2, metadata={"annotations": annotations})).ok(201)
    pods = js.until_pods("js-a-0", 2)
    js.until_counted("a", active=1)
    js.settles(f"marked_nodes_{where}", lambda: {"pods": _pictures(pods), "all": js.picture()}, real=real)


def test_priority_is_part_of_the_affinity(js: JobSetDriver, real: bool, unique_name: str) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    js.api.post(classes, {"metadata": {"name": unique_name}, "value": 7}).ok(201)
    js.create(replicated("a", pods=2, pod={"priorityClassName": unique_name}), annotations={EXCLUSIVE: POOL}).ok(201)
    js.check("priority", real=real, seen=_pictures(js.until_pods("js-a-0", 1)))


def test_follower_rejection_messages(js: JobSetDriver, real: bool, node: str) -> None:
    js.create(replicated("a", pods=2), annotations={EXCLUSIVE: POOL}).ok(201)
    leader = js.until_pods("js-a-0", 1)[0]
    js.until(lambda: "not yet scheduled" in _refused(js, leader, {}, {POOL: "x"})["message"], "the leader is seen")
    seen: dict[str, Any] = {"no_leader": _refused(js, leader, {"jobset.sigs.k8s.io/job-index": "7"}, {POOL: "x"})}
    seen["no_selector"] = _refused(js, leader, {}, None)
    seen["other_selector"] = _refused(js, leader, {}, {"a": "b"})
    seen["not_scheduled"] = _refused(js, leader, {}, {POOL: "x"})
    seen["no_owner"] = _refused(js, leader, {}, {POOL: "x"}, owners=[])
    other = [{**leader["metadata"]["ownerReferences"][0], "uid": "00000000-0000-0000-0000-000000000000"}]
    seen["other_owner"] = _refused(js, leader, {}, {POOL: "x"}, owners=other)
    js.check("refused_followers", real=real, seen=seen)


def test_leader_node_without_topology_label(js: JobSetDriver, real: bool, unique_name: str) -> None:
    js.api.post("/api/v1/nodes", {"metadata": {"name": unique_name}}).ok(201)
    js.create(replicated("a", pods=2), annotations={EXCLUSIVE: POOL}).ok(201)
    leader = js.until_pods("js-a-0", 1)[0]
    js.bind(leader, unique_name)
    words = {"message": ""}

    def holds() -> bool:
        words.update(_refused(js, leader, {}, {POOL: "x"}))
        return "topology label" in words["message"]

    js.until(holds, "the leader is seen on its node")
    js.check("unlabelled_node", real=real, seen=words)


def test_scheduler_assigns_one_pool_per_job(js: JobSetDriver, api: Api, unique_name: str) -> None:
    for number in range(4):
        _add_host(api, f"{unique_name}-{number}", {"case": unique_name, POOL: f"{unique_name}-pool-{number // 2}"})
    limits = {"limits": {"google.com/tpu": "4"}}
    containers = [{"name": "c", "image": "x", "resources": limits}]
    pod = {"schedulerName": "default-scheduler", "nodeSelector": {"case": unique_name}, "containers": containers}
    js.create(replicated("a", 3, pods=2, pod=pod), annotations={EXCLUSIVE: POOL}).ok(201)
    js.until(lambda: sum("nodeName" in pod["spec"] for pod in js.pods()) == 4, "four pods on nodes")
    placed: dict[str, set[str]] = {}
    for item in js.pods():
        node = item["spec"].get("nodeName")
        result = placed.setdefault(item["metadata"]["labels"]["batch.kubernetes.io/job-name"], set())
        if node:
            result.add(api.get(f"/api/v1/nodes/{node}").ok().json["metadata"]["labels"][POOL])
    assert sorted(map(len, placed.values())) == [0, 1, 1], placed
    assert len(set().union(*placed.values())) == 2, placed
    (waiting,) = (job for job, pools in placed.items() if not pools)
    assert len(js.pods(waiting)) == 1, "followers wait until their leader has a node"


def _add_host(api: Api, name: str, labels: dict[str, str]) -> None:
    """Add a ready node."""
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110", "google.com/tpu": "4"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
    api.post("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}, "status": status}).ok(201)
    api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}}).ok()


def _pictures(pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted((pod_picture(pod) for pod in pods), key=lambda picture: str(picture["name"]))


def _refused(
    js: JobSetDriver, leader: dict[str, Any], labels: dict[str, str], selector: dict[str, str] | None, owners: Any = None
) -> dict[str, Any]:
    """The rejection of a manually created follower pod."""
    metadata = leader["metadata"]
    body = {
        "metadata": {
            "name": "js-a-0-1-zzzzz",
            "labels": {**metadata["labels"], **labels},
            "annotations": {**metadata["annotations"], "batch.kubernetes.io/job-completion-index": "1"},
            "ownerReferences": metadata["ownerReferences"] if owners is None else owners,
        },
        "spec": {"containers": [{"name": "c", "image": "x"}], "schedulerName": "nobody", "nodeSelector": selector},
    }
    response = js.api.post(f"/api/v1/namespaces/{js.namespace}/pods", body, {"dryRun": "All"})
    return {"code": response.status, "reason": response.reason, "message": response.message}
