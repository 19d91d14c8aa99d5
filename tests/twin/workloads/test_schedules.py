"""When schedules are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sliceworks.twin.workloads.cronjobs import schedule

START = datetime(2026, 11, 15, 3, 4, 5, tzinfo=UTC)  # a Sunday


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("* * * * *", "2026-11-15T03:05"),
        ("*/15 * * * *", "2026-11-15T03:15"),
        ("30 2 * * *", "2026-11-16T02:30"),
        ("0 9-17/4 * * MON-FRI", "2026-11-16T09:00"),
        ("0 0 29 2 *", "2028-02-29T00:00"),
        ("0 0 13 * FRI", "2026-11-20T00:00"),
        ("0 0 1 jan ?", "2027-01-01T00:00"),
        ("5/20 3 * * *", "2026-11-15T03:05"),
        ("@hourly", "2026-11-15T04:00"),
        ("@weekly", "2026-11-22T00:00"),
        ("@every 90s", "2026-11-15T03:05:35"),
    ],
)
def test_a_schedule_knows_its_next_time(text: str, found: str) -> None:
    assert schedule.parse(text).next(START) == datetime.fromisoformat(found).replace(tzinfo=UTC)


def test_a_day_that_never_comes() -> None:
    assert schedule.parse("0 0 31 2 *").next(START) is None


def test_time_zones_and_summer_time() -> None:
    berlin = schedule.parse("30 2 * * *", "Europe/Berlin")
    assert berlin.next(START) == datetime(2026, 11, 16, 1, 30, tzinfo=UTC)
    # There is no 02:30 on the day the clocks go forward.
    assert berlin.next(datetime(2027, 3, 27, 12, tzinfo=UTC)) == datetime(2027, 3, 29, 0, 30, tzinfo=UTC)


def test_what_is_due() -> None:
    plan = schedule.parse("*/10 * * * *")
    assert schedule.due(plan, START, START + timedelta(minutes=1)).at is None
    due = schedule.due(plan, START, START + timedelta(minutes=7))
    assert due.at == datetime(2026, 11, 15, 3, 10, tzinfo=UTC)
    assert due.again == pytest.approx(9 * 60 - 5 + 0.1)
    late = schedule.due(plan, START, START + timedelta(days=30))
    assert late.at == datetime(2026, 12, 15, 3, 0, tzinfo=UTC)
    assert late.many
