"""The reference of errors: exit codes, and every kind of error with what it means."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from sliceworks.base import errors

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPENING = """\
# Errors

A command that fails prints one line that says what and where, often one more that says what to do, and never a traceback
(`SLICEWORKS_DEBUG=1` shows one, for a report of a mistake of ours). This page is made from the program by `make fix`.

```text
error: job.yaml:7: no accelerator is called 'v5p-250'
hint: the nearest are v5p-128 and v5p-256
```

| exit code | meaning |
| --- | --- |
| 0 | it is done |
| 1 | it failed, or something is not as it should be: a check found a problem, a job failed, a run does not count |
| 2 | the call itself is wrong |
| 3 | it did not happen in time |
| 130 | it was interrupted |

In Python every error is a `sliceworks.base.errors.SliceworksError`, with `message`, `hint` and `exit_code`.
"""


def failures() -> str:
    """The page."""
    meanings = _meanings()
    rows = [f"| {'&emsp;' * depth}`{each.__name__}` | {_answer(each)} | {meanings[each.__name__]} |" for depth, each in _tree()]
    return "\n".join([_OPENING, "## All of them\n", "| error | answer | what it means |", "| --- | --- | --- |", *rows, ""])


def _tree(cls: type[errors.SliceworksError] = errors.SliceworksError, depth: int = 0) -> Iterator[tuple[int, type]]:
    yield depth, cls
    for below in cls.__subclasses__():
        if below.__module__ == errors.__name__:
            yield from _tree(below, depth + 1)


def _answer(cls: type) -> str:
    """The code that a server answers with."""
    code, word = getattr(cls, "code", ""), getattr(cls, "reason", "") or getattr(cls, "status", "")
    known = cls not in (errors.ApiError, errors.CloudError)
    return f"{code} {word}" if code and isinstance(word, str) and known else ""


def _meanings() -> dict[str, str]:
    """What the picture of the tree says of each; those without a word there are what their answer says."""
    found: dict[str, str] = defaultdict(str)
    for line in (errors.__doc__ or "").splitlines():
        name, _, words = line.lstrip(" │├└─").partition(" ")
        found[name] = re.sub(r"^(exit )?\d[^:]*(: |$)", "", words.strip())
    return found
