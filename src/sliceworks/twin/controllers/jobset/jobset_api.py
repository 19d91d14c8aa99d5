"""Names, labels and annotations of JobSet's API, and its feature gates."""

from __future__ import annotations

from hashlib import sha1
from typing import TYPE_CHECKING, Any

from sliceworks.twin.apiserver import yaml_codec
from sliceworks.twin.controllers.runtime.resource_keys import CONFIG_MAPS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Get = Callable[[str, str, str], Mapping[str, Any] | None]

Obj = dict[str, Any]

GROUP = "jobset.x-k8s.io"
API_VERSION = f"{GROUP}/v1alpha2"
KIND = "JobSet"

_DOMAIN = "jobset.sigs.k8s.io/"
NAME_LABEL = _DOMAIN + "jobset-name"
UID_LABEL = _DOMAIN + "jobset-uid"
REPLICATED_JOB = _DOMAIN + "replicatedjob-name"
REPLICAS = _DOMAIN + "replicatedjob-replicas"
GLOBAL_REPLICAS = _DOMAIN + "global-replicas"
JOB_INDEX = _DOMAIN + "job-index"
JOB_GLOBAL_INDEX = _DOMAIN + "job-global-index"
JOB_KEY = _DOMAIN + "job-key"
RESTART_ATTEMPT = _DOMAIN + "restart-attempt"
JOB_RESTART_ATTEMPT = _DOMAIN + "job-restart-attempt"
GROUP_NAME = _DOMAIN + "group-name"
GROUP_REPLICAS = _DOMAIN + "group-replicas"
JOB_GROUP_INDEX = _DOMAIN + "job-group-index"
COORDINATOR = _DOMAIN + "coordinator"
PRIORITY = _DOMAIN + "priority"
CONTROLLER_NAME = _DOMAIN + "jobset-controller"
EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
NODE_SELECTOR_STRATEGY = "alpha.jobset.sigs.k8s.io/node-selector"
NAMESPACED_JOB = "alpha.jobset.sigs.k8s.io/namespaced-job"
NO_SCHEDULE_TAINT = "alpha.jobset.sigs.k8s.io/no-schedule"

_CONFIG_MAP = ("jobset-system", "jobset-manager-config")
_FILE = "controller_manager_config.yaml"


def job_name(jobset: str, replicated_job: str, index: int) -> str:
    return f"{jobset}-{replicated_job}-{index}"


def job_key(namespace: str, job: str) -> str:
    """A hash of a Job's name that fits into a label, whatever the name's length."""
    return sha1(f"{namespace}/{job}".encode(), usedforsecurity=False).hexdigest()


def subdomain(jobset: Obj) -> str:
    """The subdomain of the pods' hostnames: the JobSet's name by default."""
    return str((jobset["spec"].get("network") or {}).get("subdomain") or jobset["metadata"].get("name", ""))


def coordinator_endpoint(jobset: Obj) -> str:
    """The hostname of the coordinator pod."""
    coordinator = jobset["spec"]["coordinator"]
    indexes = f"{coordinator.get('jobIndex', 0)}-{coordinator.get('podIndex', 0)}"
    return f"{jobset['metadata'].get('name', '')}-{coordinator['replicatedJob']}-{indexes}.{subdomain(jobset)}"


def replicated_jobs(jobset: Obj) -> list[Obj]:
    return jobset["spec"].get("replicatedJobs") or []


def replicas(replicated_job: Obj) -> int:
    return int(replicated_job.get("replicas", 0))


def is_restart_job_enabled(get: Get) -> bool:
    """Whether the feature gate RestartJob is on in the ConfigMap of JobSet's manager; off by default."""
    config_map = get(CONFIG_MAPS, *_CONFIG_MAP)
    text = ((config_map or {}).get("data") or {}).get(_FILE, "")
    return "RestartJob" in text and bool(_feature_gates(text).get("RestartJob"))


def _feature_gates(text: str) -> Mapping[str, Any]:
    try:
        configuration, _ = yaml_codec.decode(text.encode())
    except yaml_codec.YamlError:
        return {}
    gates = configuration.get("featureGates") if isinstance(configuration, dict) else None
    return gates if isinstance(gates, dict) else {}
