"""One run of Terraform in a stage: command, JSON events, journal of pending creations, errors."""

from __future__ import annotations

import subprocess
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from sliceworks.base import files, progress
from sliceworks.base.errors import SliceworksError
from sliceworks.infra import terraform_messages as messages
from sliceworks.infra.protection import resources_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sliceworks.infra.stack import TerraformBinary

Object = dict[str, Any]
FILE = "events.jsonl"


@dataclass(slots=True)
class Journal:
    """Resources of one stage whose creation was started and not confirmed.

    Terraform itself writes its events into the file, each before it sends the request: after a kill at any time, the file names
    every resource that may exist without being in the state.
    """

    folder: Path
    _failed: dict[str, str] = field(default_factory=dict)

    @property
    def _file(self) -> Path:
        return self.folder / FILE

    def open(self) -> BinaryIO:
        """Open the file for Terraform's events."""
        file = self._file.open("ab")
        if file.tell():
            file.write(b"\n")  # a killed run may have left an incomplete line
            file.flush()
        return file

    def pending_addresses(self) -> list[str]:
        """Addresses of resources that may exist without being in the state."""
        if not self._file.exists():
            return []
        addresses = map(_created_address, self._file.read_bytes().splitlines())
        return list(dict.fromkeys(address for address in addresses if address))

    def record_failure(self, event: Object) -> None:
        """Record the error of a resource, if the event has one."""
        if event.get("type") == "diagnostic" and event["diagnostic"].get("address"):
            diagnostic = event["diagnostic"]
            self._failed[diagnostic["address"]] = f"{diagnostic.get('summary', '')} {diagnostic.get('detail', '')}"

    def settle(self) -> None:
        """Call it when Terraform exited and wrote its state: keeps only creations that failed without a clear result."""
        pending = [address for address in self.pending_addresses() if messages.is_outcome_unknown(self._failed.get(address, ""))]
        self._failed.clear()
        self.keep(pending)

    def keep(self, addresses: list[str]) -> None:
        """Replace the pending addresses."""
        if addresses:
            events = ({"type": "apply_start", "hook": {"action": "create", "resource": {"addr": address}}} for address in addresses)
            files.write_atomic(self._file, b"".join(orjson.dumps(event) + b"\n" for event in events))
        else:
            self._file.unlink(missing_ok=True)


def _created_address(line: bytes) -> str:
    """The address of a resource whose creation the event starts; empty for other events and incomplete lines."""
    try:
        event = orjson.loads(line)
        is_creation = event["type"] == "apply_start" and event["hook"]["action"] == "create"
        return str(event["hook"]["resource"]["addr"]) if is_creation else ""
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return ""


@dataclass(slots=True)
class _Tail:
    """The lines that a process appends to a file, until it exits. A second iteration continues after the last line."""

    process: subprocess.Popen[bytes]
    file: BinaryIO

    def __iter__(self) -> Iterator[str]:
        while True:
            exited = self.process.poll() is not None
            position = self.file.tell()
            line = self.file.readline()
            if line.endswith(b"\n") or (exited and line):
                yield line.decode(errors="replace")
                continue
            if exited:
                return
            self.file.seek(position)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_POLL_INTERVAL)


_NAMES = ("email", "dataset_id", "table_id", "membership_id", "display_name", "name", "service", "id")
"""Attributes that hold the name of a resource, in order of preference."""

_PLAN = "adoption.tfplan"
SAVED_PLAN = "saved.tfplan"
_POLL_INTERVAL = 0.05  # real seconds


class TerraformFailed(SliceworksError):
    """Terraform failed."""

    left_locked = False
    """Whether the run could not release its own lock."""


class StateLocked(TerraformFailed):
    """Another client holds the state lock."""

    lock = messages.StateLock()


class StalePlan(TerraformFailed):
    """The state changed after the plan was saved."""


class BucketMissing(TerraformFailed):
    """The state bucket does not exist."""


@dataclass(frozen=True, slots=True)
class Change:
    """A planned change of one resource: create, update, replace, delete or read."""

    address: str
    action: str


@dataclass(slots=True)
class RunResult:
    """The result of a run: planned changes, drift and errors."""

    changes: list[Change] = field(default_factory=list)
    drift: list[Change] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    outputs: Object | None = None
    """None if the run did not print outputs."""
    interrupted: bool = False
    """Whether Terraform received SIGINT."""


@dataclass(frozen=True, slots=True)
class Terraform:
    """Terraform in the folder of one stage."""

    program: TerraformBinary
    folder: Path
    environment: Mapping[str, str]
    stage: str
    lock_timeout: int = 60
    """Seconds to wait for the state lock."""
    holding: int = -1
    """A file descriptor that Terraform inherits, so that the stage stays locked until it exits."""
    provider: Callable[[Mapping[str, str]], Mapping[str, str]] = dict
    """Returns the environment for commands that call providers; it may start a provider."""

    def init(self) -> None:
        """Initialize the folder: modules, provider and backend."""
        done = self._run(["init", "-reconfigure", "-no-color"])
        if done.returncode:
            raise self._failed(done.stdout + done.stderr)

    def plan(self, *, destroy: bool = False) -> list[Change]:
        """The planned changes."""
        return self._run_json(["plan", "-json", self._lock, *(["-destroy"] if destroy else [])]).changes

    def save_plan(self, *, destroy: bool = False) -> list[Change]:
        """The planned changes; the plan is saved in the folder for `apply_saved`."""
        return self._run_json(["plan", "-json", self._lock, f"-out={SAVED_PLAN}", *(["-destroy"] if destroy else [])]).changes

    def show_saved(self) -> str:
        """Terraform's human-readable form of the saved plan."""
        return self._must(["show", "-no-color", SAVED_PLAN], needs_provider=True).strip("\n")

    def apply_saved(self, report: Callable[[str], None]) -> tuple[list[Change], Object]:
        """Apply the saved plan and delete it; raises StalePlan if the state changed since."""
        try:
            result = self._run_json(["apply", "-json", self._lock, SAVED_PLAN], report, Journal(self.folder))
        finally:
            (self.folder / SAVED_PLAN).unlink(missing_ok=True)
        return result.changes, self.outputs() if result.outputs is None else result.outputs

    def drift(self) -> list[Change]:
        """Resources that changed outside Terraform and that apply would change back; changes of computed fields do not count."""
        changed = {change.address for change in self.plan() if change.action not in ("noop", "read")}
        drift = self._run_json(["plan", "-refresh-only", "-json", self._lock]).drift if changed else []
        return [change for change in drift if change.address in changed]

    def apply(self, report: Callable[[str], None]) -> tuple[list[Change], Object]:
        """Apply the stage and return its changes and outputs; `report` is called when a resource starts and completes."""
        result = self._run_json(["apply", "-json", "-auto-approve", self._lock], report, Journal(self.folder))
        return result.changes, self.outputs() if result.outputs is None else result.outputs

    def destroy(self, report: Callable[[str], None]) -> list[Change]:
        """Destroy all resources of the stage."""
        return self._run_json(["destroy", "-json", "-auto-approve", self._lock], report, Journal(self.folder)).changes

    def pull(self) -> str:
        """The state as JSON; empty if there is none."""
        return self._must(["state", "pull"])

    def state(self) -> Object:
        """The state as data; empty if there is none."""
        text = self.pull()
        state_data: Object = orjson.loads(text) if text.strip() else {}
        return state_data

    def push(self, file: Path) -> bool:
        """Push a state file; returns False if the stored state is newer."""
        done = self._run(["state", "push", "-no-color", str(file)])
        if done.returncode and not messages.is_state_older(done.stderr):
            raise self._failed(done.stderr)
        return not done.returncode

    def unlock(self, lock: str) -> None:
        """Force-unlock the state."""
        self._must(["force-unlock", "-force", "-no-color", lock])

    def planned_values(self) -> list[Object]:
        """Planned creations with their known values."""
        try:
            self._run_json(["plan", "-json", self._lock, f"-out={_PLAN}"])
            shown: Object = orjson.loads(self._must(["show", "-json", _PLAN], needs_provider=True))
        finally:
            (self.folder / _PLAN).unlink(missing_ok=True)
        return [change for change in shown.get("resource_changes") or () if change["change"]["actions"] == ["create"]]

    def import_resource(self, address: str, resource_id: str) -> bool:
        """Import an existing resource; returns False if it does not exist."""
        done = self._run(["import", "-no-color", self._lock, address, resource_id], needs_provider=True)
        if done.returncode and not messages.is_object_missing(done.stderr):
            raise self._failed(done.stdout + done.stderr)
        return not done.returncode

    @property
    def _lock(self) -> str:
        return f"-lock-timeout={self.lock_timeout}s"

    def _must(self, arguments: Sequence[str], *, needs_provider: bool = False) -> str:
        done = self._run(arguments, needs_provider=needs_provider)
        if done.returncode:
            raise self._failed(done.stderr)
        return done.stdout

    def outputs(self) -> Object:
        """The outputs of the stage."""
        outputs = orjson.loads(self._must(["output", "-json", "-no-color"]) or "{}")
        return {name: output["value"] for name, output in outputs.items()}

    def resources(self) -> list[str]:
        """Addresses of all resources in the state."""
        done = self._run(["state", "list", "-no-color"])
        if done.returncode and not messages.is_state_missing(done.stderr):
            raise self._failed(done.stderr)
        return done.stdout.split("\n")[:-1]

    def names(self) -> list[tuple[str, str]]:
        """Type and name of all resources in the state; IAM bindings have no names and are left out."""
        resources = resources_of(self.state())
        return [(kind, str(_name(has))) for kind, has in resources if "_iam_" not in kind and _name(has)]

    def _run(self, arguments: Sequence[str], *, needs_provider: bool = False) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.program.command, *arguments],
            cwd=self.folder,
            env=dict(self.provider(self.environment) if needs_provider else self.environment),
            capture_output=True,
            text=True,
            check=False,
        )

    def _run_json(
        self, arguments: Sequence[str], report: Callable[[str], None] | None = None, journal: Journal | None = None
    ) -> RunResult:
        result, other_output = RunResult(), list[str]()
        with ExitStack() as stack:
            log = stack.enter_context(tempfile.NamedTemporaryFile("ab")) if journal is None else stack.enter_context(journal.open())
            events = stack.enter_context(Path(log.name).open("rb"))
            events.seek(log.tell())
            errors = stack.enter_context(tempfile.TemporaryFile())
            process = stack.enter_context(
                subprocess.Popen(
                    [*self.program.command, *arguments],
                    cwd=self.folder,
                    env=dict(self.provider(self.environment)),
                    stdout=log,
                    stderr=errors,
                    pass_fds=(self.holding,) if self.holding >= 0 else (),
                )
            )
            lines = _Tail(process, events)
            try:
                for line in lines:
                    _handle_line(result, other_output, line, report, journal)
                code = process.wait()
            except KeyboardInterrupt:
                # Terraform receives SIGINT too, finishes its current operations and writes its state.
                progress.say(f"{self.stage}: waiting for Terraform to finish its current operations")
                for line in lines:
                    _handle_line(result, other_output, line, report, journal)
                if process.wait() >= 0 and journal:
                    journal.settle()
                raise
            errors.seek(0)
            other_output.append(errors.read().decode(errors="replace"))
        if code >= 0 and journal:
            # It exited and wrote its state. After a kill, the next run reads the journal.
            journal.settle()
        if result.interrupted:
            # Terraform may receive SIGINT and exit before this process handles it.
            raise KeyboardInterrupt
        if code:
            raise self._failed("\n".join(other_output), result.problems)
        return result

    def _failed(self, text: str, problems: Sequence[str] = ()) -> TerraformFailed:
        output = " ".join(problems) or text
        message = f"{self.stage}: {messages.join_problems(problems) or messages.first_error(text)}"
        hint, lock = messages.find_hint(output, self.stage), messages.read_state_lock(output)
        kind = (
            BucketMissing if messages.is_bucket_missing(text) else StalePlan if messages.is_plan_stale(output) else TerraformFailed
        )
        error: TerraformFailed = kind(message, hint=hint)
        if lock is not None:
            error = StateLocked(message, hint=hint)
            error.lock = lock
        error.left_locked = messages.is_left_locked(output)
        return error


def _handle_line(
    result: RunResult, other_output: list[str], line: str, report: Callable[[str], None] | None, journal: Journal | None
) -> None:
    """Add a JSON event to the result; other lines are collected for error messages."""
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        other_output.append(line)
        return
    if journal:
        journal.record_failure(event)
    kind = event.get("type")
    if kind in ("planned_change", "resource_drift"):
        change = Change(event["change"]["resource"]["addr"], str(event["change"]["action"]))
        (result.changes if kind == "planned_change" else result.drift).append(change)
    elif kind == "diagnostic" and event["diagnostic"].get("severity") == "error":
        result.problems.append(messages.describe_diagnostic(event["diagnostic"]))
    elif kind == "log" and messages.is_interruption(str(event.get("@message", ""))):
        result.interrupted = True
    elif kind == "outputs" and all("value" in output for output in event["outputs"].values()):
        # A plan prints outputs without values.
        result.outputs = {name: output["value"] for name, output in event["outputs"].items()}
    elif kind in ("apply_start", "apply_complete") and report:
        report(str(event.get("@message", "")).removesuffix("..."))


def _name(attributes: Object) -> object:
    return next((attributes[key] for key in _NAMES if attributes.get(key)), "")
