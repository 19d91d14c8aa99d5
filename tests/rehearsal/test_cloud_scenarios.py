"""Scenario events of the cloud: settings and faults, at their times."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import get_args

import pytest
from tests.support.clouds import POOLS, Cloud, run_on_cloud

from sliceworks.base import clock
from sliceworks.base.errors import InvalidDocument
from sliceworks.platform import loader
from sliceworks.rehearsal.basic_run import Rehearsal, rehearse
from sliceworks.rehearsal.events import EventResult, plan_events, run_events
from sliceworks.specs.scenario import FaultType
from sliceworks.twin.cloud.core.faults import fault_kinds
from sliceworks.twin.cloud.google.container.capacity import SECONDS

EXAMPLE = Path(__file__).parents[2] / "examples" / "scenarios" / "stockout"
HEAD = "apiVersion: sliceworks.dev/v1alpha1\nkind: Scenario\nmetadata: {name: day}\nspec:\n  duration: 1h\n  events:\n"


def test_example_succeeds_and_leaves_nothing_behind() -> None:
    def run() -> Rehearsal:
        scenario = loader.load_scenario(EXAMPLE)
        return rehearse(loader.load(EXAMPLE), scenario=scenario, folder=EXAMPLE, seconds=4 * 3600, seed=7)

    done = run()
    assert not done.failed
    completed = [moment.name for moment in done.timeline if moment.kind == "JobSet" and "Completed=True" in moment.note]
    assert sorted(completed) == ["train-1", "train-2"]
    pools = [moment for moment in done.timeline if moment.kind == "NodePool"]
    assert {moment.by for moment in pools} == {"the cloud"}
    assert any(moment.note == "ERROR" for moment in pools)
    created, deleted = (sorted(moment.name for moment in pools if moment.verb == verb) for verb in ("created", "deleted"))
    assert created == deleted
    nodes = [moment for moment in done.timeline if moment.kind == "Node"]
    created, deleted = (sorted(moment.name for moment in nodes if moment.verb == verb) for verb in ("created", "deleted"))
    assert created
    assert created == deleted
    assert run().timeline == done.timeline, "the same seed gives the same run"


def test_scenario_faults_equal_the_twins_faults() -> None:
    assert list(get_args(FaultType)) == list(fault_kinds())


def test_faults_and_settings_start_and_end(tmp_path: Path) -> None:
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
    scenario = loader.load_scenario(tmp_path)
    assert scenario is not None
    steps = plan_events(scenario, tmp_path, Random(0))
    reported: list[EventResult] = []

    async def main(cloud: Cloud) -> None:
        async def sleep(seconds: float) -> None:
            await clock.sleep(seconds)
            seen.append((await cloud.ask("GET", POOLS))[0])

        seen: list[int] = []
        await run_events(steps[:1], cloud.client, clock.sleep, on_result=reported.append)
        first = await cloud.slice("a")
        assert (await cloud.refused("POST", POOLS, {"nodePool": {"name": "b"}}))[0] == 429
        started = clock.loop_time()
        await cloud.done(first)
        assert clock.loop_time() - started <= 11
        await cloud.done(await cloud.slice("b"))
        assert (await cloud.pool("b"))["status"] == "ERROR"
        await run_events(steps[1:], cloud.client, sleep, on_result=reported.append)
        assert seen == [200, 503, 200, 200]
        await cloud.done(await cloud.slice("c"))
        assert (await cloud.pool("c"))["status"] == "RUNNING"

    run_on_cloud(main)
    assert [happening.description for happening in reported[1:4]] == [
        "Unavailable in the cloud for method=nodePools.*",
        "the cloud's fault closed ends",
        "set the cloud's capacity",
    ]
    assert [bool(happening.refused) for happening in reported] == [False, False, False, False, True]
    assert "end: fault 'closed' not found" in reported[-1].refused


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("cloudFault: {fault: Earthquake}", "cloudFault.fault: must be"),
        ("cloudFault: {fault: Stockout, where: here}", "where"),
        ("cloudFault: {fault: Stockout, count: 0}", "count"),
        ("setCloud: {quotas: [{metric: CPUS}]}", "region"),
        ("setCloud: {operations: 0}", "operations"),
    ],
)
def test_invalid_fault_is_an_error_before_start(tmp_path: Path, event: str, words: str) -> None:
    (tmp_path / "day.yaml").write_text(f"{HEAD}  - {{at: 0s, {event}}}\n")
    with pytest.raises(InvalidDocument, match=words):
        loader.load_scenario(tmp_path)


def test_invalid_time_is_rejected_by_the_twin(tmp_path: Path) -> None:
    assert "tea" not in SECONDS
    (tmp_path / "day.yaml").write_text(f"{HEAD}  - {{at: 0s, setCloud: {{seconds: {{tea: 5s}}}}}}\n")
    done = rehearse([], scenario=loader.load_scenario(tmp_path), folder=tmp_path, seconds=60)
    (happening,) = done.event_results
    assert "container.seconds.tea: unknown duration" in happening.refused
