"""One run of Terraform: start it, read what it says line by line, and say in one line what went wrong."""

from __future__ import annotations

import re
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import progress
from sliceworks.base.errors import SliceworksError
from sliceworks.infra import troubles
from sliceworks.infra.journal import Journal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from sliceworks.infra.programs import Program

Object = dict[str, Any]
_NAMES = ("email", "dataset_id", "table_id", "membership_id", "display_name", "name", "service", "id")
"""Where resources have what people call them by, best first."""
_PLAN = "saved.tfplan"
_INTERRUPTED = "Interrupt received"


class TerraformFailed(SliceworksError):
    """Terraform ended with an error: its own words, and where in the stage they point to. `told` is all that it says."""

    told = ""


class StateLocked(TerraformFailed):
    """Somebody else's lock is in the way."""


class NoBucket(TerraformFailed):
    """The bucket for the state is not there."""


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
    outputs: Object | None = None
    """What the stage has to give, where it was told."""
    interrupted: bool = False
    """Whether somebody pressed Ctrl-C, as Terraform heard it."""


@dataclass(frozen=True, slots=True)
class Terraform:
    """Terraform in the folder of one stage."""

    program: Program
    folder: Path
    environment: Mapping[str, str]
    stage: str
    patience: int = 60
    """Seconds to wait for somebody else who works on the same state."""
    holding: int = -1
    """A file that Terraform keeps open for as long as it lives."""
    provider: Callable[[Mapping[str, str]], Mapping[str, str]] = dict
    """The environment of commands that ask providers, which may be waiting for that already."""

    def init(self) -> None:
        """Get the folder ready: modules, the provider, the backend."""
        done = self._run(["init", "-reconfigure", "-no-color"])
        if done.returncode:
            raise self._failed(done.stdout + done.stderr)

    def plan(self, *, destroy: bool = False) -> list[Change]:
        """What would change."""
        told = self._told(["plan", "-json", self._lock, *(["-destroy"] if destroy else [])])
        return told.changes

    def plan_in_words(self) -> tuple[list[Change], str]:
        """What would change, and Terraform's own words for it."""
        with self._saved() as changes:
            return changes, self._must(["show", "-no-color", _PLAN], asking=True).strip("\n")

    def drift(self) -> list[Change]:
        """What is no longer as it was made, and would be put right: tags and the like, which change by themselves, are no drift."""
        wrong = {change.address for change in self.plan() if change.action not in ("noop", "read")}
        found = self._told(["plan", "-refresh-only", "-json", self._lock]).drift if wrong else []
        return [change for change in found if change.address in wrong]

    def apply(self, report: Callable[[str], None]) -> tuple[list[Change], Object]:
        """Make it so; `report` hears of each resource as it is begun and done. What was done, and what the stage has to give."""
        told = self._told(["apply", "-json", "-auto-approve", self._lock], report, Journal(self.folder))
        return told.changes, self.outputs() if told.outputs is None else told.outputs

    def destroy(self, report: Callable[[str], None]) -> list[Change]:
        """Remove everything."""
        return self._told(["destroy", "-json", "-auto-approve", self._lock], report, Journal(self.folder)).changes

    def pull(self) -> str:
        """The state as it is, in JSON; empty where there is none."""
        return self._must(["state", "pull"])

    def push(self, file: Path) -> bool:
        """Put a state into the bucket, unless what is there is newer."""
        done = self._run(["state", "push", "-no-color", str(file)])
        if done.returncode and not re.search(r"\bserial\b", done.stderr):
            raise self._failed(done.stderr)
        return not done.returncode

    def unlock(self, lock: str) -> None:
        """Free a state that somebody who is gone has locked."""
        self._must(["force-unlock", "-force", "-no-color", lock])

    def planned_values(self) -> list[Object]:
        """What would be made, with the values that are known."""
        with self._saved():
            shown: Object = orjson.loads(self._must(["show", "-json", _PLAN], asking=True))
        return [each for each in shown.get("resource_changes") or () if each["change"]["actions"] == ["create"]]

    @contextmanager
    def _saved(self) -> Iterator[list[Change]]:
        """What would change, in a file for as long as it is looked at."""
        try:
            yield self._told(["plan", "-json", self._lock, f"-out={_PLAN}"]).changes
        finally:
            (self.folder / _PLAN).unlink(missing_ok=True)

    def take_over(self, address: str, found: str) -> bool:
        """Have a thing that is there in the state; False where there is none."""
        done = self._run(["import", "-no-color", self._lock, address, found], asking=True)
        if done.returncode and "non-existent remote object" not in done.stderr:
            raise self._failed(done.stdout + done.stderr)
        return not done.returncode

    @property
    def _lock(self) -> str:
        return f"-lock-timeout={self.patience}s"

    def _must(self, arguments: Sequence[str], *, asking: bool = False) -> str:
        done = self._run(arguments, asking=asking)
        if done.returncode:
            raise self._failed(done.stderr)
        return done.stdout

    def outputs(self) -> Object:
        """What the stage has to give."""
        said = self._must(["output", "-json", "-no-color"])
        return {name: each["value"] for name, each in orjson.loads(said or "{}").items()}

    def resources(self) -> list[str]:
        """The addresses of what is there, as the state has it."""
        done = self._run(["state", "list", "-no-color"])
        if done.returncode and "No state file was found" not in done.stderr:
            raise self._failed(done.stderr)
        return done.stdout.split("\n")[:-1]

    def names(self) -> list[tuple[str, str]]:
        """What there is, as the state has it: the kind of each thing and what it is called. Bindings of policies have no names."""
        done = self._run(["state", "pull"])
        if done.returncode:
            raise self._failed(done.stderr)
        found = (orjson.loads(done.stdout) if done.stdout.strip() else {}).get("resources") or ()
        things = [(each["type"], one["attributes"]) for each in found if each["mode"] == "managed" for one in each["instances"]]
        return [(kind, str(_name(has))) for kind, has in things if "_iam_" not in kind and _name(has)]

    def _run(self, arguments: Sequence[str], *, asking: bool = False) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.program.command, *arguments],
            cwd=self.folder,
            env=dict(self.provider(self.environment) if asking else self.environment),
            capture_output=True,
            text=True,
            check=False,
        )

    def _told(self, arguments: Sequence[str], report: Callable[[str], None] | None = None, journal: Journal | None = None) -> Told:
        told, loose = Told(), list[str]()
        with subprocess.Popen(
            [*self.program.command, *arguments],
            cwd=self.folder,
            env=dict(self.provider(self.environment)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=(self.holding,) if self.holding >= 0 else (),
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            try:
                for line in process.stdout:
                    _take(told, loose, line, report, journal)
                loose.append(process.stderr.read())
                code = process.wait()
            except KeyboardInterrupt:
                # Terraform hears of Ctrl-C too, ends what it began, and writes its state: it is waited for.
                progress.say(f"{self.stage}: Terraform ends what it began")
                for line in process.stdout:
                    _take(told, loose, line, report, journal)
                if process.wait() >= 0 and journal:
                    journal.settle()
                raise
        if code >= 0 and journal:
            # It ended by itself, and what it did is in the state; one that was killed has left its journal to the next.
            journal.settle()
        if told.interrupted:
            # It may hear of Ctrl-C and end before we have heard of it ourselves.
            raise KeyboardInterrupt
        if code:
            raise self._failed("\n".join(loose), told.problems)
        return told

    def _failed(self, text: str, problems: Sequence[str] = ()) -> TerraformFailed:
        whole = " ".join(problems) or text
        said = f"{self.stage}: {troubles.told(list(problems)) or _first_error(text)}"
        hint = troubles.remedy(whole, self.stage)
        cls = StateLocked if troubles.is_locked(whole) else NoBucket if troubles.has_no_bucket(text) else TerraformFailed
        error = cls(said, hint=hint)
        error.told = whole
        return error


def _take(told: Told, loose: list[str], line: str, report: Callable[[str], None] | None, journal: Journal | None) -> None:
    """One line of what Terraform says in JSON; others are kept for want of better."""
    try:
        said = orjson.loads(line)
    except orjson.JSONDecodeError:
        loose.append(line)
        return
    if journal:
        journal.take(said)
    kind = said.get("type")
    if kind in ("planned_change", "resource_drift"):
        change = Change(said["change"]["resource"]["addr"], str(said["change"]["action"]))
        (told.changes if kind == "planned_change" else told.drift).append(change)
    elif kind == "diagnostic" and said["diagnostic"].get("severity") == "error":
        told.problems.append(_problem(said["diagnostic"]))
    elif kind == "log" and _INTERRUPTED in str(said.get("@message", "")):
        told.interrupted = True
    elif kind == "outputs" and all("value" in each for each in said["outputs"].values()):
        # While it plans, it names them without values.
        told.outputs = {name: each["value"] for name, each in said["outputs"].items()}
    elif kind in ("apply_start", "apply_complete") and report:
        report(str(said.get("@message", "")).removesuffix("..."))


def _name(attributes: Object) -> object:
    return next((attributes[key] for key in _NAMES if attributes.get(key)), "")


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
