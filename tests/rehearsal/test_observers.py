"""The observers of a run: job states, chip counts, and incidents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from sliceworks.base.yaml_documents import load_path
from sliceworks.rehearsal.record import IncidentResponse, RunRecord, SliceRecord, Span, SpanBuilder
from sliceworks.rehearsal.report.chart_data import timeline_groups
from sliceworks.rehearsal.simulation.chip_observer import ChipObserver, Level
from sliceworks.rehearsal.simulation.incidents import Disruption, find_incidents
from sliceworks.rehearsal.simulation.instance_observer import InstanceObserver
from sliceworks.rehearsal.simulation.job_observer import JobEvent
from sliceworks.rehearsal.simulation.pool_observer import ProvisioningFailure, chip_type
from sliceworks.serving.record import to_config_map
from sliceworks.serving.validation import parse_valid
from sliceworks.twin.store.entry import Entry
from sliceworks.twin.store.watch_cache import Change


def test_zero_length_states_are_dropped() -> None:
    spans = SpanBuilder()
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


def test_level_has_series_and_hours() -> None:
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


def test_pod_uses_chips_while_its_node_exists() -> None:
    chips = ChipObserver(lambda namespace: f"team {namespace}")
    labels = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice", "cloud.google.com/gke-nodepool": "v5e"}
    node: dict[str, Any] = {"metadata": {"labels": labels}, "status": {"allocatable": {"google.com/tpu": "4"}}}
    pod: dict[str, Any] = {
        "spec": {"nodeName": "host", "containers": [{"name": "a", "resources": {"requests": {"google.com/tpu": "4"}}}]}
    }
    chips.observe_node(0.0, _change("nodes", "host", dict(node)))
    chips.observe_pod(10.0, _change("pods", "a", dict(pod)))
    assert (chips.used, chips.total) == (4, 4)
    chips.observe_node(3610.0, _change("nodes", "host", dict(node), "DELETED"))
    chips.observe_pod(3650.0, _change("pods", "a", dict(pod), "MODIFIED"))
    assert (chips.used, chips.total) == (0, 0)
    [used] = chips.usage()
    assert (used.team, used.chip, used.points) == ("team vision", "v5e", ((10.0, 4), (3610.0, 0)))
    assert chips.used_by_pool["team vision", "v5e"].hours(7200.0) == pytest.approx(4.0)


def test_chips_are_named_by_generation_or_model() -> None:
    assert chip_type({"cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice"}) == "v5e"
    assert chip_type({"cloud.google.com/gke-accelerator": "nvidia-l4"}) == "nvidia-l4"
    assert chip_type({"disk": "ssd"}) == ""


def test_preemption_recovers_when_the_job_runs_again() -> None:
    turns = [
        JobEvent(10.0, "preempted", "vision/slow"),
        JobEvent(20.0, "running", "research/other"),
        JobEvent(30.0, "running", "vision/slow"),
    ]
    [result] = find_incidents([], turns, [], [])
    assert (result.kind, result.subject, result.at, result.recovered_at) == ("preemption", "job vision/slow", 10.0, 30.0)
    assert result.responses[-1] == IncidentResponse(30.0, "ran again")


def test_stockout_recovers_with_the_next_slice_of_the_same_job() -> None:
    failure = ProvisioningFailure(100.0, "pool-a", "vision/slow", "us-west4-a", "spot", "v5e", "GCE_STOCKOUT")
    running = (Span("provisioning", 110.0, 150.0), Span("running", 150.0, 900.0))
    others = SliceRecord("b", "v5e", "2x2", 1, 4, "us-west4-b", "spot", 105.0, job="other/job", spans=running)
    own = SliceRecord("a", "v5e", "2x2", 1, 4, "us-west4-b", "on-demand", 110.0, job="vision/slow", spans=running)
    [result] = find_incidents([], [], [failure], [others, own])
    assert (result.kind, result.recovered_at) == ("stockout", 150.0)
    assert [response.what for response in result.responses] == [
        "requested on-demand machines in us-west4-b",
        "the slice is ready in us-west4-b",
    ]
    assert result.what == "us-west4-a is out of spot machines with v5e"


def test_stockout_without_a_later_slice_is_not_recovered() -> None:
    failure = ProvisioningFailure(100.0, "pool-a", "", "us-west4-a", "on-demand", "v5e", "INTERNAL")
    [result] = find_incidents([], [], [failure], [])
    assert (result.kind, result.recovered_at, result.responses) == ("cloud", None, ())


def test_disruption_recovers_when_all_affected_jobs_run_again() -> None:
    disruption = Disruption(50.0, "host", "host-0 stopped responding", ("a/one", "b/two"))
    turns = [
        JobEvent(40.0, "running", "a/one"),
        JobEvent(60.0, "restarted", "a/one", "1"),
        JobEvent(70.0, "running", "a/one"),
    ]
    [result] = find_incidents([disruption], turns, [], [])
    assert result.recovered_at is None
    [result] = find_incidents([disruption], [*turns, JobEvent(90.0, "ended", "b/two", "succeeded")], [], [])
    assert result.recovered_at == 90.0
    assert [response.what for response in result.responses] == [
        "restarted a/one (restart 1)",
        "a/one ran again",
        "b/two succeeded",
    ]


@pytest.mark.parametrize("kind", ["host", "maintenance", "crash"])
def test_job_that_failed_after_a_disruption_has_not_recovered(kind: str) -> None:
    disruption = Disruption(50.0, kind, "host-0 is under maintenance", ("a/one", "b/two"))
    turns = [JobEvent(60.0, "running", "a/one"), JobEvent(70.0, "ended", "b/two", "failed")]
    [result] = find_incidents([disruption], turns, [], [])
    assert (result.recovered_at, [response.what for response in result.responses]) == (None, ["a/one ran again", "b/two failed"])


def test_job_that_failed_after_a_preemption_or_stockout_has_not_recovered() -> None:
    turns = [JobEvent(50.0, "preempted", "a/one"), JobEvent(150.0, "ended", "a/one", "failed")]
    [result] = find_incidents([], turns, [], [])
    assert (result.recovered_at, result.responses[-1].what) == (None, "failed")
    failure = ProvisioningFailure(100.0, "pool-a", "a/one", "us-west4-a", "spot", "v5e", "GCE_STOCKOUT")
    [result] = find_incidents([], turns[1:], [failure], [])
    assert (result.recovered_at, result.responses[-1].what) == (None, "a/one failed")


def test_disruption_of_idle_machines() -> None:
    [result] = find_incidents([Disruption(5.0, "maintenance", "host-1 is under maintenance", ())], [], [], [])
    assert (result.subject, result.recovered_at) == ("idle machines", None)


def test_deleted_model_service_is_shown_as_being_deleted() -> None:
    [document] = load_path(Path("examples/models-here/parrot.yaml"))
    config_map = to_config_map(parse_valid(document), document.data, [])
    config_map["metadata"]["deletionTimestamp"] = "2026-11-16T08:00:00Z"
    observer = InstanceObserver()
    observer.observe(10.0, _change("configmaps", "parrot", config_map, "MODIFIED"))
    run = RunRecord("d", ".", 0, "2026-11-16T08:00:00Z", 20.0, instances=observer.records(20.0))
    [group] = [group for group in timeline_groups(run) if group["name"] == "Models and graphs"]
    assert group["rows"][0]["spans"] == [("leaving", 10.0, 20.0, "")]
