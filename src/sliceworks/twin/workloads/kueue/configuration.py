"""Kueue's configuration: what its ConfigMap in the cluster says, as where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Get = Callable[[str, str, str], Mapping[str, Any] | None]

NAMESPACE, CONFIG = "kueue-system", "kueue-manager-config"
_FILE = "controller_manager_config.yaml"


class PodsReady(NamedTuple):
    """How long admitted workloads may take to get ready, and what happens to those that do not."""

    timeout: float
    recovery: float | None
    limit: int | None
    base: int
    most: int


class Configuration:
    """Reads the ConfigMap when it has changed."""

    def __init__(self, get: Get) -> None:
        self._get = get
        self._text: str | None = None
        self._pods_ready: PodsReady | None = None

    @property
    def pods_ready(self) -> PodsReady | None:
        """None when nobody waits for pods."""
        found = self._get("/configmaps", NAMESPACE, CONFIG)
        text = ((found or {}).get("data") or {}).get(_FILE, "")
        if text != self._text:
            self._text, self._pods_ready = text, _pods_ready(text)
        return self._pods_ready


def _pods_ready(text: str) -> PodsReady | None:
    if "waitForPodsReady" not in text:
        return None
    import yaml

    try:
        config = yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError:
        return None
    wait = config.get("waitForPodsReady") if isinstance(config, dict) else None
    if not isinstance(wait, dict) or wait.get("enable") is False:
        return None
    again = wait.get("requeuingStrategy") or {}
    timeout = duration.parse(wait.get("timeout") or "5m")
    recovery = wait.get("recoveryTimeout")
    return PodsReady(
        timeout,
        duration.parse(recovery) if recovery else None,
        again.get("backoffLimitCount"),
        again.get("backoffBaseSeconds") or 60,
        again.get("backoffMaxSeconds") or 3600,
    )
