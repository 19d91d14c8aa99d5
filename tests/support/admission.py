"""Admission of single writes in a small cluster, for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base.errors import Forbidden
from sliceworks.twin.apiserver.admission import resource_quota
from sliceworks.twin.apiserver.admission.chain import QUOTAS, Admission, Webhooks, admit, validate
from sliceworks.twin.apiserver.auth.authentication import User
from sliceworks.twin.apiserver.registry.kinds import STRATEGIES
from sliceworks.twin.apiserver.registry.resources import Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

Obj = dict[str, Any]


class AdmissionCluster:
    """The objects that plugins read. It starts with a namespace `ns` and its default service account."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Obj] = {}
        self.warnings: list[str] = []
        self.add("/namespaces", "", "ns", status={"phase": "Active"})
        self.add("/serviceaccounts", "ns", "default")

    def add(self, resource: str, namespace: str, name: str, *, metadata: Obj | None = None, **fields: Any) -> None:
        self.objects[resource, namespace, name] = {"metadata": {"name": name, "namespace": namespace, **(metadata or {})}, **fields}

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self.objects.get((resource, namespace, name))

    def find_all(self, resource: str, namespace: str) -> list[Obj]:
        return [obj for (kind, other, _), obj in self.objects.items() if (kind, other) == (resource, namespace)]

    def write(self, resource: str, operation: str, *, namespace: str = "ns", name: str = "", **options: Any) -> Admission:
        subresource, dry_run = options.get("subresource", ""), options.get("dry_run", False)
        cluster = (self.get, self.find_all, self.warnings.append)
        return Admission(User("jane"), operation, resource, subresource, namespace, name, dry_run, *cluster)

    def admit(self, ctx: Admission, obj: Obj, old: Obj | None) -> None:
        """Run the chain without webhooks."""
        strategy = STRATEGIES.get(ctx.resource, Strategy())
        admit(ctx, obj, old, strategy, Webhooks())
        validate(ctx, obj, old, strategy, Webhooks())
        if ctx.namespace and ctx.operation != "DELETE":
            resource_quota.charge(ctx, obj, old, self.find_all(QUOTAS, ctx.namespace))

    def create(self, resource: str, obj: Obj, *, namespace: str = "ns", dry_run: bool = False) -> Admission:
        ctx = self.write(resource, "CREATE", namespace=namespace, dry_run=dry_run)
        self.admit(ctx, obj, None)
        return ctx

    def rejection(self, obj: Obj, resource: str = "/pods") -> str:
        """The message of the Forbidden error when an object is created."""
        with pytest.raises(Forbidden) as caught:
            self.create(resource, obj)
        return caught.value.message

    def update(self, resource: str, obj: Obj, old: Obj, *, namespace: str = "ns") -> Admission:
        ctx = self.write(resource, "UPDATE", namespace=namespace, name=obj["metadata"]["name"])
        self.admit(ctx, obj, old)
        return ctx

    def delete(self, resource: str, name: str, *, namespace: str = "ns") -> Admission:
        ctx = self.write(resource, "DELETE", namespace=namespace, name=name)
        self.admit(ctx, {}, {"metadata": {"name": name}})
        return ctx


def pod(name: str = "p", *, resources: Obj | None = None, **spec: Any) -> Obj:
    container: Obj = {"name": "a", "image": "x"}
    if resources is not None:
        container["resources"] = resources
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
