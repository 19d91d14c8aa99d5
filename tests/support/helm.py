"""Runs the real Helm on a cluster."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.real.build import build
from tests.real.programs import OTHER_VERSIONS, PROGRAMS
from tests.support.deployments import DEPLOY

if TYPE_CHECKING:
    from pathlib import Path

CHART = DEPLOY / "charts" / "sliceworks"
# Helm 3 does not use server-side apply.
TAKE_OVER = ("--take-ownership", *(() if OTHER_VERSIONS.get("helm", "4").startswith("3.") else ("--force-conflicts",)))


@dataclass(frozen=True)
class Helm:
    """Helm with its own folders, and the kubeconfig of a cluster."""

    folder: Path
    kubeconfig: Path | None = None

    def __call__(self, *arguments: str) -> str:
        """Run a command; returns what it prints."""
        done = self.attempt(*arguments)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command that may fail."""
        own = {f"HELM_{name}_HOME": str(self.folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        environment = {**os.environ, **own, **({"KUBECONFIG": str(self.kubeconfig)} if self.kubeconfig else {})}
        command = [str(build(PROGRAMS["helm"])), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
