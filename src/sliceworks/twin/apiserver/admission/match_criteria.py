"""Which writes a webhook or a policy applies to: rules, equivalent resources, selectors and match conditions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base.errors import NotFound
from sliceworks.kube.selectors import from_label_selector
from sliceworks.schemas.builtins import builtin_scheme
from sliceworks.twin.apiserver import codec, version_conversion
from sliceworks.twin.apiserver.auth.authentication import AUTHENTICATED, User
from sliceworks.twin.apiserver.auth.rbac import Attributes as AuthorizationAttributes
from sliceworks.twin.apiserver.auth.rbac import new_forbidden

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sliceworks.cel.admission import Bindings, Scope
    from sliceworks.cel.environment import Program
    from sliceworks.schemas import Schema
    from sliceworks.twin.apiserver.generic_server import ApiServer
    from sliceworks.twin.apiserver.registry.resources import Resource
    from sliceworks.twin.apiserver.request_info import Call

Obj = dict[str, Any]
_NAMESPACES = "/namespaces"


class Target(NamedTuple):
    """A resource in one version, and the kind of its objects or of the subresource's body."""

    resource: Resource
    version: str
    kind: tuple[str, str, str]
    """Group, version, kind."""

    def schema(self) -> Schema:
        """The schema of its objects. Raises KeyError if there is none."""
        group, version, kind = self.kind
        if self.resource.custom and kind == self.resource.kind:
            return self.resource.versions[self.version].schema()
        return builtin_scheme().schema(group, version, kind)

    def describe(self) -> tuple[Obj, Obj]:
        """`resource` and `kind` of an AdmissionRequest."""
        group, version, kind = self.kind
        resource = {"group": self.resource.group, "version": self.version, "resource": self.resource.plural}
        return resource, {"group": group, "version": version, "kind": kind}


@dataclass(slots=True, weakref_slot=True)
class WriteAttributes:
    """A write as webhooks and policies see it. `obj` is None for a deletion."""

    server: ApiServer
    call: Call
    operation: str
    obj: Obj | None
    old: Obj | None
    options: Obj | None
    target: Target = field(init=False)
    namespace: str = field(init=False)
    name: str = field(init=False)
    _versions: dict[Target, tuple[Obj | None, Obj | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        call = self.call
        self.target = Target(call.resource, call.version.name, _kind_of(call.resource, call.version.name, call.target.subresource))
        metadata = (self.obj or {}).get("metadata") or {}
        self.name = call.target.name or str(metadata.get("name") or "")
        self.namespace = self.name if call.resource.key == _NAMESPACES else call.namespace

    def set_object(self, obj: Obj) -> None:
        """Replace the object by what a webhook returned."""
        assert self.obj is not None
        self.obj.clear()
        self.obj.update(obj)
        self._versions.clear()

    def in_version(self, target: Target) -> tuple[Obj | None, Obj | None]:
        """The object and the old object in the version of a target."""
        if target == self.target:
            return self.obj, self.old
        if target not in self._versions:
            self._versions[target] = (self._converted(self.obj, target), self._converted(self.old, target))
        return self._versions[target]

    def _converted(self, obj: Obj | None, target: Target) -> Obj | None:
        if obj is None or target.kind == self.target.kind:
            return obj
        stored = codec.to_stored(self.call.resource, self.call.version, codec.deep_copy(obj))
        return version_conversion.from_storage(target.resource, stored, target.version)

    def from_version(self, obj: Obj, target: Target) -> Obj:
        """An object in the version of a target, in the version of the request."""
        if target.kind == self.target.kind:
            return obj
        stored = version_conversion.to_storage(target.resource, obj)
        return version_conversion.from_storage(self.call.resource, stored, self.target.version)

    def namespace_object(self) -> Mapping[str, Any] | None:
        """The namespace of the write; that of a namespace itself as it is written."""
        if not self.namespace:
            return None
        if self.call.resource.key == _NAMESPACES and self.operation in ("CREATE", "UPDATE"):
            return self.obj
        return self.server.view.get(_NAMESPACES, "", self.namespace)

    def review_request(self, target: Target, uid: str = "") -> Obj:
        """The `request` of an AdmissionReview."""
        obj, old = self.in_version(target)
        resource, kind = target.describe()
        request_resource, request_kind = self.target.describe()
        subresource = self.call.target.subresource
        request: Obj = {
            "uid": uid,
            "kind": kind,
            "resource": resource,
            "subResource": subresource,
            "requestKind": request_kind,
            "requestResource": request_resource,
            "requestSubResource": subresource,
            "name": self.name,
            "namespace": self.namespace,
            "operation": self.operation,
            "userInfo": self.call.user.info(),
        }
        request = {name: value for name, value in request.items() if value or name == "uid"}
        return {**request, "object": obj, "oldObject": old, "dryRun": self.call.dry_run, "options": self.options}

    def bindings(self, target: Target, *, namespaced: bool = False) -> Bindings:
        """The variables of expressions about this write; `namespaced` ones see the namespace of the object."""
        from sliceworks.cel.admission import bind

        obj, old = self.in_version(target)
        namespace = self.namespace_object() if namespaced and self.call.resource.key != _NAMESPACES else None
        return bind(self.review_request(target), obj, old, dict(namespace) if namespace else None, self._authorize)

    def _authorize(self, check: Mapping[str, str]) -> tuple[bool, str]:
        user = self.call.user
        if name := check.get("user"):
            namespace = name.split(":")[2]
            user = User(name, "", ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED))
        names = ("verb", "group", "resource", "subresource", "namespace", "name", "path")
        attributes = AuthorizationAttributes(user, **{name: check[name] for name in names if name in check})
        decision = self.server.rbac.authorize(attributes)
        return decision.allowed, decision.reason


def _kind_of(resource: Resource, version: str, subresource: str) -> tuple[str, str, str]:
    below = resource.versions[version].subresources.get(subresource) if version in resource.versions else None
    if below is None or subresource == "status":
        return resource.group, version, resource.kind
    return below.group or resource.group, below.version or version, below.kind


class MatchCriteria:
    """Rules, selectors and match conditions, parsed once."""

    def __init__(self, spec: Mapping[str, Any], rules: list[Obj], excluded: list[Obj] | None = None) -> None:
        self._rules, self._excluded = rules, excluded or []
        self._names_objects = any(rule.get("resourceNames") for rule in (*rules, *self._excluded))
        self._equivalent = spec.get("matchPolicy") != "Exact"
        self._namespaces = from_label_selector(spec.get("namespaceSelector") or {})
        self._objects = from_label_selector(spec.get("objectSelector") or {})
        self._selects_namespaces, self._selects_objects = bool(spec.get("namespaceSelector")), bool(spec.get("objectSelector"))
        self._found: dict[tuple[Any, ...], Target | None] = {}

    def find_target(self, attributes: WriteAttributes) -> Target | None:
        """The resource by which the write matches, as requested or in an equivalent version; None if it does not match."""
        call, registry = attributes.call, attributes.server.registry
        name = attributes.name if self._names_objects else ""
        what = (call.resource.key, attributes.target.version, call.target.subresource, name, bool(attributes.namespace))
        key = (registry.generation, attributes.operation, *what)
        if key not in self._found:
            if len(self._found) > 1000:
                self._found.clear()
            self._found[key] = self._find_by_rules(attributes)
        target = self._found[key]
        if target is None or not self._selected(attributes):
            return None
        return target

    def _find_by_rules(self, attributes: WriteAttributes) -> Target | None:
        if any(_rule_matches(rule, attributes, attributes.target) for rule in self._excluded):
            return None
        if any(_rule_matches(rule, attributes, attributes.target) for rule in self._rules):
            return attributes.target
        if not self._equivalent:
            return None
        others = [target for target in _equivalents(attributes) if target != attributes.target]
        if any(_rule_matches(rule, attributes, target) for rule in self._excluded for target in others):
            return None
        return next((target for rule in self._rules for target in others if _rule_matches(rule, attributes, target)), None)

    def _selected(self, attributes: WriteAttributes) -> bool:
        if self._selects_namespaces and attributes.namespace:
            namespace = attributes.namespace_object()
            if namespace is None:
                name = attributes.namespace
                raise NotFound(f'namespaces "{name}" not found', details={"name": name, "kind": "namespaces"})
            if not self._namespaces.matches((namespace.get("metadata") or {}).get("labels")):
                return False
        if not self._selects_objects:
            return True
        # The options of exec, attach, port-forward and proxy have no labels.
        objects = (obj for obj in (attributes.obj, attributes.old) if obj is not None and attributes.operation != "CONNECT")
        return any(self._objects.matches((obj.get("metadata") or {}).get("labels")) for obj in objects)


def _rule_matches(rule: Mapping[str, Any], attributes: WriteAttributes, target: Target) -> bool:
    resource = target.resource
    scope, is_cluster = rule.get("scope") or "*", not attributes.namespace or resource.key == _NAMESPACES
    if scope == ("Namespaced" if is_cluster else "Cluster"):
        return False
    names = rule.get("resourceNames")
    if names and attributes.name not in names:
        return False
    return (
        _covers(rule.get("operations"), attributes.operation)
        and _covers(rule.get("apiGroups"), resource.group)
        and _covers(rule.get("apiVersions"), target.version)
        and any(_resource_covers(item, resource.plural, attributes.call.target.subresource) for item in rule.get("resources") or ())
    )


def _covers(values: list[str] | None, value: str) -> bool:
    return values is not None and ("*" in values or value in values)


def _resource_covers(item: str, plural: str, subresource: str) -> bool:
    resource, _, below = item.partition("/")
    return resource in ("*", plural) and below in ("*", subresource)


def _equivalents(attributes: WriteAttributes) -> Iterator[Target]:
    """All versions of the resource, and of other resources with the same stored objects."""
    call = attributes.call
    subresource = call.target.subresource
    for resource in attributes.server.registry:
        if resource.storage_key == call.resource.storage_key:
            for name, version in resource.versions.items():
                if not subresource or subresource in version.subresources:
                    yield Target(resource, name, _kind_of(resource, name, subresource))


class MatchConditions:
    """CEL conditions, all of which must be true; compiled at first use."""

    def __init__(self, conditions: list[Obj], scope: Scope, failure_policy: str) -> None:
        self._conditions, self._scope, self._failure_policy = conditions, scope, failure_policy

    @cached_property
    def _programs(self) -> list[Program]:
        return [self._scope.compile(condition["expression"].strip()) for condition in self._conditions]

    def hold(self, bindings: Bindings) -> bool:
        """Whether no condition is false. Raises EvaluationError by the failure policy if one fails and none is false."""
        from sliceworks.cel.engine import EvaluationError

        errors: list[str] = []
        for condition, program in zip(self._conditions, self._programs, strict=True):
            try:
                if bindings.run(program) is not True:
                    return False
            except EvaluationError as error:
                errors.append(f"expression '{condition['expression'].strip()}' resulted in error: {error}")
        if errors and self._failure_policy != "Ignore":
            raise EvaluationError(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        return not errors


def conditions_hold(conditions: MatchConditions | None, attributes: WriteAttributes, target: Target) -> bool:
    """Whether the match conditions hold. Raises Forbidden if they cannot be evaluated."""
    from sliceworks.cel.engine import EvaluationError

    if conditions is None:
        return True
    try:
        return conditions.hold(attributes.bindings(target))
    except EvaluationError as error:
        resource = attributes.call.resource
        raise new_forbidden(resource.group, resource.plural, attributes.name, str(error)) from error
