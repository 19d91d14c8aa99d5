"""The public names of the package, and what importing them loads."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sliceworks import kube

PUBLIC = (
    *("Client", "Controller", "Delta", "Done", "EventRecorder", "Informer", "Informers", "Key", "LeaderElection"),
    *("PatchType", "Pending", "Resource", "open_client"),
)


def test_public_names() -> None:
    assert sorted(kube.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(kube, name) is not None
        assert name in dir(kube)


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        kube.nonsense  # noqa: B018


@pytest.mark.parametrize("module", ["selectors", "requests", "client", "informers", "kubeconfig"])
def test_modules_do_not_import_heavy_packages(module: str) -> None:
    heavy = ("aiohttp", "yaml", "cryptography", "rich")
    code = f"import sys, sliceworks.kube.{module}; print(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
