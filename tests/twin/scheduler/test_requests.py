"""What a pod asks for in all."""

from __future__ import annotations

from typing import Any

from sliceworks.twin.scheduler.requests import pod_requests


def container(cpu: str, **fields: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **fields}


def test_containers_add_up() -> None:
    assert pod_requests({"containers": [container("500m"), container("1")]}) == {"cpu": 1500}


def test_the_widest_init_container_counts() -> None:
    spec = {"containers": [container("1")], "initContainers": [container("3"), container("2")]}
    assert pod_requests(spec) == {"cpu": 3000}


def test_sidecars_run_beside_what_starts_after_them() -> None:
    sidecar = container("1", restartPolicy="Always")
    assert pod_requests({"containers": [container("2")], "initContainers": [sidecar]}) == {"cpu": 3000}
    assert pod_requests({"containers": [container("1")], "initContainers": [sidecar, container("4")]}) == {"cpu": 5000}
    assert pod_requests({"containers": [container("1")], "initContainers": [container("4"), sidecar]}) == {"cpu": 4000}


def test_overhead_comes_on_top() -> None:
    spec = {"containers": [container("1")], "overhead": {"cpu": "250m", "memory": "1Mi"}}
    assert pod_requests(spec) == {"cpu": 1250, "memory": 1024 * 1024}


def test_what_the_pod_asks_for_as_a_whole_replaces_the_sum() -> None:
    spec = {"containers": [container("1")], "resources": {"requests": {"cpu": "2"}}, "overhead": {"cpu": "1"}}
    assert pod_requests(spec) == {"cpu": 3000}


def test_scoring_assumes_a_little_of_each_container() -> None:
    spec = {"containers": [{}, container("1")]}
    assert pod_requests(spec, at_least=True) == {"cpu": 1100, "memory": 2 * 200 * 1024 * 1024}


def test_devices_are_counted_whole() -> None:
    assert pod_requests({"containers": [{"resources": {"requests": {"google.com/tpu": "4"}}}]}) == {"google.com/tpu": 4}
