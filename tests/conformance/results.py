"""The stored results of the conformance specs, and the reasons of those that do not pass."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.yaml"
REAL = FOLDER / "real.yaml"
"""Results on the real control plane with the twin's nodes."""
REASONS = FOLDER / "reasons.yaml"


class Outcome(StrEnum):
    """What the last run of a spec gave; `NOT_RUN`: no run is stored."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of a spec in its last run, the commit of that run, and the suite's message unless it passed."""

    outcome: Outcome
    commit: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why the specs that match do not pass; if not `applies`, they are not part of the score's goal and do not run."""

    pattern: str
    reason: str
    applies: bool

    def matches(self, name: str) -> bool:
        """Whether it is the reason of a spec."""
        return re.search(self.pattern, name) is not None


def read(file: Path = RESULTS) -> dict[str, Result]:
    """The stored result of every spec, by name."""
    content = yaml.load(file.read_text(), yaml.CSafeLoader) if file.exists() else {}
    return {
        name: Result(Outcome(entry["outcome"]), entry.get("commit", ""), entry.get("message", ""))
        for name, entry in content.items()
    }


def write(results: Mapping[str, Result], file: Path = RESULTS) -> None:
    """Store the results of all specs."""
    entries = {}
    for name, result in sorted(results.items()):
        values = {"outcome": result.outcome.value, "commit": result.commit, "message": result.message}
        entries[name] = {key: value for key, value in values.items() if value}
    file.write_text(yaml.dump(entries, Dumper=yaml.CSafeDumper, sort_keys=False, width=10_000, allow_unicode=True))


def regressions(stored: Mapping[str, Result], new: Mapping[str, Result]) -> list[str]:
    """Specs that are stored as passed and did not pass in a run."""
    passed = (name for name, result in stored.items() if result.outcome is Outcome.PASSED)
    return sorted(name for name in passed if name in new and new[name].outcome is not Outcome.PASSED)


@cache
def reasons(file: Path = REASONS) -> tuple[Reason, ...]:
    """The reasons, the most specific first."""
    content = yaml.load(file.read_text(), yaml.CSafeLoader)
    groups = (("notApplicable", False), ("failed", True))
    return tuple(Reason(entry["specs"], entry["reason"], applies) for key, applies in groups for entry in content[key] or ())


def reason_of(name: str) -> Reason | None:
    """The reason why a spec does not pass, if one is known."""
    return next((reason for reason in reasons() if reason.matches(name)), None)


def commit() -> str:
    """The commit of the tree, with `+` if it has changes."""
    head = _git("rev-parse", "--short=8", "HEAD")
    return f"{head}+" if _git("status", "--porcelain", "--untracked-files=no", "--", ":/src", ":/tests/real") else head


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=FOLDER, capture_output=True, text=True, check=False)
    return done.stdout.strip()
