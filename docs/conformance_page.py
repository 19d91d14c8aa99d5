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
    parts = [
        opening,
        "## Results\n",
        _summary(groups),
        *environment(stored, results.read(results.REAL)),
        *_not_passed(groups),
        "## Passed specs\n",
    ]
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


_ENVIRONMENT = """\
## What the nodes cost

`make conformance CONFORMANCE_ARGS=--real` runs the suite on etcd, kube-apiserver, kube-controller-manager and kube-scheduler
{version} with the twin's nodes. A spec that fails there too fails because of the nodes; one that fails on the twin only, because
of its control plane. It needs root: pods get addresses in a network namespace, since the real API server rejects loopback
addresses in endpoints.
"""


def environment(stored: Mapping[str, Result], on_real: Mapping[str, Result]) -> list[str]:
    """Parts of the page with the results of the real control plane with the twin's nodes, and what differs."""
    real = {name: result for name, result in on_real.items() if result.outcome is not Outcome.NOT_RUN}
    if not real:
        return []
    lines = ["| group | specs | passed on the real control plane | passed on the twin | commits |", "|---|---|---|---|---|"]
    for group in sorted({_group(name) for name in real}):
        names = [name for name in real if _group(name) == group]
        counts = [sum(source[name].outcome is Outcome.PASSED for name in names) for source in (real, stored)]
        commits = ", ".join(f"`{commit}`" for commit in sorted({real[name].commit for name in names}))
        lines.append(f"| {group} | {len(names)} | {counts[0]} | {counts[1]} | {commits} |")
    parts = [_ENVIRONMENT.format(version=KUBERNETES_VERSION), "\n".join([*lines, ""])]
    for title, passes, fails in (("twin", stored, real), ("real control plane", real, stored)):
        if names := [name for name in real if passes[name].outcome is Outcome.PASSED is not fails[name].outcome]:
            items = [f"- {_short(name)}: `{fails[name].message.replace('`', '')}`\n" for name in names]
            parts.append(f"They pass on the {title} only:\n\n{''.join(items)}")
    return parts


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
