"""The timeline view: events from objects, the drawing, and faults as scenarios."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest

from sliceworks.console.views import faults, timeline
from sliceworks.rehearsal import events

Object = dict[str, Any]
START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)


def at(minutes: float) -> str:
    return f"{(START + timedelta(minutes=minutes)).isoformat()[:19]}Z"


def jobset(name: str, *conditions: Object) -> Object:
    return {"metadata": {"name": name, "namespace": "ml", "creationTimestamp": at(1)}, "status": {"conditions": list(conditions)}}


def condition(kind: str, minutes: float, status: str = "True", message: str = "") -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": at(minutes), "message": message}


def test_job_events_from_submission_to_completion() -> None:
    diary = timeline.Timeline()
    diary.record(timeline.jobset_events(jobset("a", condition("Completed", 9), condition("Suspended", 2, "False"))))
    owner = [{"name": "a", "kind": "JobSet"}]
    workload = {
        "metadata": {"name": "w", "namespace": "ml", "ownerReferences": owner},
        "status": {"conditions": [condition("Admitted", 3)]},
    }
    diary.record(timeline.workload_events(workload))
    assert [(event.at, event.what) for event in diary.events] == [(at(1), "submitted"), (at(3), "admitted"), (at(9), "completed")]
    assert diary.latest(1)[0].link == "/jobs/ml/a"


def test_events_are_recorded_once() -> None:
    diary = timeline.Timeline()
    node: Object = {"metadata": {"name": "h", "creationTimestamp": at(0)}, "status": {"conditions": [condition("Ready", 1)]}}
    diary.record(timeline.node_events(node))
    version = diary.version
    diary.record(timeline.node_events(node))
    assert diary.version == version
    lost = {**node, "status": {"conditions": [condition("Ready", 5, "Unknown", "Kubelet stopped posting")]}}
    lost["metadata"] = {**node["metadata"], "annotations": {"sliceworks.dev/state": "silent"}}
    diary.record(timeline.node_events(lost))
    assert [item.what for item in diary.latest(5, "hosts")] == ["became unreachable", "became ready", "joined"]
    assert diary.latest(5, "jobs") == []


def test_oldest_events_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "MAX_EVENTS", 3)
    diary = timeline.Timeline()
    diary.record(timeline.TimelineEvent(at(minute), "job", str(minute)) for minute in (5, 1, 4, 2, 3))
    assert [event.what for event in diary.events] == ["3", "4", "5"]


def test_unchanged_samples_are_not_stored() -> None:
    diary = timeline.Timeline()
    for minute in range(100):
        diary.sample(timeline.UsageSample(START + timedelta(minutes=minute), 4 if minute < 50 else 8, 8))
    assert len(diary.samples) == 4


def test_timeline_shows_lanes_and_incidents() -> None:
    diary = timeline.Timeline()
    diary.record(timeline.jobset_events(jobset("<a>", condition("Failed", 9))))
    diary.record([timeline.TimelineEvent(at(5), "you", "a host fails: h", "faults", "bad")])
    for minute, busy in ((0, 0), (4, 8), (8, 2)):
        diary.sample(timeline.UsageSample(START + timedelta(minutes=minute), busy, 8))
    shown = timeline.time_window(diary, START + timedelta(minutes=10))
    assert shown.start == START
    picture = timeline.timeline_svg(diary, shown)
    tree = ElementTree.fromstring(picture)
    assert [item.text for item in tree.iter() if item.get("class") == "sw-lane"] == ["chips", "faults", "hosts", "jobs"]
    assert picture.count("sw-bar-bad") == 2
    assert "&lt;a&gt;" in picture
    assert "3 events" in str(tree.get("aria-label"))
    assert timeline.time_window(diary, START + timedelta(hours=9), hours=1).seconds == 3600


def test_empty_timeline_is_drawn() -> None:
    diary = timeline.Timeline()
    tree = ElementTree.fromstring(timeline.timeline_svg(diary, timeline.time_window(diary, START)))
    assert "0 events" in str(tree.get("aria-label"))


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: str(fault.name))
def test_every_fault_is_a_valid_scenario(fault: faults.Fault, tmp_path: Path) -> None:
    scenario = fault.scenario(faults.FaultTarget("h", "p", "ml", "ct5lp-*"), 600.0)
    steps = events.plan_events(scenario, tmp_path, Random(0))
    assert steps
    assert steps[0].at == 0
    assert steps[-1].at in (0, 600)
    assert faults.find_fault(fault.name) is fault
