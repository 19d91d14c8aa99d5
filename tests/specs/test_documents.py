"""Errors in documents name the line, the field and the closest known name."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.base.errors import InvalidDocument
from sliceworks.base.yaml_documents import load_all
from sliceworks.specs import documents
from sliceworks.specs.scenario import Scenario

HEAD = """apiVersion: sliceworks.dev/v1alpha1
kind: Scenario
metadata: {name: bad-day}
spec:
  duration: 8h
"""


def problems(text: str) -> list[str]:
    [document] = load_all(text, "day.yaml")
    return [str(problem) for problem in documents.check(document)[1]]


def scenario(events: str) -> Scenario:
    [document] = load_all(HEAD + "  events:\n" + events, "day.yaml")
    result = documents.read(document)
    assert isinstance(result, Scenario)
    return result


def test_valid_scenario_is_typed_and_frozen() -> None:
    result = scenario("  - {at: 1h30m, failNodes: {nodes: {labels: {pool: a}}, for: 20m, reason: SpotPreemption}}\n")
    [event] = result.spec.events
    assert (event.at, result.spec.duration, result.metadata.name) == (5400.0, 28800.0, "bad-day")
    name, action = event.action
    assert name == "fail_nodes"
    assert action.model_dump(by_alias=True) == {
        "nodes": {"names": [], "labels": {"pool": "a"}, "count": None},
        "for": 1200.0,
        "reason": "SpotPreemption",
    }
    with pytest.raises(ValueError, match="frozen"):
        event.at = 3


@pytest.mark.parametrize(
    ("event", "problem"),
    [
        ("{at: 1m}", "day.yaml:7: spec.events[0]: exactly one of submit, trace, apply"),
        ("{at: 1m, apply: {file: a}, trace: {file: b}}", "day.yaml:7: spec.events[0]: exactly one of"),
        ("{at: soon, apply: {file: a}}", 'day.yaml:7: spec.events[0].at: time: invalid duration "soon"'),
        ("{at: -1s, apply: {file: a}}", "day.yaml:7: spec.events[0].at: must not be negative"),
        ("{at: 1m, submit: {file: a, cuont: 2}}", "day.yaml:7: unknown field spec.events[0].submit.cuont; did you mean count?"),
        (
            "{at: 1m, submit: {file: a, every: 1m, rate: 2}}",
            "day.yaml:7: spec.events[0].submit: every and rate are mutually exclusive",
        ),
        ("{at: 1m, submit: {count: 2}}", "day.yaml:7: spec.events[0].submit.file is required"),
        ("{at: 1m, failNodes: {nodes: {}}}", "day.yaml:7: spec.events[0].failNodes.nodes: must set names, labels or count"),
        ("{at: 1m, failPods: {pods: {count: 1}, exitCode: 0}}", "day.yaml:7: spec.events[0].failPods.exitCode: must be"),
        ("{at: 1m, apply: {file: 3}}", "day.yaml:7: spec.events[0].apply.file: must be a string, got 3"),
        ("{at: 1m, apply: {file: true}}", "day.yaml:7: spec.events[0].apply.file: must be a string, got true"),
        ("{at: 1m, apply: a.yaml}", "day.yaml:7: spec.events[0].apply: must be a mapping of fields, got 'a.yaml'"),
    ],
)
def test_error_has_a_file_and_line(event: str, problem: str) -> None:
    [result] = problems(f"{HEAD}  events:\n  - {event}\n")
    assert result.startswith(problem)


def test_all_problems_are_reported_together() -> None:
    assert len(problems(HEAD.replace("8h", "long") + "  sed: 3\n  events: [{at: 1m}]\n")) == 3


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("Scenario", "Scenaro"), "day.yaml:2: unknown kind Scenaro; did you mean Scenario?"),
        (("v1alpha1", "v1"), "day.yaml:1: apiVersion must be sliceworks.dev/v1alpha1, found sliceworks.dev/v1"),
        (("apiVersion: sliceworks.dev/v1alpha1\n", ""), "day.yaml:1: apiVersion must be sliceworks.dev/v1alpha1"),
        (("kind: Scenario\n", ""), "day.yaml:1: kind is required, one of Environment, Gateway, "),
        (("bad-day", "Bad_Day"), "day.yaml:3: metadata.name: a lowercase RFC 1123 subdomain must consist of"),
    ],
)
def test_api_version_and_kind_are_checked(change: tuple[str, str], problem: str) -> None:
    [result] = problems(HEAD.replace(*change))
    assert result.startswith(problem)


def test_invalid_value_suggests_the_closest() -> None:
    head = HEAD.split("spec:", maxsplit=1)[0].replace("Scenario", "ModelService")
    [result] = problems(f"{head}spec:\n  engine: vlm\n")
    assert result.endswith("spec.engine: must be 'saxml', 'triton', 'jetstream' or 'vllm', got 'vlm'; did you mean vllm?")


def test_read_raises_the_first_problem() -> None:
    [document] = load_all(HEAD + "  sede: 1\n", "day.yaml")
    with pytest.raises(InvalidDocument, match=r"day\.yaml:6: unknown field spec\.sede; did you mean seed\?"):
        documents.read(document)


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            "pools: {cpu: {small: {machinTyp: e2-medium}}}",
            "unknown field spec.pools.cpu.small.machinTyp; did you mean machineType?",
        ),
        ("teams: {vision: {sharse: {}}}", "unknown field spec.teams.vision.sharse; did you mean shares?"),
        ("pools: {cpu: {small: {taints: [{kee: a}]}}}", "unknown field spec.pools.cpu.small.taints[0].kee; did you mean key?"),
        ("polls: {}", "unknown field spec.polls; did you mean pools?"),
    ],
)
def test_misspelled_field_suggests_the_closest_below_free_names_too(spec: str, problem: str) -> None:
    head = HEAD.split("spec:", maxsplit=1)[0].replace("Scenario", "Environment")
    result = problems(f"{head}spec:\n  project: my-project\n  region: us-central2\n  {spec}\n")
    assert f"day.yaml:7: {problem}" in result


@pytest.mark.parametrize(("data", "ours"), [({"apiVersion": "sliceworks.dev/v1alpha1"}, True), ({"apiVersion": "v1"}, False)])
def test_own_documents_are_recognized(data: dict[str, Any], ours: bool) -> None:
    [document] = load_all(f"apiVersion: {data['apiVersion']}\n", "x")
    assert documents.is_sliceworks_document(document) is ours
