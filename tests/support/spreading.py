"""How tests are spread over workers: file by file, the longest first.

Files that name the same `CLUSTER = "…"` go to one worker, so that this cluster is started once. The tests of a file that says
`APART = True` go to workers one by one.
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
_APART = re.compile(r"^APART = True$", re.MULTILINE)
_FEW = 2  # tests that a worker must know of before it begins
_SOME = 60.0  # seconds, where a mark names none


class Spread(LoadFileScheduling):  # type: ignore[misc]  # xdist tells no types
    """Hands out tests. What waits behind a file of one or two tests, which may be long, is a short file from the end of the row."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return nodeid if (scope := _scope(file)) is None else scope

    def _assign_work_unit(self, node: WorkerController) -> None:
        begun = [unit for unit in self.assigned_work.get(node, {}).values() if not all(unit.values())]
        if begun and all(len(unit) <= _FEW for unit in begun):
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)


@cache
def _scope(file: str) -> str | None:
    """What a file's tests go together with; None where they need not stay together."""
    text = (_ROOT / file).read_text()
    if _APART.search(text):
        return None
    found = _CLUSTER.search(text)
    return f"cluster {found[1]}" if found else file


def by_length(items: list[pytest.Item]) -> None:
    """Put files first that take long, by the seconds that they are marked with."""
    seconds: dict[Path, float] = {}
    for item in items:
        if mark := item.get_closest_marker("long"):
            seconds[item.path] = max(seconds.get(item.path, 0.0), *(mark.args or (_SOME,)))
    items.sort(key=lambda item: -seconds.get(item.path, 0.0))
