"""Kueue's configuration: what its ConfigMap in the cluster says, as where it is installed."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Get = Callable[[str, str, str], Mapping[str, Any] | None]

CONFIG_MAPS = "/configmaps"
PLACE = ("kueue-system", "kueue-manager-config")
_FILE = "controller_manager_config.yaml"
_FRAMEWORKS = frozenset({"batch/job", "jobset.x-k8s.io/jobset", "pod", "deployment", "statefulset"})


class PodsReady(NamedTuple):
    """How long admitted workloads may take to get ready, and what happens to those that do not.

    With `block` nobody is admitted before all that were are ready. `by_eviction` puts one that was sent back at the end of its
    queue, else it keeps its place.
    """

    timeout: float
    recovery: float | None
    limit: int | None
    base: int
    most: int
    block: bool
    by_eviction: bool


class Settings(NamedTuple):
    """What is read of the configuration."""

    pods_ready: PodsReady | None
    frameworks: frozenset[str]


class Configuration:
    """Looks the ConfigMap up whenever it is asked."""

    def __init__(self, get: Get) -> None:
        self._get = get

    @property
    def pods_ready(self) -> PodsReady | None:
        """None when nobody waits for pods."""
        return self._settings.pods_ready

    @property
    def frameworks(self) -> frozenset[str]:
        """The kinds of jobs that are queued: all that there are, unless some are named."""
        return self._settings.frameworks

    @property
    def _settings(self) -> Settings:
        return read(self._get(CONFIG_MAPS, *PLACE))


def read(config_map: Mapping[str, Any] | None) -> Settings:
    """What the ConfigMap says; without one, or when it cannot be read, what holds then."""
    return _read(((config_map or {}).get("data") or {}).get(_FILE, ""))


@lru_cache(maxsize=8)
def _read(text: str) -> Settings:
    config: Any = None
    if text:
        import yaml

        try:
            config = yaml.load(text, yaml.CSafeLoader)
        except yaml.YAMLError:
            config = None
    if not isinstance(config, dict):
        config = {}
    named = (config.get("integrations") or {}).get("frameworks")
    return Settings(_pods_ready(config.get("waitForPodsReady")), _FRAMEWORKS if named is None else frozenset(named))


def _pods_ready(wait: Any) -> PodsReady | None:
    if not isinstance(wait, dict) or wait.get("enable") is False:
        return None
    again = wait.get("requeuingStrategy") or {}
    recovery = wait.get("recoveryTimeout")
    return PodsReady(
        duration.parse(wait.get("timeout") or "5m"),
        duration.parse(recovery) if recovery else None,
        again.get("backoffLimitCount"),
        again.get("backoffBaseSeconds") or 60,
        again.get("backoffMaxSeconds") or 3600,
        bool(wait.get("blockAdmission")),
        again.get("timestamp") != "Creation",
    )
