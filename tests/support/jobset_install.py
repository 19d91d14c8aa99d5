"""JobSet in a test cluster: part of the twin, installed from its Go module otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import yaml
from tests.support.clusters import MixedCluster, RealCluster

from sliceworks.kube.resources import CUSTOM_RESOURCE_DEFINITION

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api

    from sliceworks.kube.client import Client

_FILE = "controller_manager_config.yaml"


async def install_older_jobset(client: Client) -> None:
    """Replace the CRD of a twin by one without the field that JobSet 0.10 added."""
    crd = await client.get(CUSTOM_RESOURCE_DEFINITION, "jobsets.jobset.x-k8s.io")
    [version] = crd["spec"]["versions"]
    rules = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["failurePolicy"]["properties"]["rules"]
    del rules["items"]["properties"]["onJobFailureMessagePatterns"]
    await client.replace(crd)


class Gates(Protocol):
    """An installed JobSet."""

    def set(self, **gates: bool) -> None:
        """Restart it with exactly these feature gates."""
        ...


class RealGates:
    """The real program, started on first use."""

    def __init__(self, cluster: RealCluster | MixedCluster) -> None:
        from tests.real.jobset import JobSetManager

        self._manager = JobSetManager(cluster.plane, cluster.api)

    def set(self, **gates: bool) -> None:
        self._manager.set_gates(**gates)


class TwinGates:
    """The twin reads the configuration from the ConfigMap of an installed JobSet."""

    def __init__(self, api: Api) -> None:
        self._api, self._now = api, dict[str, Any]()

    def set(self, **gates: bool) -> None:
        if gates == self._now:
            return
        self._now = gates
        self._api.post("/api/v1/namespaces", {"metadata": {"name": "jobset-system"}})
        config = {"apiVersion": "config.jobset.x-k8s.io/v1alpha1", "kind": "Configuration", "featureGates": gates}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "jobset-manager-config"},
            "data": {_FILE: yaml.dump(config)},
        }
        self._api.apply("/api/v1/namespaces/jobset-system/configmaps/jobset-manager-config", body, force=True).ok()


_installed: dict[str, Gates] = {}


def install(cluster: Cluster) -> Gates:
    """Install JobSet in this cluster, once."""
    if cluster.token not in _installed:
        _installed[cluster.token] = (
            RealGates(cluster) if isinstance(cluster, RealCluster | MixedCluster) else TwinGates(cluster.api)
        )
    return _installed[cluster.token]
