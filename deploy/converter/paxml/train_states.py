"""The state that a checkpoint holds."""

from __future__ import annotations

from typing import Any, NamedTuple


class TrainState(NamedTuple):
    """A step, the variables of a model in nested dictionaries, and the states of optimizers, which converters leave empty."""

    step: Any
    mdl_vars: dict[str, Any]
    opt_states: Any
