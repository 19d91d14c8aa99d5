"""One run of Terraform: start it, read what it says line by line, and say in one line what went wrong."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError
from sliceworks.infra import troubles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sliceworks.infra.programs import Program

Object = dict[str, Any]
_LOCK = "-lock-timeout=60s"


class TerraformFailed(SliceworksError):
    """Terraform ended with an error: its own words, and where in the stage they point to."""


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one resource: create, update, replace, delete or read."""

    address: str
    action: str


@dataclass(slots=True)
class Told:
    """What a run told: changes that it plans, those that somebody else made, and what it could not do."""

    changes: list[Change] = field(default_factory=list)
    drift: list[Change] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Terraform:
    """Terraform in the folder of one stage."""

    program: Program
    folder: Path
    environment: Mapping[str, str]
    stage: str

    def init(self, *, installs: bool) -> None:
        """Get the folder ready: modules, the provider, the backend."""
        arguments = ["init", "-reconfigure", "-no-color"] if installs else ["get", "-no-color"]
        done = self._run(arguments)
        if done.returncode:
            raise self._failed(done.stdout + done.stderr)

    def plan(self, *, destroy: bool = False) -> list[Change]:
        """What would change."""
        told = self._told(["plan", "-json", _LOCK, *(["-destroy"] if destroy else [])])
        return told.changes

    def drift(self) -> list[Change]:
        """What is no longer as it was made, and would be put right: tags and the like, which change by themselves, are no drift."""
        wrong = {change.address for change in self.plan() if change.action not in ("noop", "read")}
        found = self._told(["plan", "-refresh-only", "-json", _LOCK]).drift if wrong else []
        return [change for change in found if change.address in wrong]

    def apply(self, report: Callable[[str], None], *, destroy: bool = False) -> list[Change]:
        """Make it so; `report` hears of each resource as it is begun and done."""
        told = self._told(["destroy" if destroy else "apply", "-json", "-auto-approve", _LOCK], report)
        return told.changes

    def outputs(self) -> Object:
        """What the stage has to give."""
        done = self._run(["output", "-json", "-no-color"])
        if done.returncode:
            raise self._failed(done.stderr)
        return {name: each["value"] for name, each in orjson.loads(done.stdout or "{}").items()}

    def resources(self) -> list[str]:
        """The addresses of what is there, as the state has it."""
        done = self._run(["state", "list", "-no-color"])
        if done.returncode and "No state file was found" not in done.stderr:
            raise self._failed(done.stderr)
        return done.stdout.split("\n")[:-1]

    def _run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.program.command, *arguments],
            cwd=self.folder,
            env=dict(self.environment),
            capture_output=True,
            text=True,
            check=False,
        )

    def _told(self, arguments: Sequence[str], report: Callable[[str], None] | None = None) -> Told:
        told, loose = Told(), list[str]()
        command = [*self.program.command, *arguments]
        with subprocess.Popen(
            command, cwd=self.folder, env=dict(self.environment), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                for line in process.stdout:
                    _take(told, loose, line, report)
                loose.append(process.stderr.read())
                code = process.wait()
            except KeyboardInterrupt:
                # Terraform hears of Ctrl-C too, ends what it began, and writes its state: it is waited for.
                progress.say(f"{self.stage}: Terraform ends what it began")
                process.stdout.read()
                process.wait()
                raise
        if code:
            raise self._failed("\n".join(loose), told.problems)
        return told

    def _failed(self, text: str, problems: Sequence[str] = ()) -> TerraformFailed:
        said = troubles.told(list(problems)) or _first_error(text)
        return TerraformFailed(f"{self.stage}: {said}", hint=troubles.remedy(" ".join(problems) or text, self.folder))


def _take(told: Told, loose: list[str], line: str, report: Callable[[str], None] | None) -> None:
    """One line of what Terraform says in JSON; others are kept for want of better."""
    try:
        said = orjson.loads(line)
    except orjson.JSONDecodeError:
        loose.append(line)
        return
    kind = said.get("type")
    if kind in ("planned_change", "resource_drift"):
        change = Change(said["change"]["resource"]["addr"], str(said["change"]["action"]))
        (told.changes if kind == "planned_change" else told.drift).append(change)
    elif kind == "diagnostic" and said["diagnostic"].get("severity") == "error":
        told.problems.append(_problem(said["diagnostic"]))
    elif kind in ("apply_start", "apply_complete") and report:
        report(str(said.get("@message", "")).removesuffix("..."))


def _problem(diagnostic: Object) -> str:
    """A diagnostic in one line."""
    address = diagnostic.get("address")
    where = f"{address}: " if address else ""
    detail = " ".join(str(diagnostic.get("detail") or "").split())
    summary = " ".join(str(diagnostic.get("summary") or "").split())
    return f"{where}{summary}{f': {detail}' if detail and detail != summary else ''}"


def _first_error(text: str) -> str:
    """The first error of what Terraform says to people, in one line."""
    lines = [line.strip(" │╷╵\t") for line in text.splitlines()]
    start = next((index for index, line in enumerate(lines) if line.startswith("Error: ")), None)
    if start is None:
        return " ".join(line for line in lines if line)[:400] or "Terraform failed and said nothing"
    return " ".join(line for line in lines[start : start + 8] if line).removeprefix("Error: ")
