"""The public names of the package, and what importing them loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sliceworks import cloud

PUBLIC = "Container Session Token"


def test_public_names() -> None:
    assert sorted(cloud.__all__) == sorted(PUBLIC.split())
    for name in PUBLIC.split():
        assert getattr(cloud, name) is not None
        assert name in dir(cloud)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        cloud.nonsense  # noqa: B018


def test_package_does_not_import_heavy_packages() -> None:
    code = "import sys, sliceworks.cloud.container; print('aiohttp' in sys.modules, 'google.auth' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
