"""The public face of the room: what others may use, and what it costs to ask."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sliceworks import kube

PUBLIC = [
    "Backoff",
    "Client",
    "Connection",
    "Controller",
    "Delta",
    "Done",
    "Event",
    "EventRecorder",
    "Failed",
    "FieldSelector",
    "GVK",
    "InProcess",
    "Informer",
    "Informers",
    "Items",
    "Key",
    "LabelSelector",
    "LeaderElection",
    "NEVER",
    "Object",
    "PatchType",
    "Pending",
    "Request",
    "Resource",
    "Response",
    "Retry",
    "Transport",
    "WorkQueue",
    "from_label_selector",
    "gvk_of",
    "key_of",
    "open_client",
    "owner_reference",
    "parse_fields",
    "parse_labels",
]


def test_the_public_names() -> None:
    assert sorted(kube.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(kube, name) is not None
        assert name in dir(kube)


def test_other_names_are_not_there() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        kube.nonsense  # noqa: B018


@pytest.mark.parametrize("module", ["selectors", "requests", "client", "informers", "inprocess", "kubeconfig"])
def test_only_https_needs_an_http_client(module: str) -> None:
    heavy = ("aiohttp", "yaml", "cryptography", "rich")
    code = f"import sys, sliceworks.kube.{module}; print(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
