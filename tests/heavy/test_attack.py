"""All attacks at once, for a minute or SLICEWORKS_ATTACK seconds: nothing ends, nothing is lost, and the twin stays healthy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.heavy.attack.campaign import attack

if TYPE_CHECKING:
    from pathlib import Path

SECONDS = float(os.environ.get("SLICEWORKS_ATTACK", "60"))


@pytest.mark.timeout(300 + 3 * SECONDS)
def test_targets_survive_all_attacks(tmp_path: Path) -> None:
    report = attack(tmp_path, SECONDS)
    print(report.show())
    assert report.figures.problems == []
    assert (report.died, report.children) == ([], [])
    assert (report.lost, report.broken) == (0, 0)
    assert report.writes > 5 * SECONDS
    assert report.complete > 0
    assert all(latency.failures == [] for latency in report.latencies.values())
    assert report.figures.total() > 30 * SECONDS
    # CPU time of the server while a probe waited: the machine may be busy.
    assert all(latency.longest_cpu[0][0] < 1000 and latency.cpu_p99 < 250 for latency in report.latencies.values())
