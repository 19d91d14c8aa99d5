"""What every namespace has: the service account `default`, and the certificate of the cluster's authority."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, Forbidden, NotFound
from sliceworks.twin.controllers.loop import Change, Controller
from sliceworks.twin.controllers.world import World, controller_user

if TYPE_CHECKING:
    from sliceworks.twin.auth.identity import User
    from sliceworks.twin.store.store import Store

_NAMESPACES = "/namespaces"
_PATIENCE = 20
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service "
    "IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."
)


async def default_account(store: Store, namespace: str) -> None:
    """Wait a little for the account that a new namespace is about to get: somebody may create a pod right after the namespace."""
    for attempt in range(_PATIENCE):
        if store.get("/serviceaccounts", namespace, "default") is not None or store.get(_NAMESPACES, "", namespace) is None:
            return
        await clock.sleep(0 if attempt < _PATIENCE // 2 else 0.1)


class InEachNamespace(Controller[str]):
    """Keeps one object of a fixed name in each namespace that is not ending."""

    resource: str
    name: str
    user: User

    def wanted(self) -> dict[str, Any]:
        """The object as it should be, without its metadata's names."""
        raise NotImplementedError

    def observe(self, change: Change) -> None:
        if change.resource == _NAMESPACES and change.type != "DELETED":
            self.queue.add(change.name)
        elif change.resource == self.resource and change.name == self.name:
            self.queue.add(change.namespace)

    async def sync(self, key: str) -> None:
        namespace = self.world.get(_NAMESPACES, "", key)
        served = self.world.of(self.resource)
        if served is None or namespace is None or (namespace.get("status") or {}).get("phase") == "Terminating":
            return
        current, wanted = self.world.get(self.resource, key, self.name), self.wanted()
        try:
            if current is None:
                wanted["metadata"] = {**wanted.get("metadata", {}), "name": self.name, "namespace": key}
                await self.world.send(self.user, "POST", served.path(key), wanted)
            elif wanted.get("data", current.get("data")) != current.get("data"):
                await self.world.send(self.user, "PUT", served.path(key, self.name), {**current, "data": wanted["data"]})
        except (AlreadyExists, NotFound, Forbidden):
            # The namespace has gone or is about to, or somebody was faster.
            return


class ServiceAccounts(InEachNamespace):
    """`default`, which pods run as unless they say otherwise."""

    resource, name = "/serviceaccounts", "default"
    user = controller_user("service-account-controller")

    def wanted(self) -> dict[str, Any]:
        return {"kind": "ServiceAccount", "apiVersion": "v1"}


class RootCertificates(InEachNamespace):
    """`kube-root-ca.crt`, which pods trust the API by."""

    resource, name = "/configmaps", "kube-root-ca.crt"
    user = controller_user("root-ca-cert-publisher")

    def __init__(self, world: World, authority: str) -> None:
        super().__init__(world)
        self._authority = authority

    def wanted(self) -> dict[str, Any]:
        metadata = {"annotations": {"kubernetes.io/description": _DESCRIPTION}}
        return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": {"ca.crt": self._authority}}
