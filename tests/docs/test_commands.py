"""The pages keep their word: every command shown is run, on twins of its own, and what it prints is compared.

In a fenced `console` block `$` begins a command and `>` goes on with it; the other lines are what it prints. `…` stands for
anything within a line, and alone on a line for any number of lines.
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
from tests.support import own_name

if TYPE_CHECKING:
    from collections.abc import Iterator

APART = True
pytestmark = pytest.mark.long(60)
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
KUBECTL = build(PROGRAMS["kubectl"]) if os.environ.get("SLICEWORKS_REAL") == "1" else None
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_MARK = "@@command-"


@dataclass
class Command:
    """A command and the lines it prints."""

    text: str
    prints: list[str] = field(default_factory=list)

    @property
    def needs_kubectl(self) -> bool:
        return "kubectl" in self.text


def commands_of(text: str) -> list[Command]:
    """Every command of a page, in its order."""
    found: list[Command] = []
    for block in _BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Command(line[2:]))
            elif line == ">" or line.startswith("> "):
                found[-1].text += "\n" + line[2:]
            else:
                found[-1].prints.append(line)
    return found


def run(commands: list[Command], home: Path) -> list[str]:
    """Run commands in one shell; what each printed, both streams together."""
    script = "".join(f"{command.text}\nsave=$?; echo {_MARK}{number}; (exit $save)\n" for number, command in enumerate(commands))
    path = os.pathsep.join([str(Path(sys.executable).parent), *([str(KUBECTL.parent)] if KUBECTL else []), os.environ["PATH"]])
    environment = {"PATH": path, "HOME": str(home), "SLICEWORKS_HOME": str(home / "state"), "LANG": "C.UTF-8"}
    folder = home / "project"
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    try:
        done = subprocess.run(
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
    printed = re.split(rf"{_MARK}\d+\n", done.stdout)
    assert len(printed) == len(commands) + 1, done.stdout
    return printed[:-1]


def agrees(shown: list[str], printed: str) -> bool:
    """Whether what a page shows is what was printed."""
    parts = [r"(.*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r" ?\n" for line in map(_squeezed, shown)]
    text = "".join(_squeezed(line).rstrip() + "\n" for line in printed.splitlines())
    return re.fullmatch("".join(parts), text) is not None


def _squeezed(line: str) -> str:
    """A line without the widths of its columns, which depend on what stands in them."""
    return re.sub(r"[^\S\n]+", " ", line)


def pages() -> Iterator[object]:
    for page in PAGES:
        commands = commands_of(page.read_text())
        if not commands:
            continue
        # Pages that show kubectl are run whole where there is one; the rest of them is run everywhere.
        plain = [command for command in commands if not command.needs_kubectl]
        name = str(page.relative_to(ROOT))
        jax = "examples/training-jobs/for-real" in page.read_text()
        yield pytest.param(plain, id=name, marks=[own_name.needed] if jax else [])
        if len(plain) < len(commands):
            yield pytest.param(commands, id=f"{name} with kubectl", marks=pytest.mark.real)


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("commands", list(pages()))
def test_commands_print_what_the_page_shows(commands: list[Command], tmp_path: Path) -> None:
    if any(command.needs_kubectl for command in commands) and not has_kubectl():
        pytest.skip("no kubectl here: make test-real builds one")
    for command, printed in zip(commands, run(commands, tmp_path), strict=True):
        shown = "\n".join(command.prints)
        if not agrees(command.prints, printed):
            pytest.fail(f"$ {command.text}\nprinted:\n{printed}\nthe page shows:\n{shown}", pytrace=False)


def has_kubectl() -> bool:
    return KUBECTL is not None or shutil.which("kubectl") is not None


def test_what_a_page_shows_is_compared_line_by_line() -> None:
    assert agrees(["a", "…", "d … f"], "a\nb\nc\nd e f  \n")
    assert agrees(["a", "…"], "a\n")
    assert not agrees(["a"], "a\nb\n")
    assert not agrees(["a"], "")
    assert agrees([], "")
    assert agrees(["NAME  AGE", "a     …"], "NAME          AGE\na             5s\n")
