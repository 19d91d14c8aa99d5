"""Generates the page of the contract suite: one row per test module."""

from __future__ import annotations

import ast
from pathlib import Path

_SUITE = Path(__file__).parents[1] / "tests" / "contract"
_OPENING = """\
# The contract

All behavior that is tested on the twin and on the real programs: kube-apiserver, its controllers and scheduler, JobSet, Kueue,
kro, kubectl, and Google's own clients. This page is generated from `tests/contract` by `make fix`. A test may have many cases;
`make test-real` runs all of them on both sides, and if they differ, the twin is wrong. [Fidelity](../explanation/fidelity.md)
lists what the twin does not implement. Cases of workloads also run with the real controllers on the twin's API: a part of them
in `make test-real`, all in `make test-mixed`.
"""
_AREAS = {
    ".": ("The API", "Compared with kube-apiserver."),
    "kubectl": ("kubectl", "Recorded requests and responses of the real kubectl."),
    "workloads": ("Workloads", "Compared with kube-controller-manager, kube-scheduler, JobSet and Kueue."),
    "graphs": ("Graphs", "The graphs controller, compared with kro, on a real control plane; kro on the twin."),
    "controllers": ("Users' controllers", "Other projects' programs on the twin and on a real control plane."),
    "slices": ("Slices", "The slices controller on a real control plane with JobSet and the twin's cloud."),
    "cloud": ("Google's APIs", "Google's own Python clients and discovery documents, with the twin's cloud."),
}


def contract() -> str:
    """Return the page."""
    parts = [_OPENING]
    for folder, (title, intro) in _AREAS.items():
        rows = [_row(path) for path in sorted((_SUITE / folder).glob("test_*.py"))]
        parts.append(f"## {title}\n\n{intro}\n\n| behavior | tests |\n| --- | --- |\n" + "".join(rows))
    return "\n".join(parts)


def _row(path: Path) -> str:
    tree = ast.parse(path.read_text())
    summary = " ".join((ast.get_docstring(tree) or path.stem).split("\n\n")[0].split())
    tests = sum(isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in ast.walk(tree))
    return f"| {summary} | {tests} |\n"
