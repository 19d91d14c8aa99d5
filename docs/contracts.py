"""The table of the contract: what is asked of the twin and of the real programs alike, from the suite itself."""

from __future__ import annotations

import ast
from pathlib import Path

_SUITE = Path(__file__).parents[1] / "tests" / "contract"
_OPENING = """\
# The contract

What is asked of the twin and of the real programs alike: kube-apiserver, its controllers and scheduler, JobSet, Kueue, kro,
kubectl, and Google's own clients. This page is made from `tests/contract` by `make fix`. A test may have many cases; `make
test-real` runs all of them on both sides, and where the two differ the twin is wrong. What the twin does not do is in
[fidelity](../explanation/fidelity.md).
"""
_AREAS = {
    ".": ("The API", "Beside kube-apiserver."),
    "kubectl": ("kubectl", "Recorded conversations of the real kubectl with either."),
    "workloads": ("Workloads", "Beside kube-controller-manager, kube-scheduler, JobSet and Kueue."),
    "graphs": ("Graphs", "Our controller beside kro's, and on a real control plane."),
    "slices": ("Slices", "Our controller on a real control plane with JobSet, and the twin's cloud behind it."),
    "cloud": ("Google's APIs", "Google's own Python clients, and its discovery documents, on the twin's cloud."),
}


def contract() -> str:
    """The page."""
    parts = [_OPENING]
    for folder, (title, words) in _AREAS.items():
        rows = [_row(path) for path in sorted((_SUITE / folder).glob("test_*.py"))]
        parts.append(f"## {title}\n\n{words}\n\n| what | tests |\n| --- | --- |\n" + "".join(rows))
    return "\n".join(parts)


def _row(path: Path) -> str:
    tree = ast.parse(path.read_text())
    words = " ".join((ast.get_docstring(tree) or path.stem).split("\n\n")[0].split())
    tests = sum(isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in ast.walk(tree))
    return f"| {words} | {tests} |\n"
