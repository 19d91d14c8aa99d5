"""Random clouds and controller crashes: no node pool is leaked or created twice, foreign pools stay, all valid JobSets run."""

from __future__ import annotations

import os

import pytest
from tests.support.slice_simulation import simulate

from sliceworks.base import clock

_SEEDS = int(os.environ.get("SLICEWORKS_SEEDS", "8"))


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_random_simulation_holds_invariants(seed: int) -> None:
    life = clock.run(simulate(seed), virtual=True, seed=seed)
    assert not life.wrong, "\n".join([*life.wrong, *life.seen])
