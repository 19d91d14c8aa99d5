"""The record of a run with ten jobs of three teams and many incidents."""

from __future__ import annotations

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

HOUR = 3600.0
_SHORT = "waits for 128 chips of v5e in queue language: 64 of 192 are free, llama-70b holds 128 until about 11:20"


def eventful_run() -> RunRecord:
    """Ten jobs, a stockout, a lost host, a preemption, a crash without recovery."""
    return RunRecord(
        name="platform",
        folder="examples/platform",
        seed=7,
        start="2026-11-16T08:00:00Z",
        duration=8 * HOUR,
        steps=_steps(),
        usage=(
            Series("v5e", ((0, 0), (1200, 64), (3000, 192), (9000, 128), (16000, 192), (21000, 64), (25000, 0)), "language"),
            Series("v5e", ((0, 0), (2400, 32), (12000, 64), (20000, 0)), "vision"),
            Series("v4", ((0, 0), (3600, 32), (18000, 0)), "vision"),
            Series("nvidia-l4", ((0, 0), (5000, 8), (26000, 0)), "serving"),
        ),
        capacity=(
            Series("v5e", ((0, 0), (600, 128), (2800, 256), (26000, 0))),
            Series("v4", ((0, 0), (3300, 32), (18500, 0))),
            Series("nvidia-l4", ((0, 0), (600, 8), (27000, 0))),
        ),
        jobs=_jobs(),
        slices=_slices(),
        instances=(
            InstanceRecord(
                "GemmaOnTPU",
                "gemma-chat",
                "serving",
                "graph of 6 resources",
                5000,
                20000,
                (Span("IN_PROGRESS", 5000, 5400), Span("ACTIVE", 5400, 19800), Span("DELETING", 19800, 20000)),
            ),
            InstanceRecord(
                "ModelService",
                "llama2-7b",
                "serving",
                "saxml on v5e",
                6000,
                25000,
                (Span("Progressing", 6000, 6500), Span("Ready", 6500, 25000)),
            ),
            InstanceRecord(
                "ModelService",
                "densenet",
                "serving",
                "triton on nvidia-l4",
                6200,
                25000,
                (Span("Progressing", 6200, 6300), Span("Ready", 6300, 25000)),
            ),
        ),
        costs=(
            Cost("language", "tpu-v5e", "v5e", "on-demand", 820, 984.0),
            Cost("language", "tpu-v5e-spot", "v5e", "spot", 130, 62.4),
            Cost("vision", "tpu-v5e", "v5e", "on-demand", 210, 252.0),
            Cost("vision", "tpu-v4", "v4", "reserved", 128, 412.2),
            Cost("serving", "gpu-l4", "nvidia-l4", "on-demand", 47, None),
            Cost("", "tpu-v5e", "v5e", "on-demand", 300, 360.0),
        ),
        incidents=_incidents(),
        measured=Measurements(
            seconds=71.3,
            load_runs=(
                LoadTestRecord(
                    "chat",
                    "http://127.0.0.1:9000",
                    "llama2-7b",
                    1200,
                    3,
                    20.0,
                    19.6,
                    {"ttft": {"p50": 0.021, "p99": 0.093}, "e2e": {"p50": 0.41, "p99": 0.9}},
                    (CheckResult("first token p99 at most 200 ms", "93 ms", True),),
                    "load/chat/report.html",
                ),
            ),
        ),
    )


def _steps() -> tuple[StepRecord, ...]:
    return (
        StepRecord(
            "environment",
            "Environment applied",
            0,
            600,
            "done",
            "34 resources in 4 stages",
            (CheckResult("34 resources", "34 resources", True, "day.yaml:12"),),
        ),
        StepRecord("queues", "Teams and queues", 600, 20, "done", "3 teams, 4 queues"),
        StepRecord(
            "jobs",
            "Ten jobs of three teams",
            900,
            21000,
            "done",
            "9 succeeded, 1 failed",
            (
                CheckResult("resnet succeeded", "succeeded", True, "day.yaml:20"),
                CheckResult("bert succeeded", "failed: 3 restarts were used up", False, "day.yaml:21"),
            ),
        ),
        StepRecord("graph", "Gemma created, changed, deleted", 5000, 15000, "done", "2 changes"),
        StepRecord("services", "Three model services", 6000, 600, "done", "saxml, triton, vllm"),
        StepRecord("load-test", "Load test through a gateway", 7000, 60, "done", "1,200 requests"),
        StepRecord("destroy", "Everything destroyed", 26000, 1200, "done", "nothing is left"),
    )


def _jobs() -> tuple[JobRecord, ...]:
    preempted = "preempted by urgent-eval, which has a higher priority"
    lost, moved = "host gke-v5e-3 was lost", "no v4 in us-central2-b: asked again in us-central2-a"
    return (
        _job(
            "language/llama-70b",
            "v5e × 128",
            900,
            ("waiting", 1200, "the slice is being made"),
            ("starting", 1400, ""),
            ("running", 9000, ""),
            ("waiting", 12000, preempted),
            ("starting", 12100, ""),
            ("running", 21000, ""),
        ),
        _job("language/llama-8b", "v5e × 64", 1000, ("waiting", 2900, _SHORT), ("starting", 3000, ""), ("running", 16000, "")),
        _job("language/urgent-eval", "v5e × 128", 8900, ("waiting", 9000, ""), ("running", 12000, "")),
        _job("language/tokenizer", "v5e × 16", 5000, ("waiting", 12500, _SHORT), ("running", 14000, "")),
        _job(
            "vision/resnet",
            "v5e × 32",
            2000,
            ("waiting", 2400, ""),
            ("starting", 2500, ""),
            ("running", 11000, ""),
            ("starting", 11400, lost),
            ("running", 20000, ""),
        ),
        _job("vision/vit-large", "v4 × 32", 3000, ("waiting", 3600, moved), ("running", 18000, "")),
        _job("vision/detr", "v5e × 32", 10000, ("waiting", 12000, "quota of vision is in use"), ("running", 17000, "")),
        _job(
            "vision/bert",
            "v5e × 16",
            13000,
            ("running", 14000, ""),
            ("starting", 14100, ""),
            ("running", 16000, ""),
            outcome="failed",
        ),
        _job(
            "serving/paused",
            "nvidia-l4 × 4",
            4000,
            ("suspended", 15000, "suspended by its owner"),
            ("waiting", 15100, ""),
            ("running", 22000, ""),
        ),
        _job("serving/distil", "nvidia-l4 × 4", 5000, ("running", 26000, "")),
    )


def _job(path: str, chips: str, at: float, *spans: tuple[str, float, str], outcome: str = "succeeded") -> JobRecord:
    (team, name), (chip, number) = path.split("/"), chips.split(" × ")
    result, begin = [], at
    for state, end, note in spans:
        result.append(Span(state, begin, end, note))
        begin = end
    states = [span.state for span in result]
    ran = [span.begin for span in result if span.state == "running"]
    return JobRecord(
        name,
        team,
        team,
        f"queue-{team}",
        "normal",
        chip,
        int(number),
        submitted=at,
        admitted=next(span.begin for span in result if span.state in {"starting", "running"}),
        started=ran[0],
        ended=begin,
        outcome=outcome,
        preemptions=states.count("waiting") - 1,
        restarts=len(ran) - 1,
        spans=tuple(result),
    )


def _slices() -> tuple[SliceRecord, ...]:
    return (
        SliceRecord(
            "pool-llama-70b-0",
            "v5e",
            "8x16",
            32,
            128,
            "us-central1-a",
            "on-demand",
            900,
            21200,
            "language/llama-70b",
            (Span("provisioning", 900, 1200), Span("running", 1200, 21000), Span("stopping", 21000, 21200)),
        ),
        SliceRecord(
            "pool-vit-large-0",
            "v4",
            "4x4x2",
            8,
            32,
            "us-central2-b",
            "on-demand",
            3000,
            3200,
            "vision/vit-large",
            (Span("provisioning", 3000, 3100), Span("error", 3100, 3200, "GCE_STOCKOUT")),
        ),
        SliceRecord(
            "pool-vit-large-1",
            "v4",
            "4x4x2",
            8,
            32,
            "us-central2-a",
            "reserved",
            3200,
            18500,
            "vision/vit-large",
            (Span("provisioning", 3200, 3600), Span("running", 3600, 18300), Span("stopping", 18300, 18500)),
        ),
        SliceRecord("gpu-l4", "nvidia-l4", "", 8, 8, "us-central1-a", "on-demand", 600),
    )


def _incidents() -> tuple[Incident, ...]:
    return (
        Incident(
            3100,
            "no v4 machines in us-central2-b",
            "stockout",
            "slice pool-vit-large-0",
            (
                IncidentResponse(3110, "marked the zone as out of v4 for 10 min"),
                IncidentResponse(3200, "asked for the slice in us-central2-a, from the reservation"),
            ),
            3600,
        ),
        Incident(
            8900,
            "urgent-eval preempted llama-70b",
            "preemption",
            "job language/llama-70b",
            (
                IncidentResponse(8900, "evicted llama-70b: a checkpoint was 4 min old"),
                IncidentResponse(12000, "admitted llama-70b again"),
            ),
            12100,
        ),
        Incident(
            11000,
            "host gke-v5e-3 stopped answering",
            "host",
            "node gke-v5e-3",
            (
                IncidentResponse(11040, "marked the node as not ready"),
                IncidentResponse(11090, "ended its pods; the JobSet begins again"),
                IncidentResponse(11300, "repaired the host"),
            ),
            11400,
        ),
        Incident(
            14000,
            "bert crashed with exit code 1",
            "crash",
            "job vision/bert",
            (
                IncidentResponse(14000, "restarted it"),
                IncidentResponse(15000, "restarted it"),
                IncidentResponse(16000, "gave up: its 2 restarts are used up"),
            ),
        ),
    )
