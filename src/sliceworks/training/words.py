"""The words for how a training job stands, where help texts can have them without loading anything else."""

from __future__ import annotations

RUNS = ("running", "starting", "restarting")
WAITS = ("queued", "suspended")
ENDED = ("failed", "completed")
STATES = (*RUNS, *WAITS, *ENDED)
