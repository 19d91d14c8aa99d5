"""Whatever the cloud does and wherever the controller dies: no pool is leaked, none is made twice, none of others is touched, and
every JobSet that can run runs."""

from __future__ import annotations

import os

import pytest
from tests.support.slice_worlds import live

from sliceworks.base import clock

_SEEDS = int(os.environ.get("SLICEWORKS_SEEDS", "8"))


@pytest.mark.parametrize("seed", range(_SEEDS))
def test_a_random_life_ends_well(seed: int) -> None:
    life = clock.run(live(seed), virtual=True, seed=seed)
    assert not life.wrong, "\n".join([*life.wrong, *life.seen])
