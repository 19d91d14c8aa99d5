"""Runs the suite's program with Ginkgo, in parallel, and reads its report."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from tests.conformance.results import Outcome
from tests.real.build import build
from tests.real.processes import tied
from tests.real.programs import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_TIMEOUT = "4h"
_MESSAGE = 300
_END = re.compile(r"^(?:•|S|P) (?:\[(\w+)\] )?.*\[[\d.]+ seconds\]$")
"""The line in Ginkgo's output with the result of a spec."""
_LABELS = re.compile(r" \[Conformance\] \[[^]]*\]$")


@dataclass(frozen=True, slots=True)
class Selection:
    """The specs to run: those that match `focus` and none of `skip`, in a number of processes."""

    focus: str = ""
    skip: list[str] = field(default_factory=list)
    processes: int = 8


def run(selection: Selection, kubeconfig: Path, folder: Path) -> dict[str, tuple[Outcome, str]]:
    """The outcome of each spec that ran, and its message unless it passed. Prints progress; `folder` gets log and report."""
    report = folder / "report.json"
    with (folder / "ginkgo.log").open("w") as log:
        process = subprocess.Popen(
            tied(_command(selection, kubeconfig, report)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            assert process.stdout is not None
            _print_progress(process.stdout, log.write)
        finally:
            process.terminate()  # no effect after its end; otherwise Ginkgo ends the processes of the suite
            process.wait()
    return dict(outcomes(orjson.loads(report.read_bytes())))


def _command(selection: Selection, kubeconfig: Path, report: Path) -> list[str]:
    own = [str(build(PROGRAMS["ginkgo"])), "-v", "--no-color", f"--procs={selection.processes}", f"--timeout={_TIMEOUT}"]
    own += ["--label-filter=Conformance", f"--output-dir={report.parent}", f"--json-report={report.name}"]
    own += [f"--focus={selection.focus}"] if selection.focus else []
    own += [f"--skip={pattern}" for pattern in selection.skip]
    suite = ["--provider=skeleton", f"--kubeconfig={kubeconfig}", f"--kubectl-path={build(PROGRAMS['kubectl'])}"]
    return [*own, str(build(PROGRAMS["e2e.test"])), "--", *suite, "--disable-log-dump"]


def _print_progress(lines: Iterable[str], write: Any) -> None:
    """Copy the output, and print a line per spec that ended."""
    started, done, failed, state = time.monotonic(), 0, 0, None
    for line in lines:
        write(line)
        if state is not None:  # the line after the result has the name
            minutes, seconds = divmod(int(time.monotonic() - started), 60)
            print(
                f"{minutes:3}:{seconds:02}  {done:3} done, {failed:2} not passed  {state}  {_LABELS.sub('', line.strip())}",
                flush=True,
            )
            state = None
        elif match := _END.match(line):
            state = match[1].lower() if match[1] else "passed"
            done, failed = done + 1, failed + (state != "passed")
    sys.stdout.flush()


def outcomes(reports: list[dict[str, Any]]) -> Iterator[tuple[str, tuple[Outcome, str]]]:
    """The outcome of each spec in a report that ran, by name."""
    for report in reports:
        for spec in report["SpecReports"] or ():
            if spec["LeafNodeType"] == "It" and spec["State"] != "skipped":
                name = " ".join([*(spec["ContainerHierarchyTexts"] or ()), spec["LeafNodeText"]])
                outcome = Outcome.PASSED if spec["State"] == "passed" else Outcome.FAILED
                yield name, (outcome, "" if outcome is Outcome.PASSED else _message(spec))


def _message(spec: dict[str, Any]) -> str:
    """The beginning of a failure message, in one line."""
    failure = spec.get("Failure") or {}
    words = " ".join((failure.get("Message") or spec["State"]).split())
    return words if len(words) <= _MESSAGE else f"{words[:_MESSAGE]}…"
