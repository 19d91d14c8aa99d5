"""Two slices of two hosts: four JAX processes form a cluster and all-reduce."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support import hostname

from sliceworks.base import clock
from sliceworks.kube.client import Client
from sliceworks.kube.resources import POD
from sliceworks.twin.cluster import Cluster

EXAMPLE = Path(__file__).parents[3] / "examples" / "processes"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pods have addresses of their own on Linux alone")


def documents() -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = []
    for file in sorted(EXAMPLE.glob("*.yaml")):
        for document in yaml.load_all(file.read_text(), yaml.CSafeLoader):
            result += document["items"] if document["kind"] == "List" else [document]
    return result


@hostname.needed
@pytest.mark.timeout(400)
def test_jax_all_reduces_across_two_slices(tmp_path: Path) -> None:
    pytest.importorskip("jax")

    async def main() -> None:
        async with Cluster(ca="the authority", processes=tmp_path) as cluster:
            client = Client(cluster.transport())
            for document in documents():
                await client.create(document)
            pods = await finished(client)
            output = {pod["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"]: "" for pod in pods}
            for pod in pods:
                output[pod["metadata"]["labels"]["jobset.sigs.k8s.io/job-index"]] += await client.logs(
                    pod["metadata"]["name"], "default"
                )
        for index, words in sorted(output.items()):
            for process in (2 * int(index), 2 * int(index) + 1):
                assert f"process {process} of 4 on slice {index}: the sum is 10" in words
        assert sorted(output) == ["0", "1"]

    clock.run(main())


async def finished(client: Client) -> list[dict[str, Any]]:
    for _ in range(1200):
        pods = (await client.list(POD, "default")).items
        assert not [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Failed"]
        if len(pods) == 4 and all(pod["status"]["phase"] == "Succeeded" for pod in pods):
            return pods
        await clock.sleep(0.1)
    raise AssertionError([(pod["metadata"]["name"], pod["status"]) for pod in pods])
