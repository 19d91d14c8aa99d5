"""The example of a training job on two slices, with nodes, scheduler, Jobs and JobSet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.jobset_objects import JOBSETS

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLE = Path(__file__).parents[4] / "examples" / "training"
_POOL = "cloud.google.com/gke-nodepool"


def _objects() -> Iterator[dict[str, Any]]:
    for file in sorted(EXAMPLE.glob("*.yaml")):
        for document in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            yield from document.get("items") or [document]


async def _apply(twin: EmbeddedTwin) -> None:
    for obj in _objects():
        await twin.do("POST", "/api/v1/nodes" if obj["kind"] == "Node" else JOBSETS, obj)


def test_each_slice_runs_in_its_own_node_pool() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await _apply(twin)
        for _ in range(6):
            await twin.quiet()
        status = (await twin.do("GET", f"{JOBSETS}/two-slices"))["status"]
        assert status["terminalState"] == "Completed", status
        pools = {
            node["metadata"]["name"]: node["metadata"]["labels"][_POOL] for node in (await twin.do("GET", "/api/v1/nodes"))["items"]
        }
        used: dict[str, set[str]] = {}
        for pod in (await twin.do("GET", "/api/v1/namespaces/default/pods"))["items"]:
            used.setdefault(pod["metadata"]["labels"]["job-name"], set()).add(pools[pod["spec"]["nodeName"]])
            assert pod["metadata"]["labels"]["jobset.sigs.k8s.io/coordinator"] == "two-slices-slice-0-0.two-slices"
        assert sorted(map(sorted, used.values())) == [["slice-0"], ["slice-1"]]

    run_on_twin(main, workloads=True)
