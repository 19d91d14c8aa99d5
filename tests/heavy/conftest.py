"""Fixtures of the heavy tests: built images, and an isolated network."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from tests.heavy import images
from tests.support.own_network import own_network

from sliceworks.infra.target import PROVIDER

if TYPE_CHECKING:
    from collections.abc import Iterator

collect_ignore = [] if os.environ.get(PROVIDER) else ["test_google_provider.py"]


@pytest.fixture(scope="module")
def our_images() -> dict[str, str]:
    """Build all images; returns their names."""
    return {target: images.build(target) for target in images.OURS}


@pytest.fixture(scope="module")
def alone(our_images: dict[str, str]) -> Iterator[None]:
    """An isolated network, entered after everything is built."""
    with own_network():
        yield
