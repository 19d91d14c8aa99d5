"""Views of recorded load tests and of the stages of an environment."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from sliceworks.console.views import environment_view, load_test_view
from sliceworks.loadtest import results
from sliceworks.loadtest.comparison import Change


def run(name: str, started: float, **more: Any) -> dict[str, Any]:
    summary = {
        "latencies": {"ttft": {"p99": 0.25}, "e2e": {"p50": 1.5, "p99": 3.25}},
        "errorRate": 0.01,
        "delivery": {"sentRate": 12.3456},
    }
    return {
        "format": results.FORMAT_VERSION,
        "name": name,
        "started": started,
        "valid": True,
        "met": True,
        "problems": [],
        "objectives": [],
        "tags": {"gpu": "l4"},
        "summary": summary,
        **more,
    }


def test_runs_are_newest_first_and_unreadable_ones_reported(tmp_path: Path) -> None:
    for folder, data in (("a", run("one", 1.0)), ("b", run("two", 2.0, valid=False, problems=["it was interrupted"]))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.json").write_bytes(orjson.dumps(data))
    for folder, text in (("c", "{"), ("d", f'{{"format": {results.FORMAT_VERSION}}}')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.json").write_text(text)
    result, broken = load_test_view.list_runs(tmp_path)
    assert [(item.folder, item.name, item.tone) for item in result] == [("b", "two", "bad"), ("a", "one", "good")]
    assert result[0].verdict == "INVALID: it was interrupted"
    assert (result[1].ttft_p99, result[1].e2e_p99, result[1].errors, result[1].tags) == ("250 ms", "3.25 s", "1.00%", "gpu=l4")
    assert len(broken) == 2
    assert load_test_view.list_runs(tmp_path / "nothing") == ([], [])


def test_change_is_marked_as_regression() -> None:
    worse = load_test_view.metric_change(Change("e2e p99", 1.0, 1.5, 0.4, 0.6, 0.05))
    assert (worse.verdict, worse.tone, worse.change) == ("worse", "bad", "+50.0%")
    assert load_test_view.metric_change(Change("errors", 0.01, 0.0, -0.02, -0.005, 0.005, is_share=True)).change == "-1.00 points"


@pytest.mark.parametrize(
    ("address", "kind", "name"),
    [
        ("google_storage_bucket.state", "storage bucket", "state"),
        ('module.cluster.google_container_node_pool.this["cpu.one"]', "container node pool", "cpu.one"),
        ("module.base[0].google_compute_network.vpc[0]", "compute network", "vpc"),
        ("module.network.google_compute_router.this[0]", "compute router", "network"),
        ("odd", "", "odd"),
    ],
)
def test_resource_has_a_readable_name(address: str, kind: str, name: str) -> None:
    result = environment_view.stage("1-base", {}, {address: ""}).resources[0]
    assert (result.kind, result.name) == (kind, name)


def test_stage_shows_drift_without_secrets() -> None:
    outputs = {"cluster": {"name": "c", "zones": ["a", "b"], "ca_certificate": "MII", "access_token": {"x": 1}}, "nothing": None}
    result = environment_view.stage("2-cluster", outputs, {"a.b": "update", "c.d": "delete", "e.f": ""})
    assert [resource.drift for resource in result.resources] == ["changed", "deleted", ""]
    assert (result.state, result.tone) == ("2 drifted", "bad")
    assert "MII" not in str(result.outputs)
    assert ("cluster.zones", "a, b") in result.outputs
    assert environment_view.stage("4-load", {}, {}).state == "not created"


def test_cluster_objects_are_listed_by_step() -> None:
    result = environment_view.cluster_stage([("queues", "ClusterQueue tpu")], {"ClusterQueue tpu": "changed"})
    assert [(resource.kind, resource.name, resource.drift) for resource in result.resources] == [
        ("queues", "ClusterQueue tpu", "changed")
    ]
