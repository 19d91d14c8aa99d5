"""Generates the page of Kubernetes' conformance suite from its stored results."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.conformance import results
from tests.conformance.results import Outcome
from tests.real.agnhost import IMAGE
from tests.real.programs import KUBERNETES_VERSION

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.conformance.results import Reason, Result

_OPENING = """\
# Kubernetes conformance

{passed} of the {total} specs in the conformance suite of Kubernetes {version} pass on a twin. `make conformance` builds the suite's
own program from its Go module and runs it against `sliceworks twin start --processes --image-map` with three nodes: the programs
of its images, such as `{image}`, run as processes, with the tools of the machine. This page is generated from the results.

A twin is not certified, and a simulated node is not a kubelet: read this page as a list of what your controllers and clients can
rely on.

```text
make conformance                                run all specs that apply
make conformance FOCUS="sig-apps.*StatefulSet"  run the specs whose names match
```

It fails if a spec that is stored as passed does not pass any more. The result of a spec is that of its last run; the table names
the commits of these runs. Reports and the logs of the suite and of the twin are in `build/conformance`.
"""


def conformance() -> str:
    """Return the page."""
    stored = results.read()
    groups: dict[str, dict[str, Result]] = {}
    for name, result in stored.items():
        groups.setdefault(_group(name), {})[name] = result
    passed = sum(result.outcome is Outcome.PASSED for result in stored.values())
    opening = _OPENING.format(passed=passed, total=len(stored), version=KUBERNETES_VERSION, image=IMAGE)
    parts = [opening, "## Results\n", _summary(groups), *(_not_passed(groups)), "## Passed specs\n"]
    parts += [_passed(group, found) for group, found in groups.items()]
    return "\n".join(parts)


def _group(name: str) -> str:
    match = re.match(r"\[sig-([a-z-]+)\]", name)
    return match[1] if match else "other"


def _state(name: str, result: Result) -> str:
    """The column of a spec."""
    if result.outcome is Outcome.PASSED:
        return "passed"
    reason = results.reason_of(name)
    return "not applicable" if reason is not None and not reason.applies else result.outcome.value


def _summary(groups: Mapping[str, Mapping[str, Result]]) -> str:
    columns = ("passed", "failed", "not applicable", "not run")
    lines = [f"| group | specs | {' | '.join(columns)} | commits |", f"|{'---|' * (len(columns) + 3)}"]
    total: Counter[str] = Counter()
    for group, found in groups.items():
        counts = Counter(_state(name, result) for name, result in found.items())
        total += counts
        commits = ", ".join(f"`{commit}`" for commit in sorted({result.commit for result in found.values() if result.commit}))
        lines.append(f"| {group} | {len(found)} | {' | '.join(str(counts[column]) for column in columns)} | {commits or '–'} |")
    lines.append(f"| **all** | {total.total()} | {' | '.join(str(total[column]) for column in columns)} | |")
    return "\n".join([*lines, ""])


def _not_passed(groups: Mapping[str, Mapping[str, Result]]) -> list[str]:
    """Sections of the specs that do not pass, by state and reason."""
    by_state: dict[str, dict[str, list[str]]] = {}
    for found in groups.values():
        for name, result in found.items():
            if (state := _state(name, result)) != "passed":
                reason = results.reason_of(name)
                by_state.setdefault(state, {}).setdefault(_why(reason, result), []).append(name)
    parts = []
    for state, title in (("failed", "Failed"), ("not applicable", "Not applicable"), ("not run", "Not run")):
        if by_state.get(state):
            parts.append(f"## {title}\n")
            parts += [f"{why}\n\n{_list(names)}" for why, names in by_state[state].items()]
    return parts


def _why(reason: Reason | None, result: Result) -> str:
    if reason is not None:
        return reason.reason
    return f"The suite reports: `{result.message.replace('`', '')}`" if result.message else "No result is stored."


def _passed(group: str, found: Mapping[str, Result]) -> str:
    names = [name for name, result in found.items() if result.outcome is Outcome.PASSED]
    return f"### {group}\n\n{_list(names)}" if names else ""


def _list(names: list[str]) -> str:
    return "".join(f"- {_short(name)}\n" for name in names)


def _short(name: str) -> str:
    """The name without the tag that all have, as Markdown."""
    return f"`{name.removesuffix(' [Conformance]').replace('`', chr(39))}`"
