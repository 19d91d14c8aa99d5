"""The checks of a run against the server's record can fail: each detects exactly its own error."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.support.load_crosscheck import ClientRecord, ServerRecord, disagreements, dispersion
from tests.support.load_tests import spec

from sliceworks.loadtest import load_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    Sides = tuple[list[ClientRecord], list[ServerRecord]]

SCHEDULE = load_plan.schedule_arrivals(spec(stages=[{"poisson": 40, "for": "10s"}]).stages, 0).due_times / 1e9


def matching_records() -> Sides:
    """A client and a server that agree: chunks arrive half a millisecond after they were sent."""
    client, server = [], []
    for number, at in enumerate(SCHEDULE.tolist()):
        sent = tuple(at + 100.002 + 0.05 + 0.02 * chunk for chunk in range(5))
        server.append(ServerRecord(number, at + 100.002, sent))
        chunks = tuple(item - at - 100.0 + 0.0005 for item in sent)
        client.append(ClientRecord(number, chunks[0], chunks, 5))
    return client, server


def test_matching_records_agree() -> None:
    assert disagreements(*matching_records(), SCHEDULE) == set()


def lost(client: list[ClientRecord], server: list[ServerRecord]) -> Sides:
    return client[:-1], server


def too_early(client: list[ClientRecord], server: list[ServerRecord]) -> Sides:
    """The first token has the time of the headers."""
    return [replace(item, first=0.004) for item in client], server


def too_late(client: list[ClientRecord], server: list[ServerRecord]) -> Sides:
    """The client was busy and read its socket late."""
    return [replace(item, first=item.first + 0.3) for item in client], server


def gathered(client: list[ClientRecord], server: list[ServerRecord]) -> Sides:
    """A proxy buffered all chunks and sent them at the end."""
    return [replace(item, chunks=(item.chunks[-1],) * 5) for item in client], server


def miscounted(client: list[ClientRecord], server: list[ServerRecord]) -> Sides:
    return [replace(client[0], tokens=6), *client[1:]], server


def behind(client: list[ClientRecord], server: list[ServerRecord]) -> Sides:
    """The sender falls behind: a tenth of the rate is missing."""
    return client, [
        replace(item, came=100 + (item.came - 100) * 1.1, chunks=_moved(item, (item.came - 100) * 0.1)) for item in server
    ]


def quantised(client: list[ClientRecord], server: list[ServerRecord]) -> Sides:
    """A loop that runs once a second sends in bursts."""
    waits = [float(np.ceil(item.came)) - item.came for item in server]
    return client, [
        replace(item, came=item.came + wait, chunks=_moved(item, wait)) for item, wait in zip(server, waits, strict=True)
    ]


def _moved(server: ServerRecord, by: float) -> tuple[float, ...]:
    return tuple(chunk + float(by) for chunk in server.chunks)


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
def test_each_check_can_fail(tamper: Callable[[list[ClientRecord], list[ServerRecord]], Sides], check: set[str]) -> None:
    result = disagreements(*tamper(*matching_records()), SCHEDULE)
    assert check <= result
    assert result <= check | {"rate", "dispersion"}


def test_dispersion_distinguishes_processes() -> None:
    random = np.random.default_rng(1)
    poisson = np.cumsum(random.exponential(0.01, 20_000))
    assert dispersion(poisson) == pytest.approx(1, abs=0.15)
    assert dispersion(np.arange(20_000) / 100) < 0.05
    assert dispersion(np.ceil(poisson)) > 10
