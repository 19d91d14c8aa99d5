"""Versions of the compatibility matrix: the Go modules that build them, and where they are named."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from tests.real.other_versions import render_module

ROOT = Path(__file__).parents[2]
KUBERNETES = """module k8s.io/kubernetes

go 1.22.0

require k8s.io/api v0.0.0

replace (
\tgithub.com/a/b => github.com/c/b v1.0.0
\tk8s.io/api => ./staging/src/k8s.io/api
)
"""


def matrix() -> list[str]:
    """The combinations of `make test-versions`."""
    found = re.search(r"^MATRIX := (.*?[^\\])$", (ROOT / "Makefile").read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1].replace("\\\n", " ").split()


def test_module_has_the_replacements_of_its_program() -> None:
    assert render_module("kube-apiserver-1.31.4", "k8s.io/kubernetes", "1.31.4", KUBERNETES).splitlines() == [
        "module sliceworks.dev/real/kube-apiserver-1.31.4",
        "go 1.22.0",
        "require k8s.io/kubernetes v1.31.4",
        "replace github.com/a/b => github.com/c/b v1.0.0",
        "replace k8s.io/api => k8s.io/api v0.31.4",
    ]


def test_pipeline_and_page_name_all_versions() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yaml").read_text())["jobs"]
    assert jobs["versions"]["strategy"]["matrix"]["versions"] == matrix()
    names = {"kubernetes": "Kubernetes", "jobset": "JobSet", "kueue": "Kueue", "helm": "Helm"}
    pairs = [[pair.partition("=") for pair in item.split(",")] for item in matrix()]
    rows = [", ".join(f"{names[name]} {version}" for name, _, version in item) for item in pairs]
    page = (ROOT / "docs" / "reference" / "versions.md").read_text()
    assert re.findall(r"^\| (\S+ \d[^|]+?) \|[^|]*\|$", page, re.MULTILINE) == rows
