"""The RBAC authorizer: who may do what, from Role, ClusterRole, RoleBinding and ClusterRoleBinding objects.

Bindings are indexed by subject, and the rules of a user in a namespace are remembered until one of those objects changes, so that
a question costs a look-up and a walk over that user's own rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sliceworks.base.errors import Forbidden
from sliceworks.twin.auth.rules import GROUP, Attributes, Rule, aggregate, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sliceworks.twin.auth.identity import User

ROLES = f"{GROUP}/roles"
CLUSTER_ROLES = f"{GROUP}/clusterroles"
ROLE_BINDINGS = f"{GROUP}/rolebindings"
CLUSTER_ROLE_BINDINGS = f"{GROUP}/clusterrolebindings"
RESOURCES = (CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)


class Decision(NamedTuple):
    """An answer, with the binding that allowed it, or the errors met on the way to no."""

    allowed: bool
    reason: str


class Lister(Protocol):
    """All objects of a resource, given as `group/plural`."""

    def __call__(self, resource: str, /) -> Iterable[Mapping[str, Any]]: ...


class Binding(NamedTuple):
    """A RoleBinding or ClusterRoleBinding; the namespace of the latter is empty."""

    namespace: str
    name: str
    role_kind: str
    role: str
    subjects: tuple[tuple[str, str], ...]
    shown: tuple[str, ...]

    def source(self, keys: Mapping[tuple[str, str], None]) -> str:
        """How it is named in the reason of a decision."""
        shown = next(text for key, text in zip(self.subjects, self.shown, strict=True) if key in keys)
        kind, name = ("RoleBinding", f"{self.name}/{self.namespace}") if self.namespace else ("ClusterRoleBinding", self.name)
        return f"{kind} {quoted(name)} of {self.role_kind} {quoted(self.role)} to {shown}"


class Grants(NamedTuple):
    """All that a user has in a namespace: rules with the binding each comes from, and the roles that bindings name in vain."""

    rules: tuple[tuple[Rule, Binding], ...]
    missing: tuple[tuple[str, str], ...]

    def error(self) -> str:
        """The roles that bindings name and that are not there (kind and name), in words; empty when there are none."""
        return aggregate(f"{kind.lower()}.{GROUP} {quoted(name)} not found" for kind, name in self.missing) if self.missing else ""


class Rbac:
    """Answers authorization questions. Feed it each change of its four resources with `observe`, or call `invalidate`."""

    def __init__(self, lister: Lister) -> None:
        self._lister = lister
        self._roles: dict[tuple[str, str], tuple[Rule, ...]] = {}
        self._bindings: dict[tuple[str, str], Binding] = {}
        self._by_subject: dict[tuple[str, tuple[str, str]], dict[str, Binding]] = {}
        self._grants: dict[tuple[str, tuple[str, ...], str], Grants] = {}
        self._loaded = False

    def authorize(self, asked: Attributes) -> Decision:
        """Whether the user may do what is asked."""
        user = asked.user
        if user.is_master:
            return Decision(True, "")
        grants = self.grants(user, asked.namespace)
        for rule, binding in grants.rules:
            if rule.allows(asked):
                return Decision(True, f"RBAC: allowed by {binding.source(_keys(user))}")
        return Decision(False, f"RBAC: {grants.error()}" if grants.missing else "")

    def require(self, asked: Attributes) -> None:
        """Raise Forbidden unless the user may do what is asked."""
        user = asked.user
        if user.is_master:
            return
        for rule, _ in self.grants(user, asked.namespace).rules:
            if rule.allows(asked):
                return
        raise forbidden(asked, self.authorize(asked).reason)

    def grants(self, user: User, namespace: str) -> Grants:
        """What a user has cluster-wide and in a namespace (cluster-wide alone when that is empty)."""
        key = (user.name, user.groups, namespace)
        found = self._grants.get(key)
        if found is None:
            if len(self._grants) > 4096:
                self._grants.clear()
            found = self._grants[key] = self._resolve(user, namespace)
        return found

    def role_rules(self, kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """The rules of a role that a binding in this namespace refers to; None when there is no such role."""
        self._load()
        return self._roles.get((namespace if kind == "Role" else "", name)) if kind in {"Role", "ClusterRole"} else None

    def invalidate(self) -> None:
        """Forget everything: it is read anew when it is next needed."""
        self._loaded = False
        self._grants.clear()

    def observe(self, resource: str, namespace: str, name: str, obj: Mapping[str, Any] | None) -> None:
        """Take in the newest state of one object of RESOURCES; None when it is gone."""
        if not self._loaded:
            return
        if resource in {ROLES, CLUSTER_ROLES}:
            if obj is None:
                self._roles.pop((namespace, name), None)
            else:
                self._roles[namespace, name] = _rules(obj)
        else:
            self._unbind(namespace, name)
            if obj is not None:
                self._bind(_binding(obj, namespace))
        self._grants.clear()

    def _load(self) -> None:
        if self._loaded:
            return
        self._loaded = True
        self._roles, self._bindings, self._by_subject = {}, {}, {}
        for resource in RESOURCES:
            for obj in self._lister(resource):
                metadata = obj["metadata"]
                self.observe(resource, metadata.get("namespace", ""), metadata["name"], obj)

    def _bind(self, binding: Binding) -> None:
        self._bindings[binding.namespace, binding.name] = binding
        for subject in binding.subjects:
            self._by_subject.setdefault((binding.namespace, subject), {})[binding.name] = binding

    def _unbind(self, namespace: str, name: str) -> None:
        binding = self._bindings.pop((namespace, name), None)
        for subject in binding.subjects if binding else ():
            left = self._by_subject.get((namespace, subject), {})
            left.pop(name, None)
            if not left:
                self._by_subject.pop((namespace, subject), None)

    def _resolve(self, user: User, namespace: str) -> Grants:
        self._load()
        rules: list[tuple[Rule, Binding]] = []
        missing: list[tuple[str, str]] = []
        for scope in ("", namespace) if namespace else ("",):
            found: dict[str, Binding] = {}
            for key in _keys(user):
                found.update(self._by_subject.get((scope, key), {}))
            for _, binding in sorted(found.items()):
                granted = self.role_rules(binding.role_kind, binding.namespace, binding.role)
                if granted is None:
                    missing.append((binding.role_kind, binding.role))
                else:
                    rules.extend((rule, binding) for rule in granted)
        return Grants(tuple(rules), tuple(missing))


def forbidden(asked: Attributes, reason: str = "") -> Forbidden:
    """The refusal, worded as kube-apiserver does."""
    said = f"User {quoted(asked.user.name)} cannot {asked.verb} "
    tail = f": {reason}" if reason else ""
    if asked.path:
        return Forbidden(f"forbidden: {said}path {quoted(asked.path)}{tail}", details={})
    resource = f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource
    scope = f"in the namespace {quoted(asked.namespace)}" if asked.namespace else "at the cluster scope"
    return refused(
        asked.group,
        asked.resource,
        asked.name,
        f"{said}resource {quoted(resource)} in API group {quoted(asked.group)} {scope}{tail}",
    )


def refused(group: str, resource: str, name: str, why: str) -> Forbidden:
    """`pods "x" is forbidden: why`, with the details that name the same."""
    qualified = f"{resource}.{group}" if group else resource
    details = {key: value for key, value in (("name", name), ("group", group), ("kind", resource)) if value}
    return Forbidden(
        f"{qualified} {quoted(name)} is forbidden: {why}" if name else f"{qualified} is forbidden: {why}", details=details
    )


def _keys(user: User) -> dict[tuple[str, str], None]:
    return {("User", user.name): None, **{("Group", group): None for group in user.groups}}


def _rules(role: Mapping[str, Any]) -> tuple[Rule, ...]:
    return tuple(Rule(raw) for raw in role.get("rules") or ())


def _binding(obj: Mapping[str, Any], namespace: str) -> Binding:
    subjects: list[tuple[str, str]] = []
    shown: list[str] = []
    for subject in obj.get("subjects") or ():
        kind, name = subject.get("kind", ""), subject.get("name", "")
        home = subject.get("namespace") or namespace
        if kind == "ServiceAccount" and home:
            subjects.append(("User", f"system:serviceaccount:{home}:{name}"))
            shown.append(f"{kind} {quoted(f'{name}/{home}')}")
        elif kind in {"User", "Group"}:
            subjects.append((kind, name))
            shown.append(f"{kind} {quoted(name)}")
    role = obj.get("roleRef") or {}
    return Binding(namespace, obj["metadata"]["name"], role.get("kind", ""), role.get("name", ""), tuple(subjects), tuple(shown))
