"""LimitRanger and ResourceQuota: defaults, error messages and charges."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.admission import AdmissionCluster, pod

from sliceworks.base import clock
from sliceworks.twin.apiserver import pod_resources
from sliceworks.twin.apiserver.admission import resource_quota
from sliceworks.twin.apiserver.admission.chain import ObjectCache
from sliceworks.twin.store.store import Store

_TPU = "requests.google.com/tpu"


@pytest.fixture
def cluster() -> AdmissionCluster:
    return AdmissionCluster()


@pytest.fixture
def limited(cluster: AdmissionCluster) -> AdmissionCluster:
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
    cluster.add("/limitranges", "ns", "lr", spec={"limits": limits})
    return cluster


def two_containers(resources: dict[str, Any]) -> dict[str, Any]:
    created = pod("zz")
    created["spec"]["containers"] = [{"name": name, "resources": dict(resources)} for name in ("a", "b")]
    return created


def test_limit_range_defaults_are_set_and_annotated(limited: AdmissionCluster) -> None:
    created = two_containers({})
    limited.create("/pods", created)
    assert created["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "500m", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
    assert created["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
        "LimitRanger plugin set: cpu, memory request for container a; cpu, memory limit for container a; "
        "cpu, memory request for container b; cpu, memory limit for container b"
    )


def test_limit_range_violations_are_rejected(limited: AdmissionCluster) -> None:
    assert limited.rejection(two_containers({"limits": {"cpu": "4"}, "requests": {"cpu": "100m", "memory": "1Mi"}})) == (
        'pods "zz" is forbidden: [minimum memory usage per Container is 100Mi, but request is 1Mi, '
        "maximum cpu usage per Container is 2, but limit is 4, "
        "cpu max limit to request ratio per Container is 3, but provided ratio is 40.000000, "
        "maximum cpu usage per Pod is 3, but limit is 8]"
    )
    assert limited.rejection(two_containers({"limits": {"cpu": "2"}})) == (
        'pods "zz" is forbidden: [cpu max limit to request ratio per Container is 3, but provided ratio is 4.000000, '
        "maximum cpu usage per Pod is 3, but limit is 4]"
    )
    claim = {"metadata": {"name": "c"}, "spec": {"resources": {"requests": {"storage": "0.1Gi"}}}}
    assert limited.rejection(claim, "/persistentvolumeclaims") == (
        'persistentvolumeclaims "c" is forbidden: minimum storage usage per PersistentVolumeClaim is 1Gi, '
        "but request is 107374182400m"
    )


def quota(
    cluster: AdmissionCluster, hard: dict[str, str], used: dict[str, str] | None = None, name: str = "q", **spec: Any
) -> None:
    status = {"hard": hard, "used": used if used is not None else dict.fromkeys(hard, "0")}
    cluster.add("/resourcequotas", "ns", name, spec={"hard": hard, **spec}, status=status)


def test_object_count_quota(cluster: AdmissionCluster) -> None:
    quota(
        cluster,
        {"pods": "2", "count/pods": "9", "count/deployments.apps": "1"},
        {"pods": "2", "count/pods": "2", "count/deployments.apps": "0"},
    )
    assert cluster.rejection(pod()) == 'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    created = cluster.create("apps/deployments", {"metadata": {"name": "d"}})
    assert [charge.used for charge in created.charges] == [{"pods": "2", "count/pods": "2", "count/deployments.apps": "1"}]
    assert not cluster.create("/configmaps", {"metadata": {"name": "c"}}).charges
    assert not cluster.create("apps/deployments", {"metadata": {"name": "d"}}, dry_run=True).charges


def test_quota_of_compute_and_extended_resources(cluster: AdmissionCluster) -> None:
    quota(
        cluster,
        {"requests.cpu": "2", "limits.memory": "4Gi", _TPU: "8"},
        {"requests.cpu": "500m", "limits.memory": "1Gi", _TPU: "4"},
    )
    fits = pod(resources={"requests": {"cpu": "1", "google.com/tpu": "4"}, "limits": {"memory": "512Mi", "google.com/tpu": "4"}})
    (charge,) = cluster.create("/pods", fits).charges
    assert charge == ("ns", "q", {"requests.cpu": "1500m", "limits.memory": "1536Mi", _TPU: "8"})
    over = pod(resources={"requests": {"cpu": "3", "google.com/tpu": "8"}, "limits": {"memory": "1Gi"}})
    assert cluster.rejection(over) == (
        'pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=3,requests.google.com/tpu=8, '
        "used: requests.cpu=500m,requests.google.com/tpu=4, limited: requests.cpu=2,requests.google.com/tpu=8"
    )
    assert (
        cluster.rejection(pod()) == 'pods "p" is forbidden: failed quota: q: must specify limits.memory for: a; requests.cpu for: a'
    )


def test_quota_without_status_rejects_writes(cluster: AdmissionCluster) -> None:
    quota(cluster, {"pods": "2"}, {})
    assert cluster.rejection(pod()) == 'pods "p" is forbidden: status unknown for quota: q, resources: pods'


def test_quota_scopes(cluster: AdmissionCluster) -> None:
    quota(cluster, {"pods": "0"}, name="best", scopes=["BestEffort"])
    quota(cluster, {"pods": "0"}, name="short", scopes=["Terminating"])
    selector = {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}
    quota(cluster, {"pods": "0"}, name="class", scopeSelector=selector)
    cluster.add("scheduling.k8s.io/priorityclasses", "", "high", value=1)
    requests = {"requests": {"cpu": "1"}}
    assert "exceeded quota: best" in cluster.rejection(pod())
    assert "exceeded quota: short" in cluster.rejection(pod(resources=requests, activeDeadlineSeconds=5))
    assert "exceeded quota: class" in cluster.rejection(pod(resources=requests, priorityClassName="high"))
    assert not cluster.create("/pods", pod(resources=requests)).charges


def test_update_charges_the_difference(cluster: AdmissionCluster) -> None:
    quota(cluster, {"services.nodeports": "3", "services": "1"}, {"services.nodeports": "1", "services": "1"})

    def service(kind: str, ports: int) -> dict[str, Any]:
        return {"metadata": {"name": "s"}, "spec": {"type": kind, "ports": [{"port": 80 + port} for port in range(ports)]}}

    (charge,) = cluster.update("/services", service("NodePort", 3), service("NodePort", 1)).charges
    assert charge.used == {"services.nodeports": "3", "services": "1"}
    assert not cluster.update("/services", service("ClusterIP", 3), service("NodePort", 1)).charges


def test_claim_usage_by_storage_class() -> None:
    claim = {"metadata": {"name": "c"}, "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}}
    assert resource_quota.usage_of("/persistentvolumeclaims", claim) == {
        "count/persistentvolumeclaims": "1",
        "persistentvolumeclaims": "1",
        "requests.storage": "5Gi",
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
        "fast.storageclass.storage.k8s.io/requests.storage": "5Gi",
    }


def test_finished_pods_use_object_count_only() -> None:
    assert resource_quota.usage_of("/pods", {**pod(resources={"requests": {"cpu": "1"}}), "status": {"phase": "Succeeded"}}) == {
        "count/pods": "1"
    }


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
def test_resource_of_a_quota_name(name: str, resource: str | None) -> None:
    assert resource_quota.resource_of(name) == resource


def test_a_pod_asks_for_its_containers_or_its_largest_start() -> None:
    def part(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {"containers": [part("1"), part("500m")], "initContainers": [part("1", restartPolicy="Always"), part("4")]}
    assert pod_resources.pod_requests(spec) == {"cpu": "5"}
    assert pod_resources.pod_requests({**spec, "overhead": {"cpu": "1"}}) == {"cpu": "6"}
    assert pod_resources.pod_requests({**spec, "resources": {"requests": {"cpu": "2"}}}) == {"cpu": "2"}


def test_object_cache_decodes_each_revision_once() -> None:
    async def main() -> None:
        store = Store()
        cache = ObjectCache(store)
        store.put("/namespaces", "", "ns", {"metadata": {"name": "ns"}})
        first = cache.get("/namespaces", "", "ns")
        assert cache.get("/namespaces", "", "ns") is first
        assert cache.find_all("/namespaces", "") == [first]
        store.put("/namespaces", "", "ns", {"metadata": {"name": "ns", "labels": {"a": "b"}}})
        second = cache.get("/namespaces", "", "ns")
        assert second is not None
        assert second["metadata"]["labels"] == {"a": "b"}
        store.remove("/namespaces", "", "ns", {"metadata": {"name": "ns"}})
        assert cache.get("/namespaces", "", "ns") is None

    clock.run(main(), virtual=True)
