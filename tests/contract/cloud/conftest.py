"""Google's Python clients with one cloud per module; responses are compared with Google's discovery documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.cloud_http import served_cloud
from tests.support.google_clients import Google

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def google() -> Iterator[Google]:
    """Google's clients of one cloud."""
    with served_cloud() as served:
        clients = Google(served)
        yield clients
        clients.close()


@pytest.fixture(autouse=True)
def answers(google: Google) -> Iterator[None]:
    """Check that all responses of a test match Google's discovery documents."""
    yield
    wrong = [google.problems.pop() for _ in range(len(google.problems))]
    assert not wrong, wrong
