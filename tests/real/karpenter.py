"""The real Karpenter with its kwok provider beside an API server: its CRDs, and its program."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import yaml
from tests.real.build import build, module_folder
from tests.real.processes import Process, free_port, serves
from tests.real.programs import PROGRAMS
from tests.support.chainsaw import apply

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.clusters import Cluster

MODULE = "sigs.k8s.io/karpenter"


@contextmanager
def running(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Install its CRDs and run it."""
    source = module_folder(PROGRAMS["karpenter"], MODULE) / "kwok"
    for path in sorted([*(source / "charts" / "crds").glob("*.yaml"), *(source / "apis" / "crds").glob("*.yaml")]):
        for definition in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            if definition:
                apply(cluster.api, definition)
    health = free_port()
    command = (
        str(build(PROGRAMS["karpenter"])),
        "--disable-leader-election=true",
        f"--health-probe-port={health}",
        "--metrics-port=0",
        "--batch-idle-duration=100ms",
    )
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    process = Process("karpenter", command, folder / "karpenter.log", env=environment)
    try:
        process.wait_until(lambda: serves(f"http://127.0.0.1:{health}/readyz"))
        yield
    finally:
        process.kill()
