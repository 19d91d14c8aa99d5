"""The record of a day: read back as it was written, and what is measured kept apart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.days import a_day

from sliceworks.base.errors import InvalidDocument
from sliceworks.rehearsal.day.record import Measured, dumps, loads


def test_a_record_is_read_back_as_it_was_written() -> None:
    day = a_day()
    assert loads(dumps(day)) == day


def test_what_was_measured_is_left_out_of_what_is_the_same_each_time() -> None:
    slower = replace(a_day(), measured=Measured(200.0))
    assert dumps(slower) != dumps(a_day())
    assert dumps(slower.without_measured()) == dumps(a_day().without_measured())


def test_a_check_that_was_not_kept_fails_its_step_and_the_day() -> None:
    day = a_day(kept=False)
    assert [step.name for step in day.steps if not step.kept] == ["day"]
    assert not day.kept
    assert a_day().kept


def test_how_long_a_job_waited_is_known_once_it_was_admitted() -> None:
    assert [job.waited for job in a_day().jobs] == [100.0, 0.0, None]


def test_something_else_is_no_record() -> None:
    with pytest.raises(InvalidDocument, match=r"run.json: is no record of a rehearsal: seed"):
        loads(b'{"name": "x", "folder": "y", "start": "z", "lasted": 1}', "run.json")
