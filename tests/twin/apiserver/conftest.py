"""Certificates for the servers of these tests, and a check that they log no warnings."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from sliceworks.twin.apiserver.auth import certificates

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def pki(tmp_path_factory: pytest.TempPathFactory) -> certificates.Certificates:
    return certificates.ensure(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def silence(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No client behaviour causes a log record."""
    with caplog.at_level(logging.WARNING):
        yield
    assert [record.getMessage() for record in caplog.records] == []
