"""Buckets that fill, and budgets of second tries, on a clock that jumps."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.base import clock
from sliceworks.base.http.refusals import Refusal
from sliceworks.serving.gateway.quotas import Bucket, Budget, Quota
from sliceworks.specs.gateway import Rate


def quota(**rate: Any) -> Quota:
    return Quota(Rate.model_validate(rate), "somebody")


def test_a_bucket_fills_over_a_minute() -> None:
    async def main() -> None:
        bucket = Bucket(60)
        bucket.take(60)
        assert bucket.wait(1) == pytest.approx(1.0)
        await clock.sleep(30)
        assert bucket.left == pytest.approx(30)
        await clock.sleep(300)
        assert bucket.left == 60

    clock.run(main(), virtual=True)


def test_more_than_a_minute_allows_is_let_through_once_and_owed() -> None:
    async def main() -> None:
        bucket = Bucket(100)
        assert bucket.wait(1000) == 0
        bucket.take(1000)
        assert bucket.wait(1) == pytest.approx(60 * 901 / 100)

    clock.run(main(), virtual=True)


def test_what_was_guessed_too_high_is_given_back() -> None:
    async def main() -> None:
        limited = quota(tokensPerMinute=100)
        limited.enter(90)
        with pytest.raises(Refusal) as caught:
            limited.check(20)
        assert caught.value.status == 429
        assert caught.value.headers == [(b"retry-after", b"6")]
        limited.leave(90, 10)
        limited.check(20)

    clock.run(main(), virtual=True)


def test_a_request_whose_use_is_not_known_costs_what_was_guessed() -> None:
    async def main() -> None:
        limited = quota(tokensPerMinute=100)
        limited.enter(90)
        limited.leave(90, None)
        with pytest.raises(Refusal):
            limited.check(20)

    clock.run(main(), virtual=True)


def test_a_budget_is_a_share_of_requests_and_a_few_a_second() -> None:
    async def main() -> None:
        budget = Budget(0.5, 1)
        assert [budget.take() for _ in range(11)] == [True] * 10 + [False]
        for _ in range(4):
            budget.request()
        assert [budget.take() for _ in range(3)] == [True, True, False]
        await clock.sleep(3)
        assert [budget.take() for _ in range(4)] == [True, True, True, False]

    clock.run(main(), virtual=True)
