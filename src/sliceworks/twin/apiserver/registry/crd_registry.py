"""Serve custom resources: from CustomResourceDefinitions in the store to resources in the registry.

A definition is served once it is established. `crd_controller` writes its conditions, and deletes its custom resources before
it is deleted.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.imports import import_in_thread
from sliceworks.cel import rules
from sliceworks.schemas import crds
from sliceworks.schemas.validation import has_rules
from sliceworks.twin.apiserver.registry import crd_strategy
from sliceworks.twin.apiserver.registry.resources import Resource, Strategy, Subresource, Version, field_getter
from sliceworks.twin.apiserver.validation import crd
from sliceworks.twin.store.watch_cache import DELETED, Change

if TYPE_CHECKING:
    from sliceworks.schemas import Schema
    from sliceworks.schemas.field_errors import FieldError
    from sliceworks.twin.apiserver.registry.resources import Registry
    from sliceworks.twin.apiserver.request_info import Call
    from sliceworks.twin.store.store import Store

    Prepared = dict[str, Schema]

Obj = dict[str, Any]
KEY = "apiextensions.k8s.io/customresourcedefinitions"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
_SUBRESOURCE_VERBS = ("get", "patch", "update")
_RULES_PER_TURN = 8


class CrdRegistry:
    """Updates the registry when definitions in the store change."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self._store, self._registry = store, registry
        self._definitions: dict[str, Obj] = {}
        self._compiling = asyncio.Lock()

    def start(self) -> None:
        self._store.subscribe(self._observe, (KEY,))

    def _observe(self, change: Change) -> None:
        obj, name = change.obj, change.name
        if change.type == DELETED:
            self._definitions.pop(name, None)
            self._stop_serving(obj)
            return
        old, self._definitions[name] = self._definitions.get(name), obj
        if is_condition_true(obj, "Established") and (old is None or old["spec"] != obj["spec"] or not self._is_served(obj)):
            self._serve(obj, change.revision)

    def _is_served(self, definition: Obj) -> bool:
        spec = definition["spec"]
        return self._registry.get(spec["group"], spec["names"]["plural"]) is not None

    def _serve(self, definition: Obj, revision: int) -> None:
        resource = self.resource(definition)
        for version in resource.versions.values():
            version.since = revision
        self._registry.add(resource)
        # The schema may have changed: end watches, so that clients list again.
        self._store.close_watches(resource.key)

    def _stop_serving(self, definition: Obj) -> None:
        spec = definition["spec"]
        self._registry.remove(spec["group"], spec["names"]["plural"])
        self._store.close_watches(f"{spec['group']}/{spec['names']['plural']}")

    def resource(self, definition: Obj) -> Resource:
        """The resource that a definition describes."""
        spec = definition["spec"]
        kind_names = spec["names"]
        storage = _storage_version(definition)
        has_status = any("status" in (version.get("subresources") or {}) for version in spec["versions"])
        return Resource(
            group=spec["group"],
            kind=kind_names["kind"],
            plural=kind_names["plural"],
            singular=kind_names.get("singular", kind_names["kind"].lower()),
            list_kind=kind_names.get("listKind", kind_names["kind"] + "List"),
            namespaced=spec["scope"] == "Namespaced",
            versions={version["name"]: self._version(definition, version) for version in spec["versions"] if version.get("served")},
            storage_version=storage["name"],
            storage_hash=_storage_hash(spec["group"], storage["name"], kind_names["kind"]),
            strategy=Strategy(has_generation=True, allow_unconditional_update=False, has_status=has_status),
            short_names=tuple(kind_names.get("shortNames") or ()),
            categories=tuple(kind_names.get("categories") or ()),
            custom=True,
            conversion=_conversion_webhook(spec),
        )

    def is_terminating(self, resource: Resource) -> bool:
        """Whether the definition of a custom resource is being deleted: no more objects can be created."""
        definition = self._definitions.get(f"{resource.plural}.{resource.group}")
        return definition is not None and is_condition_true(definition, "Terminating")

    def storage_version(self, resource: Resource) -> Version:
        """The storage version of a custom resource."""
        return self.storage(self._definitions[f"{resource.plural}.{resource.group}"])

    def storage(self, definition: Obj) -> Version:
        """The storage version, which need not be served."""
        return self._version(definition, _storage_version(definition))

    def _version(self, definition: Obj, version: Obj) -> Version:
        subresources = version.get("subresources") or {}
        group, kind = definition["spec"]["group"], definition["spec"]["names"]["kind"]
        served: dict[str, Subresource] = {}
        paths: tuple[str, str, str] | None = None
        if "status" in subresources:
            served["status"] = Subresource("status", kind, _SUBRESOURCE_VERBS, group, version["name"])
        if "scale" in subresources:
            served["scale"] = Subresource("scale", "Scale", _SUBRESOURCE_VERBS, "autoscaling", "v1")
            scale = subresources["scale"]
            paths = (scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", ""))
        deprecation = version.get("deprecationWarning") or ""
        if version.get("deprecated") and not deprecation:
            deprecation = f"{group}/{version['name']} {kind} is deprecated"
        selectable = (field["jsonPath"].removeprefix(".") for field in version.get("selectableFields") or ())
        return Version(
            name=version["name"],
            schema=cache(partial(crds.schema_for_version, definition, version["name"])),
            subresources=served,
            verbs=_VERBS,
            deprecation=deprecation,
            printer_columns=version.get("additionalPrinterColumns") or [],
            selectable_fields={path: field_getter(path) for path in selectable},
            scale_paths=paths,
        )

    def group_versions(self) -> list[tuple[str, str]]:
        """The groups and versions that serve custom resources only."""
        tree = self._registry.versions()
        return [
            (group, version)
            for group, versions in tree.items()
            for version, resources in versions.items()
            if all(resource.custom for resource in resources)
        ]

    def builtin_group_versions(self) -> dict[str, list[str]]:
        """The groups and versions that serve a built-in kind."""
        tree = self._registry.versions()
        return {
            group: [version for version, resources in versions.items() if not all(resource.custom for resource in resources)]
            for group, versions in tree.items()
        }

    def definitions(self, group: str, version: str) -> list[Obj]:
        """The definitions of a group that serve a version."""
        return [
            definition
            for definition in self._definitions.values()
            if definition["spec"]["group"] == group and _has_version(definition, version) and self._is_served(definition)
        ]

    def has_served_version(self, group: str, version: str) -> bool:
        """Whether a definition of a group has a served version of this name, established or not."""
        suffix = f".{group}"
        return any(
            name.endswith(suffix) and definition["spec"]["group"] == group and _has_version(definition, version)
            for name, definition in self._definitions.items()
        )

    def fingerprint(self, group: str, version: str) -> str:
        """A string that changes with the definitions of a group and version."""
        metadata = [definition["metadata"] for definition in self.definitions(group, version)]
        return ",".join(f"{item['uid']}:{item.get('generation')}" for item in metadata)

    async def prepare(self, definition: Obj, old: Obj | None) -> Prepared:
        """The schemas of a definition by their paths, with their CEL rules compiled in steps."""
        prepared: Prepared = {}

        def collect(schema: Schema, path: str) -> list[FieldError]:
            prepared[path] = schema
            return []

        if b'"x-kubernetes-validations"' in orjson.dumps(definition["spec"]):
            crd.definition_errors(definition, old, collect)
        for schema in prepared.values():
            await self.compile_rules(schema)
        return prepared

    async def compile_rules(self, schema: Schema) -> None:
        """Compile the CEL rules of a schema in steps. The event loop runs between steps, and many schemas take turns."""
        if not has_rules(schema):
            return
        await import_in_thread("sliceworks.cel.environment")
        steps = rules.compile_steps(schema)
        for _ in steps:
            async with self._compiling:
                for _ in islice(steps, _RULES_PER_TURN):
                    pass
                await asyncio.sleep(0)

    def errors(self, call: Call, definition: Obj, old: Obj | None, prepared: Prepared) -> list[FieldError]:
        """Validation errors of a definition, including its CEL rules; warnings are added to the call."""

        def rule_errors(schema: Schema, path: str) -> list[FieldError]:
            return rules.compile_rules(prepared.get(path, schema), path)

        errors = crd.definition_errors(definition, old, rule_errors)
        if not errors:
            call.warnings += crd.definition_warnings(definition)
        return errors

    def mark_terminating(self, definition: Obj) -> None:
        """Keep a deleted definition until its custom resources are deleted, and set the condition Terminating."""
        finalizers = definition["metadata"].setdefault("finalizers", [])
        if FINALIZER not in finalizers:
            finalizers.append(FINALIZER)
        crd_strategy.set_condition(
            definition,
            {
                "type": "Terminating",
                "status": "True",
                "reason": "InstanceDeletionPending",
                "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
                "lastTransitionTime": clock.timestamp(),
            },
        )


def _has_version(definition: Obj, version: str) -> bool:
    return any(served["name"] == version and served.get("served") for served in definition["spec"]["versions"])


def _conversion_webhook(spec: Obj) -> Obj | None:
    conversion = spec.get("conversion") or {}
    return conversion.get("webhook") if conversion.get("strategy") == "Webhook" else None


def _storage_version(definition: Obj) -> Obj:
    return next(version for version in definition["spec"]["versions"] if version.get("storage"))


def _storage_hash(group: str, version: str, kind: str) -> str:
    return base64.b64encode(hashlib.sha256(f"{group}/{version}/{kind}".encode()).digest()[:8]).decode()
