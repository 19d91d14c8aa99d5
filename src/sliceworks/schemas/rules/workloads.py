"""Controllers of pods: Deployment, ReplicaSet, StatefulSet, DaemonSet, ReplicationController, and the objects beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.schemas.field_errors import forbidden, invalid, not_supported, required
from sliceworks.schemas.rules.claims import claim_spec_errors
from sliceworks.schemas.rules.pods import pod_template_errors
from sliceworks.schemas.rules.selectors import is_empty, is_usable, matches, selector_errors
from sliceworks.schemas.rules.texts import (
    Errors,
    at_most_all,
    go_struct,
    immutable,
    int_or_percent,
    label,
    none_negative,
    not_negative,
    positive_int_or_percent,
)

if TYPE_CHECKING:
    from sliceworks.schemas.rules.shape import Json

_NO_MATCH = "`selector` does not match template `labels`"
_STATEFUL_SET_FREE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_STATEFUL_SET_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)


def deployment_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    none_negative(out, spec, "spec", "replicas")
    _selected_template(out, spec, "ReplicaSet", "deployment")
    _deployment_strategy(out, spec.get("strategy") or {}, "spec.strategy")
    none_negative(out, spec, "spec", "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds")
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        out.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return out


def replica_set_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    none_negative(out, spec, "spec", "replicas", "minReadySeconds")
    _selected_template(out, spec, "ReplicaSet", "deployment")
    return out


def stateful_set_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    policy = spec.get("podManagementPolicy") or ""
    if not policy:
        out.append(required("spec.podManagementPolicy"))
    elif policy not in ("OrderedReady", "Parallel"):
        out.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    _stateful_set_strategy(out, spec.get("updateStrategy") or {}, "spec.updateStrategy")
    for field, value in (spec.get("persistentVolumeClaimRetentionPolicy") or {}).items():
        if value not in ("Retain", "Delete"):
            out.append(not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{field}", value, ("Retain", "Delete")))
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        claim_spec_errors(out, claim.get("spec") or {}, f"spec.volumeClaimTemplates[{index}].spec")
    none_negative(out, spec, "spec", "replicas", "minReadySeconds")
    not_negative(out, (spec.get("ordinals") or {}).get("start"), "spec.ordinals.start")
    if spec.get("serviceName"):
        label(out, spec["serviceName"], "spec.serviceName")
    _selected_template(out, {**spec, "template": _with_claims(spec)}, "StatefulSet", "statefulset")
    return out


def daemon_set_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    selector_errors(out, selector, "spec.selector")
    if is_usable(selector) and not matches(selector, labels):
        out.append(invalid("spec.template.metadata.labels", labels or None, _NO_MATCH))
    if selector is not None and is_empty(selector):
        out.append(invalid("spec.selector", selector, "empty selector is invalid for daemonset"))
    _always_template(out, template, "DaemonSet")
    none_negative(out, spec, "spec", "minReadySeconds")
    _daemon_set_strategy(out, spec.get("updateStrategy") or {}, "spec.updateStrategy")
    none_negative(out, spec, "spec", "revisionHistoryLimit")
    return out


def replication_controller_errors(obj: Json) -> Errors:
    out: Errors = []
    spec: Json = obj.get("spec") or {}
    selector, template = spec.get("selector") or {}, spec.get("template")
    none_negative(out, spec, "spec", "minReadySeconds")
    if not selector:
        out.append(required("spec.selector"))
    if spec.get("replicas") is None:
        out.append(required("spec.replicas"))
    none_negative(out, spec, "spec", "replicas")
    if template is None:
        out.append(required("spec.template"))
        return out
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not selector.items() <= labels.items():
        out.append(invalid("spec.template.metadata.labels", labels or None, _NO_MATCH))
    _always_template(out, template, "ReplicationController")
    return out


def pod_template_object_errors(obj: Json) -> Errors:
    out: Errors = []
    pod_template_errors(out, obj.get("template") or {}, "template")
    return out


def controller_revision_errors(obj: Json) -> Errors:
    out: Errors = []
    not_negative(out, obj.get("revision"), "revision")
    if obj.get("data") is None:
        out.append(required("data", "data is mandatory"))
    elif not isinstance(obj["data"], dict):
        out.append(required("data", "data must be a valid JSON object"))
    return out


def same_selector(new: Json, old: Json) -> Errors:
    """Deployments, ReplicaSets and DaemonSets keep their selector."""
    out: Errors = []
    immutable(out, (new.get("spec") or {}).get("selector"), (old.get("spec") or {}).get("selector"), "spec.selector")
    return out


def stateful_set_update_errors(new: Json, old: Json) -> Errors:
    now, before = new.get("spec") or {}, old.get("spec") or {}
    fixed = [{name: found for name, found in spec.items() if name not in _STATEFUL_SET_FREE and found} for spec in (now, before)]
    return [] if fixed[0] == fixed[1] else [forbidden("spec", _STATEFUL_SET_FIXED)]


def controller_revision_update_errors(new: Json, old: Json) -> Errors:
    out: Errors = []
    immutable(out, new.get("data"), old.get("data"), "data")
    return out


def _selected_template(out: Errors, spec: Json, owner: str, kind: str) -> None:
    selector, template = spec.get("selector"), spec.get("template") or {}
    if selector is None:
        out.append(required("spec.selector"))
    else:
        selector_errors(out, selector, "spec.selector")
        if is_empty(selector):
            out.append(invalid("spec.selector", selector, f"empty selector is invalid for {kind}"))
    if not is_usable(selector):
        out.append(invalid("spec.selector", selector, "" if kind == "statefulset" else "invalid label selector"))
        return
    labels = (template.get("metadata") or {}).get("labels") or {}
    if (selector is None or not is_empty(selector)) and not matches(selector, labels):
        out.append(invalid("spec.template.metadata.labels", labels or None, _NO_MATCH))
    _always_template(out, template, owner)


def _always_template(out: Errors, template: Json, owner: str) -> None:
    """Pods of a controller that keeps them running are always restarted."""
    pod_template_errors(out, template, "spec.template")
    spec = template.get("spec") or {}
    if spec.get("restartPolicy") != "Always":
        out.append(not_supported("spec.template.spec.restartPolicy", spec.get("restartPolicy") or "", ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        out.append(forbidden("spec.template.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {owner} is not Supported"))


def _deployment_strategy(out: Errors, strategy: Json, path: str) -> None:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            out.append(forbidden(f"{path}.rollingUpdate", "may not be specified when strategy `type` is 'Recreate'"))
    elif kind == "RollingUpdate":
        unavailable, surge = (rolling or {}).get("maxUnavailable", 0), (rolling or {}).get("maxSurge", 0)
        positive_int_or_percent(out, unavailable, f"{path}.rollingUpdate.maxUnavailable")
        positive_int_or_percent(out, surge, f"{path}.rollingUpdate.maxSurge")
        if not int_or_percent(unavailable) and not int_or_percent(surge):
            out.append(invalid(f"{path}.rollingUpdate.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
        at_most_all(out, unavailable, f"{path}.rollingUpdate.maxUnavailable")
    else:
        out.append(not_supported(path, go_struct(strategy, "type", "rollingUpdate"), ("Recreate", "RollingUpdate")))


def _daemon_set_strategy(out: Errors, strategy: Json, path: str) -> None:
    kind, rolling = strategy.get("type"), strategy.get("rollingUpdate")
    if kind == "RollingUpdate":
        unavailable, surge = (rolling or {}).get("maxUnavailable", 0), (rolling or {}).get("maxSurge", 0)
        path += ".rollingUpdate"
        positive_int_or_percent(out, unavailable, f"{path}.maxUnavailable")
        positive_int_or_percent(out, surge, f"{path}.maxSurge")
        at_most_all(out, unavailable, f"{path}.maxUnavailable")
        at_most_all(out, surge, f"{path}.maxSurge")
        if int_or_percent(unavailable) and int_or_percent(surge):
            out.append(invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero"))
        elif not int_or_percent(unavailable) and not int_or_percent(surge):
            out.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    elif kind != "OnDelete":
        out.append(not_supported(path, go_struct(strategy, "type", "rollingUpdate"), ("RollingUpdate", "OnDelete")))


def _stateful_set_strategy(out: Errors, strategy: Json, path: str) -> None:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if not kind:
        out.append(required(path))
    elif kind == "OnDelete":
        if rolling is not None:
            out.append(
                invalid(
                    f"{path}.rollingUpdate",
                    go_struct(rolling, "partition", "maxUnavailable"),
                    "only allowed for updateStrategy 'RollingUpdate'",
                )
            )
    elif kind == "RollingUpdate":
        none_negative(out, rolling or {}, f"{path}.rollingUpdate", "partition")
    else:
        out.append(invalid(path, go_struct(strategy, "type", "rollingUpdate"), "must be 'RollingUpdate' or 'OnDelete'"))


def _with_claims(spec: Json) -> Json:
    """The template with a volume for each claim: that is what its mounts may name."""
    template = dict(spec.get("template") or {})
    pod = {name: found for name, found in (template.get("spec") or {}).items() if name not in ("hostname", "subdomain")}
    names = [(claim.get("metadata") or {}).get("name") for claim in spec.get("volumeClaimTemplates") or ()]
    if names:
        claimed = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
        pod["volumes"] = claimed + [volume for volume in pod.get("volumes") or () if volume.get("name") not in names]
    return template | {"spec": pod}
