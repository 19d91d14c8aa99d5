"""Pods of JobSets that want a topology domain for each Job."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.support.admission import Around
from tests.support.jobset_objects import follower

from sliceworks.base.errors import Forbidden, NotFound
from sliceworks.twin.store.entries import Change, Entry
from sliceworks.twin.workloads.jobset import keys
from sliceworks.twin.workloads.jobset.placement import Leaders


def _seen(leaders: Leaders, pod: dict[str, Any], kind: str = "ADDED", **spec: Any) -> None:
    pod = {**pod, "spec": {**pod["spec"], **spec}}
    leaders.observe(Change(kind, Entry("/pods", "ns", pod["metadata"]["name"], 1, orjson.dumps(pod)), None))


def _admitted(leaders: Leaders, pod: dict[str, Any], around: Around | None = None) -> dict[str, Any]:
    ctx = (around or Around()).write("/pods", "CREATE")
    leaders.place(ctx, pod, None)
    leaders.check(ctx, pod, None)
    return pod


def test_other_pods_are_left_alone() -> None:
    plain: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"priority": 0}}
    assert _admitted(Leaders(), plain) == {"metadata": {"name": "p"}, "spec": {"priority": 0}}
    marked = follower()
    marked["metadata"]["annotations"][keys.NODE_SELECTOR] = "true"
    assert keys.PRIORITY not in _admitted(Leaders(), marked)["metadata"]["labels"]


def test_a_leader_gets_affinities() -> None:
    pod = _admitted(Leaders(), follower(index=0))
    affinity = pod["spec"]["affinity"]
    (near,) = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (away,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert near["labelSelector"]["matchExpressions"] == [{"key": keys.JOB_KEY, "operator": "In", "values": ["key"]}]
    assert [each["operator"] for each in away["labelSelector"]["matchExpressions"]] == ["Exists", "NotIn", "In"]
    assert away["topologyKey"] == near["topologyKey"] == "pool"
    assert pod["metadata"]["labels"][keys.PRIORITY] == "0"


def test_a_follower_waits_for_its_leader_and_then_follows_it() -> None:
    leaders, around = Leaders(), Around()
    around.add("/nodes", "", "n", metadata={"labels": {"pool": "blue"}})
    with pytest.raises(Forbidden, match="follower pod node selector not set"):
        _admitted(leaders, follower(), around)
    _seen(leaders, follower(index=0))
    with pytest.raises(Forbidden, match="follower pod node selector not set"):
        _admitted(leaders, follower(), around)
    _seen(leaders, follower(index=0), "MODIFIED", nodeName="n")
    assert _admitted(leaders, follower(), around)["spec"]["nodeSelector"] == {"pool": "blue"}
    _seen(leaders, follower(index=0), "DELETED", nodeName="n")
    with pytest.raises(Forbidden, match="follower pod node selector not set"):
        _admitted(leaders, follower(), around)


def test_a_leader_of_an_earlier_job_is_not_followed() -> None:
    leaders = Leaders()
    _seen(leaders, follower(index=0, owner="earlier"), nodeName="n")
    pod = follower()
    pod["spec"]["nodeSelector"] = {"pool": "x"}
    with pytest.raises(Forbidden, match=r"follower pod owner UID \(job-uid\) != leader pod owner UID \(earlier\)"):
        _admitted(leaders, pod)


def test_the_leaders_node_must_tell_its_domain() -> None:
    leaders, around = Leaders(), Around()
    _seen(leaders, follower(index=0), nodeName="n")
    with pytest.raises(NotFound, match='denied the request: Node "n" not found'):
        _admitted(leaders, follower(), around)
    around.add("/nodes", "", "n")
    with pytest.raises(Forbidden, match="node does not have topology label: pool"):
        _admitted(leaders, follower(), around)
