"""Keeps the rules of aggregated ClusterRoles: the union of those they select."""

from __future__ import annotations

from sliceworks.twin.auth.bootstrap import aggregated_rules
from sliceworks.twin.auth.rbac import CLUSTER_ROLES
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import APPLY, World, controller_user

_MANAGER = "clusterrole-aggregation-controller"
_USER = controller_user(_MANAGER)


class AggregatedRoles(Controller[str]):
    """Looks at every aggregated role whenever any role changes: there are few."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._aggregated: dict[str, None] = {}

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
        role, served = self.world.get(CLUSTER_ROLES, "", key), self.world.of(CLUSTER_ROLES)
        if role is None or served is None:
            return
        rules = aggregated_rules(role, self.world.find_all(CLUSTER_ROLES))
        if rules is None or rules == (role.get("rules") or []):
            return
        body = {"kind": "ClusterRole", "apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": key}, "rules": rules}
        await self.world.send(_USER, "PATCH", served.path("", key), body, content_type=APPLY, fieldManager=_MANAGER, force="true")
