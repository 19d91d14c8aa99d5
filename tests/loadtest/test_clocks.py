"""Senders begin together, whatever their machines' clocks show, and it is known how well."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import gevent
import pytest
from tests.loadtest.test_report import concluded

from sliceworks.loadtest.generator import clocks
from sliceworks.loadtest.generator.clocks import Asker, Reading
from sliceworks.loadtest.generator.pacing import Watch
from sliceworks.loadtest.listening import Clocks
from sliceworks.loadtest.report import words

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MILLISECOND = 1_000_000


class World:
    """Two machines with a network between them: true time passes when messages travel, and nowhere else."""

    def __init__(self, skew: int, delays: list[tuple[int, int]]) -> None:
        self.true, self.skew, self.delays = 10**15, skew, list(delays)
        self.master, self.sender = Runner(self.to_sender), Runner(self.to_master)

    def now(self) -> int:
        """The sender's clock."""
        return self.true + self.skew

    def to_master(self, data: Any, _who: Any) -> None:
        self.out, self.back = self.delays.pop(0) if self.delays else (0, 0)
        self.true += self.out
        self.master.hear(data)

    def to_sender(self, data: Any, _who: Any) -> None:
        self.true += self.back
        self.sender.hear(data)


class Runner:
    """As much of Locust's as is needed."""

    def __init__(self, carry: Callable[[Any, Any], None]) -> None:
        self._carry = carry
        self._listener: Any = None

    def register_message(self, _kind: str, listener: Any) -> None:
        self._listener = listener

    def send_message(self, _kind: str, data: Any, client_id: Any = None) -> None:
        self._carry(data, client_id)

    def hear(self, data: Any) -> None:
        self._listener(environment=None, msg=SimpleNamespace(data=data, node_id="sender"))


@pytest.mark.parametrize("skew", [-3_600_000 * MILLISECOND, -700 * MILLISECOND, 0, 2_000 * MILLISECOND])
@pytest.mark.parametrize("best", [(MILLISECOND, MILLISECOND), (0, 3 * MILLISECOND), (2 * MILLISECOND, 0)])
def test_the_truth_lies_within_what_is_said(monkeypatch: pytest.MonkeyPatch, skew: int, best: tuple[int, int]) -> None:
    monkeypatch.setattr(clocks, "_APART", 0)
    delays = [(50 * MILLISECOND, 4 * MILLISECOND), best, (9 * MILLISECOND, 30 * MILLISECOND)] * 4
    world = World(skew, delays)
    clocks.answer(world.master, lambda: world.true)
    found = Asker(world.sender, world.now).ask()
    assert found.uncertain == sum(best) // 2
    assert abs(found.shift - -skew) <= found.uncertain


def test_a_way_that_is_shorter_in_one_direction_shows_in_what_is_uncertain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: half of the round trip is not more than needed."""
    monkeypatch.setattr(clocks, "_APART", 0)
    world = World(0, [(10 * MILLISECOND, 0)] * 12)
    clocks.answer(world.master, lambda: world.true)
    found = Asker(world.sender, world.now).ask()
    assert abs(found.shift) == found.uncertain == 5 * MILLISECOND


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "_PATIENCE", 0.001)
    with pytest.raises(TimeoutError):
        Asker(Runner(lambda *_: None)).ask()
    gevent.sleep(0)


def test_a_late_answer_is_not_taken_for_that_to_a_later_question() -> None:
    runner = Runner(lambda *_: None)
    asker = Asker(runner)
    runner.hear([12345, 99])
    assert asker._waiting == {}


def test_a_watch_is_set_by_anothers_clock() -> None:
    ours = clocks.local()
    begins = 10**18
    ahead, behind = (Watch(begins, ours.shift + skew) for skew in (0, 500 * MILLISECOND))
    assert behind.now() - ahead.now() == pytest.approx(500 * MILLISECOND, abs=50 * MILLISECOND)


def test_readings() -> None:
    assert clocks.read(100, 1_150, 200) == Reading(1_000, 50)


def test_the_worst_of_all_senders_is_told(tmp_path: Path) -> None:
    found = (
        Clocks().and_of({"apart": -2_000_000_000, "uncertain": 300_000}).and_of({"apart": 5, "uncertain": 100, "drift": 4_000_000})
    )
    assert found == Clocks(2, 2.0, 0.0003, 0.004)
    run, _ = concluded(tmp_path)
    assert "clocks" not in dict(words.facts(run))
    run["clocks"] = {"senders": 2, "apart": 2.0, "uncertain": 0.0003, "drift": 0.004}
    said = dict(words.facts(run))["clocks"]
    assert said == "of 2 senders, set by one to within 0.3 ms; their own were up to 2 s apart, and drifted by up to 4 ms"
