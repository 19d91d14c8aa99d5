"""The resource requests of a pod."""

from __future__ import annotations

from typing import Any

from sliceworks.kube.pod_requests import pod_requests


def container(cpu: str, **fields: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **fields}


def test_container_requests_are_summed() -> None:
    assert pod_requests({"containers": [container("500m"), container("1")]}) == {"cpu": 1500}


def test_largest_init_container_counts() -> None:
    spec = {"containers": [container("1")], "initContainers": [container("3"), container("2")]}
    assert pod_requests(spec) == {"cpu": 3000}


def test_sidecars_count_beside_later_init_containers() -> None:
    sidecar = container("1", restartPolicy="Always")
    assert pod_requests({"containers": [container("2")], "initContainers": [sidecar]}) == {"cpu": 3000}
    assert pod_requests({"containers": [container("1")], "initContainers": [sidecar, container("4")]}) == {"cpu": 5000}
    assert pod_requests({"containers": [container("1")], "initContainers": [container("4"), sidecar]}) == {"cpu": 4000}


def test_overhead_is_added() -> None:
    spec = {"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "1Mi"}}
    assert pod_requests(spec) == {"cpu": 1250, "memory": 1024 * 1024}


def test_pod_level_requests_replace_the_sum() -> None:
    spec = {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "1"}}
    assert pod_requests(spec) == {"cpu": 3000}


def test_non_zero_requests_have_defaults_for_each_container() -> None:
    spec = {"containers": [{}, container("1")]}
    assert pod_requests(spec, non_zero=True) == {"cpu": 1100, "memory": 2 * 200 * 1024 * 1024}


def test_extended_resources_are_whole_units() -> None:
    assert pod_requests({"containers": [{"resources": {"requests": {"google.com/tpu": "4"}}}]}) == {"google.com/tpu": 4}
