"""Rehearsals: everything applied, refusals told with their place, one seed one course."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sliceworks.cli import main
from sliceworks.rehearsal import documents
from sliceworks.rehearsal.rehearse import rehearse
from sliceworks.rehearsal.standing import standing

EXAMPLES = Path(__file__).parents[2] / "examples"
MANIFESTS = EXAMPLES / "manifests"


def test_the_example_manifests_are_taken_whole() -> None:
    done = rehearse(documents.read(MANIFESTS))
    assert [outcome.reason for outcome in done.refused] == []
    assert {outcome.result for outcome in done.outcomes} == {"created"}
    assert len(done.outcomes) == 32
    states = {outcome.document.name: outcome.state for outcome in done.outcomes}
    assert (states["Job/resnet"], states["Deployment/gemma"], states["Node/gpu-l4-0"]) == ("Complete", "2/2 ready", "Ready")
    assert done.lasted == pytest.approx(60)
    told = {(moment.verb, moment.subject) for moment in done.moments}
    assert ("created", "ServiceAccount team-vision/default") in told
    assert ("created", "SliceReservation team-language/pretraining") in told


def test_an_instance_waits_for_the_graph_beside_it() -> None:
    done = rehearse(documents.read(EXAMPLES / "graphs" / "web-application"))
    assert [outcome.reason for outcome in done.refused] == []
    states = {outcome.document.name: outcome.state for outcome in done.outcomes}
    assert states["WebApplication/shop"].endswith("Ready")


def test_a_graph_that_is_refused_holds_up_nothing(tmp_path: Path) -> None:
    wrong = (EXAMPLES / "graphs" / "web-application" / "definition.yaml").read_text().replace("apps/v1", "apps/v9")
    (tmp_path / "graph.yaml").write_text(wrong)
    (tmp_path / "note.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note}\n")
    done = rehearse(documents.read(tmp_path))
    assert [outcome.result for outcome in done.outcomes] == ["created", "created"]
    assert next(moment.at for moment in done.moments if moment.subject == "ConfigMap default/note") < 2


def test_one_seed_gives_one_course_of_events(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        assert main.run(["rehearse", str(MANIFESTS), "--seed", "7", "--for", "1h"]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0].startswith("TIME       WHAT      OBJECT")


def test_what_is_refused_is_told_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
        f'refused: {tmp_path}/a.yaml:1: ConfigMap/Wrong: ConfigMap "Wrong" is invalid: metadata.name: Invalid value'
    )
    assert missing.endswith('ConfigMap/x: namespaces "missing" not found')


def test_nothing_to_rehearse_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["rehearse", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {tmp_path}: has no documents")
    assert main.run(["rehearse", str(tmp_path / "missing")]) == 2


def test_how_objects_stand() -> None:
    ready = {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Full", "status": "False"}]}
    assert standing({"kind": "Thing", "status": ready}) == "Ready"
    assert standing({"kind": "Thing", "status": {"phase": "Bound"}}) == "Bound"
    assert standing({"kind": "ConfigMap"}) == ""
    assert standing({"kind": "Deployment", "spec": {"replicas": 3}, "status": {"readyReplicas": 1}}) == "1/3 ready"
    assert standing({"kind": "Job", "spec": {"completions": 4}, "status": {"succeeded": 2}}) == "2/4 succeeded"
    assert standing({"kind": "Job", "spec": {"suspend": True}}) == "suspended"
    assert standing({"kind": "Job", "status": {"conditions": [{"type": "Complete", "status": "True"}]}}) == "Complete"
    assert standing({"kind": "Node", "status": ready}) == "Ready"
    assert standing({"kind": "Node"}) == "NotReady"
    quota = {"kind": "ResourceQuota", "spec": {"hard": {"pods": "4", "requests.cpu": "2"}}, "status": {"used": {"pods": "1"}}}
    assert standing(quota) == "pods 1/4, cpu 0/2"
    assert standing({"kind": "PodDisruptionBudget", "status": {"disruptionsAllowed": 2}}) == "2 may go"
    autoscaler: dict[str, Any] = {"kind": "HorizontalPodAutoscaler", "spec": {"minReplicas": 2, "maxReplicas": 6}}
    assert standing(autoscaler) == "0 of 2 to 6"
    unmeasured = {"type": "ScalingActive", "status": "False", "reason": "FailedGetPodsMetric"}
    unlimited = {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange"}
    autoscaler["status"] = {"currentReplicas": 2, "conditions": [unmeasured, unlimited]}
    assert standing(autoscaler) == "2 of 2 to 6, FailedGetPodsMetric"
