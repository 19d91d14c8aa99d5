"""Custom resources: from a CustomResourceDefinition in the store to a resource in the registry, and back out.

A definition becomes served as soon as it is written. Its conditions are written by a second pass, as the real server's controllers
do, and its deletion first deletes what it defined.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import is_true
from sliceworks.schemas import crds
from sliceworks.twin.api.resources import Resource, Subresource, Version
from sliceworks.twin.api.strategies import Strategy, field_of
from sliceworks.twin.store.entries import DELETED, Change

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.schemas.field_errors import FieldError
    from sliceworks.schemas.structural import Schema
    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.api.core import Core

Obj = dict[str, Any]
KEY = "apiextensions.k8s.io/customresourcedefinitions"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_PART_VERBS = ("get", "patch", "update")


class Customs:
    """Keeps the registry in step with the definitions in the store."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._definitions: dict[str, Obj] = {}

    def start(self) -> None:
        self._core.store.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.resource != KEY:
            return
        obj, name = change.obj, change.name
        if change.type == DELETED:
            self._definitions.pop(name, None)
            self._unserve(obj)
            return
        old, self._definitions[name] = self._definitions.get(name), obj
        conditions = {item["type"]: item["status"] for item in (obj.get("status") or {}).get("conditions") or ()}
        accepted = conditions.get("Established") == "True"
        if accepted and (old is None or _differs(old, obj) or not self._served(obj)):
            self._serve(obj, change.revision)

    def _served(self, definition: Obj) -> bool:
        spec = definition["spec"]
        return self._core.registry.get(spec["group"], spec["names"]["plural"]) is not None

    def _serve(self, definition: Obj, revision: int) -> None:
        resource = self.resource(definition)
        for version in resource.versions.values():
            version.since = revision
        self._core.registry.add(resource)
        # What is watched may be shown differently now: clients start again and see it.
        self._core.store.close_watches(resource.key)

    def _unserve(self, definition: Obj) -> None:
        spec = definition["spec"]
        self._core.registry.remove(spec["group"], spec["names"]["plural"])
        self._core.store.close_watches(f"{spec['group']}/{spec['names']['plural']}")

    def resource(self, definition: Obj) -> Resource:
        """The resource that a definition describes."""
        spec = definition["spec"]
        accepted = spec["names"]
        storage = _stored(definition)
        has_status = any("status" in (version.get("subresources") or {}) for version in spec["versions"])
        selectable = {
            field["jsonPath"].removeprefix("."): field_of(field["jsonPath"].removeprefix("."))
            for version in spec["versions"]
            for field in version.get("selectableFields") or ()
        }
        return Resource(
            group=spec["group"],
            kind=accepted["kind"],
            plural=accepted["plural"],
            singular=accepted.get("singular", accepted["kind"].lower()),
            list_kind=accepted.get("listKind", accepted["kind"] + "List"),
            namespaced=spec["scope"] == "Namespaced",
            versions={item["name"]: self._version(definition, item) for item in spec["versions"] if item.get("served")},
            storage_version=storage["name"],
            storage_hash=_storage_hash(spec["group"], storage["name"], accepted["kind"]),
            strategy=Strategy(generation=True, unconditional_update=False, has_status=has_status, fields=selectable),
            short_names=tuple(accepted.get("shortNames") or ()),
            categories=tuple(accepted.get("categories") or ()),
            custom=True,
        )

    def is_terminating(self, resource: Resource) -> bool:
        """Whether a custom resource is on its way out: nothing of it is made any more."""
        definition = self._definitions.get(f"{resource.plural}.{resource.group}")
        return definition is not None and is_true(definition, "Terminating")

    def storage(self, definition: Obj) -> Version:
        """The version that instances are stored in, which need not be served."""
        return self._version(definition, _stored(definition))

    def _version(self, definition: Obj, version: Obj) -> Version:
        below = version.get("subresources") or {}
        group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
        served: dict[str, Subresource] = {}
        paths: tuple[str, str, str] | None = None
        if "status" in below:
            served["status"] = Subresource("status", kind, _PART_VERBS, group, version["name"])
        if "scale" in below:
            served["scale"] = Subresource("scale", "Scale", _PART_VERBS, "autoscaling", "v1")
            scale = below["scale"]
            paths = (scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", ""))
        deprecation = version.get("deprecationWarning") or ""
        if version.get("deprecated") and not deprecation:
            deprecation = f"{group}/{version['name']} {kind} is deprecated"
        return Version(
            name=version["name"],
            schema=self._schema(definition, version["name"]),
            subresources=served,
            verbs=_VERBS,
            deprecation=deprecation,
            printer_columns=version.get("additionalPrinterColumns") or [],
            scale_paths=paths,
        )

    def _schema(self, definition: Obj, version: str) -> Callable[[], Schema]:
        made: list[Schema] = []

        def schema() -> Schema:
            if not made:
                made.append(crds.schema_for_version(definition, version))
            return made[0]

        return schema

    def group_versions(self) -> list[tuple[str, str]]:
        """The groups and versions of custom resources that are served."""
        tree = self._core.registry.versions()
        return [
            (group, version)
            for group, versions in tree.items()
            for version, resources in versions.items()
            if all(resource.custom for resource in resources)
        ]

    def definitions(self, group: str, version: str) -> list[Obj]:
        """The definitions that serve something in a group and version."""
        return [
            definition
            for definition in self._definitions.values()
            if definition["spec"]["group"] == group
            and any(item["name"] == version and item.get("served") for item in definition["spec"]["versions"])
            and self._served(definition)
        ]

    def fingerprint(self, group: str, version: str) -> str:
        found = self.definitions(group, version)
        return ",".join(f"{item['metadata']['uid']}:{item['metadata'].get('generation')}" for item in found)

    def errors(self, call: Call, definition: Obj, old: Obj | None) -> list[FieldError]:
        """What is wrong with a definition, its CEL rules included; what is only odd becomes a warning."""
        from sliceworks.cel.rules import compile_rules

        found = crds.errors(definition, old, compile_rules)
        if not found:
            call.warnings += crds.warnings(definition)
        return found

    def mark_terminating(self, definition: Obj) -> None:
        """Hold a definition that is being deleted until its instances are gone, and say so in its status."""
        finalizers = definition["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        crds.set_condition(
            definition,
            {
                "type": "Terminating",
                "status": "True",
                "reason": "InstanceDeletionPending",
                "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
                "lastTransitionTime": clock.timestamp(),
            },
        )


def _stored(definition: Obj) -> Obj:
    return next(version for version in definition["spec"]["versions"] if version.get("storage"))


def _storage_hash(group: str, version: str, kind: str) -> str:
    return base64.b64encode(hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()[:8]).decode()


def _differs(old: Obj, new: Obj) -> bool:
    return bool(old["spec"] != new["spec"])
