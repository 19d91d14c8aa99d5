"""Terraform's own part in what a command costs: what it works within ours, and what it works alone.

Terraform alone makes as many things of its built-in kind, in a module and by `for_each`, as our modules make pools. Nothing of ours
is in that: how it grows with their number is how Terraform grows.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from sliceworks.infra import programs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_METER = """#!/bin/bash
{command} "$@"
code=$?
times >> {log}
exit $code
"""
_MODULE = """variable "pools" {
  type = any
}

resource "terraform_data" "this" {
  for_each = var.pools
  input    = each.value
}
"""
_ROOT = """variable "pools" {
  type = any
}

module "pools" {
  source = "./pools"
  pools  = var.pools
}
"""
_SECONDS = re.compile(r"(\d+)m([\d.]+)s")


@dataclass(frozen=True, slots=True)
class Meter:
    """Stands in for Terraform, starts it, and writes down the processor time that it took."""

    folder: Path

    def install(self) -> dict[str, str]:
        """The environment in which commands of ours use it."""
        file = self.folder / "terraform-meter"
        command = shlex.join(programs.find().command)
        file.write_text(_METER.format(command=command, log=shlex.quote(str(self._log))))
        file.chmod(0o755)
        return {programs.CHOICE: str(file)}

    def seconds(self) -> float:
        """What Terraform has worked so far."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        text = "\n".join(lines[1::2])  # the other lines are the work of the one that writes
        return sum(60 * int(minutes) + float(seconds) for minutes, seconds in _SECONDS.findall(text))

    @property
    def _log(self) -> Path:
        return self.folder / "terraform-times"


def alone(folder: Path, count: int, plans: int) -> tuple[float, float]:
    """Seconds of work of Terraform alone: to apply so many things, and to plan them again when nothing has changed."""
    (folder / "pools").mkdir(parents=True)
    (folder / "main.tf").write_text(_ROOT)
    (folder / "pools" / "main.tf").write_text(_MODULE)
    one = {"machine_type": "n1-standard-4", "zones": ["us-central2-b"], "labels": {}, "autoscaling": {"min": 0, "max": 3}}
    pools = {f"p{index}": one for index in range(count)}
    (folder / "pools.auto.tfvars.json").write_bytes(orjson.dumps({"pools": pools}))
    _worked(folder, "init")
    applied = _worked(folder, "apply", "-json", "-auto-approve")
    return applied, min(_worked(folder, "plan", "-json") for _ in range(plans))


def _worked(folder: Path, *arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run([*programs.find().command, *arguments], folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(command: Sequence[str], folder: Path) -> None:
    settings = folder / "terraform.rc"
    settings.touch()
    environment = {**os.environ, "CHECKPOINT_DISABLE": "1", "TF_CLI_CONFIG_FILE": str(settings)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
