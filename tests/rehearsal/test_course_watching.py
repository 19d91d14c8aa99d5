"""What is watched while a day passes: states, amounts, and what goes wrong."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from sliceworks.rehearsal.course.blows import Blow
from sliceworks.rehearsal.course.chips import Chips, Level
from sliceworks.rehearsal.course.incidents import incidents
from sliceworks.rehearsal.course.jobs import Turn
from sliceworks.rehearsal.course.machines import Trouble, chip_named
from sliceworks.rehearsal.course.spans import Spans
from sliceworks.rehearsal.day.record import Answer, SliceLife, Span
from sliceworks.twin.store.entries import Change, Entry


def test_states_follow_each_other_and_those_of_no_time_are_forgotten() -> None:
    spans = Spans()
    assert spans.enter(1.0, "waiting")
    assert not spans.enter(2.0, "waiting")
    spans.enter(3.0, "starting")
    spans.enter(3.0, "running")
    assert spans.until(5.0) == (Span("waiting", 1.0, 3.0), Span("running", 3.0, 5.0))
    spans.enter(6.0, "starting")
    spans.enter(6.0, "running")
    spans.close(7.0)
    assert spans.until(9.0) == (Span("waiting", 1.0, 3.0), Span("running", 3.0, 7.0))
    assert spans.state == ""


def test_an_amount_has_a_course_and_hours() -> None:
    level = Level()
    level.add(0.0, 4)
    level.add(1800.0, 4)
    level.add(1800.0, -4)
    level.add(3600.0, -4)
    assert level.points == [(0.0, 4), (3600.0, 0)]
    assert level.hours(7200.0) == pytest.approx(4.0)


def _change(kind: str, name: str, obj: dict[str, Any], verb: str = "ADDED") -> Change:
    space = "vision" if kind == "pods" else ""
    entry = Entry(
        f"/{kind}", space, name, 1, orjson.dumps({"metadata": {"name": name, "namespace": space, **obj.pop("metadata", {})}, **obj})
    )
    return Change(verb, entry, None)


def test_a_pod_has_its_chips_for_as_long_as_its_node_is_there() -> None:
    chips = Chips(lambda namespace: f"team {namespace}")
    labels = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice", "cloud.google.com/gke-nodepool": "v5e"}
    node: dict[str, Any] = {"metadata": {"labels": labels}, "status": {"allocatable": {"google.com/tpu": "4"}}}
    pod: dict[str, Any] = {
        "spec": {"nodeName": "host", "containers": [{"name": "a", "resources": {"requests": {"google.com/tpu": "4"}}}]}
    }
    chips.see_node(0.0, _change("nodes", "host", dict(node)))
    chips.see_pod(10.0, _change("pods", "a", dict(pod)))
    assert (chips.used, chips.there) == (4, 4)
    chips.see_node(3610.0, _change("nodes", "host", dict(node), "DELETED"))
    chips.see_pod(3650.0, _change("pods", "a", dict(pod), "MODIFIED"))
    assert (chips.used, chips.there) == (0, 0)
    [used] = chips.usage()
    assert (used.team, used.chip, used.points) == ("team vision", "v5e", ((10.0, 4), (3610.0, 0)))
    assert chips.used_of_pool["team vision", "v5e"].hours(7200.0) == pytest.approx(4.0)


def test_chips_are_called_by_their_generation_or_model() -> None:
    assert chip_named({"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"}) == "v5e"
    assert chip_named({"cloud.google.com/gke-accelerator": "nvidia-l4"}) == "nvidia-l4"
    assert chip_named({"disk": "ssd"}) == ""


def test_a_preemption_is_mended_when_the_job_runs_again() -> None:
    turns = [Turn(10.0, "preempted", "vision/slow"), Turn(20.0, "running", "research/other"), Turn(30.0, "running", "vision/slow")]
    [found] = incidents([], turns, [], [])
    assert (found.kind, found.subject, found.at, found.mended) == ("preemption", "job vision/slow", 10.0, 30.0)
    assert found.answers[-1] == Answer(30.0, "ran again")


def test_a_stockout_is_answered_by_the_next_slice_of_the_same_job() -> None:
    trouble = Trouble(100.0, "pool-a", "vision/slow", "us-west4-a", "spot", "v5e", "GCE_STOCKOUT")
    running = (Span("provisioning", 110.0, 150.0), Span("running", 150.0, 900.0))
    others = SliceLife("b", "v5e", "2x2", 1, 4, "us-west4-b", "spot", 105.0, job="other/job", spans=running)
    own = SliceLife("a", "v5e", "2x2", 1, 4, "us-west4-b", "on-demand", 110.0, job="vision/slow", spans=running)
    [found] = incidents([], [], [trouble], [others, own])
    assert (found.kind, found.mended) == ("stockout", 150.0)
    assert [each.what for each in found.answers] == ["asked for on-demand machines in us-west4-b", "the slice stands in us-west4-b"]
    assert found.what == "us-west4-a has no spot machines with v5e to give"


def test_a_stockout_without_an_answer_is_not_mended() -> None:
    trouble = Trouble(100.0, "pool-a", "", "us-west4-a", "on-demand", "v5e", "INTERNAL")
    [found] = incidents([], [], [trouble], [])
    assert (found.kind, found.mended, found.answers) == ("cloud", None, ())


def test_a_blow_is_mended_when_all_that_it_struck_run_again() -> None:
    blow = Blow(50.0, "host", "host-0 went silent", ("a/one", "b/two"))
    turns = [
        Turn(40.0, "running", "a/one"),
        Turn(60.0, "restarted", "a/one", "1"),
        Turn(70.0, "running", "a/one"),
    ]
    [found] = incidents([blow], turns, [], [])
    assert found.mended is None
    [found] = incidents([blow], [*turns, Turn(90.0, "ended", "b/two", "succeeded")], [], [])
    assert found.mended == 90.0
    assert [each.what for each in found.answers] == [
        "started a/one again, for the first time",
        "a/one ran again",
        "b/two succeeded",
    ]


def test_machines_without_work_are_struck_too() -> None:
    [found] = incidents([Blow(5.0, "maintenance", "host-1 is maintained", ())], [], [], [])
    assert (found.subject, found.mended) == ("machines without work", None)
