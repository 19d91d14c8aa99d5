"""The pod webhooks of exclusive placement."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.support.admission import AdmissionCluster
from tests.support.jobset_objects import follower

from sliceworks.base.errors import Forbidden, NotFound
from sliceworks.twin.controllers.jobset import jobset_api
from sliceworks.twin.controllers.jobset.exclusive_placement import LeaderPods
from sliceworks.twin.store.entry import Entry
from sliceworks.twin.store.watch_cache import Change


def _observe(leaders: LeaderPods, pod: dict[str, Any], kind: str = "ADDED", **spec: Any) -> None:
    pod = {**pod, "spec": {**pod["spec"], **spec}}
    leaders.observe(Change(kind, Entry("/pods", "ns", pod["metadata"]["name"], 1, orjson.dumps(pod)), None))


def _admit(leaders: LeaderPods, pod: dict[str, Any], cluster: AdmissionCluster | None = None) -> dict[str, Any]:
    ctx = (cluster or AdmissionCluster()).write("/pods", "CREATE")
    leaders.mutate(ctx, pod, None)
    leaders.validate(ctx, pod, None)
    return pod


def test_other_pods_are_not_changed() -> None:
    plain: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"priority": 0}}
    assert _admit(LeaderPods(), plain) == {"metadata": {"name": "p"}, "spec": {"priority": 0}}
    marked = follower()
    marked["metadata"]["annotations"][jobset_api.NODE_SELECTOR_STRATEGY] = "true"
    assert jobset_api.PRIORITY not in _admit(LeaderPods(), marked)["metadata"]["labels"]


def test_leader_gets_affinities() -> None:
    pod = _admit(LeaderPods(), follower(index=0))
    affinity = pod["spec"]["affinity"]
    (affinity_term,) = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (anti_affinity_term,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert affinity_term["labelSelector"]["matchExpressions"] == [{"key": jobset_api.JOB_KEY, "operator": "In", "values": ["key"]}]
    assert [expression["operator"] for expression in anti_affinity_term["labelSelector"]["matchExpressions"]] == [
        "Exists",
        "NotIn",
        "In",
    ]
    assert anti_affinity_term["topologyKey"] == affinity_term["topologyKey"] == "pool"
    assert pod["metadata"]["labels"][jobset_api.PRIORITY] == "0"


def test_follower_is_denied_until_its_leader_is_scheduled() -> None:
    leaders, cluster = LeaderPods(), AdmissionCluster()
    cluster.add("/nodes", "", "n", metadata={"labels": {"pool": "blue"}})
    with pytest.raises(Forbidden, match="follower pod node selector not set"):
        _admit(leaders, follower(), cluster)
    _observe(leaders, follower(index=0))
    with pytest.raises(Forbidden, match="follower pod node selector not set"):
        _admit(leaders, follower(), cluster)
    _observe(leaders, follower(index=0), "MODIFIED", nodeName="n")
    assert _admit(leaders, follower(), cluster)["spec"]["nodeSelector"] == {"pool": "blue"}
    _observe(leaders, follower(index=0), "DELETED", nodeName="n")
    with pytest.raises(Forbidden, match="follower pod node selector not set"):
        _admit(leaders, follower(), cluster)


def test_leader_of_a_previous_job_is_ignored() -> None:
    leaders = LeaderPods()
    _observe(leaders, follower(index=0, owner="earlier"), nodeName="n")
    pod = follower()
    pod["spec"]["nodeSelector"] = {"pool": "x"}
    with pytest.raises(Forbidden, match=r"follower pod owner UID \(job-uid\) != leader pod owner UID \(earlier\)"):
        _admit(leaders, pod)


def test_leaders_node_must_have_the_topology_label() -> None:
    leaders, cluster = LeaderPods(), AdmissionCluster()
    _observe(leaders, follower(index=0), nodeName="n")
    with pytest.raises(NotFound, match='denied the request: Node "n" not found'):
        _admit(leaders, follower(), cluster)
    cluster.add("/nodes", "", "n")
    with pytest.raises(Forbidden, match="node does not have topology label: pool"):
        _admit(leaders, follower(), cluster)
