"""Clusters with workloads that test files share one after the other, each started on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from tests.support.clusters import Cluster, MixedCluster, RealCluster, TwinCluster

if TYPE_CHECKING:
    import pytest

_HURRIED = ("--horizontal-pod-autoscaler-sync-period=1s", "--kube-api-qps=500", "--kube-api-burst=500")
"""More events need a higher request rate, or they arrive minutes later."""


class SharedClusters:
    """`kind` is `twin`, `real` or `mixed`; files that use the same `name` share a cluster."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders
        self._running: dict[tuple[str, str], Cluster] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for key in list(self._running):
            self.stop(*key)

    def get(self, kind: str, name: str, *, podless: bool = False, hurried: bool = False) -> Cluster:
        """The cluster of this name, started if needed."""
        if (kind, name) not in self._running:
            self._running[kind, name] = self._started(kind, podless, hurried)
        return self._running[kind, name]

    def _started(self, kind: str, podless: bool, hurried: bool) -> Cluster:
        folder = self._folders.mktemp(f"{kind}-workloads")
        if kind == "twin":
            return TwinCluster(folder, workloads=True, options=("--speed", "15" if hurried else "1"))
        started = RealCluster if kind == "real" else MixedCluster
        return started(folder, workloads=not podless, flags=_HURRIED if hurried else ())

    def stop(self, kind: str, name: str) -> None:
        """Stop a cluster."""
        self._running.pop((kind, name)).stop()
