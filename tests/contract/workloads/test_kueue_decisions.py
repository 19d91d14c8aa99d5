"""Kueue's decisions in random scenarios: after every step the twin admits the same workloads with the same flavors as the real
Kueue.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.support import goldens
from tests.support.clusters import real_enabled
from tests.support.kueue_replay import Player
from tests.support.kueue_scenarios import generate

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.kueue_install import Settings

PODLESS = True
SEEDS = int(os.environ.get("SLICEWORKS_KUEUE_SEEDS") or (100 if real_enabled() else 30))


@pytest.mark.long(120)
@pytest.mark.timeout(900)
def test_random_scenarios(cluster: Cluster, kueue: Settings) -> None:
    real = cluster.name == "real"
    player = Player(cluster.api, f"rw{os.getpid()}", [generate(seed) for seed in range(SEEDS)])
    player.play()
    preempted = player.evictions()
    wrong = []
    for seed, steps in player.seen.items():
        try:
            goldens.check("workloads_kueue_decisions", str(seed), {"steps": steps, "preempted": preempted[seed]}, real=real)
        except AssertionError as error:
            wrong.append(f"{seed}: {error}")
    assert not wrong, "\n".join([f"{len(wrong)} of {SEEDS} worlds differ", *wrong])
