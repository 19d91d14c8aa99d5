"""The record of a run: serialization, and separation of measured values."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.rehearsal_runs import small_run

from sliceworks.base.errors import InvalidDocument
from sliceworks.rehearsal.record import Measurements, dumps, loads


def test_record_round_trip() -> None:
    day = small_run()
    assert loads(dumps(day)) == day


def test_measurements_are_excluded_from_the_reproducible_part() -> None:
    slower = replace(small_run(), measured=Measurements(200.0))
    assert dumps(slower) != dumps(small_run())
    assert dumps(replace(slower, measured=Measurements())) == dumps(replace(small_run(), measured=Measurements()))


def test_failed_check_fails_its_step_and_the_run() -> None:
    day = small_run(passed=False)
    assert [step.name for step in day.steps if not step.passed] == ["scenario"]
    assert not day.passed
    assert small_run().passed


def test_wait_is_known_after_admission() -> None:
    assert [job.waited for job in small_run().jobs] == [100.0, 0.0, None]


def test_other_document_is_not_a_record() -> None:
    with pytest.raises(InvalidDocument, match=r"run.json: not a valid rehearsal record: seed"):
        loads(b'{"name": "x", "folder": "y", "start": "z", "lasted": 1}', "run.json")
