"""The slices controller as a part of a program: which cluster it means, and that it can lead again."""

from __future__ import annotations

import asyncio

import pytest
from tests.support.slices import CLUSTER, LOCATION, PROJECT, SETTINGS, jobset, rig

from sliceworks.base import clock
from sliceworks.base.errors import UsageError
from sliceworks.base.metrics import Registry
from sliceworks.cloud import connecting, metadata
from sliceworks.cloud.metadata import Whereabouts
from sliceworks.controllers.slices.program import SlicesProgram, complete
from sliceworks.controllers.slices.settings import Settings
from sliceworks.kube.client import Client

HERE = Whereabouts("p", "c", "us-central2", "us-central2-b")


def _here(monkeypatch: pytest.MonkeyPatch, found: Whereabouts) -> None:
    async def whereabouts() -> Whereabouts:
        return found

    monkeypatch.setattr(metadata, "whereabouts", whereabouts)


def test_what_is_not_set_is_where_the_pod_is(monkeypatch: pytest.MonkeyPatch) -> None:
    _here(monkeypatch, HERE)
    found = asyncio.run(complete(Settings(cluster="mine")))
    assert (found.project, found.location, found.cluster, found.zones) == ("p", "us-central2", "mine", ("us-central2-b",))


def test_a_cluster_that_nobody_names(monkeypatch: pytest.MonkeyPatch) -> None:
    _here(monkeypatch, Whereabouts())
    with pytest.raises(UsageError, match="GCP_CLUSTER_LOCATION, GCP_CLUSTER not set"):
        asyncio.run(complete(Settings(project="p")))


def test_a_zone_may_stay_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    _here(monkeypatch, Whereabouts())
    assert asyncio.run(complete(Settings(project="p", location="l", cluster="c"))).zones == ()


def test_an_endpoint_of_ones_own_has_no_metadata_server(monkeypatch: pytest.MonkeyPatch) -> None:
    _here(monkeypatch, HERE)
    with pytest.raises(UsageError, match="GCP_PROJECT_ID"):
        asyncio.run(complete(Settings(endpoint="http://127.0.0.1:1")))


def test_one_that_leads_again_goes_on_and_counts_on(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with rig(seconds={"createNodePool": 1, "boot": 1}) as made:
            monkeypatch.setattr(connecting, "open_container", lambda *_, **__: made.open_container())
            registry = Registry()
            program = SlicesProgram(Client(made.cluster.transport()), SETTINGS, registry)
            for number in range(2):
                task = asyncio.create_task(program.run())
                await made.client.create(jobset(f"js-{number}", seconds=3600))
                await clock.sleep(60)
                assert program.ready
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert not program.ready
            text = registry.text()
            assert text.count("# TYPE sliceworks_slices_failures_total") == 1
            assert "sliceworks_slices_time_to_capacity_seconds_count 2" in text

    assert (SETTINGS.project, SETTINGS.location, SETTINGS.cluster) == (PROJECT, LOCATION, CLUSTER)
    clock.run(main(), virtual=True, seed=3)
