"""The stored results of Kubernetes' conformance suite: complete, explained, and counted by the page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.conformance import ginkgo, results
from tests.conformance.results import Outcome, Result

from conformance_page import conformance, environment

README = Path(__file__).parents[2] / "README.md"
STORED = results.read()
SPECS_OF_KUBERNETES_1_35 = 441


def test_every_spec_has_a_result() -> None:
    assert len(STORED) == SPECS_OF_KUBERNETES_1_35
    assert all(result.commit for result in STORED.values() if result.outcome is not Outcome.NOT_RUN)


def test_every_spec_that_does_not_pass_has_a_reason() -> None:
    unexplained = [name for name, result in STORED.items() if result.outcome is Outcome.FAILED and results.reason_of(name) is None]
    assert unexplained == []


def test_every_spec_that_the_real_control_plane_passes_with_the_nodes_of_a_twin_passes_on_a_twin() -> None:
    real = results.read(results.REAL)
    passed = [name for name, result in real.items() if result.outcome is Outcome.PASSED]
    assert [name for name in passed if STORED[name].outcome is not Outcome.PASSED] == []


def test_page_compares_with_the_real_control_plane() -> None:
    stored = {f"[sig-a] {name}": Result(outcome, "1") for name, outcome in (("b", Outcome.PASSED), ("c", Outcome.FAILED))}
    real = {
        "[sig-a] b": Result(Outcome.FAILED, "2", "no `shell`"),
        "[sig-a] c": Result(Outcome.PASSED, "2"),
        "d": Result(Outcome.NOT_RUN),
    }
    page = "\n".join(environment(stored, real))
    assert "| a | 2 | 1 | 1 | `2` |" in page
    assert "They pass on the twin only:\n\n- `[sig-a] b`: `no shell`" in page
    assert "They pass on the real control plane only:\n\n- `[sig-a] c`: ``" in page
    assert environment(stored, {}) == []


def test_every_reason_is_that_of_a_spec() -> None:
    explained = {results.reason_of(name) for name, result in STORED.items() if result.outcome is not Outcome.PASSED}
    assert [reason.pattern for reason in results.reasons() if reason not in explained] == []


def test_page_counts_the_results() -> None:
    page = conformance()
    passed = [name for name, result in STORED.items() if result.outcome is Outcome.PASSED]
    assert f"{len(passed)} of the {len(STORED)} specs" in " ".join(page.split())
    section = page.partition("## Passed specs")[2]
    assert len(re.findall(r"^- `", section, re.MULTILINE)) == len(passed)
    assert f"{len(passed)} of the {len(STORED)} specs" in README.read_text()


@pytest.mark.parametrize(("outcome", "lost"), [(Outcome.PASSED, []), (Outcome.FAILED, ["a"])])
def test_a_passed_spec_that_fails_is_a_regression(outcome: Outcome, lost: list[str]) -> None:
    stored = {"a": Result(Outcome.PASSED, "12345678"), "b": Result(Outcome.FAILED), "c": Result(Outcome.PASSED)}
    assert results.regressions(stored, {"a": Result(outcome), "b": Result(Outcome.FAILED)}) == lost


def test_results_are_stored(tmp_path: Path) -> None:
    given = {"[sig-a] b": Result(Outcome.FAILED, "12345678", "timed out: {}"), "[sig-a] c": Result(Outcome.PASSED, "12345678")}
    results.write(given, tmp_path / "results.yaml")
    assert results.read(tmp_path / "results.yaml") == given


def test_report_of_ginkgo() -> None:
    specs = [
        {"LeafNodeType": "It", "State": "passed", "ContainerHierarchyTexts": ["[sig-a] A"], "LeafNodeText": "works"},
        {"LeafNodeType": "It", "State": "skipped", "ContainerHierarchyTexts": None, "LeafNodeText": "is skipped"},
        {"LeafNodeType": "SynchronizedBeforeSuite", "State": "passed", "ContainerHierarchyTexts": None, "LeafNodeText": ""},
        {"LeafNodeType": "It", "State": "timedout", "LeafNodeText": "hangs", "ContainerHierarchyTexts": None},
        {
            "LeafNodeType": "It",
            "State": "failed",
            "LeafNodeText": "b",
            "ContainerHierarchyTexts": None,
            "Failure": {"Message": "a\n b"},
        },
    ]
    assert dict(ginkgo.outcomes([{"SpecReports": specs}, {"SpecReports": None}])) == {
        "[sig-a] A works": (Outcome.PASSED, ""),
        "hangs": (Outcome.FAILED, "timedout"),
        "b": (Outcome.FAILED, "a b"),
    }
