"""CustomResourceDefinitions of other projects, read from Go modules at pinned versions. Nothing is built."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import yaml
from tests.real.build import CannotBuild, go, go_environment

Object = dict[str, Any]
GATEWAY_API = "sigs.k8s.io/gateway-api@v1.4.0"
ISTIO = "istio.io/api@v1.28.0"
PROMETHEUS = "github.com/GoogleCloudPlatform/prometheus-engine@v0.17.2"
OPERATOR = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
_MONITORING_FILES = (
    (OPERATOR, "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"),
    (OPERATOR, "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"),
    (PROMETHEUS, "charts/operator/crds/monitoring.googleapis.com_podmonitorings.yaml"),
    (PROMETHEUS, "charts/operator/crds/monitoring.googleapis.com_rules.yaml"),
)
_FILES = (
    (GATEWAY_API, "config/crd/standard/gateway.networking.k8s.io_gateways.yaml"),
    (GATEWAY_API, "config/crd/standard/gateway.networking.k8s.io_httproutes.yaml"),
    (ISTIO, "kubernetes/customresourcedefinitions.gen.yaml"),
    (PROMETHEUS, "charts/operator/crds/monitoring.googleapis.com_podmonitorings.yaml"),
)
_KINDS = {"Gateway", "HTTPRoute", "VirtualService", "DestinationRule", "PodMonitoring"}


@cache
def serving() -> tuple[Object, ...]:
    """The CRDs of routes and monitoring that model services use."""
    return tuple(
        item
        for module, file in _FILES
        for item in yaml.load_all((_folder(module) / file).read_text(), yaml.CSafeLoader)
        if item and item["spec"]["names"]["kind"] in _KINDS
    )


@cache
def monitoring() -> tuple[Object, ...]:
    """The CRDs of the Prometheus operator and of Managed Service for Prometheus that the chart uses."""
    return tuple(yaml.load((_folder(module) / file).read_text(), yaml.CSafeLoader) for module, file in _MONITORING_FILES)


@cache
def _folder(module: str) -> Path:
    """The folder of a module, downloaded and verified by Go."""
    done = subprocess.run(
        [go(), "mod", "download", "-json", module], env=go_environment(), capture_output=True, text=True, check=False
    )
    reported = orjson.loads(done.stdout or "{}")
    if done.returncode or "Dir" not in reported:
        raise CannotBuild(f"Go cannot get {module}: {reported.get('Error') or done.stderr.strip()}")
    return Path(reported["Dir"])
