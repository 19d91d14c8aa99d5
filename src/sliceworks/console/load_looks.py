"""Load tests on disk: listed when something has changed there, reported and compared on demand, away from the loop."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING

from sliceworks.base.errors import SliceworksError
from sliceworks.console.views import loads

if TYPE_CHECKING:
    from pathlib import Path

    from sliceworks.console.views.loads import Run, Shift


class Loads:
    """The runs of a folder, or of the folder `load-tests` in it."""

    def __init__(self, folder: Path) -> None:
        self._folders = (folder / loads.FOLDER, folder)
        self._seen: tuple[tuple[str, int], ...] | None = None
        self.runs: list[Run] | None = None
        self.broken: list[str] = []

    async def look(self) -> None:
        """Read anew what has changed."""
        self.runs, self.broken = await asyncio.to_thread(self._look)

    def _look(self) -> tuple[list[Run], list[str]]:
        files = [file for folder in self._folders for file in sorted(folder.glob("*/run.json"))]
        seen = tuple((str(file), file.stat().st_mtime_ns) for file in files)
        if seen == self._seen and self.runs is not None:
            return self.runs, self.broken
        self._seen = seen
        if not files:
            return [], []
        missing = [name for name in ("duckdb", "numpy") if find_spec(name) is None]
        if missing:
            return [], [f"Reports of load tests need {' and '.join(missing)}: pip install 'sliceworks[load]'"]
        both = [loads.runs(folder) for folder in self._folders]
        found = sorted((run for runs, _ in both for run in runs), key=lambda run: run.began, reverse=True)
        return found, [words for _, broken in both for words in broken]

    async def report(self, name: str) -> str:
        """The page of a run."""
        from sliceworks.loadtest import results
        from sliceworks.loadtest.report import writing

        folder = self._folder(name)
        return await asyncio.to_thread(lambda: writing.rendered(results.load(folder), folder, "html"))

    async def compare(self, before: str, after: str) -> list[Shift]:
        """Two runs, figure by figure."""
        first, second = self._folder(before), self._folder(after)
        return await asyncio.to_thread(lambda: _compared(first, second))

    def _folder(self, name: str) -> Path:
        """Where a run is; only those that are listed are opened, whatever an address asks for."""
        if name in {run.folder for run in self.runs or ()}:
            for folder in self._folders:
                if (folder / name / "run.json").is_file():
                    return folder / name
        raise SliceworksError(f"there is no run {name}")


def _compared(first: Path, second: Path) -> list[Shift]:
    from sliceworks.loadtest import comparing, results
    from sliceworks.loadtest.report import writing

    sides = [comparing.Side(folder, *writing.counted(results.load(folder))) for folder in (first, second)]
    found = comparing.compare(*sides)
    if not found:
        raise SliceworksError("there is nothing to compare: too few requests succeeded in both runs")
    return [loads.shift(each) for each in found]
