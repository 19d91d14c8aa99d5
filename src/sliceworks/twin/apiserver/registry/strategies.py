"""PrepareForCreate and PrepareForUpdate of the built-in kinds, and the pod subresources ephemeralcontainers and resize.

Services are in `service_allocator`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base import quantity as quantities
from sliceworks.schemas.field_errors import FieldError, forbidden, invalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.twin.apiserver.registry.resources import ClusterView


Obj = dict[str, Any]

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
POD_SUBRESOURCES = ("ephemeralcontainers", "resize")
_MIRROR = "kubernetes.io/config.mirror"
_EPHEMERAL = "spec.ephemeralContainers"


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


def qos_class(spec: Obj) -> str:
    """Guaranteed, Burstable or BestEffort, from the CPU and memory of all containers."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    has_resources, guaranteed = False, True
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = _cpu_and_memory(resources.get("requests")), _cpu_and_memory(resources.get("limits"))
        has_resources = has_resources or bool(requests or limits)
        if set(limits) != {"cpu", "memory"} or (requests and requests != limits):
            guaranteed = False
    if not has_resources:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _cpu_and_memory(resources: Obj | None) -> dict[str, Any]:
    """The amounts that are not zero."""
    amounts: dict[str, Any] = {}
    for name in ("cpu", "memory"):
        value = (resources or {}).get(name)
        if value is not None:
            try:
                amount = quantities.parse(value)
            except ValueError:
                continue
            if amount:
                amounts[name] = amount
    return amounts


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


def encode_string_data(obj: Obj) -> None:
    """Move `stringData` of a Secret to `data`, base64-encoded."""
    strings = obj.pop("stringData", None)
    if strings:
        data = obj.setdefault("data", {})
        for key, value in strings.items():
            data[key] = base64.b64encode(value.encode()).decode()


def prepare_pod_subresource(subresource: str, new: Obj, old: Obj) -> None:
    """Reset all fields that the subresource may not change."""
    spec: Obj = orjson.loads(orjson.dumps(old["spec"]))
    if subresource == "ephemeralcontainers":
        spec.pop("ephemeralContainers", None)
        if new["spec"].get("ephemeralContainers"):
            spec["ephemeralContainers"] = new["spec"]["ephemeralContainers"]
    else:
        resized = {container["name"]: container for container in _resizable_containers(new["spec"])}
        for container in _resizable_containers(spec):
            new_container = resized.get(container["name"], container)
            container |= {field: new_container[field] for field in ("resources", "resizePolicy") if field in new_container}
    new["spec"] = spec
    if "status" in old:
        new["status"] = old["status"]


def pod_subresource_errors(subresource: str, new: Obj, old: Obj) -> list[FieldError]:
    """Errors of an update of ephemeralcontainers or resize."""
    if _MIRROR in (old["metadata"].get("annotations") or {}):
        resize = subresource == "resize"
        return [forbidden("", "static pods cannot be resized" if resize else "static pods do not support ephemeral containers")]
    if subresource == "resize":
        return _resize_errors(new, old)
    containers = {container["name"]: container for container in new["spec"].get("ephemeralContainers") or ()}
    errors = []
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container["name"]
        if name not in containers:
            errors.append(forbidden(_EPHEMERAL, f'existing ephemeral containers "{name}" may not be removed\n'))
        elif containers[name] != container:
            errors.append(forbidden(_EPHEMERAL, f'existing ephemeral containers "{name}" may not be changed\n'))
    return errors


def _resize_errors(new: Obj, old: Obj) -> list[FieldError]:
    old_class = (old.get("status") or {}).get("qosClass") or qos_class(old["spec"])
    if qos_class(new["spec"]) == old_class:
        return []
    return [invalid("spec", old_class, "Pod QOS Class may not change as a result of resizing")]


def _resizable_containers(spec: Obj) -> list[Obj]:
    sidecars = [container for container in spec.get("initContainers") or () if container.get("restartPolicy") == "Always"]
    return [*(spec.get("containers") or ()), *sidecars]
