"""Runs the real kubectl on a cluster and normalises its output."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from tests.real.build import build
from tests.real.programs import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_AGE = re.compile(r"\b(\d+[smhd])+\b")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d \+0000")
_VERSION = re.compile(r'(resourceVersion: |"resourceVersion": ?)"\d+"')
_ADDRESS = re.compile(r"10\.96\.\d+\.\d+")
_FOLDER = re.compile(r"/tmp/(LIVE|MERGED)-\d+")
_SUFFIX = re.compile(r"kube-api-access-[a-z0-9]{5}")

PLATFORM = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {app: web}}
data: {colour: blue, size: "3"}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: example.com/web:1
        ports: [{containerPort: 8080}]
        resources: {requests: {cpu: 100m, memory: 64Mi}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: 8080}]
"""
"""The objects that most cases work on."""


@cache
def program() -> Path:
    """The path of the built kubectl."""
    return build(PROGRAMS["kubectl"])


@dataclass(frozen=True)
class CommandResult:
    """The output of one kubectl command."""

    code: int
    out: str
    err: str

    def ok(self) -> str:
        """Return stdout after checking that the command succeeded."""
        assert self.code == 0, f"exit {self.code}: {self.out}{self.err}"
        return self.out


@dataclass(frozen=True)
class Kubectl:
    """kubectl for one cluster and namespace, empty for the objects' own; `home` holds its discovery cache."""

    kubeconfig: Path
    namespace: str
    home: Path

    def __call__(
        self, *arguments: str, text: str | None = None, env: Mapping[str, str] | None = None, seconds: float = 240
    ) -> CommandResult:
        """Run a command to its end."""
        done = subprocess.run(
            self.command(*arguments),
            input=text,
            text=True,
            capture_output=True,
            env=self.environment(env),
            timeout=seconds,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def command(self, *arguments: str) -> list[str]:
        """The full command line."""
        space = ("--namespace", self.namespace) if self.namespace else ()
        return [str(program()), "--kubeconfig", str(self.kubeconfig), *space, *arguments]

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """An environment without the user's kubectl settings."""
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], "TZ": "UTC", **(extra or {})}

    def stable(self, text: str) -> str:
        """The output without ages, uids, times and versions, with columns separated by two spaces."""
        text = text.replace(self.namespace, "NS").replace(str(self.home), "HOME")
        for pattern, word in (
            (_UID, "UID"),
            (_TIME, "TIME"),
            (_ADDRESS, "ADDRESS"),
            (_FOLDER, r"/tmp/\1"),
            (_SUFFIX, "kube-api-access-SUFFIX"),
        ):
            text = pattern.sub(word, text)
        text = _AGE.sub("AGE", _VERSION.sub(r'\1"RV"', text))
        return "\n".join(re.sub(r" {2,}", "  ", line).rstrip() for line in text.splitlines())
