"""A cloud for each file, asked by Google's own Python clients; every answer is held against Google's own documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.cloud_http import served_cloud
from tests.support.google_clients import Google

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def google() -> Iterator[Google]:
    """Clients that speak to a cloud of their own."""
    with served_cloud() as served:
        clients = Google(served)
        yield clients
        clients.close()


@pytest.fixture(autouse=True)
def answers(google: Google) -> Iterator[None]:
    """Every answer of a case was as Google's documents say."""
    yield
    wrong = [google.problems.pop() for _ in range(len(google.problems))]
    assert not wrong, wrong
