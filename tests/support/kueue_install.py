"""Kueue in a test cluster: part of the twin, installed from its Go module otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import yaml
from tests.support.clusters import MixedCluster, RealCluster

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api

_HOME = "/api/v1/namespaces/kueue-system/configmaps/kueue-manager-config"
_FILE = "controller_manager_config.yaml"


class Settings(Protocol):
    """An installed Kueue."""

    def configure(self, **more: Any) -> None:
        """Restart it with exactly these settings in its configuration."""
        ...


class TwinSettings:
    """The twin reads the configuration from the ConfigMap of an installed Kueue."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def configure(self, **more: Any) -> None:
        self._api.post("/api/v1/namespaces", {"metadata": {"name": "kueue-system"}})
        config = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **more}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kueue-manager-config"},
            "data": {_FILE: yaml.dump(config)},
        }
        self._api.apply(_HOME, body, force=True).ok()


_installed: dict[str, Settings] = {}


def installed(cluster: Cluster, *, pods: bool = False) -> Settings:
    """Install Kueue in this cluster, once."""
    if cluster.token not in _installed:
        _installed[cluster.token] = _install(cluster, pods=pods)
    return _installed[cluster.token]


def _install(cluster: Cluster, *, pods: bool) -> Settings:
    if not isinstance(cluster, RealCluster | MixedCluster):
        return TwinSettings(cluster.api)
    from tests.real.kueue import KueueManager

    return KueueManager(cluster.plane, cluster.api, pods=pods)
