"""NamespaceLifecycle: nothing is made in a namespace that is absent or ending, and some namespaces never end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import NotFound
from sliceworks.twin.admission.context import CREATE, DELETE, Admission, Obj

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_IMMORTAL = {"default", "kube-system", "kube-public"}
_REVIEWS = "authorization.k8s.io/localsubjectaccessreviews"


def lifecycle(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    if ctx.resource == "/namespaces":
        if ctx.operation == DELETE and ctx.name in _IMMORTAL:
            raise ctx.forbidden(old, "this namespace may not be deleted")
        return
    namespace = ctx.namespace
    if not namespace or ctx.operation == DELETE or ctx.resource == _REVIEWS:
        return
    found = ctx.get("/namespaces", "", namespace)
    if found is None:
        raise NotFound(f'namespaces "{namespace}" not found', details={"name": namespace, "kind": "namespaces"})
    if ctx.operation == CREATE and (found.get("status") or {}).get("phase") == "Terminating":
        refused = ctx.forbidden(obj, f"unable to create new content in namespace {namespace} because it is being terminated")
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        refused.details = {**(refused.details or {}), "causes": [cause]}
        raise refused
