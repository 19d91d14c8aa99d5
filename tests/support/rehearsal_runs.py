"""Hand-written and generated records of rehearsal runs, small and large."""

from __future__ import annotations

from random import Random

from sliceworks.rehearsal.record import (
    CheckResult,
    Cost,
    Incident,
    IncidentResponse,
    InstanceRecord,
    JobRecord,
    LoadTestRecord,
    Measurements,
    RunRecord,
    Series,
    SliceRecord,
    Span,
    StepRecord,
)
from sliceworks.rehearsal.timeline import TimelineEntry

_HOUR = 3600.0


def small_run(*, passed: bool = True) -> RunRecord:
    """Three teams, three jobs, two slices, a stockout, a preemption and a failed host."""
    return RunRecord(
        name="platform",
        folder="examples/platform",
        seed=7,
        start="2026-11-16T08:00:00Z",
        duration=10 * _HOUR,
        steps=(
            StepRecord("environment", "Create the environment with Terraform", 0.0, 900.0, "done", "34 resources in 4 stages"),
            StepRecord("scenario", "Run the scenario", 900.0, 9 * _HOUR, "done", "10 jobs, 5 slices", _checks(passed)),
            StepRecord("load-test", "Load-test the gateway", 9.25 * _HOUR, 0.0, "done", "600 requests, none failed"),
            StepRecord("destroy", "Destroy everything", 9.25 * _HOUR, 0.75 * _HOUR, "done", "34 resources"),
        ),
        timeline=(
            TimelineEntry(900.0, "created", "Namespace", "", "language", "sliceworks"),
            TimelineEntry(1000.0, "created", "JobSet", "language", "pretrain", "sliceworks"),
            TimelineEntry(4000.0, "changed", "NodePool", "platform", "pretrain-a", "the cloud", "ERROR"),
        ),
        usage=(
            Series("v5e", ((1300.0, 16), (8000.0, 0), (9000.0, 16), (20000.0, 0)), "language"),
            Series("v5e", ((8000.0, 16), (9000.0, 0)), "vision"),
        ),
        capacity=(Series("v5e", ((900.0, 16), (33000.0, 0))), Series("nvidia-l4", ((900.0, 2), (33000.0, 0)))),
        jobs=_jobs(),
        slices=(
            SliceRecord(
                "v5e-0",
                "v5e",
                "4x4",
                4,
                16,
                "us-west4-a",
                "on-demand",
                300.0,
                33000.0,
                spans=(Span("provisioning", 300.0, 900.0), Span("running", 900.0, 32800.0), Span("stopping", 32800.0, 33000.0)),
            ),
            SliceRecord(
                "ablation-a",
                "v5e",
                "4x4",
                4,
                16,
                "us-west4-b",
                "spot",
                4000.0,
                7800.0,
                "vision/ablation",
                (Span("provisioning", 4000.0, 4120.0), Span("error", 4120.0, 4300.0, "no capacity in us-west4-a")),
            ),
        ),
        instances=(
            InstanceRecord(
                "GemmaOnTPUServer",
                "gemma",
                "serving",
                "graph",
                3600.0,
                30000.0,
                (Span("IN_PROGRESS", 3600.0, 5000.0), Span("ACTIVE", 5000.0, 29900.0), Span("DELETING", 29900.0, 30000.0)),
            ),
            InstanceRecord(
                "ModelService", "densenet", "serving", "triton on nvidia-tesla-t4", 1000.0, None, (Span("Ready", 1100.0, 33000.0),)
            ),
        ),
        costs=(
            Cost("language", "v5e-0", "v5e", "on-demand", 60.0, 72.0),
            Cost("vision", "ablation-a", "v5e", "spot", 4.4, 2.1),
            Cost("", "v5e-0", "v5e", "on-demand", 80.0, 96.0),
            Cost("serving", "t4", "nvidia-tesla-t4", "on-demand", 9.0, None),
        ),
        incidents=(
            Incident(
                4120.0,
                "there are no v5e machines in us-west4-a",
                "stockout",
                "slice ablation-a",
                (IncidentResponse(4300.0, "asked for spot machines in us-west4-b"),),
                4500.0,
            ),
            Incident(
                12000.0,
                "node gke-v5e-0-2 stopped responding",
                "host",
                "job language/pretrain",
                (IncidentResponse(12040.0, "started again"),),
                12300.0,
            ),
            Incident(30500.0, "the cloud refused a deletion", "cloud", "pool v5e-0"),
        ),
        measured=Measurements(
            74.2,
            {"environment": 31.0, "scenario": 22.0, "load-test": 9.5, "destroy": 11.7},
            "Terraform v1.5.7",
            (
                LoadTestRecord(
                    "chat",
                    "http://127.0.0.1:18080",
                    "llama3",
                    600,
                    0,
                    60.0,
                    60.0,
                    {"ttft": {"p50": 0.011, "p95": 0.014, "p99": 0.02}, "e2e": {"p50": 0.1, "p95": 0.14, "p99": 0.2}},
                    (CheckResult("ttft p99 < 500ms", "20 ms", passed=True),),
                ),
            ),
        ),
    )


def _checks(passed: bool) -> tuple[CheckResult, ...]:
    return (
        CheckResult(
            "job language/pretrain succeeded by 8h", "succeeded at 5h33m", passed=True, place="examples/platform/90-day.yaml:40"
        ),
        CheckResult("job vision/ablation preempted", "preempted once" if passed else "never preempted", passed=passed),
    )


def _jobs() -> tuple[JobRecord, ...]:
    return (
        JobRecord(
            "pretrain",
            "language",
            "language",
            "language",
            "high",
            "v5e",
            16,
            1000.0,
            1100.0,
            1300.0,
            20000.0,
            "succeeded",
            restarts=1,
            spans=(Span("waiting", 1000.0, 1100.0), Span("starting", 1100.0, 1300.0), Span("running", 1300.0, 20000.0)),
        ),
        JobRecord(
            "ablation",
            "vision",
            "vision",
            "vision",
            "low",
            "v5e",
            16,
            4000.0,
            4000.0,
            4500.0,
            9000.0,
            "succeeded",
            preemptions=1,
            spans=(
                Span("starting", 4000.0, 4500.0),
                Span("running", 4500.0, 6000.0),
                Span("waiting", 6000.0, 8000.0, "preempted by language/pretrain"),
                Span("running", 8000.0, 9000.0),
            ),
        ),
        JobRecord(
            "later",
            "vision",
            "vision",
            "vision",
            "low",
            "v5e",
            16,
            5000.0,
            outcome="suspended",
            spans=(Span("suspended", 5000.0, 36000.0),),
        ),
    )


_SHORT = "waits for 128 chips of v5e in queue language: 64 of 192 are free, llama-70b holds 128 until about 11:20"


def large_run(jobs: int = 1000, seed: int = 3) -> RunRecord:
    """Many jobs of five teams in three days."""
    random, duration = Random(seed), 72 * _HOUR
    lives = []
    for number in range(jobs):
        at = random.uniform(0, duration * 0.9)
        admitted = at + random.expovariate(1 / 2400)
        ended = admitted + random.expovariate(1 / 9000) + 60
        spans = (
            Span("waiting", at, admitted, _SHORT),
            Span("starting", admitted, admitted + 40),
            Span("running", admitted + 40, ended),
        )
        team = f"team-{number % 5}"
        lives.append(
            JobRecord(
                f"train-{number:04d}",
                team,
                team,
                team,
                "normal",
                "v5e",
                16,
                at,
                admitted,
                admitted + 40,
                ended,
                "succeeded",
                spans=spans,
            )
        )
    slices = tuple(
        SliceRecord(
            f"pool-{job.name}",
            "v5e",
            "4x4",
            4,
            16,
            "us-central1-a",
            "spot",
            job.submitted,
            job.ended,
            f"{job.namespace}/{job.name}",
        )
        for job in lives
    )
    return RunRecord(
        "large",
        ".",
        seed,
        "2026-11-16T08:00:00Z",
        duration,
        usage=_held(lives),
        capacity=(Series("v5e", ((0, 2048),)),),
        jobs=tuple(lives),
        slices=slices,
    )


def _held(jobs: list[JobRecord]) -> tuple[Series, ...]:
    result = []
    for team in sorted({job.team for job in jobs}):
        changes = sorted(
            change for job in jobs if job.team == team for change in ((job.admitted or 0.0, 16), (job.ended or 0.0, -16))
        )
        points, held = [], 0
        for at, change in changes:
            held += change
            points.append((at, held))
        result.append(Series("v5e", tuple(points), team))
    return tuple(result)
