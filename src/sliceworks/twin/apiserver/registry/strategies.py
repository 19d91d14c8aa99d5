"""PrepareForCreate and PrepareForUpdate of the built-in kinds and of their subresources. Services are in `service_allocator`."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.apiserver.codec import deep_copy
from sliceworks.twin.apiserver.pod_resources import qos_class
from sliceworks.twin.apiserver.validation.certificate_signing_request import APPROVALS, find_conditions

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.registry.resources import ClusterView


Obj = dict[str, Any]

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def label_namespace_name(obj: Obj) -> None:
    name = obj["metadata"].get("name")
    if name:
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


def prepare_namespace(obj: Obj, cluster: ClusterView) -> None:
    label_namespace_name(obj)
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers:
        finalizers.append("kubernetes")
    obj["status"] = {"phase": "Active"}


def keep_namespace_spec(new: Obj, old: Obj, cluster: ClusterView) -> None:
    new["spec"] = old.get("spec", {})


def prepare_pod(obj: Obj, cluster: ClusterView) -> None:
    spec = obj.get("spec") or {}
    status: Obj = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": None,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    obj["status"] = status


def prepare_job(obj: Obj, cluster: ClusterView) -> None:
    obj["status"] = {}
    spec = obj.setdefault("spec", {})
    if spec.get("manualSelector"):
        return
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    labels = template.setdefault("labels", {})
    own_labels = obj["metadata"].get("labels")
    uid, name = obj["metadata"]["uid"], obj["metadata"].get("name", "")
    labels.update(
        {
            "controller-uid": uid,
            "job-name": name,
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
        }
    )
    if not own_labels or own_labels is labels:
        # A Job without labels gets those of its template, including the generated ones.
        obj["metadata"]["labels"] = dict(labels)
    selector = spec.setdefault("selector", {})
    selector.setdefault("matchLabels", {})["batch.kubernetes.io/controller-uid"] = uid


def add_template_generation(obj: Obj) -> None:
    obj["metadata"].setdefault("annotations", {}).setdefault(_TEMPLATE_GENERATION, "0")


def prepare_daemon_set(obj: Obj, cluster: ClusterView) -> None:
    obj["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = "1"
    obj["status"] = {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}


def count_template_generation(new: Obj, old: Obj, cluster: ClusterView) -> None:
    """Keep the deprecated counter of template changes."""
    old_count = (old["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "1")
    changed = new.get("spec", {}).get("template") != old.get("spec", {}).get("template")
    count = int(old_count) + changed if old_count.isdigit() else 1
    new["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(count)


def reset_status(value: Obj) -> Callable[[Obj, ClusterView], None]:
    def prepare(obj: Obj, cluster: ClusterView) -> None:
        obj["status"] = dict(value)

    return prepare


def prepare_volume(obj: Obj, cluster: ClusterView) -> None:
    obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": clock.timestamp()}


def prepare_volume_status(new: Obj, old: Obj) -> None:
    """The status subresource of a PersistentVolume sets the time of a new phase, unless the client does."""
    new["spec"] = old.get("spec") or {}
    status, before = new.setdefault("status", {}), old.get("status") or {}
    has_time = status.get("lastPhaseTransitionTime") not in (None, before.get("lastPhaseTransitionTime"))
    if status.get("phase") != before.get("phase") and not has_time:
        status["lastPhaseTransitionTime"] = clock.timestamp()


def encode_string_data(obj: Obj) -> None:
    """Move `stringData` of a Secret to `data`, base64-encoded."""
    strings = obj.pop("stringData", None)
    if strings:
        data = obj.setdefault("data", {})
        for key, value in strings.items():
            data[key] = base64.b64encode(value.encode()).decode()


def prepare_ephemeral_containers(new: Obj, old: Obj) -> None:
    """The ephemeralcontainers subresource of a pod changes these only."""
    spec = deep_copy(old["spec"])
    spec.pop("ephemeralContainers", None)
    if new["spec"].get("ephemeralContainers"):
        spec["ephemeralContainers"] = new["spec"]["ephemeralContainers"]
    _reset_pod(new, old, spec)


def prepare_resize(new: Obj, old: Obj) -> None:
    """The resize subresource of a pod changes the resources of its containers only."""
    spec = deep_copy(old["spec"])
    resized = {container["name"]: container for container in _resizable_containers(new["spec"])}
    for container in _resizable_containers(spec):
        new_container = resized.get(container["name"], container)
        container |= {field: new_container[field] for field in ("resources", "resizePolicy") if field in new_container}
    _reset_pod(new, old, spec)


def _reset_pod(new: Obj, old: Obj, spec: Obj) -> None:
    new["spec"] = spec
    if "status" in old:
        new["status"] = old["status"]


def _resizable_containers(spec: Obj) -> list[Obj]:
    sidecars = [container for container in spec.get("initContainers") or () if container.get("restartPolicy") == "Always"]
    return [*(spec.get("containers") or ()), *sidecars]


def keep_signing_request(new: Obj, old: Obj, cluster: ClusterView) -> None:
    """A CertificateSigningRequest is immutable except through its subresources."""
    new["spec"] = old.get("spec") or {}
    new["status"] = old.get("status") or {}


def prepare_signing_approval(new: Obj, old: Obj) -> None:
    """The approval subresource of a CertificateSigningRequest changes conditions only."""
    _set_times(new, old)
    status = {key: value for key, value in (old.get("status") or {}).items() if key != "conditions"}
    conditions = (new.get("status") or {}).get("conditions")
    new["spec"] = old.get("spec") or {}
    new["status"] = {**status, "conditions": conditions} if conditions else status


def prepare_signing_status(new: Obj, old: Obj) -> None:
    """The status subresource of a CertificateSigningRequest keeps the approval."""
    new["spec"] = old.get("spec") or {}
    conditions = (new.get("status") or {}).get("conditions") or []
    for kind in APPROVALS:
        before = find_conditions(old, kind)
        places = [index for index, condition in enumerate(conditions) if condition.get("type") == kind]
        if len(before) == len(places):
            for place, condition in zip(places, before, strict=True):
                conditions[place] = dict(condition)
    _set_times(new, old)


def _set_times(new: Obj, old: Obj) -> None:
    now = clock.timestamp()
    for condition in (new.get("status") or {}).get("conditions") or ():
        if not condition.get("lastUpdateTime"):
            condition["lastUpdateTime"] = now
        if not condition.get("lastTransitionTime"):
            same = (
                before["lastTransitionTime"]
                for before in find_conditions(old, condition.get("type"))
                if before.get("status") == condition.get("status") and before.get("lastTransitionTime")
            )
            condition["lastTransitionTime"] = next(same, now)
