"""Custom resources for tests; each test has its own API group, so tests do not affect each other."""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.http import Api

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
Object = dict[str, Any]
_serial = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Custom:
    """A served custom resource."""

    group: str
    version: str
    kind: str
    plural: str

    @property
    def name(self) -> str:
        """The name of its CustomResourceDefinition."""
        return f"{self.plural}.{self.group}"

    @property
    def definition(self) -> str:
        """The path of its CustomResourceDefinition."""
        return f"{CRDS}/{self.name}"

    def at(self, ns: str = "", version: str = "") -> str:
        """The path of its collection."""
        root = f"/apis/{self.group}/{version or self.version}"
        return f"{root}/namespaces/{ns}/{self.plural}" if ns else f"{root}/{self.plural}"

    def object(self, name: str = "a", spec: Any = None, version: str = "", **top: Any) -> Object:
        """Build an object of this kind."""
        body = {"apiVersion": f"{self.group}/{version or self.version}", "kind": self.kind, "metadata": {"name": name}, **top}
        return body if spec is None else {**body, "spec": spec}


def simple(plural: str = "widgets", spec: Object | None = None, **version: Any) -> Object:
    """Build a definition with one version; `spec` is the schema of the spec, `version` has extra fields of the version."""
    open_spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties = {"spec": spec or open_spec, "status": open_spec}
    schema = {"openAPIV3Schema": {"type": "object", "properties": properties}}
    return definition(plural, [{"name": "v1", "served": True, "storage": True, "schema": schema, **version}])


def definition(plural: str, versions: list[Object], scope: str = "Namespaced", **names: Any) -> Object:
    """Build a definition with its own API group."""
    group = f"t{os.getpid()}x{next(_serial)}.example.com"
    kind = plural[:-1].capitalize()
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": scope, "names": {"plural": plural, "kind": kind, **names}, "versions": versions},
    }


def define(api: Api, body: Object) -> Custom:
    """Create a definition and wait until it is served."""
    api.post(CRDS, body).ok(201)
    spec = body["spec"]
    storage = next(version["name"] for version in spec["versions"] if version["served"])
    custom = Custom(spec["group"], storage, spec["names"]["kind"], spec["names"]["plural"])
    eventually(lambda: is_established(api, custom), what=f"{custom.name} is established")
    eventually(lambda: api.get(custom.at()).status == 200, what=f"{custom.name} is served")
    eventually(lambda: is_discovered(api, custom), what=f"{custom.name} can be found")
    return custom


def is_discovered(api: Api, custom: Custom) -> bool:
    """Whether the kind is listed in aggregated discovery, which another controller updates."""
    result = api.get(f"/apis/{custom.group}/{custom.version}")
    return result.status == 200 and custom.plural in {resource["name"] for resource in result.json["resources"]}


def is_established(api: Api, custom: Custom) -> bool:
    """Whether the definition has the condition Established."""
    conditions = api.get(custom.definition).ok(200).json["status"].get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)
