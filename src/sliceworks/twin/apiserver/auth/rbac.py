"""The RBAC authorizer: policy rules, bindings and decisions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sliceworks.base.errors import Forbidden
from sliceworks.schemas.field_errors import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from sliceworks.twin.apiserver.auth.authentication import User


GROUP = "rbac.authorization.k8s.io"
ROLES = f"{GROUP}/roles"
CLUSTER_ROLES = f"{GROUP}/clusterroles"
ROLE_BINDINGS = f"{GROUP}/rolebindings"
CLUSTER_ROLE_BINDINGS = f"{GROUP}/clusterrolebindings"
RESOURCES = (CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS)


class Attributes(NamedTuple):
    """The attributes of a request. A non-resource request has a `path` and no resource."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Rule:
    """A parsed PolicyRule."""

    __slots__ = ("groups", "names", "resources", "urls", "verbs")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.verbs: tuple[str, ...] = tuple(raw.get("verbs") or ())
        self.groups: tuple[str, ...] = tuple(raw.get("apiGroups") or ())
        self.resources: tuple[str, ...] = tuple(raw.get("resources") or ())
        self.names: tuple[str, ...] = tuple(raw.get("resourceNames") or ())
        self.urls: tuple[str, ...] = tuple(raw.get("nonResourceURLs") or ())

    def allows(self, attributes: Attributes) -> bool:
        verbs = self.verbs
        if attributes.verb not in verbs and "*" not in verbs:
            return False
        if attributes.path:
            return any(_url_covers(url, attributes.path) for url in self.urls)
        groups = self.groups
        if attributes.group not in groups and "*" not in groups:
            return False
        if self.names and attributes.name not in self.names:
            return False
        return self.has_resource(
            f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
        )

    def covers(self, part: Rule) -> bool:
        """Whether this rule alone grants all of `part`."""
        return (
            _has_all(self.verbs, part.verbs)
            and _has_all(self.groups, part.groups)
            and all(self.has_resource(resource) for resource in part.resources)
            and (not self.names or (bool(part.names) and set(part.names) <= set(self.names)))
            and all(any(_url_covers(pattern, url) for pattern in self.urls) for url in part.urls)
        )

    def has_resource(self, resource: str) -> bool:
        """Whether the rule covers a resource or subresource."""
        resources = self.resources
        if "*" in resources or resource in resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in resources

    def __str__(self) -> str:
        """The rule as Kubernetes prints it in escalation errors."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{title}:{format_go_list(values)}" for title, values in parts if values) + "}"


class RuleIndex:
    """Rules by their verbs, groups, resources and names, so that a rule is compared with few others."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        self.comparisons = 0
        """How many rules `candidates` has returned."""
        self._by_value: dict[tuple[str, str], list[int]] = {}
        for number, rule in enumerate(rules):
            dimensions = (
                ("verb", rule.verbs),
                ("group", rule.groups),
                ("resource", rule.resources),
                ("name", rule.names or ("*",)),
            )
            for dimension, values in dimensions:
                for value in set(values):
                    self._by_value.setdefault((dimension, value), []).append(number)

    def candidates(self, verbs: Iterable[str], group: str, resource: str, name: str) -> list[Rule]:
        """All rules that may grant one of these verbs, and some others; empty strings stand for any value."""
        shortest: list[list[int]] | None = None
        resources = [resource, "*", f"*/{resource.partition('/')[2]}"] if resource else []
        choices = [("resource", resources), ("name", [name, "*"] if name else []), ("group", [group, "*"] if group else [])]
        for dimension, values in [*choices, *(("verb", [verb, "*"]) for verb in verbs)]:
            lists = [self._by_value.get((dimension, value), []) for value in dict.fromkeys(values)]
            if lists and (shortest is None or sum(map(len, lists)) < sum(map(len, shortest))):
                shortest = lists
        rules = list(self._rules) if shortest is None else [self._rules[number] for numbers in shortest for number in numbers]
        self.comparisons += len(rules) + 1
        return rules

    def covers(self, rule: Rule) -> bool:
        """Whether one rule alone grants all of `rule`."""
        first_group, first_resource = (next(iter(values), "") for values in (rule.groups, rule.resources))
        # One verb is enough: a rule that grants all grants it too.
        candidates = self.candidates(rule.verbs[:1], first_group, first_resource, next(iter(rule.names), ""))
        return any(own_rule.covers(rule) for own_rule in candidates)


def uncovered_rules(owned: Sequence[Rule], granted: Iterable[Rule]) -> list[str]:
    """The permissions in `granted` that `owned` does not cover, as strings; verbs of one resource are joined.

    Rules beyond a number of comparisons count as not covered: they would block the process.
    """
    index = RuleIndex(owned)
    missing: dict[tuple[Any, ...], list[str]] = {}
    uncovered: set[str] = set()
    combinations = 0
    for rule in granted:
        if index.comparisons > _MAX_COMPARISONS:
            uncovered.add(str(rule))
            continue
        if index.covers(rule):
            continue
        parts_count = len(rule.groups) * len(rule.resources) * max(len(rule.names), 1) + len(rule.urls)
        combinations += parts_count * len(rule.verbs)
        if combinations > _MAX_COMBINATIONS:
            uncovered.add(str(rule))  # to list its parts would take too long
            continue
        for key, verbs in _uncovered_resources(index, rule):
            missing.setdefault(key, []).extend(verbs)
        # Kubernetes joins verbs for resources, but not for URLs.
        parts = (_rule(verbs=(verb,), nonResourceURLs=(url,)) for url in rule.urls for verb in rule.verbs)
        uncovered |= {str(part) for part in parts if index.comparisons > _MAX_COMPARISONS or not index.covers(part)}
    for (group, resource, names), verbs in missing.items():
        uncovered.add(str(_rule(verbs=verbs, apiGroups=(group,), resources=(resource,), resourceNames=names)))
    return sorted(uncovered)


_MAX_COMBINATIONS = 50_000
_MAX_COMPARISONS = 300_000


def _uncovered_resources(index: RuleIndex, rule: Rule) -> Iterator[tuple[tuple[str, str, tuple[str, ...]], list[str]]]:
    """Group, resource and name with the verbs that no owned rule covers."""
    names_lists: list[tuple[str, ...]] = [(name,) for name in rule.names] or [()]
    for group in rule.groups:
        for resource in rule.resources:
            for names in names_lists:
                held: set[str] = set()
                if index.comparisons <= _MAX_COMPARISONS:
                    held = _held_verbs(index, group, resource, names)
                if "*" not in held and (verbs := [verb for verb in rule.verbs if verb not in held]):
                    yield (group, resource, names), verbs


def _held_verbs(index: RuleIndex, group: str, resource: str, names: tuple[str, ...]) -> set[str]:
    return {
        verb
        for own_rule in index.candidates((), group, resource, names[0] if names else "")
        if _has_all(own_rule.groups, (group,)) and own_rule.has_resource(resource)
        if not own_rule.names or (names and names[0] in own_rule.names)
        for verb in own_rule.verbs
    }


def format_go_list(values: Iterable[str]) -> str:
    """Strings as Go prints a list of them: `["a" "b"]`."""
    return "[" + " ".join(quoted(value) for value in values) + "]"


def aggregate_errors(messages: Iterable[str]) -> str:
    """Several errors as one message: `a`, or `[a, b]`."""
    unique = list(dict.fromkeys(messages))
    return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"


def _rule(**raw: Any) -> Rule:
    return Rule(raw)


def _has_all(owned: tuple[str, ...], values: tuple[str, ...]) -> bool:
    return "*" in owned or all(value in owned for value in values)


def _url_covers(pattern: str, url: str) -> bool:
    return pattern in (url, "*") or (pattern.endswith("*") and url.startswith(pattern.rstrip("*")))


class Decision(NamedTuple):
    """A decision, with the binding that allows it or the errors of a denial."""

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
    subject_names: tuple[str, ...]

    def source(self, keys: Mapping[tuple[str, str], None]) -> str:
        """The binding in the reason of a decision."""
        subject = next(name for key, name in zip(self.subjects, self.subject_names, strict=True) if key in keys)
        kind, name = ("RoleBinding", f"{self.name}/{self.namespace}") if self.namespace else ("ClusterRoleBinding", self.name)
        return f"{kind} {quoted(name)} of {self.role_kind} {quoted(self.role)} to {subject}"


class Grants(NamedTuple):
    """All rules of a user in a namespace with their bindings, and the missing roles of bindings."""

    rules: tuple[tuple[Rule, Binding], ...]
    missing: tuple[tuple[str, str], ...]

    def error(self) -> str:
        """The error for missing roles; empty if there are none."""
        errors = [f"{kind.lower()}.{GROUP} {quoted(name)} not found" for kind, name in self.missing]
        return aggregate_errors(errors) if errors else ""


class Rbac:
    """The RBAC authorizer. Report changes of its four resources with `observe`, or call `invalidate`."""

    def __init__(self, lister: Lister) -> None:
        self._lister = lister
        self._roles: dict[tuple[str, str], tuple[Rule, ...]] = {}
        self._bindings: dict[tuple[str, str], Binding] = {}
        self._by_subject: dict[tuple[str, tuple[str, str]], dict[str, Binding]] = {}
        self._grants: dict[tuple[str, tuple[str, ...], str], Grants] = {}
        self._loaded = False

    def authorize(self, attributes: Attributes) -> Decision:
        """Whether the user may perform the request."""
        user = attributes.user
        if user.is_master:
            return Decision(True, "")
        grants = self.grants(user, attributes.namespace)
        for rule, binding in grants.rules:
            if rule.allows(attributes):
                return Decision(True, f"RBAC: allowed by {binding.source(_keys(user))}")
        return Decision(False, f"RBAC: {grants.error()}" if grants.missing else "")

    def require(self, attributes: Attributes) -> None:
        """Raise Forbidden unless the user may perform the request."""
        user = attributes.user
        if user.is_master:
            return
        for rule, _ in self.grants(user, attributes.namespace).rules:
            if rule.allows(attributes):
                return
        raise forbidden(attributes, self.authorize(attributes).reason)

    def grants(self, user: User, namespace: str) -> Grants:
        """The rules of a user cluster-wide and in a namespace, if one is given."""
        key = (user.name, user.groups, namespace)
        grants = self._grants.get(key)
        if grants is None:
            if len(self._grants) > 4096:
                self._grants.clear()
            grants = self._grants[key] = self._resolve(user, namespace)
        return grants

    def role_rules(self, kind: str, namespace: str, name: str) -> tuple[Rule, ...] | None:
        """The rules of a role that a binding in this namespace references; None if it does not exist."""
        self._load()
        return self._roles.get((namespace if kind == "Role" else "", name)) if kind in {"Role", "ClusterRole"} else None

    def invalidate(self) -> None:
        """Drop the cache; roles and bindings are listed again on next use."""
        self._loaded = False
        self._grants.clear()

    def observe(self, resource: str, namespace: str, name: str, obj: Mapping[str, Any] | None) -> None:
        """Update the cache with an object of RESOURCES; None for a deleted one."""
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
            bindings = self._by_subject.get((namespace, subject), {})
            bindings.pop(name, None)
            if not bindings:
                self._by_subject.pop((namespace, subject), None)

    def _resolve(self, user: User, namespace: str) -> Grants:
        self._load()
        rules: list[tuple[Rule, Binding]] = []
        missing: list[tuple[str, str]] = []
        for scope in ("", namespace) if namespace else ("",):
            bindings: dict[str, Binding] = {}
            for key in _keys(user):
                bindings.update(self._by_subject.get((scope, key), {}))
            for _, binding in sorted(bindings.items()):
                granted = self.role_rules(binding.role_kind, binding.namespace, binding.role)
                if granted is None:
                    missing.append((binding.role_kind, binding.role))
                else:
                    rules.extend((rule, binding) for rule in granted)
        return Grants(tuple(rules), tuple(missing))


def forbidden(attributes: Attributes, reason: str = "") -> Forbidden:
    """The error for a denied request, in kube-apiserver's words."""
    start = f"User {quoted(attributes.user.name)} cannot {attributes.verb} "
    tail = f": {reason}" if reason else ""
    if attributes.path:
        return Forbidden(f"forbidden: {start}path {quoted(attributes.path)}{tail}", details={})
    resource = f"{attributes.resource}/{attributes.subresource}" if attributes.subresource else attributes.resource
    scope = f"in the namespace {quoted(attributes.namespace)}" if attributes.namespace else "at the cluster scope"
    return new_forbidden(
        attributes.group,
        attributes.resource,
        attributes.name,
        f"{start}resource {quoted(resource)} in API group {quoted(attributes.group)} {scope}{tail}",
    )


def new_forbidden(group: str, resource: str, name: str, reason: str) -> Forbidden:
    """`pods "x" is forbidden: reason`, with matching details."""
    qualified = f"{resource}.{group}" if group else resource
    details = {key: value for key, value in (("name", name), ("group", group), ("kind", resource)) if value}
    return Forbidden(
        f"{qualified} {quoted(name)} is forbidden: {reason}" if name else f"{qualified} is forbidden: {reason}", details=details
    )


def _keys(user: User) -> dict[tuple[str, str], None]:
    return {("User", user.name): None, **{("Group", group): None for group in user.groups}}


def _rules(role: Mapping[str, Any]) -> tuple[Rule, ...]:
    return tuple(Rule(raw) for raw in role.get("rules") or ())


def _binding(obj: Mapping[str, Any], namespace: str) -> Binding:
    subjects: list[tuple[str, str]] = []
    names: list[str] = []
    for subject in obj.get("subjects") or ():
        kind, name = subject.get("kind", ""), subject.get("name", "")
        account_namespace = subject.get("namespace") or namespace
        if kind == "ServiceAccount" and account_namespace:
            subjects.append(("User", f"system:serviceaccount:{account_namespace}:{name}"))
            names.append(f"{kind} {quoted(f'{name}/{account_namespace}')}")
        elif kind in {"User", "Group"}:
            subjects.append((kind, name))
            names.append(f"{kind} {quoted(name)}")
    role = obj.get("roleRef") or {}
    return Binding(namespace, obj["metadata"]["name"], role.get("kind", ""), role.get("name", ""), tuple(subjects), tuple(names))
