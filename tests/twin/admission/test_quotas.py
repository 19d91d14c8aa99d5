"""Limits and quotas: what is filled in, what is refused in which words, what is charged."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.admission import Around, pod

from sliceworks.base import clock
from sliceworks.twin.admission import pod_resources, usage
from sliceworks.twin.admission.known import Known
from sliceworks.twin.store.store import Store

_TPU = "requests.google.com/tpu"


@pytest.fixture
def around() -> Around:
    return Around()


@pytest.fixture
def limited(around: Around) -> Around:
    limits = [
        {
            "type": "Container",
            "default": {"cpu": "1", "memory": "1Gi"},
            "defaultRequest": {"cpu": "500m", "memory": "1Gi"},
            "max": {"cpu": "2"},
            "min": {"memory": "100Mi"},
            "maxLimitRequestRatio": {"cpu": "3"},
        },
        {"type": "Pod", "max": {"cpu": "3"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"}, "max": {"storage": "10Gi"}},
    ]
    around.add("/limitranges", "ns", "lr", spec={"limits": limits})
    return around


def two(resources: dict[str, Any]) -> dict[str, Any]:
    made = pod("zz")
    made["spec"]["containers"] = [{"name": name, "resources": dict(resources)} for name in ("a", "b")]
    return made


def test_defaults_are_filled_in_and_noted(limited: Around) -> None:
    made = two({})
    limited.create("/pods", made)
    assert made["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; "
        "cpu, memory request for container b; cpu, memory limit for container b"
    )


def test_limits_are_enforced_in_kubernetes_words(limited: Around) -> None:
    assert limited.refusal(two({"limits": {"cpu": "4"}, "requests": {"cpu": "100m", "memory": "1Mi"}})) == (
        'pods "zz" is forbidden: [minimum memory usage per Container is 100Mi, but request is 1Mi, '
        "maximum cpu usage per Container is 2, but limit is 4, "
        "cpu max limit to request ratio per Container is 3, but provided ratio is 40.000000, "
        "maximum cpu usage per Pod is 3, but limit is 8]"
    )
    assert limited.refusal(two({"limits": {"cpu": "2"}})) == (
        'pods "zz" is forbidden: [cpu max limit to request ratio per Container is 3, but provided ratio is 4.000000, '
        "maximum cpu usage per Pod is 3, but limit is 4]"
    )
    claim = {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "0.1Gi"}}}}
    assert limited.refusal(claim, "/persistentvolumeclaims") == (
        'persistentvolumeclaims "c" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, '
        "but request is 107374182400m"
    )


def quota(around: Around, hard: dict[str, str], used: dict[str, str] | None = None, name: str = "q", **spec: Any) -> None:
    status = {"hard": hard, "used": used if used is not None else dict.fromkeys(hard, "0")}
    around.add("/resourcequotas", "ns", name, spec={"hard": hard, **spec}, status=status)


def test_counts(around: Around) -> None:
    quota(
        around,
        {"pods": "2", "count/pods": "9", "count/deployments.apps": "1"},
        {"pods": "2", "count/pods": "2", "count/deployments.apps": "0"},
    )
    assert around.refusal(pod()) == 'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    made = around.create("apps/deployments", {"metadata": {"name": "d"}})
    assert [charge.used for charge in made.charges] == [{"pods": "2", "count/pods": "2", "count/deployments.apps": "1"}]
    assert not around.create("/configmaps", {"metadata": {"name": "c"}}).charges
    assert not around.create("apps/deployments", {"metadata": {"name": "d"}}, dry_run=True).charges


def test_compute_and_extended_resources(around: Around) -> None:
    quota(
        around,
        {"requests.cpu": "2", "limits.memory": "4Gi", _TPU: "8"},
        {"requests.cpu": "500m", "limits.memory": "1Gi", _TPU: "4"},
    )
    fits = pod(resources={"requests": {"cpu": "1", "google.com/tpu": "4"}, "limits": {"memory": "512Mi", "google.com/tpu": "4"}})
    (charge,) = around.create("/pods", fits).charges
    assert charge == ("ns", "q", {"requests.cpu": "1500m", "limits.memory": "1536Mi", _TPU: "8"})
    over = pod(resources={"requests": {"cpu": "3", "google.com/tpu": "8"}, "limits": {"memory": "1Gi"}})
    assert around.refusal(over) == (
        'pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=3,requests.google.com/tpu=8, '
        "used: requests.cpu=500m,requests.google.com/tpu=4, limited: requests.cpu=2,requests.google.com/tpu=8"
    )
    assert around.refusal(pod()) == 'pods "p" is forbidden: failed quota: q: must specify limits.memory for: a; requests.cpu for: a'


def test_usage_must_be_known(around: Around) -> None:
    quota(around, {"pods": "2"}, {})
    assert around.refusal(pod()) == 'pods "p" is forbidden: status unknown for quota: q, resources: pods'


def test_scopes(around: Around) -> None:
    quota(around, {"pods": "0"}, name="best", scopes=["BestEffort"])
    quota(around, {"pods": "0"}, name="short", scopes=["Terminating"])
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    quota(around, {"pods": "0"}, name="class", scopeSelector=selector)
    around.add("scheduling.k8s.io/priorityclasses", "", "high", value=1)
    asking = {"requests": {"cpu": "1"}}
    assert "exceeded quota: best" in around.refusal(pod())
    assert "exceeded quota: short" in around.refusal(pod(resources=asking, activeDeadlineSeconds=5))
    assert "exceeded quota: class" in around.refusal(pod(resources=asking, priorityClassName="high"))
    assert not around.create("/pods", pod(resources=asking)).charges


def test_an_update_is_charged_with_the_difference(around: Around) -> None:
    quota(around, {"services.nodeports": "3", "services": "1"}, {"services.nodeports": "1", "services": "1"})

    def service(kind: str, ports: int) -> dict[str, Any]:
        return {"metadata": {"name": "s"}, "spec": {"type": kind, "ports": [{"port": 80 + port} for port in range(ports)]}}

    (charge,) = around.update("/services", service("NodePort", 3), service("NodePort", 1)).charges
    assert charge.used == {"services.nodeports": "3", "services": "1"}
    assert not around.update("/services", service("ClusterIP", 3), service("NodePort", 1)).charges


def test_claims_are_counted_by_class() -> None:
    claim = {"metadata": {"name": "c"}, "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}}
    assert usage.of("/persistentvolumeclaims", claim) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "5Gi",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "fast.storageclass.storage.k8s.io/requests.storage": "5Gi",
    }


def test_ended_pods_count_as_objects_only() -> None:
    assert usage.of("/pods", {**pod(resources={"requests": {"cpu": "1"}}), "status": {"phase": "Succeeded"}}) == {"count/pods": "1"}


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("pods", "/pods"),
        ("limits.cpu", "/pods"),
        (_TPU, "/pods"),
        ("secrets", "/secrets"),
        ("count/jobsets.jobset.x-k8s.io", "jobset.x-k8s.io/jobsets"),
        ("services.nodeports", "/services"),
        ("fast.storageclass.storage.k8s.io/requests.storage", "/persistentvolumeclaims"),
        ("bananas", None),
    ],
)
def test_what_a_quota_name_counts(name: str, resource: str | None) -> None:
    assert usage.resource_of(name) == resource


def test_a_pod_asks_for_its_containers_or_its_largest_start() -> None:
    def part(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {"containers": [part("1"), part("500m")], "initContainers": [part("1", restartPolicy="Always"), part("4")]}
    assert pod_resources.requests(spec) == {"cpu": "5"}
    assert pod_resources.requests({**spec, "overhead": {"cpu": "1"}}) == {"cpu": "6"}
    assert pod_resources.requests({**spec, "resources": {"requests": {"cpu": "2"}}}) == {"cpu": "2"}


def test_objects_are_decoded_once_for_each_state() -> None:
    async def main() -> None:
        store = Store()
        known = Known(store)
        store.put("/namespaces", "", "ns", {"metadata": {"name": "ns"}})
        first = known.get("/namespaces", "", "ns")
        assert known.get("/namespaces", "", "ns") is first
        assert known.find_all("/namespaces", "") == [first]
        store.put("/namespaces", "", "ns", {"metadata": {"name": "ns", "labels": {"a": "b"}}})
        second = known.get("/namespaces", "", "ns")
        assert second is not None
        assert second["metadata"]["labels"] == {"a": "b"}
        store.remove("/namespaces", "", "ns", {"metadata": {"name": "ns"}})
        assert known.get("/namespaces", "", "ns") is None

    clock.run(main(), virtual=True)
