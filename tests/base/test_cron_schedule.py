"""Cron schedules: the next time, and the most recent time that is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sliceworks.base import cron_schedule

START = datetime(2026, 11, 15, 3, 4, 5, tzinfo=UTC)  # a Sunday


@pytest.mark.parametrize(
    ("schedule", "expected"),
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
def test_schedule_next_time(schedule: str, expected: str) -> None:
    assert cron_schedule.parse(schedule).next(START) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_schedule_without_any_time_has_no_next() -> None:
    assert cron_schedule.parse("0 0 31 2 *").next(START) is None


def test_schedule_follows_time_zone_and_daylight_saving() -> None:
    berlin = cron_schedule.parse("30 2 * * *", "Europe/Berlin")
    assert berlin.next(START) == datetime(2026, 11, 16, 1, 30, tzinfo=UTC)
    # 02:30 does not exist on the day when daylight saving time starts.
    assert berlin.next(datetime(2027, 3, 27, 12, tzinfo=UTC)) == datetime(2027, 3, 29, 0, 30, tzinfo=UTC)


def test_find_due_returns_the_most_recent_time() -> None:
    schedule = cron_schedule.parse("*/10 * * * *")
    assert cron_schedule.find_due(schedule, START, START + timedelta(minutes=1)).at is None
    due = cron_schedule.find_due(schedule, START, START + timedelta(minutes=7))
    assert due.at == datetime(2026, 11, 15, 3, 10, tzinfo=UTC)
    assert due.requeue_after == pytest.approx(9 * 60 - 5 + 0.1)
    late = cron_schedule.find_due(schedule, START, START + timedelta(days=30))
    assert late.at == datetime(2026, 12, 15, 3, 0, tzinfo=UTC)
    assert late.too_many_missed
