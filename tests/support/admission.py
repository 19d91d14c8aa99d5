"""A write on its way in, with a small cluster around it, for tests of admission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base.errors import Forbidden
from sliceworks.twin.admission.context import Admission
from sliceworks.twin.admission.plugins import admit, validate
from sliceworks.twin.auth.identity import User

if TYPE_CHECKING:
    from collections.abc import Mapping

Obj = dict[str, Any]


class Around:
    """The objects that plugins may look at. A namespace `ns` with a default service account is there from the start."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, str], Obj] = {}
        self.warnings: list[str] = []
        self.add("/namespaces", "", "ns", status={"phase": "Active"})
        self.add("/serviceaccounts", "ns", "default")

    def add(self, resource: str, namespace: str, name: str, *, metadata: Obj | None = None, **fields: Any) -> None:
        self.kept[resource, namespace, name] = {"metadata": {"name": name, "namespace": namespace, **(metadata or {})}, **fields}

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        return self.kept.get((resource, namespace, name))

    def find_all(self, resource: str, namespace: str) -> list[Obj]:
        return [obj for (kind, home, _), obj in self.kept.items() if (kind, home) == (resource, namespace)]

    def write(self, resource: str, operation: str, *, namespace: str = "ns", name: str = "", **options: Any) -> Admission:
        subresource, dry_run = options.get("subresource", ""), options.get("dry_run", False)
        where = (self.get, self.find_all, self.warnings.append)
        return Admission(User("jane"), operation, resource, subresource, namespace, name, dry_run, *where)

    def create(self, resource: str, obj: Obj, *, namespace: str = "ns", dry_run: bool = False) -> Admission:
        ctx = self.write(resource, "CREATE", namespace=namespace, dry_run=dry_run)
        admit(ctx, obj, None)
        validate(ctx, obj, None)
        return ctx

    def refusal(self, obj: Obj, resource: str = "/pods") -> str:
        """What somebody is told who may not create an object."""
        with pytest.raises(Forbidden) as caught:
            self.create(resource, obj)
        return caught.value.message

    def update(self, resource: str, obj: Obj, old: Obj, *, namespace: str = "ns") -> Admission:
        ctx = self.write(resource, "UPDATE", namespace=namespace, name=obj["metadata"]["name"])
        admit(ctx, obj, old)
        validate(ctx, obj, old)
        return ctx

    def delete(self, resource: str, name: str, *, namespace: str = "ns") -> Admission:
        ctx = self.write(resource, "DELETE", namespace=namespace, name=name)
        admit(ctx, {}, {"metadata": {"name": name}})
        return ctx


def pod(name: str = "p", *, resources: Obj | None = None, **spec: Any) -> Obj:
    container: Obj = {"name": "a", "image": "x"}
    if resources is not None:
        container["resources"] = resources
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
