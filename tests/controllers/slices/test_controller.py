"""The slices controller under the manager: resolution of the cluster, and repeated runs."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.slices_controller import CLUSTER, LOCATION, PROJECT, SETTINGS, jobset, rig

from sliceworks.base import clock
from sliceworks.base.errors import UsageError
from sliceworks.base.metrics import Registry
from sliceworks.cloud import container, metadata_server
from sliceworks.cloud.metadata_server import InstanceMetadata
from sliceworks.controllers.slices.controller import SlicesRunnable, resolve_cluster
from sliceworks.controllers.slices.settings import Settings
from sliceworks.kube.client import Client

HERE = InstanceMetadata("p", "c", "us-central2", "us-central2-b")


def _here(monkeypatch: pytest.MonkeyPatch, metadata: InstanceMetadata) -> None:
    async def whereabouts() -> InstanceMetadata:
        return metadata

    monkeypatch.setattr(metadata_server, "read_metadata", whereabouts)


def test_unset_values_come_from_the_metadata_server(monkeypatch: pytest.MonkeyPatch) -> None:
    _here(monkeypatch, HERE)
    result = asyncio.run(resolve_cluster(Settings(cluster="mine")))
    assert (result.project, result.location, result.cluster, result.zones) == ("p", "us-central2", "mine", ("us-central2-b",))


def test_missing_cluster_name_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _here(monkeypatch, InstanceMetadata())
    with pytest.raises(UsageError, match="GCP_CLUSTER_LOCATION, GCP_CLUSTER not set"):
        asyncio.run(resolve_cluster(Settings(project="p")))


def test_zone_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    _here(monkeypatch, InstanceMetadata())
    assert asyncio.run(resolve_cluster(Settings(project="p", location="l", cluster="c"))).zones == ()


def test_custom_endpoint_uses_no_metadata_server(monkeypatch: pytest.MonkeyPatch) -> None:
    _here(monkeypatch, HERE)
    with pytest.raises(UsageError, match="GCP_PROJECT_ID"):
        asyncio.run(resolve_cluster(Settings(endpoint="http://127.0.0.1:1")))


def test_new_leader_term_continues_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with rig(seconds={"createNodePool": 1, "boot": 1}) as created:
            monkeypatch.setattr(container, "open_container", lambda *_, **__: created.open_container())
            registry = Registry()
            program = SlicesRunnable(Client(created.cluster.transport()), SETTINGS, registry)
            for number in range(2):
                task = asyncio.create_task(program.run())
                await created.client.create(jobset(f"js-{number}", seconds=3600))
                await clock.sleep(60)
                assert program.ready
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert not program.ready
            text = registry.render()
            assert text.count("# TYPE sliceworks_slices_failures_total") == 1
            assert "sliceworks_slices_time_to_capacity_seconds_count 2" in text

    assert (SETTINGS.project, SETTINGS.location, SETTINGS.cluster) == (PROJECT, LOCATION, CLUSTER)
    clock.run(main(), virtual=True, seed=3)
