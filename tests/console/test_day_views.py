"""The day of a cluster: moments from objects, a time line, and faults as scenarios."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any
from xml.etree import ElementTree

import pytest

from sliceworks.console.views import days, faults, strips
from sliceworks.rehearsal import scenarios

Object = dict[str, Any]
START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)


def at(minutes: float) -> str:
    return f"{(START + timedelta(minutes=minutes)).isoformat()[:19]}Z"


def jobset(name: str, *conditions: Object) -> Object:
    return {"metadata": {"name": name, "namespace": "ml", "creationTimestamp": at(1)}, "status": {"conditions": list(conditions)}}


def told(kind: str, minutes: float, status: str = "True", message: str = "") -> Object:
    return {"type": kind, "status": status, "lastTransitionTime": at(minutes), "message": message}


def test_a_job_is_followed_from_its_submission_to_its_end() -> None:
    diary = days.Diary()
    diary.note(days.of_jobset(jobset("a", told("Completed", 9), told("Suspended", 2, "False"))))
    owner = [{"name": "a", "kind": "JobSet"}]
    workload = {
        "metadata": {"name": "w", "namespace": "ml", "ownerReferences": owner},
        "status": {"conditions": [told("Admitted", 3)]},
    }
    diary.note(days.of_workload(workload))
    assert [(each.at, each.what) for each in diary.moments] == [(at(1), "submitted"), (at(3), "admitted"), (at(9), "completed")]
    assert diary.latest(1)[0].link == "/jobs/ml/a"


def test_what_was_seen_once_is_remembered_and_written_down_once() -> None:
    diary = days.Diary()
    node: Object = {"metadata": {"name": "h", "creationTimestamp": at(0)}, "status": {"conditions": [told("Ready", 1)]}}
    diary.note(days.of_node(node))
    version = diary.version
    diary.note(days.of_node(node))
    assert diary.version == version
    lost = {**node, "status": {"conditions": [told("Ready", 5, "Unknown", "Kubelet stopped posting")]}}
    lost["metadata"] = {**node["metadata"], "annotations": {"sliceworks.dev/state": "silent"}}
    diary.note(days.of_node(lost))
    assert [each.what for each in diary.latest(5, "hosts")] == ["stopped answering", "is ready", "joined"]
    assert diary.latest(5, "jobs") == []


def test_the_oldest_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(days, "MOST", 3)
    diary = days.Diary()
    diary.note(days.Moment(at(minute), "job", str(minute)) for minute in (5, 1, 4, 2, 3))
    assert [each.what for each in diary.moments] == ["3", "4", "5"]


def test_a_sample_that_tells_nothing_new_takes_no_room() -> None:
    diary = days.Diary()
    for minute in range(100):
        diary.sample(days.Sample(START + timedelta(minutes=minute), 4 if minute < 50 else 8, 8))
    assert len(diary.samples) == 4


def test_the_time_line_shows_every_lane_and_marks_what_went_wrong() -> None:
    diary = days.Diary()
    diary.note(days.of_jobset(jobset("<a>", told("Failed", 9))))
    diary.note([days.Moment(at(5), "you", "a host fails: h", "faults", "bad")])
    for minute, busy in ((0, 0), (4, 8), (8, 2)):
        diary.sample(days.Sample(START + timedelta(minutes=minute), busy, 8))
    shown = days.window(diary, START + timedelta(minutes=10))
    assert shown.begins == START
    picture = strips.strip(diary, shown)
    tree = ElementTree.fromstring(picture)
    assert [each.text for each in tree.iter() if each.get("class") == "sw-lane"] == ["chips", "faults", "hosts", "jobs"]
    assert picture.count("sw-bar-bad") == 2
    assert "&lt;a&gt;" in picture
    assert "3 moments" in str(tree.get("aria-label"))
    assert days.window(diary, START + timedelta(hours=9), hours=1).seconds == 3600


def test_an_empty_day_is_drawn_too() -> None:
    diary = days.Diary()
    tree = ElementTree.fromstring(strips.strip(diary, days.window(diary, START)))
    assert "0 moments" in str(tree.get("aria-label"))


@pytest.mark.parametrize("fault", faults.FAULTS, ids=lambda fault: str(fault.name))
def test_every_fault_is_a_scenario_that_can_be_played_to_its_end(fault: faults.Fault, tmp_path: Path) -> None:
    scenario = fault.scenario(faults.Target("h", "p", "ml", "ct5lp-*"), 600.0)
    steps = scenarios.plan(scenario, tmp_path, Random(0))
    assert steps
    assert steps[0].at == 0
    assert steps[-1].at in (0, 600)
    assert faults.fault(fault.name) is fault
