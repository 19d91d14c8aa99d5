"""The validatingadmissionpolicy-status controller: type checks the expressions of ValidatingAdmissionPolicies."""

from __future__ import annotations

from typing import Any

from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import APPLY_PATCH, ControllerContext, ObjectKey, controller_user

POLICIES = "admissionregistration.k8s.io/validatingadmissionpolicies"
_NAME = "validatingadmissionpolicy-status-controller"
_MANAGER = "validatingadmissionpolicy-status"


class AdmissionPolicyStatusController(Controller[str]):
    """Checks each generation of a policy once."""

    watches = frozenset({POLICIES})

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer = ApiWriter(context, controller_user(_NAME))

    def observe(self, change: Change) -> None:
        if change.type != "DELETED" and not _is_checked(change.obj):
            self.queue.add(change.name)

    async def sync(self, key: str) -> None:
        policy = self.context.get(POLICIES, "", key)
        if policy is None or _is_checked(policy):
            return
        from sliceworks.twin.apiserver.admission.type_checking import expression_warnings

        warnings = expression_warnings(self.context.registry, policy["spec"])
        checked: dict[str, Any] = {"expressionWarnings": warnings} if warnings else {}
        body = {
            "kind": "ValidatingAdmissionPolicy",
            "apiVersion": "admissionregistration.k8s.io/v1",
            "metadata": {"name": key},
            "status": {"observedGeneration": policy["metadata"]["generation"], "typeChecking": checked},
        }
        options = {"fieldManager": _MANAGER, "force": "true"}
        await self._writer.patch(ObjectKey(POLICIES, "", key), body, "status", content_type=APPLY_PATCH, **options)


def _is_checked(policy: dict[str, Any]) -> bool:
    observed = (policy.get("status") or {}).get("observedGeneration") or 0
    return bool(observed >= policy["metadata"].get("generation", 0))
