"""A folder of plain Jobs as a simulated run: its report has their timelines and the responses to lost hosts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sliceworks.cli import main
from sliceworks.rehearsal.record import loads
from sliceworks.rehearsal.simulation.job_observer import as_jobset, is_standalone
from sliceworks.training.status import job_state

FOLDER = Path(__file__).parents[2] / "examples" / "scenarios" / "host-failure"


def job(spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "a", "namespace": "b"}, "spec": {"parallelism": 2, **spec}, "status": status}


@pytest.mark.parametrize(
    ("spec", "status", "word"),
    [
        ({}, {}, "starting"),
        ({}, {"ready": 1}, "starting"),
        ({}, {"ready": 2, "failed": 1}, "running"),
        ({"suspend": True}, {}, "suspended"),
        ({}, {"conditions": [{"type": "Complete", "status": "True"}]}, "completed"),
        ({}, {"conditions": [{"type": "Failed", "status": "True"}, {"type": "FailureTarget", "status": "True"}]}, "failed"),
    ],
)
def test_job_state(spec: dict[str, Any], status: dict[str, Any], word: str) -> None:
    assert job_state(as_jobset(job(spec, status))) == word


@pytest.mark.parametrize(
    ("metadata", "requests", "plain"),
    [
        ({}, {"google.com/tpu": "4"}, True),
        ({}, {"cpu": "4", "memory": "1Gi"}, False),
        ({"ownerReferences": [{"kind": "JobSet", "name": "x"}]}, {"google.com/tpu": "4"}, False),
        ({"labels": {"kro.run/owned": "true"}}, {"google.com/tpu": "4"}, False),
    ],
)
def test_standalone_jobs_are_training_jobs(metadata: dict[str, Any], requests: dict[str, str], plain: bool) -> None:
    pod = {"containers": [{"name": "a", "resources": {"requests": requests}}]}
    assert is_standalone({"metadata": metadata, "spec": {"template": {"spec": pod}}}) is plain


def test_report_option_simulates_any_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "day.html"
    assert main.run(["rehearse", str(FOLDER), "--seed", "2", "--report", str(file), "--quiet", "-o", "json"]) == 0
    day = loads(capsys.readouterr().out.encode())
    assert [(job.name, job.outcome) for job in day.jobs] == [(f"train-{number}", "succeeded") for number in range(1, 7)]
    assert len(day.incidents) == 3
    assert all(incident.recovered_at is not None for incident in day.incidents)
    assert max(job.restarts for job in day.jobs) >= 1
    assert "host-0 stopped responding" in file.read_text()
