"""Events: counted, aggregated, rate limited, and written in the background."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.tiny_api import TinyApi

from sliceworks.base import clock
from sliceworks.base.retry import NEVER
from sliceworks.base.transport import InProcess
from sliceworks.kube.client import Client
from sliceworks.kube.events import EventRecorder

JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "j", "namespace": "ml", "uid": "u", "resourceVersion": "5"},
}
NODE: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def recorder(api: TinyApi, *, core: bool = False) -> EventRecorder:
    return EventRecorder(Client(InProcess(api.handle), retry=NEVER), "queues", instance="queues-0", core=core)


def test_event_has_object_reason_and_note() -> None:
    async def main() -> None:
        api = TinyApi()
        async with recorder(api) as events:
            events.record(JOB, "Admitted", "2 slices", action="Admit")
        event = api.only()
        assert event["metadata"]["namespace"] == "ml"
        assert event["metadata"]["name"].startswith("j.")
        assert event["regarding"] == {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": "j",
            "namespace": "ml",
            "uid": "u",
            "resourceVersion": "5",
        }
        del event["metadata"], event["regarding"]
        assert event == {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "note": "2 slices",
            "type": "Normal",
            "reason": "Admitted",
            "action": "Admit",
            "reportingController": "queues",
            "reportingInstance": "queues-0",
            "eventTime": "2026-01-05T08:00:00.000000Z",
        }

    clock.run(main(), virtual=True)


def test_equal_events_form_a_series() -> None:
    async def main() -> None:
        api = TinyApi()
        async with recorder(api) as events:
            for _ in range(3):
                events.record(JOB, "Waiting", "no quota", type="Warning")
                await clock.sleep(10)
        assert api.only()["series"] == {"count": 3, "lastObservedTime": "2026-01-05T08:00:20.000000Z"}

    clock.run(main(), virtual=True)


def test_core_events_have_a_count() -> None:
    async def main() -> None:
        api = TinyApi()
        async with recorder(api, core=True) as events:
            for _ in range(2):
                events.record(NODE, "Ready", "it is")
                await clock.sleep(10)
        event = api.only()
        assert event["metadata"]["namespace"] == "default"
        assert (event["count"], event["message"], event["involvedObject"]["name"]) == (2, "it is", "n")
        assert (event["firstTimestamp"], event["lastTimestamp"]) == ("2026-01-05T08:00:00Z", "2026-01-05T08:00:10Z")

    clock.run(main(), virtual=True)


def test_similar_events_are_aggregated() -> None:
    async def main() -> None:
        api = TinyApi()
        async with recorder(api, core=True) as events:
            for number in range(15):
                events.record(JOB, "Failed", f"worker {number}")
        assert len(api.objects) == 11
        assert [event["message"] for event in api.objects.values()][-1] == "(combined from similar events): worker 14"
        assert list(api.objects.values())[-1]["count"] == 5

    clock.run(main(), virtual=True)


def test_events_about_one_object_are_rate_limited() -> None:
    async def main() -> None:
        api = TinyApi()
        async with recorder(api) as events:
            for _ in range(100):
                events.record(JOB, "Looping", "again")
            await events.flush()
            assert len(api.requests) == 25
            await clock.sleep(301)
            events.record(JOB, "Looping", "again")
            events.record(NODE, "Looping", "again")
            await events.flush()
        assert len(api.requests) == 27
        assert next(iter(api.objects.values()))["series"]["count"] == 101

    clock.run(main(), virtual=True)


def test_expired_event_is_created_again() -> None:
    async def main() -> None:
        api = TinyApi()
        async with recorder(api) as events:
            events.record(JOB, "Waiting", "x")
            await events.flush()
            api.objects.clear()
            events.record(JOB, "Waiting", "x")
            await events.flush()
            assert "series" not in api.only()
            await clock.sleep(1000)
            events.record(JOB, "Waiting", "x")
            await events.flush()
            assert len(api.objects) == 2

    clock.run(main(), virtual=True)


def test_recording_never_fails(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        api = TinyApi()
        api.broken = lambda request: True
        async with recorder(api) as events:
            events.record(JOB, "Lost", "x")
            events.record({}, "Nameless", "x")
            await events.flush()
            api.broken = lambda request: False
            for number in range(1100):
                events.record({**JOB, "metadata": {"name": f"j{number}"}}, "Flood", "y" * 2000)
        assert len(api.objects) == 1000
        assert len(next(iter(api.objects.values()))["note"]) == 1024

    clock.run(main(), virtual=True)
    assert "dropped event Lost about j: broken" in caplog.text
    assert "dropped event Nameless" in caplog.text


def test_close_gives_up_after_its_timeout(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        api = TinyApi()

        async def handle(request: Any) -> Any:
            await clock.sleep(1000)
            return await api.handle(request)

        events = EventRecorder(Client(InProcess(handle)), "queues")
        await events.close()
        events.record(JOB, "Slow", "x")
        events.record(JOB, "Slow", "y")
        await events.close()
        assert clock.loop_time() == pytest.approx(5)

    clock.run(main(), virtual=True)
    assert "dropped 1 events at shutdown" in caplog.text
