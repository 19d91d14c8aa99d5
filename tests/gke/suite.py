"""`make gke PROJECT=…`: creates the four example environments in a throw-away project, uses them, and destroys them.

Every step is a command that a user would run: `sliceworks`, `kubectl` and `gcloud`. With `--twin` the same steps run against the
cloud of a running twin. The estimated cost is printed first. A failed step ends the suite; its environment is destroyed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import tables
from sliceworks.base.yaml_documents import load_all
from sliceworks.cli import options
from sliceworks.infra.pools import estimate_costs
from sliceworks.platform.cluster_contents import find_target
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Run = Callable[[Sequence[str]], str]

EXAMPLES = Path(__file__).parents[2] / "examples"
HOURS = 1.5
"""How long an environment exists: half an hour each to create and to destroy it, and half an hour of work."""
SLICES = EXAMPLES / "slices" / "10-two-small-slices.yaml"
MODEL = """apiVersion: sliceworks.dev/v1alpha1
kind: ModelService
metadata: {name: small, namespace: triton}
spec:
  engine: vllm
  accelerator: {machineType: n1-standard-4, accelerator: nvidia-tesla-t4, count: 1}
  replicas: 1
  identity: {serviceAccount: triton-sa}
  vllm:
    model: {name: small, source: Qwen/Qwen2.5-0.5B-Instruct}
    dtype: float16
    maxModelLen: 2048
"""
JOB = ("train", "submit", "hello", "-n", "tpu-training", "--queue", "tpu-job-queue", "--type", "v4-32", "--estimate", "5m")
IMAGE = ("--image", "python:3.12")
PROGRAM = ("--", "sh", "-c", "pip install -q 'jax[tpu]' && python -c 'import jax; print(jax.device_count())'")
SERVICES = ("serviceusage", "cloudresourcemanager", "compute", "container", "iam")
TEMPLATES = ("training", "triton", "saxml", "self-service")


class StepFailed(Exception):
    """A command of a step failed, or its result was unexpected."""


class Result(NamedTuple):
    """One finished step."""

    environment: str
    step: str
    seconds: float


def run_command(command: Sequence[str]) -> str:
    """The standard output of a command; progress and errors go to the terminal. Raises StepFailed."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout)
        raise StepFailed(f"exit code {done.returncode}: {' '.join(command)}")
    return done.stdout


@dataclass
class Suite:
    """The suite for one project."""

    project: str
    twin: bool
    folder: Path
    run: Run = run_command
    results: list[Result] = field(default_factory=list)

    def write_documents(self, names: Iterable[str]) -> dict[str, Path]:
        """Write the document of each environment; they may be destroyed with their contents."""
        files = {name: self.folder / name / "environment.yaml" for name in names}
        for name, file in files.items():
            file.parent.mkdir(parents=True)
            self._sliceworks("env", "init", "--from", name, "--project", self.project, "-q", "-o", str(file))
            text = file.read_text().replace("spec:\n", "spec:\n  deletionProtection: false\n  forceDestroy: true\n", 1)
            if name == "training":
                text += "  registry: {build: [controllers]}\n  addons: {slices: true}\n"
            file.write_text(self._with_parent(text))
        return files

    def enable_services(self) -> None:
        """Enable the services that `env check --live` and the first stage need."""
        for service in SERVICES:
            self.call("POST", "serviceusage", f"/v1/projects/{self.project}/services/{service}.googleapis.com:enable")

    def _with_parent(self, text: str) -> str:
        """A document whose Project object has the parent of the real project."""
        if "      folder:" not in text:
            return text
        parent = self.call("GET", "cloudresourcemanager", f"/v1/projects/{self.project}").get("parent") or {}
        return re.sub(r"      folder: .*", f'      {parent["type"]}: "{parent["id"]}"', text) if parent else text

    def call(self, method: str, service: str, path: str) -> Any:
        """Call a Google API."""

        async def send() -> Any:
            async with find_target(twin=self.twin).session(service) as session:
                return await session.call(method, path, None if method == "GET" else {})

        return asyncio.run(send())

    def estimate(self, files: dict[str, Path]) -> str:
        """The cost of each environment, and their sum, as a table."""
        rows, unknown = [], []
        for name, file in files.items():
            [document] = load_all(file.read_text(), str(file))
            costs = estimate_costs(documents.read_as(document, Environment).spec)
            unknown += [cost.name for cost in costs if cost.hourly is None]
            rows.append((name, sum(cost.hourly or 0.0 for cost in costs)))
        total = sum(hourly for _, hourly in rows) * HOURS
        table = [(name, f"{hourly:,.2f}", f"{HOURS:g}", f"{hourly * HOURS:,.2f}") for name, hourly in rows]
        priceless = f"{', '.join(unknown)}, whose price is unknown, and without " if unknown else ""
        head = tables.render(("environment", "usd/hour", "hours", "usd"), table)
        return f"{head}estimated cost: {total:,.2f} USD, without {priceless}slices on demand, storage and traffic\n"

    def run_environment(self, name: str, file: Path) -> None:
        """Create, use and destroy one environment. Raises StepFailed after it was destroyed."""
        try:
            for step, action in self._steps(name, file):
                self._measure(name, step, action)
        finally:
            self._measure(name, "destroy", lambda: self._env("destroy", file, "-y"))
            self._measure(name, "nothing remains", lambda: self._expect_empty(self._env("show", file, "-o", "name")))

    def _steps(self, name: str, file: Path) -> Iterator[tuple[str, Callable[[], object]]]:
        plan, skip = str(file.with_name("plan.zip")), ("--skip", "secrets") if name == "self-service" else ()
        yield "check", lambda: self._env("check", file, "--live")
        yield "plan", lambda: self._env("plan", file, "--plan-out", plan)
        yield "apply", lambda: self._env("apply", file, "--plan", plan, *skip)
        yield "second plan is empty", lambda: self._expect_empty(self._env("plan", file, "-o", "name"))
        if name == "training":
            yield "resize", lambda: self._env("resize", file, "-y", before=("tpu-node-pool", "1"))
            yield "job", lambda: self._sliceworks(*JOB, *IMAGE, "--wait", "--timeout", "12h", *self._cluster(file), *PROGRAM)
            yield "slices on demand", lambda: self._use_slices(file)
        if name == "triton":
            model = file.with_name("model.yaml")
            model.write_text(MODEL)
            yield "model", lambda: self._sliceworks("models", "deploy", "-f", str(model), "-y", *self._cluster(file))
            yield (
                "model is deleted",
                lambda: self._sliceworks("models", "delete", "small", "-n", "triton", "-y", *self._cluster(file)),
            )

    def _use_slices(self, file: Path) -> None:
        """A JobSet whose slices the controller creates, and deletes when it has completed."""
        kubectl = ("kubectl", "--kubeconfig", self._kubeconfig(file))
        self.run((*kubectl, "apply", "-f", str(SLICES)))
        for condition in ("sliceworks.dev/SlicesReady", "Completed"):
            self.run((*kubectl, "wait", "jobset", "two-small-slices", f"--for=condition={condition}", "--timeout=1h"))
        self.run((*kubectl, "delete", "-f", str(SLICES)))

    def _cluster(self, file: Path) -> tuple[str, ...]:
        return ("--twin",) if self.twin else ("--kubeconfig", self._kubeconfig(file))

    def _kubeconfig(self, file: Path) -> str:
        """A kubeconfig for the cluster of an environment, written on first use."""
        if self.twin:
            return self._sliceworks("twin", "kubeconfig").strip()
        path = file.with_name("kubeconfig")
        if not path.exists():
            [document] = load_all(file.read_text(), str(file))
            spec = documents.read_as(document, Environment).spec
            location = spec.zones[0] if spec.cluster.zonal else spec.region
            cluster = spec.cluster.name or f"{document.data['metadata']['name']}-cluster"
            at = ("--project", self.project, "--location", location, "--dns-endpoint")
            self.run(("env", f"KUBECONFIG={path}", "gcloud", "container", "clusters", "get-credentials", cluster, *at))
        return str(path)

    def _env(self, verb: str, file: Path, *options: str, before: tuple[str, ...] = ()) -> str:
        return self._sliceworks("env", verb, *before, "-f", str(file), *options, *(("--twin",) if self.twin else ()))

    def _sliceworks(self, *arguments: str) -> str:
        # What follows `--` is the program of a job.
        return self.run((sys.executable, "-m", "sliceworks", *arguments))

    def _expect_empty(self, output: str) -> None:
        if output.strip():
            raise StepFailed(f"expected nothing, got:\n{output}")

    def _measure(self, environment: str, step: str, action: Callable[[], object]) -> None:
        start = time.monotonic()
        print(f"{environment}: {step}", file=sys.stderr, flush=True)
        action()
        self.results.append(Result(environment, step, time.monotonic() - start))


def main(arguments: Sequence[str], run: Run = run_command) -> int:
    """Run the suite; returns the exit code."""
    parser = argparse.ArgumentParser(prog="make gke", description="Run the suite on a throw-away project.")
    parser.add_argument("--project", required=True, help="a project that contains nothing else")
    parser.add_argument("--folder", type=Path, required=True, help="an empty folder for documents and plans")
    parser.add_argument("--only", choices=TEMPLATES, help="run one environment")
    parser.add_argument("--twin", action="store_true", help="use the cloud of the running twin")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    given = parser.parse_args(arguments)
    suite = Suite(given.project, given.twin, given.folder, run)
    files = suite.write_documents([given.only] if given.only else TEMPLATES)
    print(suite.estimate(files), end="", flush=True)
    options.confirm(f"Create and destroy these environments in project {given.project}?", given.yes)
    suite.enable_services()
    failure = ""
    for name, file in files.items():
        try:
            suite.run_environment(name, file)
        except StepFailed as error:
            failure = f"{name}: {error}"
            break
    rows = [(result.environment, result.step, f"{result.seconds:.0f} s") for result in suite.results]
    print(tables.render(("environment", "passed", "time"), rows), end="")
    if failure:
        print(f"failed: {failure}", file=sys.stderr)
        return 1
    if not given.twin:
        today = time.strftime("%Y-%m-%d", time.gmtime())
        print(f"passed: write {today} and the commit to 'Last verified on GKE' in docs/explanation/fidelity.md")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("CLOUDSDK_CORE_DISABLE_PROMPTS", "1")
    sys.exit(main(sys.argv[1:]))
