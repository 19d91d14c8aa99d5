"""The plugins that are on by default, in kube-apiserver's order: those that change an object, then those that judge the result.

`admit` runs before an object is validated, `validate` after. What `validate` leaves in `ctx.charges` is to be written together with
the object.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.twin.admission import limits, namespaces, pod_security, pods, priorities, quotas, service_accounts, storage
from sliceworks.twin.admission.context import CREATE, DELETE, UPDATE, Admission, Obj

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Plugin = Callable[[Admission, Obj, Mapping[str, Any] | None], None]
    Place = tuple[str, str, str]

_CLAIMS = "/persistentvolumeclaims"

_MUTATING: dict[Place, tuple[Plugin, ...]] = {
    ("/pods", CREATE, ""): (
        limits.fill_in,
        service_accounts.service_account,
        priorities.pod_priority,
        pods.toleration_seconds,
        pods.runtime_class,
    ),
    ("/pods", UPDATE, ""): (priorities.pod_priority, pods.toleration_seconds),
    ("/nodes", CREATE, ""): (pods.taint_new_node,),
    (_CLAIMS, CREATE, ""): (storage.default_storage_class, storage.protect("kubernetes.io/pvc-protection")),
    ("/persistentvolumes", CREATE, ""): (storage.protect("kubernetes.io/pv-protection"),),
    ("storage.k8s.io/volumeattributesclasses", CREATE, ""): (storage.protect("kubernetes.io/vac-protection"),),
    ("networking.k8s.io/ingresses", CREATE, ""): (storage.default_ingress_class,),
}

_VALIDATING: dict[Place, tuple[Plugin, ...]] = {
    ("/pods", CREATE, ""): (limits.check_pod, pod_security.check_pod),
    ("/pods", UPDATE, ""): (pod_security.check_pod,),
    ("/namespaces", CREATE, ""): (pod_security.check_namespace,),
    ("/namespaces", UPDATE, ""): (pod_security.check_namespace,),
    ("/pods", UPDATE, "resize"): (limits.check_pod,),
    (_CLAIMS, CREATE, ""): (limits.check_claim,),
    (_CLAIMS, UPDATE, ""): (limits.check_claim, storage.claim_growth),
    (priorities.CLASSES, CREATE, ""): (priorities.one_default,),
    (priorities.CLASSES, UPDATE, ""): (priorities.one_default,),
    **{
        (resource, operation, ""): (pod_security.check_template,)
        for resource in pod_security.TEMPLATES
        for operation in (CREATE, UPDATE)
    },
}


@dataclass(slots=True)
class Webhooks:
    """What systems that are installed in a cluster do to writes: they run after the cluster's own plugins."""

    mutating: dict[Place, list[Plugin]] = field(default_factory=dict)
    validating: dict[Place, list[Plugin]] = field(default_factory=dict)

    def change(self, resource: str, operation: str, plugin: Plugin, subresource: str = "") -> None:
        """Let a plugin change such writes."""
        self.mutating.setdefault((resource, operation, subresource), []).append(plugin)

    def judge(self, resource: str, operation: str, plugin: Plugin, subresource: str = "") -> None:
        """Let a plugin refuse such writes."""
        self.validating.setdefault((resource, operation, subresource), []).append(plugin)


_NO_WEBHOOKS = Webhooks()


def admit(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None, webhooks: Webhooks = _NO_WEBHOOKS) -> bool:
    """Change an object as the cluster's defaults ask, or refuse it; tells whether a webhook had it. A deletion comes with an empty
    object and the old one."""
    namespaces.lifecycle(ctx, obj, old)
    place = (ctx.resource, ctx.operation, ctx.subresource)
    for plugin in _MUTATING.get(place, ()):
        plugin(ctx, obj, old)
    asked = webhooks.mutating.get(place, ())
    for plugin in asked:
        plugin(ctx, obj, old)
    return bool(asked)


def validate(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None, webhooks: Webhooks = _NO_WEBHOOKS) -> None:
    """Refuse an object that is valid in itself but not welcome here."""
    if ctx.operation == DELETE:
        return
    ctx.named = True
    place = (ctx.resource, ctx.operation, ctx.subresource)
    for plugin in _VALIDATING.get(place, ()):
        plugin(ctx, obj, old)
    for plugin in webhooks.validating.get(place, ()):
        plugin(ctx, obj, old)
    quotas.charge(ctx, obj, old)
