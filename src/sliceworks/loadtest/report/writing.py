"""The report of a run that was written down, in one of its forms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from sliceworks.loadtest import arrivals
from sliceworks.loadtest.report import html, markdown
from sliceworks.specs.load_test import LoadTestSpec

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

Data = dict[str, Any]


def rendered(run: Data, folder: Path, form: str) -> str:
    """HTML, Markdown or JSON of a run, whose rows are in a folder."""
    if form == "json":
        return orjson.dumps(run, option=orjson.OPT_INDENT_2).decode() + "\n"
    if form == "markdown":
        return markdown.render(run)
    moments, lasts, begins = _asked(run)
    return html.render(run, folder, moments, lasts, begins)


def counted(run: Data) -> tuple[float, float]:
    """The part of a run that counts, in seconds from its beginning."""
    _, lasts, begins = _asked(run)
    return begins, lasts


def _asked(run: Data) -> tuple[NDArray[np.float64], float, float]:
    """The moments of the schedule of a run, how long it was to last, and its warm-up."""
    lasts = sum(phase["seconds"] for phase in run["phases"])
    spec = LoadTestSpec.model_validate(run["spec"])
    if any(stage.replay for stage in spec.stages):
        return np.empty(0), lasts + spec.warm_up, spec.warm_up
    schedule = arrivals.schedule(spec.stages, spec.seed)
    return schedule.moments / 1e9, schedule.lasts, spec.warm_up
