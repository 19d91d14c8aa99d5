"""kubectl in the namespace of a case, and what it said on the real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.kubectl import PLATFORM, Kubectl
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters import Cluster
    from tests.support.http import Api


@pytest.fixture(autouse=True)
def published(api: Api, core: str) -> None:
    """Every namespace gets the cluster's authority, a moment after it is made: lists of ConfigMaps show it."""
    eventually(lambda: api.get(f"{core}/configmaps/kube-root-ca.crt").status == 200, what="the authority is published")


@pytest.fixture
def kubectl(cluster: Cluster, ns: str, tmp_path: Path) -> Kubectl:
    """kubectl in the case's namespace."""
    return Kubectl(cluster.kubeconfig, ns, tmp_path)


@pytest.fixture
def same(cluster: Cluster, kubectl: Kubectl, request: pytest.FixtureRequest) -> Any:
    """Compares an output with the recorded one of this case."""

    def check(text: str, step: str = "") -> None:
        case = f"{request.node.originalname} {step}".strip()
        goldens.check("test_kubectl", case, kubectl.stable(text).splitlines(), real=cluster.name == "real")

    return check


@pytest.fixture
def platform(kubectl: Kubectl) -> None:
    """The example objects, applied."""
    kubectl("apply", "-f", "-", text=PLATFORM).ok()
