"""kubectl in the namespace of a test, and its recorded output on the real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.kubectl import PLATFORM, Kubectl

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters import Cluster


@pytest.fixture(autouse=True)
def whole_lists(published: None) -> None:
    """Wait until the namespace has the objects that kubectl lists."""


@pytest.fixture
def kubectl(cluster: Cluster, ns: str, tmp_path: Path) -> Kubectl:
    """kubectl in the test's namespace."""
    return Kubectl(cluster.kubeconfig, ns, tmp_path)


@pytest.fixture
def same(cluster: Cluster, kubectl: Kubectl, request: pytest.FixtureRequest) -> Any:
    """Compare an output with the recorded one of this test."""

    def check(text: str, step: str = "") -> None:
        case = f"{request.node.originalname} {step}".strip()
        goldens.check("test_kubectl", case, kubectl.stable(text).splitlines(), real=cluster.name == "real")

    return check


@pytest.fixture
def platform(kubectl: Kubectl) -> None:
    """Apply the example objects."""
    kubectl("apply", "-f", "-", text=PLATFORM).ok()
