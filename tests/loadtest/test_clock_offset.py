"""Workers start together despite different machine clocks, and the uncertainty is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import gevent
import pytest
from tests.loadtest.test_report import concluded

from sliceworks.loadtest.generator import pacer
from sliceworks.loadtest.generator.pacer import ClockOffset, RunClock, TimeClient
from sliceworks.loadtest.report import formatter
from sliceworks.loadtest.runner import ClockSkew

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MILLISECOND = 1_000_000


class SimulatedNetwork:
    """Two machines with a network between them: time passes only while messages travel."""

    def __init__(self, skew: int, delays: list[tuple[int, int]]) -> None:
        self.true, self.skew, self.delays = 10**15, skew, list(delays)
        self.master, self.sender = Runner(self.to_sender), Runner(self.to_master)

    def now(self) -> int:
        """The worker's clock."""
        return self.true + self.skew

    def to_master(self, data: Any, _who: Any) -> None:
        self.out, self.back = self.delays.pop(0) if self.delays else (0, 0)
        self.true += self.out
        self.master.handle_line(data)

    def to_sender(self, data: Any, _who: Any) -> None:
        self.true += self.back
        self.sender.handle_line(data)


class Runner:
    """The part of Locust's runner that is needed."""

    def __init__(self, carry: Callable[[Any, Any], None]) -> None:
        self._carry = carry
        self._listener: Any = None

    def register_message(self, _kind: str, listener: Any) -> None:
        self._listener = listener

    def send_message(self, _kind: str, data: Any, client_id: Any = None) -> None:
        self._carry(data, client_id)

    def handle_line(self, data: Any) -> None:
        self._listener(environment=None, msg=SimpleNamespace(data=data, node_id="sender"))


@pytest.mark.parametrize("skew", [-3_600_000 * MILLISECOND, -700 * MILLISECOND, 0, 2_000 * MILLISECOND])
@pytest.mark.parametrize("best", [(MILLISECOND, MILLISECOND), (0, 3 * MILLISECOND), (2 * MILLISECOND, 0)])
def test_true_offset_is_within_the_uncertainty(monkeypatch: pytest.MonkeyPatch, skew: int, best: tuple[int, int]) -> None:
    monkeypatch.setattr(pacer, "_READING_INTERVAL", 0)
    delays = [(50 * MILLISECOND, 4 * MILLISECOND), best, (9 * MILLISECOND, 30 * MILLISECOND)] * 4
    network = SimulatedNetwork(skew, delays)
    pacer.serve_time(network.master, lambda: network.true)
    result = TimeClient(network.sender, network.now).query()
    assert result.uncertain == sum(best) // 2
    assert abs(result.offset - -skew) <= result.uncertain


def test_asymmetric_delay_is_within_the_uncertainty(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: half of the round trip is not more than needed."""
    monkeypatch.setattr(pacer, "_READING_INTERVAL", 0)
    network = SimulatedNetwork(0, [(10 * MILLISECOND, 0)] * 12)
    pacer.serve_time(network.master, lambda: network.true)
    result = TimeClient(network.sender, network.now).query()
    assert abs(result.offset) == result.uncertain == 5 * MILLISECOND


def test_missing_response_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pacer, "_TIMEOUT", 0.001)
    with pytest.raises(TimeoutError):
        TimeClient(Runner(lambda *_: None)).query()
    gevent.sleep(0)


def test_late_response_is_not_matched_to_a_later_request() -> None:
    runner = Runner(lambda *_: None)
    asker = TimeClient(runner)
    runner.handle_line([12345, 99])
    assert asker._waiting == {}


def test_run_clock_uses_the_masters_offset() -> None:
    ours = pacer.local_offset()
    begins = 10**18
    ahead, behind = (RunClock(begins, ours.offset + skew) for skew in (0, 500 * MILLISECOND))
    assert behind.now() - ahead.now() == pytest.approx(500 * MILLISECOND, abs=50 * MILLISECOND)


def test_offset_from_samples() -> None:
    assert pacer.measure_offset(100, 1_150, 200) == ClockOffset(1_000, 50)


def test_worst_worker_offset_is_reported(tmp_path: Path) -> None:
    result = (
        ClockSkew()
        .include({"apart": -2_000_000_000, "uncertain": 300_000})
        .include({"apart": 5, "uncertain": 100, "drift": 4_000_000})
    )
    assert result == ClockSkew(2, 2.0, 0.0003, 0.004)
    run, _ = concluded(tmp_path)
    assert "clocks" not in dict(formatter.facts(run))
    run["clocks"] = {"senders": 2, "apart": 2.0, "uncertain": 0.0003, "drift": 0.004}
    output = dict(formatter.facts(run))["clocks"]
    assert output == "of 2 senders, synchronized to within 0.3 ms; offsets up to 2 s, and drifted by up to 4 ms"
