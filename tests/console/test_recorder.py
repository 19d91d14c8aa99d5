"""The timeline that a console records, and the faults that it injects."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.small_cluster import SmallCluster, run_on_small_cluster

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError, Unreachable
from sliceworks.console import recorder, slice_cache
from sliceworks.console.cluster_cache import ClusterCache
from sliceworks.console.recorder import TimelineRecorder, list_scenarios
from sliceworks.console.views import faults
from sliceworks.kube.client import Client
from sliceworks.rehearsal import events
from sliceworks.rehearsal.events import EventResult

if TYPE_CHECKING:
    from pathlib import Path

Object = dict[str, Any]


def node(name: str) -> Object:
    labels = {"sliceworks.dev/node": "simulated", "cloud.google.com/gke-accelerator": "nvidia-l4"}
    capacity = {"cpu": "8", "memory": "8Gi", "pods": "10", "nvidia.com/gpu": "1"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"capacity": capacity}}


def test_timeline_is_recorded_and_faults_are_injected(tmp_path: Path) -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", "/api/v1/nodes", node("before"))
        await twin.quiet()
        async with Client(twin.cluster.transport()) as client, ClusterCache(client) as cache:
            await cache.settled(5)
            day = cache.compute(TimelineRecorder)
            assert [event.what for event in day.timeline.events] == ["joined", "became ready"]
            await twin.do("POST", "/api/v1/nodes", node("after"))
            await clock.sleep(10)
            assert {event.subject for event in day.timeline.events} == {"host before", "host after"}
            assert (day.timeline.samples[-1].busy, day.timeline.samples[-1].chips) == (0, 2)
            fault = faults.find_fault("host-failure")
            await day.inject(fault.scenario(faults.FaultTarget(host="after"), 600), tmp_path)
            result = await twin.do("GET", "/api/v1/nodes/after")
            assert result["metadata"]["annotations"]["sliceworks.dev/state"] == "silent"
            reported = [(item.subject, item.what) for item in day.timeline.latest(5, "faults")]
            # A twin without its own process has no clock to wait for: later events of a scenario are reported as skipped.
            assert reported == [("scenario host-failure", "aborted"), ("Failure of nodes after", "injected")]
            with pytest.raises(SliceworksError, match="was rejected") as refused:
                await day.inject(fault.scenario(faults.FaultTarget(host="missing"), 600), tmp_path)
            assert "Node not found: missing" in refused.value.hint
            await clock.sleep(300)
            assert "became unreachable" in {item.what for item in day.timeline.latest(5, "hosts")}

    run_on_twin(main, workloads=True)


def test_timeline_continues_after_a_failed_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter(range(100))

    def fleet_of(cache: ClusterCache) -> Any:
        if next(times) == 1:
            raise KeyError("an object like no other")
        return slice_cache.get_slice_cache(cache)

    async def main(twin: EmbeddedTwin) -> None:
        async with Client(twin.cluster.transport()) as client, ClusterCache(client) as cache:
            await cache.settled(5)
            monkeypatch.setattr(recorder, "get_slice_cache", fleet_of)
            day = cache.compute(TimelineRecorder)
            await clock.sleep(10)
            assert next(times) > 5
            assert day.timeline.samples

    run_on_twin(main, workloads=True)


@pytest.mark.parametrize(
    ("steps", "error"),
    [([], None), ([], KeyError("odd")), (["one"], Unreachable("the twin is away"))],
)
def test_scenario_result_is_recorded_in_the_timeline(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, steps: list[str], error: Exception | None
) -> None:
    async def happen(_client: Any, _scenario: Any, _folder: Path, reported: Any) -> None:
        for step in steps:
            reported(EventResult(0.0, step))
        if error is not None:
            raise error

    async def main(twin: EmbeddedTwin) -> None:
        async with Client(twin.cluster.transport()) as client, ClusterCache(client) as cache:
            await cache.settled(5)
            day = cache.compute(TimelineRecorder)
            monkeypatch.setattr(events, "inject", happen)
            scenario = faults.find_fault("host-failure").scenario(faults.FaultTarget(host="after"), 600)
            with pytest.raises(KeyError) if error and not steps else nullcontext():
                async with asyncio.timeout(60):
                    await day.inject(scenario, tmp_path)
            await clock.sleep(1)
            broke = [event.what for event in day.timeline.events if event.what == "aborted"]
            assert len(broke) == (1 if steps and error else 0)

    run_on_twin(main, workloads=True)


def test_real_cluster_is_asked_for_its_clock_once() -> None:
    requests: list[str] = []

    async def main(twin: EmbeddedTwin) -> None:
        async with Client(twin.cluster.transport()) as client, ClusterCache(client) as cache:
            send = client.transport.send

            async def counted(request: Any, **more: Any) -> Any:
                requests.extend([request.path] if "twin" in request.path else [])
                return await send(request, **more)

            client.transport.send = counted  # type: ignore[method-assign]
            day = cache.compute(TimelineRecorder)
            await clock.sleep(10)
            assert day.is_twin is False
            assert day.now() == cache.now()

    run_on_twin(main)
    assert requests == ["/debug/twin/clock"]


def test_invalid_scenarios_of_a_folder_are_skipped(tmp_path: Path) -> None:
    head = "apiVersion: sliceworks.dev/v1alpha1\nkind: Scenario\nmetadata: {name: bad-day}\nspec: "
    (tmp_path / "day.yaml").write_text(head + "{events: [{at: 0s, failNodes: {nodes: {count: 1}}}]}\n")
    (tmp_path / "wrong.yaml").write_text(head + "{evnts: []}\n")
    (tmp_path / "other.yaml").write_text("kind: ConfigMap\n")
    (tmp_path / "broken.yaml").write_text("a: [\n")
    assert [(scenario.name, scenario.file.name, scenario.events) for scenario in list_scenarios(tmp_path)] == [
        ("bad-day", "day.yaml", 1)
    ]


def test_usage_before_the_console_started_is_in_the_timeline() -> None:
    async def main(small: SmallCluster) -> None:
        timeline = TimelineRecorder(small.cache).timeline
        past = [sample for sample in timeline.samples if sample.at < small.cache.now()]
        assert len(past) > 1
        assert past[-1].busy > past[0].busy >= 0
        assert all(sample.busy <= sample.chips for sample in past)

    run_on_small_cluster(main, jobs=40, slices=16)
