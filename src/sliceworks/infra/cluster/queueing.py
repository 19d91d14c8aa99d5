"""JobSet and Kueue in a cluster: their release files, Kueue's settings, and a wait until their webhooks answer. Pure."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from sliceworks.base import yamls
from sliceworks.infra.cluster.objects import SYSTEM, namespace
from sliceworks.infra.cluster.releases import sha256
from sliceworks.infra.cluster.steps import Answers, Served, Step, available

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sliceworks.specs.environment import EnvironmentSpec

Object = dict[str, Any]
CONFIGURATION = ("kueue-system", "kueue-manager-config")
"""Where Kueue's own settings lie."""
_FILE = "controller_manager_config.yaml"
_AMOUNTS = ("nominalQuota", "borrowingLimit", "lendingLimit")
_MARK = "sliceworks.dev/configuration"
_JOBSET = ("jobset.x-k8s.io/v1alpha2", "JobSet")
_KUEUE = tuple(("kueue.x-k8s.io/v1beta2", kind) for kind in ("ClusterQueue", "LocalQueue", "ResourceFlavor", "Workload"))
_KUEUE += (("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass"),)


def jobset(release: Sequence[Object]) -> Step:
    """JobSet: `release` is empty where the cluster has it already."""
    return Step("jobset", tuple(release), (*available(release), Served((_JOBSET,)), Answers("JobSet", _job())), "Warn")


def kueue(spec: EnvironmentSpec, release: Sequence[Object], *, settles: bool = True) -> Step:
    """Kueue, with how long admitted work may take to be ready. A Kueue that somebody else set up keeps its settings."""
    waiting = _waiting(spec)
    objects = [_configured(each, waiting) for each in release] if release else _configuration(waiting) if settles else []
    mark = next((_text(each) for each in objects if _is_configuration(each)), "")
    found = tuple(_marked(each, mark) for each in objects)
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "sliceworks-probe"},
        "spec": {},
    }
    return Step("kueue", found, (*available(release), Served(_KUEUE), Answers("Kueue", flavor)), "Warn")


def queues(objects: Iterable[Object]) -> Step:
    """What the teams need. Kueue writes amounts as texts when it takes a queue: written so from the start, nobody changes them."""
    return Step("queues", tuple(_written_out(each) if each["kind"] == "ClusterQueue" else each for each in objects))


def _written_out(queue: Object) -> Object:
    found = copy.deepcopy(queue)
    for group in found["spec"].get("resourceGroups") or ():
        for quota in (each for flavor in group["flavors"] for each in flavor["resources"]):
            quota.update({key: str(quota[key]) for key in _AMOUNTS if key in quota})
    return found


def _waiting(spec: EnvironmentSpec) -> Object:
    """Kueue's own words for `readyWithin`. Work that goes back waits at the end of its queue."""
    within = spec.queues.ready_within
    if not within:
        return {}
    return {"waitForPodsReady": {"timeout": within, "blockAdmission": False, "requeuingStrategy": {"timestamp": "Eviction"}}}


def _configuration(waiting: Object) -> list[Object]:
    """The settings of a Kueue that is there and has none."""
    if not waiting:
        return []
    place, name = CONFIGURATION
    whole = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration", **waiting}
    metadata = {"name": name, "namespace": place}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {_FILE: yamls.dump(whole)}}
    return [namespace(place), config]


def _configured(obj: Object, waiting: Object) -> Object:
    """A release's settings with ours in them."""
    if not waiting or not _is_configuration(obj):
        return obj
    found = copy.deepcopy(obj)
    [document] = yamls.load_all(_text(obj), _FILE)
    found["data"][_FILE] = yamls.dump({**document.data, **waiting})
    return found


def _marked(obj: Object, mark: str) -> Object:
    """A Deployment that starts anew when its settings are others: Kueue reads them once."""
    if obj["kind"] != "Deployment" or not mark:
        return obj
    found = copy.deepcopy(obj)
    metadata = found["spec"]["template"].setdefault("metadata", {})
    metadata["annotations"] = {**(metadata.get("annotations") or {}), _MARK: sha256(mark.encode())[:16]}
    return found


def _is_configuration(obj: Mapping[str, Any]) -> bool:
    metadata = obj["metadata"]
    return obj["kind"] == "ConfigMap" and (metadata.get("namespace"), metadata["name"]) == CONFIGURATION


def _text(config_map: Mapping[str, Any]) -> str:
    return str((config_map.get("data") or {}).get(_FILE, ""))


def _job() -> Object:
    """A JobSet that is asked about and never made."""
    container = {"name": "probe", "image": "registry.k8s.io/pause:3.10"}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    jobs = [{"name": "probe", "template": {"spec": {"template": pod}}}]
    metadata = {"name": "sliceworks-probe", "namespace": SYSTEM}
    return {"apiVersion": _JOBSET[0], "kind": _JOBSET[1], "metadata": metadata, "spec": {"replicatedJobs": jobs, "suspend": True}}
