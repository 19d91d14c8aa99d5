"""Draws docs/assets/at-work.svg from a real terminal session. Needs kubectl.

python docs/terminal_picture.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "assets" / "at-work.svg"
REAL_PROGRAMS = Path.home() / ".cache" / "sliceworks-real" / "bin"
WIDTH = 124
# A command, and how many of its first and last lines to show.
SCENES = [
    ("sliceworks twin start", 9, 0),
    ("export KUBECONFIG=$(sliceworks twin kubeconfig)", 9, 0),
    ("kubectl create deployment web --image=example.com/web:1 --replicas=3", 9, 0),
    ("kubectl get deployments,serviceaccounts", 9, 0),
    ("kubectl create namespace Team_A", 9, 0),
    ("sliceworks rehearse examples/platform", 30, 0),
    ("sliceworks twin stop", 9, 0),
]


def run_scenes(folder: Path) -> list[str]:
    """Run all scenes in one shell and return the output of each."""
    path = os.pathsep.join([str(Path(sys.executable).parent), str(REAL_PROGRAMS), os.environ["PATH"]])
    environment = {"PATH": path, "HOME": str(folder), "SLICEWORKS_HOME": str(folder), "LANG": "C.UTF-8"}
    script = "".join(f"{command} 2>&1\necho @@@\n" for command, _, _ in SCENES)
    result = subprocess.run(["bash", "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return result.stdout.split("@@@\n")[:-1]


def draw(console: Console, printed: list[str]) -> None:
    """Print each command and its output."""
    for (command, first, last), text in zip(SCENES, printed, strict=True):
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        lines = [line[: WIDTH - 1] + "…" if len(line) > WIDTH else line for line in text.splitlines()]
        if len(lines) > first + last:
            lines = [*lines[:first], "⋮", *(lines[-last:] if last else [])]
        for line in lines:
            style = "red" if line.lower().startswith(("error", "the namespace")) else "cyan" if line.isupper() else ""
            console.print(Text(line, style))
        if lines:
            console.print()


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="sliceworks-") as folder:
        printed = [text.replace(folder, "~/.local/state/sliceworks") for text in run_scenes(Path(folder))]
    with Path(os.devnull).open("w") as nowhere:
        console = Console(record=True, width=WIDTH, file=nowhere, force_terminal=True, highlight=False)
        draw(console, printed)
        picture = console.export_svg(title="Sliceworks", unique_id="at-work")
    # Remove web fonts: the picture must not load anything.
    PICTURE.write_text(re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL))


if __name__ == "__main__":
    main()
