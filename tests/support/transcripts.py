"""Command lines with their recorded output in readable files, and runs of them on a cluster.

A transcript holds notes (lines that start at the margin), commands (`  $ command`, continued by `  > line`) and their output
(indented by two). A status other than 0 follows as `  [status]`. What differs between runs is replaced by a placeholder. With
`SLICEWORKS_RECORD=1` a run on the real cluster rewrites the file and fails once, so that a person reviews the diff.
"""

from __future__ import annotations

import difflib
import os
import re
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

SECONDS = 240
# For background commands: wait until a condition holds, and fail at a timeout.
PRELUDE = """
soon() {
  local end=$((SECONDS + 90))
  until eval "$1"; do
    if [ $SECONDS -ge $end ]; then echo "not soon: $1"; return 1; fi
    sleep 0.05
  done
}
"""
# Shorter than quantities such as 500m and limits such as 600s, which stay.
_AGE = r"((1[01]\d|\d{1,2})s|\d{1,2}m(\d{1,2}s)?|\dh(\d{1,2}m)?)"
_RULES = tuple(
    (re.compile(pattern, re.MULTILINE), word)
    for pattern, word in (
        (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UID"),
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
        (r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000 UTC", "TIME"),
        (r'(resourceVersion"?): "\d+"', r'\1: "RV"'),
        (r"(Resource Version: +)\d+", r"\1RV"),
        # The messages of client-go about a closed connection depend on timing.
        (r"^[IWE]\d{4} .* reflector\.go:.*\n", ""),
        (r"^[IWE]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ \S+\] ", "LOG "),
        (r"/\S*/kubectl-(edit-)?\d+\.yaml", "TEMPORARY"),
        (r"\b10\.96\.\d+\.\d+\b", "ADDRESS"),
        (r"\b3[0-2]\d{3}\b", "NODEPORT"),
        (r"kube-api-access-[a-z0-9]{5}", "kube-api-access-SUFFIX"),
        (r"(?<=\S)(  +|\t+)(?=\S)", "  "),
        (rf"(^|(?<=  )){_AGE}(?=  |$| \(x)", "AGE"),
        (rf"(?<=over ){_AGE}(?=\))", "AGE"),
        (r"[ \t]+$", ""),
    )
)


@dataclass
class Step:
    """Notes, a command of one or more lines, and its expected output."""

    notes: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The step as it is written in the file."""
        yield from self.notes
        for index, line in enumerate(self.command):
            yield f"  {'>' if index else '$'} {line}".rstrip()
        yield from (f"  {line}".rstrip() for line in self.output)


def read(path: Path) -> list[Step]:
    """The steps of a transcript."""
    steps = [Step()]
    for line in path.read_text().splitlines():
        if not line.startswith("  ") and (line or not steps[-1].command):
            if steps[-1].command:
                steps.append(Step())
            steps[-1].notes.append(line)
        elif line.startswith("  $ "):
            if steps[-1].command:
                steps.append(Step())
            steps[-1].command.append(line[4:])
        elif line.startswith("  >") and not steps[-1].output:
            steps[-1].command.append(line[4:])
        else:
            steps[-1].output.append(line[2:])
    for step in steps:
        _move_blank_lines(step)
    return steps


def _move_blank_lines(step: Step) -> None:
    while step.output and not step.output[-1]:
        step.output.pop()


def play(path: Path, folder: Path, environment: Mapping[str, str], words: Mapping[str, str], *, recorder: bool) -> None:
    """Run a transcript in `folder` and compare; `words` maps strings of this run to placeholders."""
    recording = recorder and os.environ.get("SLICEWORKS_RECORD") == "1"
    seen = []
    for step in read(path):
        output = _run(step, folder, environment, words)
        assert recording or output == step.output, _difference(path, step, output)
        seen.append(Step(step.notes, step.command, output))
    text = "\n".join(line for step in seen for line in (*step.lines(), "")).rstrip() + "\n"
    if recording and text != path.read_text():
        path.write_text(text)
        raise AssertionError(f"recorded {path.name}: read the difference, then run again")


def _difference(path: Path, step: Step, output: list[str]) -> str:
    lines = difflib.unified_diff(step.output, output, "recorded", "now", lineterm="")
    return "\n".join([f"{path.name}: {' '.join(step.command[:1])}", *lines])


def _run(step: Step, folder: Path, environment: Mapping[str, str], words: Mapping[str, str]) -> list[str]:
    if not step.command:
        return []
    done = subprocess.run(
        ["bash", "-c", PRELUDE + "\n".join(step.command)],
        cwd=folder,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    text = normalised(done.stdout.decode(), words)
    return [*text.splitlines(), *([f"[{done.returncode}]"] if done.returncode else [])]


def normalised(text: str, words: Mapping[str, str]) -> str:
    """Replace what differs between runs."""
    for this, word in words.items():
        text = text.replace(this, word)
    for pattern, word in _RULES:
        text = pattern.sub(word, text)
    return text.rstrip("\n")
