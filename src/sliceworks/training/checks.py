"""What is wrong with a TrainingJob beyond its form: types that do not exist, names too long for what follows from them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.base.errors import SliceworksError, UnknownAccelerator
from sliceworks.specs.findings import Finding
from sliceworks.specs.training import SLICE
from sliceworks.training.shapes import ask
from sliceworks.training.variables import coordinator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.specs.training import Slices, TrainingJob
    from sliceworks.training.shapes import Ask

_LONGEST = 63
_SUFFIX = "-abcde"
_LONGEST_SCRIPT = 120_000  # one argument of a program is at most 128 KiB


def check(job: TrainingJob, script: str = "") -> list[Finding]:
    """Everything that is wrong."""
    try:
        asked = ask(job.spec.slices)
    except SliceworksError as error:
        return [Finding(("spec", "slices", _wrong_field(job.spec.slices, error)), error.message, error.hint)]
    found = list(_names(job, asked))
    if len(script.encode()) > _LONGEST_SCRIPT:
        found.append(Finding(("spec", "script"), f"the script is longer than {_LONGEST_SCRIPT} bytes", "put it into the image"))
    return found


def _wrong_field(slices: Slices, error: SliceworksError) -> str:
    """The field that does not fit the others."""
    if isinstance(error, UnknownAccelerator):
        return "accelerator" if slices.accelerator else "type"
    if slices.topology:
        return "topology"
    return "type" if slices.chips_per_host is None else "chipsPerHost"


def _names(job: TrainingJob, asked: Ask) -> Iterator[Finding]:
    path, name = ("metadata", "name"), job.metadata.name
    wrong = names.dns1035_label_errors(name)
    if wrong and len(name) <= _LONGEST:
        yield Finding(path, f"{name!r}: {wrong[0]}")
        return
    follow = [f"{name}-{SLICE}-{asked.count - 1}-{asked.shape.hosts - 1}{_SUFFIX}"]
    beside = [*(["tensorboard"] if job.spec.tensorboard else []), *(each.name for each in job.spec.beside)]
    follow += [f"{name}-{each}-0-0{_SUFFIX}" for each in beside]
    longest = max(follow, key=len)
    over, what = len(longest) - _LONGEST, f"its pods would be called {longest}"
    if asked.joined and (twice := (len(coordinator(job)) - _LONGEST + 1) // 2) > max(over, 0):
        over, what = twice, f"its hosts find each other at {coordinator(job)}, which is a label"
    if over > 0:
        problem = f"the name {name} is too long: {what}, and {_LONGEST} characters is the most"
        yield Finding(path, problem, f"take a name of {len(name) - over} characters at most")
