"""Scenarios: events happen at their times, on a new twin in virtual time and on a running twin."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest, InvalidDocument
from sliceworks.cli import main
from sliceworks.kube import open_client
from sliceworks.kube.resources import NODE
from sliceworks.platform import loader, twin_clock, twin_home
from sliceworks.platform.loader import substitute_index
from sliceworks.rehearsal.basic_run import Rehearsal, rehearse
from sliceworks.rehearsal.events import PlannedEvent, plan_events

EXAMPLE = Path(__file__).parents[2] / "examples" / "scenarios" / "host-failure"
HEAD = "apiVersion: sliceworks.dev/v1alpha1\nkind: Scenario\nmetadata: {name: day}\nspec:\n  duration: 1h\n  events:\n"
MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'map-{n}', namespace: default}\n"


def steps(folder: Path, events: str, seed: int = 0) -> list[PlannedEvent]:
    (folder / "day.yaml").write_text(HEAD + events)
    scenario = loader.load_scenario(folder / "day.yaml")
    assert scenario is not None
    return plan_events(scenario, folder, Random(seed))


def run_scenario(folder: Path, events: str) -> Rehearsal:
    (folder / "day.yaml").write_text(HEAD + events)
    return rehearse([], scenario=loader.load_scenario(folder), folder=folder, seconds=3600)


def test_example_succeeds_despite_failures() -> None:
    done = rehearse(loader.load(EXAMPLE), scenario=loader.load_scenario(EXAMPLE), folder=EXAMPLE, seconds=3 * 3600, seed=7)
    assert not done.failed
    assert done.duration == pytest.approx(3 * 3600)
    completed = {moment.name for moment in done.timeline if moment.kind == "Job" and "Complete=True" in moment.note}
    assert completed == {f"train-{number}" for number in range(1, 7)}
    lost = [moment for moment in done.timeline if moment.kind == "Pod" and "DisruptionTarget=True" in moment.note]
    assert lost, "a pod on the failed host is lost, and its Job makes another"


def test_a_scenario_in_the_folder_sets_length_and_seed(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        assert main.run(["rehearse", str(EXAMPLE)]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert "planned   Failure of nodes host-0" in printed[0]


def test_submissions_follow_their_interval(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "map.yaml").write_text(MAP)
    even = steps(tmp_path, "  - {at: 1m, submit: {file: jobs/map.yaml, count: 3, every: 10m}}\n")
    assert [(step.at, step.description) for step in even] == [
        (60, "submit ConfigMap/map-1"),
        (660, "submit ConfigMap/map-2"),
        (1260, "submit ConfigMap/map-3"),
    ]
    random = "  - {at: 0s, submit: {file: jobs/map.yaml, count: 50, rate: 100}}\n"
    first, again, other = (steps(tmp_path, random, seed) for seed in (1, 1, 2))
    assert [step.at for step in first] == [step.at for step in again] != [step.at for step in other]
    gaps = [later.at - earlier.at for earlier, later in pairwise(first)]
    assert 20 < sum(gaps) / len(gaps) < 60


def test_events_after_the_end_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "map.yaml").write_text(MAP)
    assert len(steps(tmp_path, "  - {at: 50m, submit: {file: jobs/map.yaml, count: 5, every: 10m}}\n")) == 2


def test_trace_submits_jobs(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "map.yaml").write_text(MAP)
    (tmp_path / "trace.csv").write_text("at,file,name\n1m,jobs/map.yaml,first\n90s,jobs/map.yaml,\n")
    traced = steps(tmp_path, "  - {at: 1m, trace: {file: trace.csv}}\n")
    assert [(step.at, step.description) for step in traced] == [(120, "submit ConfigMap/first"), (150, "submit ConfigMap/map-2")]


@pytest.mark.parametrize(
    ("trace", "problem"),
    [
        ("at,file\nsoon,jobs/map.yaml\n", 'trace.csv:2: time: invalid duration "soon"'),
        ("when,what\n1m,x\n", "trace.csv:2: a trace requires the columns at and file"),
        ("at,file\n1m,jobs/none.yaml\n", "none.yaml: no such file or directory"),
    ],
)
def test_invalid_trace_is_an_error_before_start(tmp_path: Path, trace: str, problem: str) -> None:
    (tmp_path / "trace.csv").write_text(trace)
    with pytest.raises(InvalidDocument) as refused:
        steps(tmp_path, "  - {at: 1m, trace: {file: trace.csv}}\n")
    assert problem in str(refused.value)


def test_rejected_step_is_reported_and_the_run_continues(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "map.yaml").write_text(MAP.replace("map-{n}", "Bad"))
    (tmp_path / "jobs" / "good.yaml").write_text(MAP)
    events = (
        "  - {at: 1m, submit: {file: jobs/map.yaml}}\n"
        "  - {at: 2m, failNodes: {nodes: {names: [missing]}}}\n"
        "  - {at: 3m, delete: {apiVersion: v1, kind: ConfigMap, name: none, namespace: default}}\n"
        "  - {at: 4m, apply: {file: jobs/good.yaml}}\n"
        "  - {at: 5m, patch: {apiVersion: v1, kind: ConfigMap, name: 'map-{n}', namespace: default, patch: {data: {a: b}}}}\n"
    )
    done = run_scenario(tmp_path, events)
    assert [bool(happening.refused) for happening in done.event_results] == [True, True, True, True, True]
    assert done.failed
    assert "Node not found: missing" in done.event_results[1].refused
    (tmp_path / "10-map.yaml").write_text(MAP.replace("map-{n}", "there"))
    assert main.run(["rehearse", str(tmp_path)]) == 1
    assert "rejected: +02:00.0: Failure of nodes missing: Node not found: missing" in capsys.readouterr().err


def test_second_scenario_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(HEAD + "  - {at: 1m, apply: {file: x}}\n")
    (tmp_path / "b.yaml").write_text(HEAD + "  - {at: 1m, apply: {file: x}}\n")
    with pytest.raises(InvalidDocument, match="only one Scenario is allowed"):
        loader.load_scenario(tmp_path)


def test_number_placeholder_is_replaced_everywhere() -> None:
    assert substitute_index({"a": ["x-{n}", 3, {"b": "{n}{n}"}]}, 7) == {"a": ["x-7", 3, {"b": "77"}]}


@pytest.mark.usefixtures("own_home")
def test_running_twin_advances_and_accepts_a_scenario(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "map.yaml").write_text(MAP)
    (tmp_path / "day.yaml").write_text(HEAD + "  - {at: 2m, submit: {file: jobs/map.yaml, count: 2, every: 10m}}\n")
    assert main.run(["twin", "start", "--memory", "--speed", "1000", "--quiet"]) == 0
    capsys.readouterr()
    assert main.run(["twin", "inject", "-f", str(tmp_path / "day.yaml")]) == 0
    assert capsys.readouterr().out == "+120s  submit ConfigMap/map-1\n+720s  submit ConfigMap/map-2\n"
    assert main.run(["twin", "inject", "-f", str(tmp_path / "day.yaml")]) == 1
    assert 'rejected: configmaps "map-1" already exists' in capsys.readouterr().out
    assert main.run(["twin", "advance", "0s", "--quiet"]) == 0
    before = capsys.readouterr().out.strip()
    assert main.run(["twin", "advance", "48h", "--quiet"]) == 0
    after = capsys.readouterr().out.strip()
    assert after[:10] > before[:10]
    assert clock.run(_clock_reports(twin_home.find("default").kubeconfig)) == [
        (1000.0, False),
        (1000.0, True),
        (50.0, True),
        (50.0, False),
    ]


async def _clock_reports(kubeconfig: Path) -> list[tuple[float | None, bool]]:
    """The reported clock of a twin while it is paused, changed and resumed."""
    async with open_client(kubeconfig) as client:
        result = [await twin_clock.get(client), stopped := await twin_clock.update(client, paused=True)]
        slower = await twin_clock.update(client, speed=50)
        assert slower.now == stopped.now
        with pytest.raises(BadRequest, match="expected a body such as"):
            await twin_clock.update(client, speed=-1)
        result += [slower, await twin_clock.update(client, paused=False)]
        return [(item.speed, item.paused) for item in result]


@pytest.mark.usefixtures("own_home")
def test_twin_on_real_time_cannot_be_advanced(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["twin", "advance", "1h"]) == 1
    assert "twin 'default' not found" in capsys.readouterr().err
    assert main.run(["twin", "start", "--memory", "--quiet"]) == 0
    assert main.run(["twin", "advance", "1h"]) == 1
    assert "the twin runs in real time: start it with --speed to control its clock" in capsys.readouterr().err
    assert main.run(["twin", "stop", "--quiet"]) == 0
    assert main.run(["twin", "start", "--memory", "--speed", "1", "--quiet"]) == 0
    assert main.run(["twin", "advance", "1h", "--quiet"]) == 0
    clock.run(_fast_then_paused(twin_home.find("default").kubeconfig))
    assert main.run(["twin", "stop", "--quiet", "--timeout", "10s"]) == 0


async def _fast_then_paused(kubeconfig: Path) -> None:
    """At maximum speed a client still keeps up, and a paused twin still answers."""
    async with open_client(kubeconfig) as client:
        await twin_clock.update(client, speed=3600)
    async with open_client(kubeconfig) as client:
        assert (await client.list_all(NODE)).items == []
        await clock.sleep(0.2)
        assert (await client.list_all(NODE)).items == []
        assert (await twin_clock.update(client, paused=True)).speed == 3600
        assert (await client.list_all(NODE)).items == []
