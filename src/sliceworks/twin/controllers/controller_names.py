"""The names of controllers that a twin can be started without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import UsageError
from sliceworks.base.names import suggest_name

if TYPE_CHECKING:
    from collections.abc import Iterable

CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
JOBSET, KUEUE, CONFIG_CONNECTOR = "jobset", "kueue", "config-connector"
GRAPHS, SLICES = "graphs", "slices"
VOLUME_PROVISIONER = "volume-provisioner"
PROGRAMS = (SCHEDULER, CONTROLLER_MANAGER, VOLUME_PROVISIONER, JOBSET, KUEUE, CONFIG_CONNECTOR, GRAPHS, SLICES)
"""The programs whose controllers the twin has; the last two are the controllers of Sliceworks."""
OF_CONTROLLER_MANAGER = (
    "clusterrole-aggregation-controller",
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "disruption-controller",
    "endpoints-controller",
    "endpointslice-controller",
    "endpointslice-mirroring-controller",
    "ephemeral-volume-controller",
    "garbage-collector-controller",
    "horizontal-pod-autoscaler-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-expander-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "replicationcontroller-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
    "validatingadmissionpolicy-status-controller",
)
"""The controllers of kube-controller-manager, as its option `--controllers` names them."""
KNOWN = (*PROGRAMS, *OF_CONTROLLER_MANAGER)


def parse(value: str) -> tuple[str, ...]:
    """The names in a comma-separated list, without duplicates; raises UsageError if one is unknown."""
    names = tuple(dict.fromkeys(name for part in value.split(",") if (name := part.strip())))
    for name in names:
        if name not in KNOWN:
            raise UsageError(f"--without: unknown controller {name!r}", hint=_suggestion(name))
    return names


def _suggestion(name: str) -> str:
    """The known name that is meant, such as job-controller for job."""
    extended = next((known for known in KNOWN if known in (f"{name}-controller", f"kube-{name}")), "")
    return f"did you mean {extended}?" if extended else suggest_name(name, KNOWN, cutoff=0.5) or f"known: {', '.join(KNOWN)}"


def is_enabled(name: str, without: Iterable[str]) -> bool:
    """Whether a twin that was started `without` these controllers runs this one."""
    off = set(without)
    return name not in off and not (name in OF_CONTROLLER_MANAGER and CONTROLLER_MANAGER in off)
