"""CPU time of Terraform: within our commands, and alone.

Alone, Terraform creates as many of its built-in resources, in a module and with `for_each`, as our modules create node pools. That
shows how Terraform's own cost grows with their number.
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

from sliceworks.infra import stack

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
    """A wrapper script that runs Terraform and logs its CPU time."""

    folder: Path

    def install(self) -> dict[str, str]:
        """Write the script; returns the environment in which our commands use it."""
        file = self.folder / "terraform-meter"
        command = shlex.join(stack.find_terraform().command)
        file.write_text(_METER.format(command=command, log=shlex.quote(str(self._log))))
        file.chmod(0o755)
        return {stack.BINARY_VARIABLE: str(file)}

    def seconds(self) -> float:
        """CPU time of Terraform so far."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        children = "\n".join(lines[1::2])  # the other lines are the CPU time of the shell itself
        return sum(60 * int(minutes) + float(seconds) for minutes, seconds in _SECONDS.findall(children))

    @property
    def _log(self) -> Path:
        return self.folder / "terraform-times"


def alone(folder: Path, count: int, plans: int) -> tuple[float, float]:
    """CPU time of Terraform alone: to apply `count` resources, and to plan them again without changes."""
    (folder / "pools").mkdir(parents=True)
    (folder / "main.tf").write_text(_ROOT)
    (folder / "pools" / "main.tf").write_text(_MODULE)
    pool = {"machine_type": "n1-standard-4", "zones": ["us-central2-b"], "labels": {}, "autoscaling": {"min": 0, "max": 3}}
    pools = {f"p{index}": pool for index in range(count)}
    (folder / "pools.auto.tfvars.json").write_bytes(orjson.dumps({"pools": pools}))
    _cpu_seconds(folder, "init")
    applied = _cpu_seconds(folder, "apply", "-json", "-auto-approve")
    return applied, min(_cpu_seconds(folder, "plan", "-json") for _ in range(plans))


def _cpu_seconds(folder: Path, *arguments: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run([*stack.find_terraform().command, *arguments], folder)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _run(command: Sequence[str], folder: Path) -> None:
    settings = folder / "terraform.rc"
    settings.touch()
    environment = {**os.environ, "CHECKPOINT_DISABLE": "1", "TF_CLI_CONFIG_FILE": str(settings)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed: {done.stderr.strip() or done.stdout.strip()}")
