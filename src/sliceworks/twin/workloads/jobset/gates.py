"""JobSet's feature gates: what its configuration in the cluster turns on, as where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Get = Callable[[str, str, str], Mapping[str, Any] | None]

NAMESPACE, CONFIG = "jobset-system", "jobset-manager-config"
_FILE = "controller_manager_config.yaml"


def restart_job(get: Get) -> bool:
    """Whether single Jobs may be restarted; off unless the ConfigMap of JobSet's manager turns it on."""
    found = get("/configmaps", NAMESPACE, CONFIG)
    text = ((found or {}).get("data") or {}).get(_FILE, "")
    return "RestartJob" in text and bool(_gates(text).get("RestartJob"))


def _gates(text: str) -> Mapping[str, Any]:
    import yaml

    try:
        configuration = yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError:
        return {}
    gates = configuration.get("featureGates") if isinstance(configuration, dict) else None
    return gates if isinstance(gates, dict) else {}
