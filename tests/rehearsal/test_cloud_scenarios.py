"""Scenarios that happen to the cloud: its settings and its faults, at their times."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import get_args

import pytest
from tests.support.clouds import POOLS, Cloud, on_cloud

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.rehearsal import documents
from sliceworks.rehearsal.rehearse import Rehearsal, rehearse
from sliceworks.rehearsal.scenarios import Happening, plan, play
from sliceworks.specs.clouds import Fault
from sliceworks.twin.cloud.container.settings import SECONDS
from sliceworks.twin.cloud.faults import kinds

EXAMPLE = Path(__file__).parents[2] / "examples" / "scenarios" / "stockout"
HEAD = "apiVersion: sliceworks.dev/v1alpha1\nkind: Scenario\nmetadata: {name: day}\nspec:\n  duration: 1h\n  events:\n"


def test_the_example_ends_well_and_leaves_nothing_behind() -> None:
    def run() -> Rehearsal:
        scenario = documents.scenario(EXAMPLE)
        return rehearse(documents.read(EXAMPLE), scenario=scenario, folder=EXAMPLE, seconds=4 * 3600, seed=7)

    done = run()
    assert not done.failed
    completed = [moment.name for moment in done.moments if moment.kind == "JobSet" and "Completed=True" in moment.note]
    assert sorted(completed) == ["train-1", "train-2"]
    pools = [moment for moment in done.moments if moment.kind == "NodePool"]
    assert {moment.by for moment in pools} == {"the cloud"}
    assert any(moment.note == "ERROR" for moment in pools)
    made, gone = (sorted(moment.name for moment in pools if moment.verb == verb) for verb in ("created", "deleted"))
    assert made == gone
    nodes = [moment for moment in done.moments if moment.kind == "Node"]
    made, gone = (sorted(moment.name for moment in nodes if moment.verb == verb) for verb in ("created", "deleted"))
    assert made
    assert made == gone
    assert run().moments == done.moments, "the same seed gives the same day"


def test_a_scenario_knows_the_faults_of_the_twin() -> None:
    assert list(get_args(Fault)) == list(kinds())


def test_faults_and_settings_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "day.yaml").write_text(
        HEAD
        + """
  - {at: 0s, setCloud: {operations: 1, seconds: {createNodePool: 10s, boot: 0}, capacity: [{machineType: 'ct4p-*', nodes: 4}]}}
  - {at: 1m, cloudFault: {name: closed, fault: Unavailable, match: {method: 'nodePools.*'}}}
  - {at: 2m, endCloudFault: {name: closed}}
  - {at: 3m, setCloud: {capacity: [{machineType: 'ct4p-*', nodes: null}]}}
  - {at: 4m, endCloudFault: {name: closed}}
"""
    )
    scenario = documents.scenario(tmp_path)
    assert scenario is not None
    steps = plan(scenario, tmp_path, Random(0))
    told: list[Happening] = []

    async def main(cloud: Cloud) -> None:
        async def sleep(seconds: float) -> None:
            await clock.sleep(seconds)
            seen.append((await cloud.ask("GET", POOLS))[0])

        seen: list[int] = []
        await play(steps[:1], cloud.client, clock.sleep, told=told.append)
        first = await cloud.slice("a")
        assert (await cloud.refused("POST", POOLS, {"nodePool": {"name": "b"}}))[0] == 429
        began = clock.loop_time()
        await cloud.done(first)
        assert clock.loop_time() - began <= 11
        await cloud.done(await cloud.slice("b"))
        assert (await cloud.pool("b"))["status"] == "ERROR"
        await play(steps[1:], cloud.client, sleep, told=told.append)
        assert seen == [200, 503, 200, 200]
        await cloud.done(await cloud.slice("c"))
        assert (await cloud.pool("c"))["status"] == "RUNNING"

    on_cloud(main)
    assert [happening.what for happening in told[1:4]] == [
        "Unavailable in the cloud for method=nodePools.*",
        "the cloud's fault closed is over",
        "set the cloud's capacity",
    ]
    assert [bool(happening.refused) for happening in told] == [False, False, False, False, True]
    assert "the cloud has no fault 'closed'" in told[-1].refused


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("cloudFault: {fault: Earthquake}", "cloudFault.fault: input should be"),
        ("cloudFault: {fault: Stockout, where: here}", "where"),
        ("cloudFault: {fault: Stockout, count: 0}", "count"),
        ("setCloud: {quotas: [{metric: CPUS}]}", "region"),
        ("setCloud: {operations: 0}", "operations"),
    ],
)
def test_what_is_wrong_is_told_before_anything_starts(tmp_path: Path, event: str, words: str) -> None:
    (tmp_path / "day.yaml").write_text(f"{HEAD}  - {{at: 0s, {event}}}\n")
    with pytest.raises(InvalidDocument, match=words):
        documents.scenario(tmp_path)


def test_an_unknown_time_is_refused_by_the_twin(tmp_path: Path) -> None:
    assert "tea" not in SECONDS
    (tmp_path / "day.yaml").write_text(f"{HEAD}  - {{at: 0s, setCloud: {{seconds: {{tea: 5s}}}}}}\n")
    done = rehearse([], scenario=documents.scenario(tmp_path), folder=tmp_path, seconds=60)
    (happening,) = done.happenings
    assert "nothing of the cloud takes the time 'tea'" in happening.refused
