"""Runs every command in the docs, on separate twins, and compares its output with the page.

In a fenced `console` block `$` starts a command and `>` continues it; the other lines are its output. `…` matches anything within a
line, and alone on a line any number of lines.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.real.build import build
from tests.real.programs import PROGRAMS
from tests.support import hostname, process_pods

if TYPE_CHECKING:
    from collections.abc import Iterator

APART = True
pytestmark = pytest.mark.long(60)
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
KUBECTL = build(PROGRAMS["kubectl"]) if os.environ.get("SLICEWORKS_REAL") == "1" else None
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PROGRAM = re.compile(r"(?<![\w/.-])(kubectl|gcloud)\b")
_MARK = "@@command-"
_BYTECODE = ("PYTHONPYCACHEPREFIX", "PYTHONDONTWRITEBYTECODE")
"""Variables that say where compiled modules are: without them every command of a fresh clone compiles what it imports."""


@dataclass
class Command:
    """A command and its expected output."""

    text: str
    prints: list[str] = field(default_factory=list)

    @property
    def programs(self) -> frozenset[str]:
        """The programs of others that the command needs."""
        return frozenset(_PROGRAM.findall(self.text))


def commands_of(text: str) -> list[Command]:
    """Return all commands of a page in order."""
    commands: list[Command] = []
    for block in _BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                commands.append(Command(line[2:]))
            elif line == ">" or line.startswith("> "):
                commands[-1].text += "\n" + line[2:]
            else:
                commands[-1].prints.append(line)
    return commands


def run(commands: list[Command], home: Path) -> list[str]:
    """Run commands in one shell and return the output of each, both streams combined."""
    script = "".join(f"{command.text}\nsave=$?; echo {_MARK}{number}; (exit $save)\n" for number, command in enumerate(commands))
    path = os.pathsep.join([str(Path(sys.executable).parent), *([str(KUBECTL.parent)] if KUBECTL else []), os.environ["PATH"]])
    environment = {"PATH": path, "HOME": str(home), "SLICEWORKS_HOME": str(home / "state"), "LANG": "C.UTF-8"}
    environment |= {name: os.environ[name] for name in _BYTECODE if name in os.environ}
    folder = home / "project"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    try:
        result = subprocess.run(
            ["bash", "-c", script],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=900,
        )
    finally:
        stop = 'for name in $(sliceworks twin status -o name); do sliceworks twin stop --quiet --name "$name"; done'
        subprocess.run(["bash", "-c", stop], env=environment, check=True)
    printed = re.split(rf"{_MARK}\d+\n", result.stdout)
    assert len(printed) == len(commands) + 1, result.stdout
    return printed[:-1]


def matches(shown: list[str], printed: str) -> bool:
    """Return whether the output matches the page."""
    parts = [r"(.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r" ?\n" for line in map(_collapse, shown)]
    text = "".join(_collapse(line).rstrip() + "\n" for line in printed.splitlines())
    return re.fullmatch("".join(parts), text) is not None


def _collapse(line: str) -> str:
    """Return the line with single spaces, because column widths depend on their content."""
    return re.sub(r"[^\S\n]+", " ", line)


def pages() -> Iterator[object]:
    for page in PAGES:
        commands = commands_of(page.read_text())
        if not commands:
            continue
        # Commands with kubectl run only where it is installed; all others run everywhere, except on pages that build on gcloud and
        # where they print nothing, such as the start of a twin.
        plain = [command for command in commands if not command.programs]
        programs = sorted(programs_of(commands))
        name = str(page.relative_to(ROOT))
        text = page.read_text()
        marks = [hostname.needed] if "examples/training-jobs/for-real" in text else []
        if "examples/models-here/llama2.yaml" in text:
            marks.append(process_pods.mounts_wanted)  # its processes find each other by the names of Services
        if "gcloud" not in programs and (not programs or any(command.prints for command in plain)):
            yield pytest.param(plain, id=name, marks=marks)
        if programs:
            # Sliceworks builds kubectl, but not gcloud: make test says that the page was skipped without it.
            is_missing = "gcloud" in programs and not shutil.which("gcloud")
            mark = pytest.mark.skip(reason="gcloud not found: install the Google Cloud CLI") if is_missing else pytest.mark.real
            yield pytest.param(commands, id=f"{name} with {' and '.join(programs)}", marks=mark)


def programs_of(commands: list[Command]) -> frozenset[str]:
    return frozenset().union(*(command.programs for command in commands))


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("commands", list(pages()))
def test_commands_print_what_page_shows(commands: list[Command], tmp_path: Path) -> None:
    programs = programs_of(commands)
    if "kubectl" in programs and not has_kubectl():
        pytest.skip("kubectl not found: make test-real builds it")
    for command, printed in zip(commands, run(commands, tmp_path), strict=True):
        shown = "\n".join(command.prints)
        if not matches(command.prints, printed):
            pytest.fail(f"$ {command.text}\nprinted:\n{printed}\nthe page shows:\n{shown}", pytrace=False)


def has_kubectl() -> bool:
    return KUBECTL is not None or shutil.which("kubectl") is not None


def test_commands_name_the_programs_that_they_need() -> None:
    assert Command('eval "$(sliceworks twin env --gcloud)"').programs == frozenset()
    assert Command("until kubectl get rgd; do gcloud info; done").programs == {"kubectl", "gcloud"}


@pytest.mark.parametrize("seed", ["gemma-by-hand", "saxml", "triton", "slices-on-demand", "train-on-tpus"])
def test_page_of_each_seed_has_commands_that_run(seed: str) -> None:
    assert len(commands_of((ROOT / "docs" / "how-to" / f"{seed}.md").read_text())) > 5


def test_output_is_compared_line_by_line() -> None:
    assert matches(["a", "…", "d … f"], "a\nb\nc\nd e f  \n")
    assert matches(["a", "…"], "a\n")
    assert not matches(["a"], "a\nb\n")
    assert not matches(["a"], "")
    assert matches([], "")
    assert matches(["NAME  AGE", "a     …"], "NAME          AGE\na             5s\n")
