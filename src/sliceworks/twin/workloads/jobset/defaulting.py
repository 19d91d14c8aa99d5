"""What JobSet's webhook fills in when a JobSet is created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.schemas.builtins import catalogue
from sliceworks.schemas.structural import decode
from sliceworks.twin.workloads.jobset.keys import Obj, replicated_jobs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.admission.context import Admission


def fill_in(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    for number, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or ()):
        if not rule.get("name"):
            rule["name"] = f"failurePolicyRule{number}"
    for replicated_job in replicated_jobs(obj):
        _fill_template(replicated_job)


def _fill_template(replicated_job: Obj) -> None:
    """A Job's template as its own type reads and writes it: quantities in their usual form, empty parts spelled out."""
    if not isinstance(replicated_job.get("template"), dict):
        return  # the schema has something to say about it
    schema = catalogue().component("io.k8s.api.batch.v1.JobTemplateSpec")
    template = decode(schema, replicated_job["template"], [])
    template.setdefault("metadata", {})
    job = template.setdefault("spec", {})
    job.setdefault("completionMode", "Indexed")
    pods = job.setdefault("template", {})
    pods.setdefault("metadata", {})
    pod = pods.setdefault("spec", {})
    if not pod.get("restartPolicy"):
        pod["restartPolicy"] = "OnFailure"
    for container in (*(pod.get("containers") or ()), *(pod.get("initContainers") or ())):
        container.setdefault("resources", {})
    replicated_job["template"] = template
