"""The day that a console writes down, and what it makes happen."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.embedded import Embedded, on_twin

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError, Unreachable
from sliceworks.console import day_looks, fleet
from sliceworks.console.day_looks import Day, planned
from sliceworks.console.views import faults
from sliceworks.console.world import World
from sliceworks.kube.client import Client
from sliceworks.rehearsal import injection
from sliceworks.rehearsal.scenarios import Happening

if TYPE_CHECKING:
    from pathlib import Path

Object = dict[str, Any]


def node(name: str) -> Object:
    labels = {"sliceworks.dev/node": "simulated", "cloud.google.com/gke-accelerator": "nvidia-l4"}
    capacity = {"cpu": "8", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "1"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"capacity": capacity}}


def test_the_day_is_written_down_and_a_fault_strikes_at_once_or_says_why_not(tmp_path: Path) -> None:
    async def main(twin: Embedded) -> None:
        await twin.do("POST", "/api/v1/nodes", node("before"))
        await twin.quiet()
        async with Client(twin.cluster.transport()) as client, World(client) as world:
            await world.settled(5)
            day = world.once(Day)
            assert [each.what for each in day.diary.moments] == ["joined", "is ready"]
            await twin.do("POST", "/api/v1/nodes", node("after"))
            await clock.sleep(10)
            assert {each.subject for each in day.diary.moments} == {"host before", "host after"}
            assert (day.diary.samples[-1].busy, day.diary.samples[-1].chips) == (0, 2)
            fault = faults.fault("host-failure")
            await day.inject(fault.scenario(faults.Target(host="after"), 600), tmp_path)
            found = await twin.do("GET", "/api/v1/nodes/after")
            assert found["metadata"]["annotations"]["sliceworks.dev/state"] == "silent"
            told = [(each.subject, each.what) for each in day.diary.latest(5, "faults")]
            # A twin that is no process of its own has no clock to wait by: what was to come later is said not to.
            assert told == [("scenario host-failure", "broke off"), ("Failure of nodes after", "injected")]
            with pytest.raises(SliceworksError, match="was refused") as refused:
                await day.inject(fault.scenario(faults.Target(host="nobody"), 600), tmp_path)
            assert "there is no Node nobody" in refused.value.hint
            await clock.sleep(300)
            assert "stopped answering" in {each.what for each in day.diary.latest(5, "hosts")}

    on_twin(main, workloads=True)


def test_a_day_goes_on_after_a_moment_that_could_not_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(100))

    def fleet_of(world: World) -> Any:
        if next(times) == 1:
            raise KeyError("an object like no other")
        return fleet.fleet_of(world)

    async def main(twin: Embedded) -> None:
        async with Client(twin.cluster.transport()) as client, World(client) as world:
            await world.settled(5)
            monkeypatch.setattr(day_looks, "fleet_of", fleet_of)
            day = world.once(Day)
            await clock.sleep(10)
            assert next(times) > 5
            assert day.diary.samples

    on_twin(main, workloads=True)


@pytest.mark.parametrize(
    ("steps", "error"),
    [([], None), ([], KeyError("odd")), (["one"], Unreachable("the twin is away"))],
)
def test_who_has_a_scenario_happen_hears_how_it_began_and_the_day_how_it_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, steps: list[str], error: Exception | None
) -> None:
    async def happen(_client: Any, _scenario: Any, _folder: Path, told: Any) -> None:
        for each in steps:
            told(Happening(0.0, each))
        if error is not None:
            raise error

    async def main(twin: Embedded) -> None:
        async with Client(twin.cluster.transport()) as client, World(client) as world:
            await world.settled(5)
            day = world.once(Day)
            monkeypatch.setattr(injection, "happen", happen)
            scenario = faults.fault("host-failure").scenario(faults.Target(host="after"), 600)
            with pytest.raises(KeyError) if error and not steps else nullcontext():
                async with asyncio.timeout(60):
                    await day.inject(scenario, tmp_path)
            await clock.sleep(1)
            broke = [each.what for each in day.diary.moments if each.what == "broke off"]
            assert len(broke) == (1 if steps and error else 0)

    on_twin(main, workloads=True)


def test_a_cluster_that_is_no_twin_is_asked_for_its_time_once() -> None:
    asked: list[str] = []

    async def main(twin: Embedded) -> None:
        async with Client(twin.cluster.transport()) as client, World(client) as world:
            send = client.transport.send

            async def counted(request: Any, **more: Any) -> Any:
                asked.extend([request.path] if "twin" in request.path else [])
                return await send(request, **more)

            client.transport.send = counted  # type: ignore[method-assign]
            day = world.once(Day)
            await clock.sleep(10)
            assert day.is_twin is False
            assert day.now() == world.now()

    on_twin(main)
    assert asked == ["/debug/twin/clock"]


def test_scenarios_of_a_folder_are_found_and_what_is_wrong_is_left_out(tmp_path: Path) -> None:
    head = "apiVersion: sliceworks.dev/v1alpha1\nkind: Scenario\nmetadata: {name: bad-day}\nspec: "
    (tmp_path / "day.yaml").write_text(head + "{events: [{at: 0s, failNodes: {nodes: {count: 1}}}]}\n")
    (tmp_path / "wrong.yaml").write_text(head + "{evnts: []}\n")
    (tmp_path / "other.yaml").write_text("kind: ConfigMap\n")
    (tmp_path / "broken.yaml").write_text("a: [\n")
    assert [(each.name, each.file.name, each.events) for each in planned(tmp_path)] == [("bad-day", "day.yaml", 1)]
