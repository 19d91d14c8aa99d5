"""The reference of all numbers that our programs count."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from sliceworks.base.metrics import About, Registry
from sliceworks.controllers.graphs.measures import Measures as GraphMeasures
from sliceworks.controllers.slices.metrics import Metrics as SliceMetrics
from sliceworks.serving.gateway import gauges
from sliceworks.serving.gateway.measures import Measures as GatewayMeasures

_OPENING = """\
# Metrics

What our programs count, for Prometheus. This page is made from the program by `make fix`. Counters end in `_total`; histograms have
`_bucket`, `_sum` and `_count`. Nothing that is counted has a prompt, an answer or a key in it: keys are counted by their names.
"""
_WHERE = {
    "Gateway": "`/metrics` on the admin port, with the admin key, or without one where the document says `openMetrics`. Numbers "
    "that vLLM and the conventions of OpenTelemetry for generative AI have go by the same names here: their dashboards work.",
    "Graph controller": "`/metrics` at `--metrics-bind-address`. Names are kro's where they mean the same.",
    "Slice controller": "`/metrics` at `--metrics-bind-address`.",
}


def metrics() -> str:
    """The page."""
    found = {"Gateway": _gateway(), "Graph controller": Registry(), "Slice controller": Registry()}
    GraphMeasures(found["Graph controller"])
    SliceMetrics(found["Slice controller"])
    return "\n".join([_OPENING, *(f"## {title}\n\n{_WHERE[title]}\n\n{_table(found[title].about())}" for title in _WHERE)])


def _gateway() -> Registry:
    measures = GatewayMeasures()
    application: Any = SimpleNamespace(measures=measures)
    gauges.watch(application)
    return measures.registry


def _table(numbers: list[About]) -> str:
    rows = [
        f"| `{each.name}` | {each.kind} | {', '.join(f'`{label}`' for label in each.labels)} | {each.words} |" for each in numbers
    ]
    return "\n".join(["| name | kind | by | what |", "| --- | --- | --- | --- |", *rows]) + "\n"
