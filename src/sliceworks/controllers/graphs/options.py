"""How the controller of graphs is set up. Names and defaults are those of kro's flags where they mean the same."""

from __future__ import annotations

from dataclasses import dataclass

from sliceworks.graph.model import LARGEST_COLLECTION, MOST_DIMENSIONS


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that can be chosen. Times are in seconds."""

    install_definitions: bool = True
    allow_crd_deletion: bool = False
    graph_workers: int = 1
    instance_workers: int = 32
    most_applies_at_once: int = 16
    retry_first: float = 0.2
    retry_longest: float = 60.0
    resync: float = 36_000.0
    largest_collection: int = LARGEST_COLLECTION
    most_dimensions: int = MOST_DIMENSIONS
    revisions_kept: int = 5
    condition_events: bool = False
