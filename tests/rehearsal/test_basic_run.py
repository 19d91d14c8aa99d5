"""Rehearsals: documents are applied, rejections are reported with their location, and one seed gives one result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sliceworks.cli import main
from sliceworks.platform import loader
from sliceworks.rehearsal.basic_run import rehearse, summarize_status

EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFESTS = EXAMPLES / "manifests"


def test_example_manifests_are_accepted() -> None:
    done = rehearse(loader.load(MANIFESTS))
    assert [outcome.reason for outcome in done.refused] == []
    assert {outcome.result for outcome in done.outcomes} == {"created"}
    assert len(done.outcomes) == 32
    states = {outcome.document.name: outcome.state for outcome in done.outcomes}
    assert (states["Job/resnet"], states["Deployment/gemma"], states["Node/gpu-l4-0"]) == ("Complete", "2/2 ready", "Ready")
    assert done.duration == pytest.approx(60)
    reported = {(moment.verb, moment.subject) for moment in done.timeline}
    assert ("created", "ServiceAccount team-vision/default") in reported
    assert ("created", "SliceReservation team-language/pretraining") in reported


def test_instance_waits_for_its_graph() -> None:
    done = rehearse(loader.load(EXAMPLES / "graphs" / "web-application"))
    assert [outcome.reason for outcome in done.refused] == []
    states = {outcome.document.name: outcome.state for outcome in done.outcomes}
    assert states["WebApplication/shop"].endswith("Ready")


def test_job_that_is_not_ready_in_time_is_evicted(tmp_path: Path) -> None:
    """An Environment's `queues.readyWithin` applies, and counts the jobs before the training."""
    environment = (EXAMPLES / "environments" / "training" / "environment.yaml").read_text()
    assert "sharing: one-queue" in environment
    (tmp_path / "e.yaml").write_text(environment.replace("sharing: one-queue", "sharing: one-queue\n    readyWithin: 5m"))
    job = (EXAMPLES / "training-jobs" / "prepare-train-evaluate.yaml").read_text()
    (tmp_path / "job.yaml").write_text(job.replace("estimate: 2m", "estimate: 10m"))
    done = rehearse(loader.load(tmp_path), seconds=900)
    assert [outcome.reason for outcome in done.refused] == []
    evicted = [moment.at for moment in done.timeline if "Evicted=True" in moment.note]
    assert evicted[0] == pytest.approx(300, abs=5)


def test_rejected_graph_does_not_block(tmp_path: Path) -> None:
    wrong = (EXAMPLES / "graphs" / "web-application" / "definition.yaml").read_text().replace("apps/v1", "apps/v9")
    (tmp_path / "graph.yaml").write_text(wrong)
    (tmp_path / "note.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note}\n")
    done = rehearse(loader.load(tmp_path))
    assert [outcome.result for outcome in done.outcomes] == ["created", "created"]
    assert next(moment.at for moment in done.timeline if moment.subject == "ConfigMap default/note") < 2


def test_same_seed_gives_the_same_events(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        assert main.run(["rehearse", str(MANIFESTS), "--seed", "7", "--for", "1h"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0].startswith("TIME       WHAT      OBJECT")


def test_rejection_is_reported_with_its_location(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Wrong}\n"
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: right}\n"
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: x, namespace: missing}\n"
    )
    assert main.run(["rehearse", str(tmp_path), "--quiet", "-o", "json"]) == 1
    out, err = capsys.readouterr()
    assert [(item["name"], item["result"]) for item in json.loads(out)] == [
        ("Wrong", "refused"),
        ("right", "created"),
        ("x", "refused"),
    ]
    wrong, missing = err.splitlines()
    assert wrong.startswith(
        f'rejected: {tmp_path}/a.yaml:1: ConfigMap/Wrong: ConfigMap "Wrong" is invalid: metadata.name: Invalid value'
    )
    assert missing.endswith('ConfigMap/x: namespaces "missing" not found')


def test_nothing_to_rehearse_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["rehearse", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}: has no documents")
    assert main.run(["rehearse", str(tmp_path / "missing")]) == 2


def test_scenario_alone_is_rehearsed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "map.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: later}\n")
    events = "[{at: 1s, submit: {file: jobs/map.yaml}}]"
    (tmp_path / "day.yaml").write_text(
        f"apiVersion: sliceworks.dev/v1alpha1\nkind: Scenario\nmetadata: {{name: day}}\nspec: {{duration: 5s, events: {events}}}\n"
    )
    assert main.run(["rehearse", str(tmp_path), "--quiet"]) == 0
    assert "ConfigMap default/later" in capsys.readouterr().out


def test_object_states() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Full", "status": "False"}]}
    assert summarize_status({"kind": "Thing", "status": ready}) == "Ready"
    assert summarize_status({"kind": "Thing", "status": {"phase": "Bound"}}) == "Bound"
    assert summarize_status({"kind": "ConfigMap"}) == ""
    assert summarize_status({"kind": "Deployment", "spec": {"replicas": 3}, "status": {"readyReplicas": 1}}) == "1/3 ready"
    assert summarize_status({"kind": "Job", "spec": {"completions": 4}, "status": {"succeeded": 2}}) == "2/4 succeeded"
    assert summarize_status({"kind": "Job", "spec": {"suspend": True}}) == "suspended"
    assert summarize_status({"kind": "Job", "status": {"conditions": [{"type": "Complete", "status": "True"}]}}) == "Complete"
    assert summarize_status({"kind": "Node", "status": ready}) == "Ready"
    assert summarize_status({"kind": "Node"}) == "NotReady"
    quota = {"kind": "ResourceQuota", "spec": {"hard": {"pods": "4", "requests.cpu": "2"}}, "status": {"used": {"pods": "1"}}}
    assert summarize_status(quota) == "pods 1/4, cpu 0/2"
    assert summarize_status({"kind": "PodDisruptionBudget", "status": {"disruptionsAllowed": 2}}) == "2 disruptions allowed"
    autoscaler: dict[str, Any] = {"kind": "HorizontalPodAutoscaler", "spec": {"minReplicas": 2, "maxReplicas": 6}}
    assert summarize_status(autoscaler) == "0 of 2 to 6"
    unmeasured = {"type": "ScalingActive", "status": "False", "reason": "FailedGetPodsMetric"}
    unlimited = {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange"}
    autoscaler["status"] = {"currentReplicas": 2, "conditions": [unmeasured, unlimited]}
    assert summarize_status(autoscaler) == "2 of 2 to 6, no metrics on a twin"
