"""Load tests that were written down, and what an environment's stages have made."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from sliceworks.console.views import environments, loads
from sliceworks.loadtest import results
from sliceworks.loadtest.comparing import Change


def run(name: str, began: float, **more: Any) -> dict[str, Any]:
    summary = {
        "times": {"ttft": {"p99": 0.25}, "e2e": {"p50": 1.5, "p99": 3.25}},
        "errorRate": 0.01,
        "delivery": {"rateSent": 12.3456},
    }
    return {
        "format": results.FORMAT,
        "name": name,
        "began": began,
        "valid": True,
        "kept": True,
        "problems": [],
        "objectives": [],
        "tags": {"gpu": "l4"},
        "summary": summary,
        **more,
    }


def test_runs_come_newest_first_and_those_that_cannot_be_read_are_told_of(tmp_path: Path) -> None:
    for folder, data in (("a", run("one", 1.0)), ("b", run("two", 2.0, valid=False, problems=["it was interrupted"]))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.json").write_bytes(orjson.dumps(data))
    for folder, text in (("c", "{"), ("d", f'{{"format": {results.FORMAT}}}')):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.json").write_text(text)
    found, broken = loads.runs(tmp_path)
    assert [(each.folder, each.name, each.tone) for each in found] == [("b", "two", "bad"), ("a", "one", "good")]
    assert found[0].verdict == "INVALID: it was interrupted"
    assert (found[1].first, found[1].slowest, found[1].errors, found[1].tags) == ("250 ms", "3.25 s", "1.00%", "gpu=l4")
    assert len(broken) == 2
    assert loads.runs(tmp_path / "nothing") == ([], [])


def test_a_change_says_whether_it_is_for_the_worse() -> None:
    worse = loads.shift(Change("e2e p99", 1.0, 1.5, 0.4, 0.6, 0.05))
    assert (worse.verdict, worse.tone, worse.change) == ("worse", "bad", "+50.0%")
    assert loads.shift(Change("errors", 0.01, 0.0, -0.02, -0.005, 0.005, points=True)).change == "-1.00 points"


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
def test_a_resource_is_called_as_people_call_it(address: str, kind: str, name: str) -> None:
    found = environments.stage("1-base", {}, {address: ""}).things[0]
    assert (found.kind, found.name) == (kind, name)


def test_a_stage_says_what_has_drifted_and_gives_no_secret_away() -> None:
    outputs = {"cluster": {"name": "c", "zones": ["a", "b"], "ca_certificate": "MII", "access_token": {"x": 1}}, "nothing": None}
    found = environments.stage("2-cluster", outputs, {"a.b": "update", "c.d": "delete", "e.f": ""})
    assert [each.drift for each in found.things] == ["changed", "gone", ""]
    assert (found.state, found.tone) == ("2 drifted", "bad")
    assert "MII" not in str(found.outputs)
    assert ("cluster.zones", "a, b") in found.outputs
    assert environments.stage("4-load", {}, {}).state == "not made"


def test_what_is_in_the_cluster_is_listed_by_its_step() -> None:
    found = environments.inside([("queues", "ClusterQueue tpu")], {"ClusterQueue tpu": "changed"})
    assert [(each.kind, each.name, each.drift) for each in found.things] == [("queues", "ClusterQueue tpu", "changed")]
