"""What JobSet's webhook fills in when a JobSet is created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import BadRequest
from sliceworks.schemas.golang import TypeMismatch
from sliceworks.schemas.structural import decode
from sliceworks.twin.workloads.jobset.types import jobset_type
from sliceworks.twin.workloads.jobset.validation import denied

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.admission.context import Admission
    from sliceworks.twin.workloads.jobset.keys import Obj


def fill_in(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """The webhook reads a JobSet into its types and writes it out again: that, too, changes it. It never takes anything away."""
    given = obj.get("spec")
    try:
        typed = decode(jobset_type(), {"spec": orjson.loads(orjson.dumps(given))}, [])["spec"]
    except TypeMismatch as error:
        raise denied("mjobset.kb.io", BadRequest(str(error), reason="")) from error
    _set_defaults(typed)
    obj["spec"] = _over(given, typed)


def _set_defaults(spec: Obj) -> None:
    spec.setdefault("successPolicy", {"operator": "All"})
    spec.setdefault("startupPolicy", {"startupPolicyOrder": "AnyOrder"})
    network = spec.setdefault("network", {})
    network.setdefault("enableDNSHostnames", True)
    network.setdefault("publishNotReadyAddresses", True)
    for number, rule in enumerate((spec.get("failurePolicy") or {}).get("rules") or ()):
        rule["name"] = rule["name"] or f"failurePolicyRule{number}"
    for replicated_job in spec.get("replicatedJobs") or ():
        job = replicated_job["template"]["spec"]
        job.setdefault("completionMode", "Indexed")
        job["template"]["spec"].setdefault("restartPolicy", "OnFailure")


def _over(given: Any, typed: Any) -> Any:
    """What was given, with what the types say laid over it."""
    if isinstance(given, dict) and isinstance(typed, dict):
        return {
            key: _over(given[key], typed[key]) if key in typed and key in given else given.get(key, typed.get(key))
            for key in given | typed
        }
    if isinstance(given, list) and isinstance(typed, list) and len(given) == len(typed):
        return [_over(*pair) for pair in zip(given, typed, strict=True)]
    return typed
