"""The pages; each module registers its pages when it is imported.

overview                    chips, queues, cost and recent incidents
queues                      quota and pending workloads
jobs, job_detail, job_logs  training jobs, one job, the log of one host
slices, slice_detail        all slices, one slice
models, model_detail        model services, one service
graphs                      graph definitions, instances, and one graph
environment                 document, stages, resources and drift
load_tests                  runs, the report of one, a comparison of two
rehearsal                   a twin's clock, timeline and fault injection
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules


def load() -> None:
    """Import every page."""
    for module in iter_modules(__path__):
        import_module(f"{__name__}.{module.name}")
