"""The public face of the room: what others may use, and what it costs to ask."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sliceworks import cloud

PUBLIC = "Anonymous Container Credentials InProcess NEVER Operation Request Response Retry Session Token Transport"


def test_the_public_names() -> None:
    assert sorted(cloud.__all__) == sorted(PUBLIC.split())
    for name in PUBLIC.split():
        assert getattr(cloud, name) is not None
        assert name in dir(cloud)


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        cloud.nonsense  # noqa: B018


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    code = "import sys, sliceworks.cloud.connecting; print('aiohttp' in sys.modules, 'google.auth' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
