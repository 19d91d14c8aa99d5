"""One run of Terraform in a stage: command, JSON events, journal of pending creations, errors and hints."""

from __future__ import annotations

import re
import subprocess
import tempfile
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import orjson

from sliceworks.base import files, progress
from sliceworks.base.errors import SliceworksError
from sliceworks.infra.protection import resources_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sliceworks.infra.stack import TerraformBinary

RERUN_HINT = "`sliceworks env apply` resumes where it stopped"
_MAX_PROBLEMS = 3
_LOCK = re.compile(r"\bID: +(\S+).*?\bWho: +(\S+)(?:.*?\bCreated: +(\S+ [0-9:]+))?", re.DOTALL)
_NO_BUCKET = re.compile(r"bucket doesn't exist|specified bucket does not exist", re.IGNORECASE)
_ALREADY_EXISTS = r"already exists|alreadyExists|\b409\b"
_INDEX = r"""(?:\["[^"]*"\]|\[\d+\])?"""
_ADDRESS = re.compile(rf"(?:module\.[\w-]+{_INDEX}\.)*\bgoogle_\w+\.[\w-]+{_INDEX}")

_HINTS = (
    (_NO_BUCKET.pattern, "create the state bucket first: `gcloud storage buckets create gs://BUCKET`"),
    (r"bucket you tried to delete is not empty|containing objects without", "set spec.forceDestroy to true, then destroy again"),
    (r"deletion.protection", "set spec.deletionProtection to false, then destroy again"),
    (r"quota", f"request more quota, or reduce the pools in the document; then {RERUN_HINT}"),
    (r"stockout|does not have enough resources", f"use another zone, spot or a reservation, or try again later; {RERUN_HINT}"),
    (
        r"has not been used in project|SERVICE_DISABLED",
        f"an enabled service takes about a minute to become available; then {RERUN_HINT}",
    ),
    (
        r"default credentials|invalid authentication|invalid_grant|\b401\b|UNAUTHENTICATED",
        "`gcloud auth application-default login`",
    ),
    (
        r"serviceAccounts\.getAccessToken",
        "grant yourself roles/iam.serviceAccountTokenCreator on the automation account; `sliceworks env apply` does it for owners",
    ),
    (
        r"permission|PERMISSION_DENIED|\b403\b",
        f"grant the role to your account or to the automation account (spec.automation.roles); then {RERUN_HINT}",
    ),
    (
        r"connection re(fused|set)|cannot connect|no such host|timeout|\bEOF\b|broken pipe|unavailable|\b50[234]\b",
        f"the connection was lost, or the service is unavailable: {RERUN_HINT}",
    ),
    (r"bucket name is not available", "bucket names are globally unique: choose another{adopt}"),
    (_ALREADY_EXISTS, "it was created outside this environment: choose another name, or delete it first{adopt}"),
)


def join_problems(problems: list[str]) -> str:
    """The first few distinct problems on one line."""
    once = list(dict.fromkeys(problems))
    more = f"; and {len(once) - _MAX_PROBLEMS} more" if len(once) > _MAX_PROBLEMS else ""
    return "; ".join(once[:_MAX_PROBLEMS]) + more


class StateLock(NamedTuple):
    """The lock of a state; `since` is a UTC time without zone, and empty if Terraform did not print it."""

    id: str = "ID"
    who: str = "another client"
    since: str = ""


def read_state_lock(output: str) -> StateLock | None:
    """The lock that stopped Terraform; None if the state was not locked."""
    if "Error acquiring the state lock" not in output and "Lock Info" not in output:
        return None
    match = _LOCK.search(output)
    return StateLock(match[1], match[2], match[3] or "") if match else StateLock()


def find_hint(output: str, stage: str) -> str:
    """A hint for known errors of Terraform; empty for all others."""
    lock = read_state_lock(output)
    if lock is not None:
        return _unlock_hint(lock, stage)
    hint = next((hint for pattern, hint in _HINTS if re.search(pattern, output, re.IGNORECASE)), "")
    return hint.replace("{adopt}", _adopt_hint(output, stage))


def _adopt_hint(output: str, stage: str) -> str:
    """The provider also reports "already exists" when it retries a creation whose response was lost."""
    addresses = list(_ADDRESS.finditer(output))
    for index, address in enumerate(addresses):
        end = addresses[index + 1].start() if index + 1 < len(addresses) else len(output)
        if re.search(_ALREADY_EXISTS, output[address.end() : end], re.IGNORECASE):
            return f"; if an interrupted run of yours created it: `sliceworks env adopt {stage} '{address[0]}'`"
    return ""


def _unlock_hint(lock: StateLock, stage: str) -> str:
    since = f" since {lock.since}" if lock.since else ""
    return f"locked by {lock.who}{since}; if that run was interrupted: `sliceworks env unlock {stage} {lock.id}`, then apply again"


Object = dict[str, Any]
FILE = "events.jsonl"

_LOST = re.compile(
    r"\b50[0234]\b|unavailable|connection|\bEOF\b|timed? ?out|timeout|deadline|broken pipe|cannot connect|did not answer"
    r"|internal error|plugin did not respond|interrupted|cancell?ed",
    re.IGNORECASE,
)
"""Errors that leave open whether the request was executed."""


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
        pending = [address for address in self.pending_addresses() if _LOST.search(self._failed.get(address, ""))]
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
_STALE = re.compile(r"saved plan (is stale|does not match)", re.IGNORECASE)
_INTERRUPTED = "Interrupt received"
_POLL_INTERVAL = 0.05  # real seconds


class TerraformFailed(SliceworksError):
    """Terraform failed."""

    left_locked = False
    """Whether the run could not release its own lock."""


class StateLocked(TerraformFailed):
    """Another client holds the state lock."""

    lock = StateLock()


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
    patience: int = 60
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

    def save_plan(self) -> list[Change]:
        """The planned changes; the plan is saved in the folder for `apply_saved`."""
        return self._run_json(["plan", "-json", self._lock, f"-out={SAVED_PLAN}"]).changes

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
        if done.returncode and not re.search(r"\bserial\b", done.stderr):
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
        if done.returncode and "non-existent remote object" not in done.stderr:
            raise self._failed(done.stdout + done.stderr)
        return not done.returncode

    @property
    def _lock(self) -> str:
        return f"-lock-timeout={self.patience}s"

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
        if done.returncode and "No state file was found" not in done.stderr:
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
        message = f"{self.stage}: {join_problems(list(problems)) or _first_error(text)}"
        hint, lock = find_hint(output, self.stage), read_state_lock(output)
        kind = BucketMissing if _NO_BUCKET.search(text) else StalePlan if _STALE.search(output) else TerraformFailed
        error: TerraformFailed = kind(message, hint=hint)
        if lock is not None:
            error = StateLocked(message, hint=hint)
            error.lock = lock
        error.left_locked = "releasing the state lock" in output
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
        result.problems.append(_problem(event["diagnostic"]))
    elif kind == "log" and _INTERRUPTED in str(event.get("@message", "")):
        result.interrupted = True
    elif kind == "outputs" and all("value" in output for output in event["outputs"].values()):
        # A plan prints outputs without values.
        result.outputs = {name: output["value"] for name, output in event["outputs"].items()}
    elif kind in ("apply_start", "apply_complete") and report:
        report(str(event.get("@message", "")).removesuffix("..."))


def _name(attributes: Object) -> object:
    return next((attributes[key] for key in _NAMES if attributes.get(key)), "")


def _problem(diagnostic: Object) -> str:
    """A diagnostic on one line."""
    address = diagnostic.get("address")
    where = f"{address}: " if address else ""
    detail = " ".join(str(diagnostic.get("detail") or "").split())
    summary = " ".join(str(diagnostic.get("summary") or "").split())
    return f"{where}{summary}{f': {detail}' if detail and detail != summary else ''}"


def _first_error(text: str) -> str:
    """The first error of Terraform's human-readable output, on one line."""
    lines = [line.strip(" │╷╵\t") for line in text.splitlines()]
    start = next((index for index, line in enumerate(lines) if line.startswith("Error: ")), None)
    if start is None:
        return " ".join(line for line in lines if line)[:400] or "Terraform failed without an error message"
    return " ".join(line for line in lines[start : start + 8] if line).removeprefix("Error: ")
