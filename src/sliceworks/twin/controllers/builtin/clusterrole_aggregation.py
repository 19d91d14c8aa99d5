"""The clusterrole-aggregation controller: the rules of aggregated ClusterRoles."""

from __future__ import annotations

from sliceworks.twin.apiserver.auth.rbac import CLUSTER_ROLES
from sliceworks.twin.apiserver.bootstrap import aggregated_rules
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import APPLY_PATCH, ControllerContext, ObjectKey, controller_user

_MANAGER = "clusterrole-aggregation-controller"


class ClusterRoleAggregationController(Controller[str]):
    """Reconciles all aggregated ClusterRoles whenever any ClusterRole changes: there are few."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._aggregated: dict[str, None] = {}
        self._writer = ApiWriter(context, controller_user(_MANAGER))

    def observe(self, change: Change) -> None:
        if change.resource != CLUSTER_ROLES:
            return
        if change.type != "DELETED" and change.obj.get("aggregationRule") is not None:
            self._aggregated[change.name] = None
        else:
            self._aggregated.pop(change.name, None)
        for name in self._aggregated:
            self.queue.add(name)

    async def sync(self, key: str) -> None:
        role = self.context.get(CLUSTER_ROLES, "", key)
        if role is None:
            return
        rules = aggregated_rules(role, self.context.list_objects(CLUSTER_ROLES))
        if rules is None or rules == (role.get("rules") or []):
            return
        body = {"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": key}, "rules": rules}
        cluster_role = ObjectKey(CLUSTER_ROLES, "", key)
        await self._writer.patch(cluster_role, body, content_type=APPLY_PATCH, fieldManager=_MANAGER, force="true")
