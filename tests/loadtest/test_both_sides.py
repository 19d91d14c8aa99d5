"""The checks that hold a run against the server's own record can fail: each finds what is wrong when exactly that is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.both_sides import Known, Told, disagreements, dispersion
from tests.support.load_tests import spec

from sliceworks.loadtest import arrivals

if TYPE_CHECKING:
    from collections.abc import Callable

    Sides = tuple[list[Told], list[Known]]

SCHEDULE = arrivals.schedule(spec(stages=[{"poisson": 40, "for": "10s"}]).stages, 0).moments / 1e9


def honest() -> Sides:
    """A client and a server who agree: pieces come half a millisecond after they were sent."""
    told, known = [], []
    for number, at in enumerate(SCHEDULE.tolist()):
        sent = tuple(at + 100.002 + 0.05 + 0.02 * piece for piece in range(5))
        known.append(Known(number, at + 100.002, sent))
        pieces = tuple(each - at - 100.0 + 0.0005 for each in sent)
        told.append(Told(number, pieces[0], pieces, 5))
    return told, known


def test_two_honest_sides_agree() -> None:
    assert disagreements(*honest(), SCHEDULE) == set()


def lost(told: list[Told], known: list[Known]) -> Sides:
    return told[:-1], known


def too_early(told: list[Told], known: list[Known]) -> Sides:
    """The first token's time is that of the headers."""
    return [replace(each, first=0.004) for each in told], known


def too_late(told: list[Told], known: list[Known]) -> Sides:
    """The client was busy and looked at its socket late."""
    return [replace(each, first=each.first + 0.3) for each in told], known


def gathered(told: list[Told], known: list[Known]) -> Sides:
    """Something gathered all pieces and passed them on at the end."""
    return [replace(each, pieces=(each.pieces[-1],) * 5) for each in told], known


def miscounted(told: list[Told], known: list[Known]) -> Sides:
    return [replace(told[0], tokens=6), *told[1:]], known


def behind(told: list[Told], known: list[Known]) -> Sides:
    """The sender falls behind: a tenth of the rate is missing."""
    return told, [replace(each, came=100 + (each.came - 100) * 1.1, pieces=_moved(each, (each.came - 100) * 0.1)) for each in known]


def quantised(told: list[Told], known: list[Known]) -> Sides:
    """A loop that wakes up once a second sends all at once."""
    waits = [float(np.ceil(each.came)) - each.came for each in known]
    return told, [replace(each, came=each.came + wait, pieces=_moved(each, wait)) for each, wait in zip(known, waits, strict=True)]


def _moved(known: Known, by: float) -> tuple[float, ...]:
    return tuple(each + float(by) for each in known.pieces)


@pytest.mark.parametrize(
    ("tamper", "check"),
    [
        (lost, {"count"}),
        (too_early, {"first token"}),
        (too_late, {"first token"}),
        (gathered, {"gaps"}),
        (miscounted, {"tokens"}),
        (behind, {"rate"}),
        (quantised, {"dispersion"}),
    ],
)
def test_each_check_can_fail(tamper: Callable[[list[Told], list[Known]], Sides], check: set[str]) -> None:
    found = disagreements(*tamper(*honest()), SCHEDULE)
    assert check <= found
    assert found <= check | {"rate", "dispersion"}


def test_dispersion_tells_processes_apart() -> None:
    random = np.random.default_rng(1)
    poisson = np.cumsum(random.exponential(0.01, 20_000))
    assert dispersion(poisson) == pytest.approx(1, abs=0.15)
    assert dispersion(np.arange(20_000) / 100) < 0.05
    assert dispersion(np.ceil(poisson)) > 10
