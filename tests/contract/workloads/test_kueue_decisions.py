"""Kueue's decisions in random worlds: after every step the twin admits whom the real one admits, with the same flavors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.support import goldens
from tests.support.clusters import real_wanted
from tests.support.kueue_player import Player
from tests.support.kueue_worlds import world

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.kueue_settings import Settings

PODLESS = True
SEEDS = int(os.environ.get("SLICEWORKS_KUEUE_SEEDS") or (100 if real_wanted() else 30))


@pytest.mark.long(120)
@pytest.mark.timeout(900)
def test_random_worlds(cluster: Cluster, kueue: Settings) -> None:
    real = cluster.name == "real"
    player = Player(cluster.api, f"rw{os.getpid()}", [world(seed) for seed in range(SEEDS)])
    player.play()
    preempted = player.evictions()
    wrong = []
    for seed, steps in player.seen.items():
        try:
            goldens.check("workloads_kueue_decisions", str(seed), {"steps": steps, "preempted": preempted[seed]}, real=real)
        except AssertionError as error:
            wrong.append(f"{seed}: {error}")
    assert not wrong, "\n".join([f"{len(wrong)} of {SEEDS} worlds differ", *wrong])
