"""Names that documents and what is made of them share, where they can be had without loading the documents."""

from __future__ import annotations

SLICE = "slice"
"""What the slices' own job is called within the JobSet of a TrainingJob."""
