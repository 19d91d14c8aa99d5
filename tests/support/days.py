"""A hand-made record of a rehearsed day: small, with one of everything that a page has to show."""

from __future__ import annotations

from sliceworks.rehearsal.day.record import (
    Answer,
    Check,
    Cost,
    Day,
    Incident,
    JobLife,
    Life,
    LoadRun,
    Measured,
    Series,
    SliceLife,
    Span,
    Step,
)
from sliceworks.rehearsal.timeline import Moment

_HOUR = 3600.0


def a_day(*, kept: bool = True) -> Day:
    """Three teams, three jobs, two slices, a stockout, a preemption and a host that fails."""
    return Day(
        name="platform",
        folder="examples/platform",
        seed=7,
        start="2026-11-16T08:00:00Z",
        lasted=10 * _HOUR,
        steps=(
            Step("environment", "Make the environment with Terraform", 0.0, 900.0, "done", "made 34 resources in 4 stages"),
            Step("day", "Let the day pass", 900.0, 9 * _HOUR, "done", "10 jobs, 5 slices", _checks(kept)),
            Step("load-test", "Test the gateway under load", 9.25 * _HOUR, 0.0, "done", "600 requests, none failed"),
            Step("destroy", "Remove everything", 9.25 * _HOUR, 0.75 * _HOUR, "done", "removed 34 resources"),
        ),
        moments=(
            Moment(900.0, "created", "Namespace", "", "language", "sliceworks"),
            Moment(1000.0, "created", "JobSet", "language", "pretrain", "sliceworks"),
            Moment(4000.0, "changed", "NodePool", "platform", "pretrain-a", "the cloud", "ERROR"),
        ),
        usage=(
            Series("v5e", ((1300.0, 16), (8000.0, 0), (9000.0, 16), (20000.0, 0)), "language"),
            Series("v5e", ((8000.0, 16), (9000.0, 0)), "vision"),
        ),
        capacity=(Series("v5e", ((900.0, 16), (33000.0, 0))), Series("nvidia-l4", ((900.0, 2), (33000.0, 0)))),
        jobs=_jobs(),
        slices=(
            SliceLife(
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
            SliceLife(
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
        lives=(
            Life(
                "GemmaOnTPUServer",
                "gemma",
                "serving",
                "graph",
                3600.0,
                30000.0,
                (Span("IN_PROGRESS", 3600.0, 5000.0), Span("ACTIVE", 5000.0, 29900.0), Span("DELETING", 29900.0, 30000.0)),
            ),
            Life(
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
                (Answer(4300.0, "asked for spot machines in us-west4-b"),),
                4500.0,
            ),
            Incident(
                12000.0,
                "node gke-v5e-0-2 went silent",
                "host",
                "job language/pretrain",
                (Answer(12040.0, "started again"),),
                12300.0,
            ),
            Incident(30500.0, "the cloud refused a deletion", "cloud", "pool v5e-0"),
        ),
        measured=Measured(
            74.2,
            {"environment": 31.0, "day": 22.0, "load-test": 9.5, "destroy": 11.7},
            "Terraform v1.5.7",
            (
                LoadRun(
                    "chat",
                    "http://127.0.0.1:18080",
                    "llama3",
                    600,
                    0,
                    60.0,
                    60.0,
                    {"ttft": {"p50": 0.011, "p95": 0.014, "p99": 0.02}, "e2e": {"p50": 0.1, "p95": 0.14, "p99": 0.2}},
                    (Check("ttft p99 < 500ms", "20 ms", kept=True),),
                ),
            ),
        ),
    )


def _checks(kept: bool) -> tuple[Check, ...]:
    return (
        Check("job language/pretrain succeeded by 8h", "succeeded at 5h33m", kept=True, place="examples/platform/90-day.yaml:40"),
        Check("job vision/ablation preempted", "preempted once" if kept else "never preempted", kept=kept),
    )


def _jobs() -> tuple[JobLife, ...]:
    return (
        JobLife(
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
        JobLife(
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
        JobLife(
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
