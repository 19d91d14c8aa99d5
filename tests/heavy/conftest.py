"""What heavy tests share: our images, and a network of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.heavy import images
from tests.heavy.containers import own_network

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def our_images() -> dict[str, str]:
    """The names of all of them, built now."""
    return {target: images.build(target) for target in images.OURS}


@pytest.fixture(scope="module")
def alone(our_images: dict[str, str]) -> Iterator[None]:
    """A network with nobody outside, entered when everything is built."""
    with own_network():
        yield
