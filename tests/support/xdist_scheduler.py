"""Distributes tests over xdist workers: file by file, the longest first.

Files with the same `CLUSTER = "…"` run on one worker, so that their cluster is started once. The tests of a file with `APART =
True` are distributed one by one.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

if TYPE_CHECKING:
    import pytest
    from xdist.workermanage import WorkerController  # type: ignore[import-untyped]

_ROOT = Path(__file__).parents[2]
_CLUSTER = re.compile(r'^CLUSTER = "(\w+)"$', re.MULTILINE)
_APART = re.compile(r"^APART = True\b", re.MULTILINE)
_FEW = 2  # tests that must be queued on a worker before it starts
_SOME = 60.0  # seconds, if a mark sets none


class Spread(LoadFileScheduling):  # type: ignore[misc]  # xdist tells no types
    """Assigns tests to workers. A file of one or two tests, which may be long, is followed by a short file from the end of the
    list.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return nodeid if (scope := _scope(file)) is None else scope

    def _assign_work_unit(self, node: WorkerController) -> None:
        started = [unit for unit in self.assigned_work.get(node, {}).values() if not all(unit.values())]
        if started and all(len(unit) <= _FEW for unit in started):
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


@cache
def _scope(file: str) -> str | None:
    """The group of a file's tests; None if they need not run together."""
    text = (_ROOT / file).read_text()
    if _APART.search(text):
        return None
    result = _CLUSTER.search(text)
    return f"cluster {result[1]}" if result else file


def by_length(items: list[pytest.Item]) -> None:
    """Sort files by the seconds they are marked with, the longest first."""
    seconds: dict[Path, float] = {}
    for item in items:
        if mark := item.get_closest_marker("long"):
            seconds[item.path] = max(seconds.get(item.path, 0.0), *(mark.args or (_SOME,)))
    items.sort(key=lambda item: -seconds.get(item.path, 0.0))
