"""The serviceaccount controller and the root CA publisher: `default` and `kube-root-ca.crt` in every namespace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import AlreadyExists, Forbidden, NotFound
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller import Change, Controller
from sliceworks.twin.controllers.runtime.controller_context import ControllerContext, controller_user
from sliceworks.twin.controllers.runtime.resource_keys import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from sliceworks.kube.resources import Object
    from sliceworks.twin.apiserver.auth.authentication import User

_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service "
    "IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)


class PerNamespaceController(Controller[str]):
    """Creates one object of a fixed name in every namespace that is not terminating, and keeps its data."""

    resource: str
    name: str
    user: User

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writer = ApiWriter(context, self.user)

    def desired(self) -> Object:
        """The desired object, without name and namespace."""
        raise NotImplementedError

    def observe(self, change: Change) -> None:
        if change.resource == NAMESPACES and change.type != "DELETED":
            self.queue.add(change.name)
        elif change.resource == self.resource and change.name == self.name:
            self.queue.add(change.namespace)

    async def sync(self, key: str) -> None:
        namespace = self.context.get(NAMESPACES, "", key)
        if namespace is None or (namespace.get("status") or {}).get("phase") == "Terminating":
            return
        current, desired = self.context.get(self.resource, key, self.name), self.desired()
        try:
            if current is None:
                desired["metadata"] = {**desired.get("metadata", {}), "name": self.name, "namespace": key}
                await self._writer.create(self.resource, key, desired)
            elif desired.get("data", current.get("data")) != current.get("data"):
                await self._writer.update(self.resource, {**current, "data": desired["data"]})
        except (AlreadyExists, NotFound, Forbidden):
            # The namespace is deleted or terminating, or another client created the object.
            return


class ServiceAccountController(PerNamespaceController):
    """Creates the ServiceAccount `default`, which pods use unless they name another one."""

    resource, name = SERVICE_ACCOUNTS, "default"
    user = controller_user("service-account-controller")

    def desired(self) -> Object:
        return {"kind": "ServiceAccount", "apiVersion": "v1"}


class RootCAPublisher(PerNamespaceController):
    """Creates the ConfigMap `kube-root-ca.crt`, with which pods verify the API server."""

    resource, name = CONFIG_MAPS, "kube-root-ca.crt"
    user = controller_user("root-ca-cert-publisher")

    def __init__(self, context: ControllerContext, authority: str) -> None:
        super().__init__(context)
        self._authority = authority

    def desired(self) -> Object:
        metadata = {"annotations": {"kubernetes.io/description": _DESCRIPTION}}
        return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"ca.crt": self._authority}}
