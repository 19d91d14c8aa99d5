"""Kueue's Configuration, read from its ConfigMap in the cluster."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import duration
from sliceworks.twin.apiserver import yaml_codec
from sliceworks.twin.controllers.runtime.resource_keys import CONFIG_MAPS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Get = Callable[[str, str, str], Mapping[str, Any] | None]

CONFIG_MAP_NAME = ("kueue-system", "kueue-manager-config")
_FILE = "controller_manager_config.yaml"
_FRAMEWORKS = frozenset({"batch/job", "jobset.x-k8s.io/jobset", "pod", "deployment", "statefulset"})


class WaitForPodsReady(NamedTuple):
    """The section `waitForPodsReady`: the timeouts for admitted workloads, and how Kueue requeues those that exceed them.

    With `block_admission`, no workload is admitted before all admitted ones are ready. `by_eviction` orders a requeued workload
    by its eviction time instead of its creation time.
    """

    timeout: float
    recovery_timeout: float | None
    backoff_limit_count: int | None
    backoff_base_seconds: int
    backoff_max_seconds: int
    block_admission: bool
    by_eviction: bool


class Settings(NamedTuple):
    """The parts of the Configuration that the twin uses."""

    pods_ready: WaitForPodsReady | None
    frameworks: frozenset[str]


class Configuration:
    """Reads the ConfigMap on every access."""

    def __init__(self, get: Get) -> None:
        self._get = get

    @property
    def pods_ready(self) -> WaitForPodsReady | None:
        """None when waitForPodsReady is disabled."""
        return self._settings.pods_ready

    @property
    def frameworks(self) -> frozenset[str]:
        """The enabled job integrations: all of them unless `integrations.frameworks` is set."""
        return self._settings.frameworks

    @property
    def _settings(self) -> Settings:
        return parse_configuration(self._get(CONFIG_MAPS, *CONFIG_MAP_NAME))


def parse_configuration(config_map: Mapping[str, Any] | None) -> Settings:
    """The settings in the ConfigMap; the defaults when it is missing or invalid."""
    return _parse(((config_map or {}).get("data") or {}).get(_FILE, ""))


_DEFAULTS = Settings(None, _FRAMEWORKS)


@lru_cache(maxsize=8)
def _parse(text: str) -> Settings:
    try:
        config, _ = yaml_codec.decode(text.encode())
        return _read_settings(config) if isinstance(config, dict) else _DEFAULTS
    except (yaml_codec.YamlError, ValueError, TypeError, AttributeError):
        return _DEFAULTS


def _read_settings(config: Mapping[str, Any]) -> Settings:
    frameworks = (config.get("integrations") or {}).get("frameworks")
    return Settings(_parse_pods_ready(config.get("waitForPodsReady")), _FRAMEWORKS if frameworks is None else frozenset(frameworks))


def _parse_pods_ready(section: Any) -> WaitForPodsReady | None:
    if not isinstance(section, dict) or section.get("enable") is False:
        return None
    requeuing = section.get("requeuingStrategy") or {}
    recovery = section.get("recoveryTimeout")
    return WaitForPodsReady(
        duration.parse(section.get("timeout") or "5m"),
        duration.parse(recovery) if recovery else None,
        requeuing.get("backoffLimitCount"),
        requeuing.get("backoffBaseSeconds") or 60,
        requeuing.get("backoffMaxSeconds") or 3600,
        bool(section.get("blockAdmission")),
        requeuing.get("timestamp") != "Creation",
    )
