"""Options of the graphs controller, with kro's flag names and defaults. Separate because the command line imports only this
module.
"""

from __future__ import annotations

from dataclasses import dataclass

from sliceworks.graph.model import MAX_COLLECTION_SIZE, MAX_DIMENSIONS


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the graphs controller. Times are in seconds."""

    install_definitions: bool = True
    allow_crd_deletion: bool = False
    graph_workers: int = 1
    instance_workers: int = 32
    max_concurrent_applies: int = 16
    retry_first: float = 0.2
    retry_max: float = 60.0
    resync: float = 36_000.0
    max_collection_size: int = MAX_COLLECTION_SIZE
    max_dimensions: int = MAX_DIMENSIONS
    revision_history_limit: int = 5
    condition_events: bool = False
