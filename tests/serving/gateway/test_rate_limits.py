"""Token buckets and retry budgets, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.base import clock
from sliceworks.base.http.messages import HttpError
from sliceworks.serving.gateway.state import RateLimit, RetryBudget, TokenBucket
from sliceworks.specs.gateway import RateLimits


def quota(**rate: Any) -> RateLimit:
    return RateLimit(RateLimits.model_validate(rate), "key")


def test_bucket_refills_over_a_minute() -> None:
    async def main() -> None:
        bucket = TokenBucket(60)
        bucket.take(60)
        assert bucket.time_until(1) == pytest.approx(1.0)
        await clock.sleep(30)
        assert bucket.level == pytest.approx(30)
        await clock.sleep(300)
        assert bucket.level == 60

    clock.run(main(), virtual=True)


def test_large_request_is_allowed_once_and_owed() -> None:
    async def main() -> None:
        bucket = TokenBucket(100)
        assert bucket.time_until(1000) == 0
        bucket.take(1000)
        assert bucket.time_until(1) == pytest.approx(60 * 901 / 100)

    clock.run(main(), virtual=True)


def test_overestimate_is_refunded() -> None:
    async def main() -> None:
        limited = quota(tokensPerMinute=100)
        limited.acquire(90)
        with pytest.raises(HttpError) as caught:
            limited.check(20)
        assert caught.value.status == 429
        assert caught.value.headers == [(b"retry-after", b"6")]
        limited.release(90, 10)
        limited.check(20)

    clock.run(main(), virtual=True)


def test_unknown_usage_costs_the_estimate() -> None:
    async def main() -> None:
        limited = quota(tokensPerMinute=100)
        limited.acquire(90)
        limited.release(90, None)
        with pytest.raises(HttpError):
            limited.check(20)

    clock.run(main(), virtual=True)


def test_retry_budget() -> None:
    async def main() -> None:
        budget = RetryBudget(0.5, 1)
        assert [budget.take() for _ in range(11)] == [True] * 10 + [False]
        for _ in range(4):
            budget.record_request()
        assert [budget.take() for _ in range(3)] == [True, True, False]
        await clock.sleep(3)
        assert [budget.take() for _ in range(4)] == [True, True, True, False]

    clock.run(main(), virtual=True)
