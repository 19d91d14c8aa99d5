"""Forecasts of start and end times from known run times, and cases that cannot be forecast."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import pytest
from tests.support.queue_states import CHIPS, NOON, State, condition

from sliceworks.base.errors import InvalidDocument
from sliceworks.rehearsal.forecast import whatif
from sliceworks.rehearsal.forecast.forecaster import Forecast, Forecaster, JobForecast
from sliceworks.rehearsal.forecast.jobs import name_stem
from sliceworks.rehearsal.forecast.run_time import from_estimate, from_ratios, from_runs

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "apiVersion: sliceworks.dev/v1alpha1\nkind: Scenario\nmetadata: {name: if}\nspec:\n  events:\n"


def compute_forecast(state: State, *, assume: float | None = None, seed: int = 0) -> Forecast:
    outlook = Forecaster(state.snapshot(), assume)
    return outlook.forecast(list(outlook.jobs.values()), seed=seed)


def by_name(forecast: Forecast) -> dict[str, JobForecast]:
    return {item.job.name: item for item in forecast.expectations}


def medians(job: JobForecast) -> tuple[float, float]:
    assert job.starts is not None
    assert job.ends is not None
    return job.starts.median, job.ends.median


def test_job_starts_when_the_job_ahead_ends() -> None:
    state = State(16)
    state.past("a", *[600.0] * 40)
    state.job("a-100", started=-300)
    state.job("a-101", came=-200)
    state.job("a-102", came=-100)
    result = by_name(compute_forecast(state))
    assert medians(result["a-100"]) == pytest.approx((-300, 300), abs=1)
    assert medians(result["a-101"]) == pytest.approx((300, 900), abs=1)
    assert medians(result["a-102"]) == pytest.approx((900, 1500), abs=1)
    assert result["a-101"].source == "40 runs called a-… of this size"


def test_priority_order_and_backfill() -> None:
    state = State(16)
    state.past("a", *[600.0] * 40)
    state.past("b", *[600.0] * 40, chips=4)
    state.job("a-100", 16, came=-300)
    state.job("a-101", 16, came=-200, priority=100)
    state.job("b-100", 4, came=-100)
    result = by_name(compute_forecast(state))
    assert medians(result["a-101"])[0] == 0
    assert medians(result["a-100"])[0] == pytest.approx(600, abs=1)
    assert medians(result["b-100"])[0] == pytest.approx(1200, abs=1)


def test_preempted_job_restarts_or_resumes() -> None:
    policy = {"preemption": {"withinClusterQueue": "LowerPriority"}}
    ends = {}
    for keeps in (False, True):
        state = State(16, **policy)
        state.past("a", *[1000.0] * 40)
        state.job("a-100", started=-900, keeps=keeps)
        state.job("a-101", priority=100)
        result = by_name(compute_forecast(state))
        assert medians(result["a-101"]) == pytest.approx((0, 1000), abs=1)
        assert result["a-100"].preempted == 1
        ends[keeps] = medians(result["a-100"])[1]
    assert ends[False] == pytest.approx(2000, abs=1)
    assert ends[True] == pytest.approx(1100, abs=1)


def test_unchecked_estimate_has_a_wider_spread() -> None:
    state = State(16)
    state.job("a", estimate=3600)
    ends = by_name(compute_forecast(state))["a"].ends
    assert ends is not None
    assert ends.median == pytest.approx(3600, rel=0.15)
    assert [ends.low, ends.high] == pytest.approx([1800, 7200], rel=0.2)
    state.past("other", *(2000.0 + number for number in range(50)), estimate=1000)
    checked = by_name(compute_forecast(state))["a"]
    assert checked.source == "estimate 60m, as right as 50 of this team's were"
    assert checked.ends is not None
    assert checked.ends.median == pytest.approx(7300, rel=0.02)
    assert checked.ends.high - checked.ends.low < 200


def test_run_longer_than_history_continues() -> None:
    state = State(16)
    state.past("a", 100, 110, 120, 130)
    state.job("a-9", started=-500)
    result = by_name(compute_forecast(state))["a-9"].ends
    assert result is not None
    assert 0 < result.low < result.median < result.high < 5000


def test_unknown_run_time_has_no_forecast() -> None:
    state = State(16)
    state.job("mystery", started=-60)
    state.job("mine", estimate=600)
    result = compute_forecast(state)
    assert (by_name(result)["mine"].verdict, by_name(result)["mine"].starts) == ("unknown", None)
    assert by_name(result)["mine"].reason == "the run time of mystery is unknown"
    assert by_name(result)["mystery"].ends is None
    assert any("The run time of 1 of 2 jobs is unknown (mystery)" in assumption for assumption in result.assumptions)
    assumed = by_name(compute_forecast(state, assume=900))["mine"]
    assert assumed.starts is not None
    assert assumed.starts.median == pytest.approx(840, rel=0.3)


def test_inadmissible_jobs_have_a_reason() -> None:
    state = State(16)
    state.queue("stopped", {"v4": 16}, stopPolicy="Hold")
    state.queue("flavorless", {"gone": 16})
    state.put("LocalQueue", "held", namespace="team", spec={"clusterQueue": "stopped"})
    state.put("LocalQueue", "nowhere", namespace="team", spec={"clusterQueue": "no-such"})
    state.put("LocalQueue", "flavorless", namespace="team", spec={"clusterQueue": "flavorless"})
    state.put("Namespace", "others", labels={"team": "others"})
    state.queue("choosy", {"v4": 16}, namespaceSelector={"matchLabels": {"team": "others"}})
    state.put("LocalQueue", "choosy", namespace="team", spec={"clusterQueue": "choosy"})
    for name, chips, queue in (
        ("big", 32, "queue"),
        ("stopped", 4, "held"),
        ("lost", 4, "no-such-queue"),
        ("nowhere", 4, "nowhere"),
        ("flavorless", 4, "flavorless"),
        ("stranger", 4, "choosy"),
    ):
        state.job(name, chips, queue=queue, estimate=60)
    state.job("inactive", 4, estimate=60)["spec"]["active"] = False
    result = by_name(compute_forecast(state))
    assert {item.verdict for item in result.values()} == {"never"}
    assert {name: item.reason for name, item in result.items()} == {
        "big": f"it requests 32 {CHIPS}, ClusterQueue all provides at most 16 per flavor",
        "stopped": "ClusterQueue stopped: Can't admit new workloads: is stopped.",
        "lost": "queue 'no-such-queue' not found in namespace team",
        "nowhere": "queue nowhere refers to ClusterQueue no-such, which does not exist",
        "flavorless": "ClusterQueue flavorless: Can't admit new workloads: references missing ResourceFlavor(s): gone.",
        "stranger": "Workload namespace doesn't match ClusterQueue selector",
        "inactive": "it is deactivated (spec.active of its Workload is false)",
    }


def test_strict_queue_is_blocked_by_inadmissible_head() -> None:
    state = State(16, queueingStrategy="StrictFIFO")
    state.job("big", 32, came=-600, estimate=60)
    state.job("small", 4, came=-300, estimate=60)
    result = by_name(compute_forecast(state))["small"]
    assert (result.verdict, result.reason) == (
        "never",
        "ClusterQueue all is StrictFIFO, and its head big cannot start",
    )


def test_forecast_depends_on_the_seed() -> None:
    state = State(16)
    for number in range(6):
        state.job(f"job-{number}", 16, came=-100 + number, estimate=600)
    first, again, other = (compute_forecast(state, seed=seed).expectations for seed in (3, 3, 4))
    assert [item.ends for item in first] == [item.ends for item in again] != [item.ends for item in other]


def test_requeued_job_waits_for_its_backoff() -> None:
    state = State(16)
    job = state.job("late", estimate=60)
    job["status"]["requeueState"] = {"requeueAt": "2026-11-16T12:05:00Z"}
    job["status"]["conditions"] = [{**condition("Requeued", -10, "PodsReadyTimeout"), "status": "False"}]
    assert medians(by_name(compute_forecast(state))["late"])[0] == 300


def test_time_from_admission_to_ready_follows_history() -> None:
    state = State(16)
    state.past("a", *[600.0] * 40)
    for workload in state.objects["Workload"]:
        started = datetime.fromisoformat(workload["status"]["conditions"][0]["lastTransitionTime"])
        workload["status"]["conditions"].append(condition("PodsReady", (started - NOON).total_seconds() + 90, "PodsReady"))
    state.job("a-100")
    result = compute_forecast(state)
    assert medians(by_name(result)["a-100"]) == pytest.approx((90, 600), abs=1)
    assert any("are ready 90s after admission, as before" in assumption for assumption in result.assumptions)


@pytest.mark.parametrize(
    ("event", "starts"),
    [
        ("{at: 0s, setQuota: {clusterQueue: all, flavor: v4, resource: google.com/tpu, delta: '32'}}", 0),
        ("{at: 5m, setQuota: {clusterQueue: all, flavor: v4, resource: google.com/tpu, nominal: '48'}}", 300),
        ("{at: 0s, setPriority: {job: mine, priority: high}}", 600),
        ("{at: 0s, delete: {apiVersion: v1, kind: JobSet, name: a-101}}", 600),
        ("{at: 10m, submit: {file: job.yaml}}", 1200),
        ("{at: 0s, submit: {file: urgent.yaml}}", 1800),
    ],
)
def test_what_if(event: str, starts: float, tmp_path: Path) -> None:
    state = State(16)
    state.past("a", *[600.0] * 40)
    state.job("a-100", started=0)
    state.job("a-101", came=-500)
    state.job("mine", came=-400, estimate=600)
    state.past("mine", *[600.0] * 40)
    document = """
        apiVersion: sliceworks.dev/v1alpha1
        kind: TrainingJob
        metadata: {name: a-200, namespace: team}
        spec: {queue: queue, slices: {type: v4-32}, image: 'train:1', estimate: 10m}"""
    (tmp_path / "job.yaml").write_text(document)
    (tmp_path / "urgent.yaml").write_text(document.replace("queue: queue,", "queue: queue, priority: high,"))
    (tmp_path / "if.yaml").write_text(f"{HEAD}  - {event}\n")
    # Its pods also request CPU and memory: the queue must cover them.
    groups = state.objects["ClusterQueue"][0]["spec"]["resourceGroups"]
    groups.append(
        {
            "coveredResources": ["cpu", "memory"],
            "flavors": [
                {"name": "v4", "resources": [{"name": "cpu", "nominalQuota": "1k"}, {"name": "memory", "nominalQuota": "10Ti"}]}
            ],
        }
    )
    outlook = Forecaster(state.snapshot())
    [mine] = whatif.find(outlook, "mine")
    changed = whatif.read(tmp_path / "if.yaml", outlook)
    [before] = outlook.forecast([mine], runs=20).expectations
    [after] = outlook.forecast([mine], extra_jobs=changed.extra_jobs, events=changed.events, runs=20).expectations
    assert medians(before)[0] == pytest.approx(1200, abs=1)
    assert medians(after)[0] == pytest.approx(starts, rel=0.4 if starts == 1800 else 0.01, abs=1)
    assert len(changed.messages) == 1


def test_ended_reservation_evicts_its_jobs(tmp_path: Path) -> None:
    state = State(0)
    state.put("ResourceFlavor", "held", spec={"nodeLabels": {"cloud.google.com/reservation-name": "autumn"}})
    state.queue("all", {"held": 16, "v4": 16})
    state.past("a", *[6000.0] * 40)
    state.job("a-100", started=-60, flavor="held")
    state.job("a-101", came=-30)
    start = "  start: 2026-11-16T13:00:00Z\n  events:\n  - {at: 0s, endReservation: {reservation: autumn}}\n"
    (tmp_path / "if.yaml").write_text(HEAD.replace("  events:\n", start))
    outlook = Forecaster(state.snapshot())
    jobs = list(outlook.jobs.values())
    changed = whatif.read(tmp_path / "if.yaml", outlook)
    result = by_name(outlook.forecast(jobs, events=changed.events, runs=20))
    assert result["a-100"].preempted == 1
    assert medians(result["a-101"])[0] == 0
    # It waits until the other one ends, and restarts.
    assert medians(result["a-100"])[1] == pytest.approx(12_000, abs=10)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        ("{at: 0s, setQuota: {clusterQueue: al, flavor: v4, resource: x, delta: '1'}}", "if.yaml:6: ClusterQueue 'al' not found"),
        ("{at: 0s, setQuota: {clusterQueue: all, flavor: v5, resource: x, delta: '1'}}", "if.yaml:6: all has no x of flavor v5"),
        ("{at: 0s, setQuota: {clusterQueue: all, flavor: v4, resource: x}}", "exactly one of nominal and delta is required"),
        (
            "{at: 0s, setQuota: {clusterQueue: all, flavor: v4, resource: x, delta: much}}",
            "if.yaml:6: spec.events[0].setQuota.delta",
        ),
        ("{at: 0s, setPriority: {job: mine, priority: hihg}}", "if.yaml:6: priority 'hihg' not found"),
        ("{at: 0s, setPriority: {job: mnie, priority: high}}", "if.yaml:6: job 'mnie' is neither running nor pending"),
        ("{at: 0s, endReservation: {reservation: autumn}}", "if.yaml:6: reservation 'autumn' not found"),
        (
            "{at: 0s, failNodes: {nodes: {count: 1}}}",
            "if.yaml:6: failNodes: not supported in a forecast, which has queues but no machines",
        ),
    ],
)
def test_invalid_what_if_is_an_error(event: str, words: str, tmp_path: Path) -> None:
    state = State(16)
    state.job("mine", estimate=60)
    (tmp_path / "if.yaml").write_text(f"{HEAD}  - {event}\n")
    with pytest.raises(InvalidDocument) as caught:
        whatif.read(tmp_path / "if.yaml", Forecaster(state.snapshot()))
    assert words in str(caught.value)


def test_generated_names_share_history() -> None:
    same = {name_stem(name) for name in ("train-17", "train-0018", "train-2026-11-15", "train-5f3a9c", "train")}
    assert same == {"train"}
    assert name_stem("resnet-50-7") == "resnet"
    assert name_stem("17") == "17"
    assert name_stem("llama-7b-x") == "llama-7b-x"


def test_spread_keeps_its_quantiles() -> None:
    guess = from_estimate(3600)
    assert guess.quantile(0.5) == pytest.approx(3600)
    assert [guess.quantile(0.05), guess.quantile(0.95)] == pytest.approx([1800, 7200])
    assert guess.quantile(0.5, beyond=7200) > 7200
    assert guess.quantile(0.01, beyond=1e9) > 1e9
    many = from_runs([100.0] * 50 + [1000.0] * 50)
    assert [many.quantile(0.25), many.quantile(0.75)] == pytest.approx([100, 1000])
    assert many.quantile(0.01, beyond=500) == pytest.approx(1000)
    assert from_runs([100, 110, 120]).stddev < guess.stddev
    assert from_ratios([2.0] * 100).scale(60).quantile(0.5) == pytest.approx(120, rel=0.05)
