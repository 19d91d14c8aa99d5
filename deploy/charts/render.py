"""Renders what is generated from the chart: its versions and CRDs, and the plain manifests for kubectl, Kustomize and `env apply`.

    python deploy/charts/render.py [--check] [--registry REGISTRY] [--output FOLDER]

Helm comes from $HELM, from the PATH, or is built from its Go module.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from sliceworks import __version__
from sliceworks.controllers.graphs.manifests import build_crds

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "charts" / "sliceworks"
REGISTRY = "registry.example"
"""The registry in the committed manifests; overlays replace it."""

_TITLE = "# Rendered from deploy/charts/sliceworks by `make manifests`; do not edit. {}\n"
_FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "controllers": (
        "The graphs and slices controllers. The graphs controller installs its CRDs when it starts.",
        {"crds": {"enabled": False}},
    ),
    "gateway": (
        "A gateway; overlays provide its document, the ConfigMap `gateway`.",
        {
            "graphs": {"enabled": False},
            "slices": {"enabled": False},
            "gateway": {"enabled": True, "keepNamespace": False, "spec": {"models": []}},
        },
    ),
}


def helm() -> str:
    """The path of Helm."""
    if found := os.environ.get("HELM") or shutil.which("helm"):
        return found
    sys.path.insert(0, str(ROOT))
    from tests.real.build import build
    from tests.real.programs import PROGRAMS

    return str(build(PROGRAMS["helm"]))


def chart_files() -> dict[Path, str]:
    """The generated files of the chart, by path; these need no Helm."""
    chart = (CHART / "Chart.yaml").read_text()
    crds = "---\n".join(yaml.safe_dump(crd, sort_keys=False, width=1000) for crd in build_crds())
    return {
        CHART / "Chart.yaml": re.sub(r"^((?:appV|v)ersion): .*$", rf"\1: {__version__}", chart, flags=re.MULTILINE),
        CHART / "definitions.yaml": crds,
    }


def manifests(registry: str, output: Path) -> dict[Path, str]:
    """The plain manifests, by path."""
    return {
        output / name / "install.yaml": _TITLE.format(title) + _render({"image": {"registry": registry}, **values})
        for name, (title, values) in _FILES.items()
    }


def _render(values: dict[str, Any]) -> str:
    command = [helm(), "template", "sliceworks", str(CHART), "--namespace=sliceworks-system", "--skip-tests", "--values=-"]
    done = subprocess.run(command, input=yaml.safe_dump(values), capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    # Helm 4 prints an empty line before each object, Helm 3 does not.
    return re.sub(r"^(# Source: .*)?\n", "", done.stdout, flags=re.MULTILINE)


def main() -> int:
    """Write or compare the files."""
    parser = argparse.ArgumentParser(description="Render the manifests of the chart.")
    parser.add_argument("--check", action="store_true", help="compare, and write nothing")
    parser.add_argument("--registry", default=REGISTRY)
    parser.add_argument("--output", type=Path, default=ROOT / "deploy")
    options = parser.parse_args()
    stale = []
    for files in (chart_files, lambda: manifests(options.registry, options.output)):
        for path, content in files().items():
            if path.exists() and path.read_text() == content:
                continue
            stale.append(path)
            if not options.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content)
    if options.check and stale:
        print("not current, run `make manifests`:", *(str(path) for path in stale), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
