"""A small environment that real Terraform creates in its own twin: one stage, so that each test takes seconds."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.yaml_documents import load_all
from sliceworks.cloud import Session, Token
from sliceworks.infra import stack
from sliceworks.infra.stack import Stack, Workspace
from sliceworks.infra.target import TwinTarget
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Object = dict[str, Any]
DOCUMENT = """apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {{name: {name}}}
spec:
  project: my-project
  region: us-central2
  zones: [us-central2-b]
  deletionProtection: false
  forceDestroy: true
  automation: {{create: false, bucket: {name}-automation, serviceAccount: robot-one}}
  identities: {{nodes: {{name: {name}-nodes, roles: [roles/logging.logWriter]}}}}
  buckets: {{{name}-data: {{}}}}
  tensorboard: {{name: {name}-runs}}
"""
STAGE = "1-base"
SPEED = 120


@dataclass
class Twin:
    """A twin that runs beside the test, with its credentials."""

    home: Path
    address: str = ""
    token: str = field(default="", repr=False)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a `sliceworks` command with this twin's home."""
        environment = {**os.environ, "SLICEWORKS_HOME": str(self.home)}
        command = [sys.executable, "-m", "sliceworks", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=900)

    def ask(self, method: str, path: str, body: Object | None = None, query: Object | None = None) -> Object:
        """Call one of the cloud's APIs."""

        async def main() -> Object:
            async with Session(self.address, Token(self.token)) as session:
                return await session.call(method, path, body, query)

        return asyncio.run(main())

    def upload(self, bucket: str, name: str, content: bytes) -> None:
        """Upload an object to a bucket."""

        async def main() -> None:
            async with Session(self.address, Token(self.token)) as session:
                await session.upload(
                    f"/upload/storage/v1/b/{bucket}/o", content, {"uploadType": "media", "name": name}, "text/plain"
                )

        asyncio.run(main())

    def inject(self, folder: Path, *faults: str) -> None:
        """Inject faults into the cloud, each in the format of a Scenario."""
        events = "".join(f"  - {{at: 0s, cloudFault: {{{fault}}}}}\n" for fault in faults)
        file = folder / "trouble.yaml"
        head = "apiVersion: sliceworks.dev/v1alpha1\nkind: Scenario\nmetadata: {name: trouble}\nspec:\n  duration: 1h\n  events:\n"
        file.write_text(head + events)
        done = self.run("twin", "inject", "-f", str(file))
        assert done.returncode == 0, done.stderr

    def document(self, folder: Path, name: str) -> Path:
        """An environment whose bucket for the Terraform state exists."""
        self.ask("POST", "/storage/v1/b", {"name": f"{name}-automation", "location": "us-central2"}, {"project": "my-project"})
        file = folder / "environment.yaml"
        file.write_text(DOCUMENT.format(name=name))
        return file

    def site(self, file: Path) -> Stack:
        """The same as a Site, as the commands load it."""
        [document] = load_all(file.read_text(), str(file))
        result = documents.read(document)
        assert isinstance(result, Environment)
        folder = self.home / "twins" / "default" / "environments" / result.metadata.name
        return Stack(result, TwinTarget(address=self.address, token=self.token), Workspace(folder), stack.find_terraform())

    def existing_resources(self, name: str) -> list[str]:
        """The resources of an environment in the cloud, by path."""
        at = "projects/my-project"
        result = []
        for path, key in (
            (f"/compute/v1/{at}/global/networks", "items"),
            (f"/compute/v1/{at}/regions/us-central2/subnetworks", "items"),
            (f"/compute/v1/{at}/regions/us-central2/routers", "items"),
            (f"/iam/v1/{at}/serviceAccounts", "accounts"),
            (f"/aiplatform/v1/{at}/locations/us-central2/tensorboards", "tensorboards"),
            ("/storage/v1/b?project=my-project", "items"),
        ):
            for item in self.ask("GET", path).get(key) or ():
                called = str(item.get("displayName") if key == "tensorboards" else item["name"]).rpartition("/")[2]
                if called.startswith(f"{name}-") and not called.endswith("-automation"):
                    result.append(called.partition("@")[0])
        return sorted(result)


Commands = Callable[..., "subprocess.CompletedProcess[str]"]


def running(home: Path) -> Iterator[Commands]:
    """Run the command line beside a twin with accelerated time for the duration of the block."""
    run = Twin(home).run
    started = run("twin", "start", "--memory", "--speed", str(SPEED))
    assert started.returncode == 0, started.stderr
    yield run
    run("twin", "stop")


def changes(run: Commands, file: str) -> list[Object]:
    """The changes of a plan."""
    planned = run("env", "plan", "--twin", "-f", file, "-o", "json", "-q")
    assert planned.returncode == 0, planned.stderr
    result: list[Object] = orjson.loads(planned.stdout)
    return result


def ignore_stage(_: object) -> Any:
    """A progress callback that does nothing."""
    return lambda output: None


def apply_base(site: Stack) -> None:
    """Apply only the first stage."""
    next(site.apply(ignore_stage))


def twin_at(home: Path) -> Iterator[Twin]:
    """Run a twin with accelerated time for the duration of the block."""
    twin, folder = Twin(home), home / "twins" / "default"
    for run in running(home):
        twin.token = (folder / "token").read_text().strip()
        [status] = orjson.loads(run("twin", "status", "-o", "json").stdout)
        twin.address = status["cloud"]
        yield twin
