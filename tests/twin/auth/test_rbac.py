"""RBAC: rules, decisions, error messages and cache updates."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from sliceworks.base.errors import Forbidden, NotFound
from sliceworks.twin.apiserver.auth import escalation
from sliceworks.twin.apiserver.auth.authentication import ANONYMOUS, User, service_account
from sliceworks.twin.apiserver.auth.rbac import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    ROLE_BINDINGS,
    ROLES,
    Attributes,
    Rbac,
    Rule,
    RuleIndex,
    forbidden,
    uncovered_rules,
)
from sliceworks.twin.apiserver.bootstrap import aggregated_rules, bootstrap_policy, parse_rule

if TYPE_CHECKING:
    from collections.abc import Mapping

_JOE = User("joe", groups=("system:authenticated",))
_AMY = User("amy", groups=("system:authenticated",))


def role(name: str, *rules: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "rules": [parse_rule(text) for text in rules], **fields}


def binding(name: str, target: str, *subjects: dict[str, str], namespace: str = "", kind: str = "ClusterRole") -> dict[str, Any]:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": target}
    return {"metadata": {"name": name, "namespace": namespace}, "roleRef": ref, "subjects": list(subjects)}


def user_subject(name: str) -> dict[str, str]:
    return {"kind": "User", "name": name}


class Objects:
    """The RBAC objects of a cluster, which tests may change."""

    def __init__(self) -> None:
        self.kept: dict[str, list[dict[str, Any]]] = {ROLES: [], CLUSTER_ROLES: [], ROLE_BINDINGS: [], CLUSTER_ROLE_BINDINGS: []}
        self.rbac = Rbac(self.kept.__getitem__)

    def add(self, resource: str, obj: dict[str, Any]) -> None:
        self.kept[resource].append(obj)
        self.rbac.observe(resource, obj["metadata"].get("namespace", ""), obj["metadata"]["name"], obj)


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.mark.parametrize(
    ("text", "attributes", "allowed"),
    [
        ("get on pods", {"verb": "get", "resource": "pods"}, True),
        ("get on pods", {"verb": "list", "resource": "pods"}, False),
        ("get on pods", {"verb": "get", "resource": "pods", "subresource": "log"}, False),
        ("get on pods/log", {"verb": "get", "resource": "pods", "subresource": "log"}, True),
        ("get on */scale in *", {"verb": "get", "group": "apps", "resource": "deployments", "subresource": "scale"}, True),
        ("get on */scale in *", {"verb": "get", "group": "apps", "resource": "deployments"}, False),
        ("* on * in *", {"verb": "x", "group": "y", "resource": "z", "subresource": "s"}, True),
        ("get on pods in apps", {"verb": "get", "resource": "pods"}, False),
        ("get on pods named a,b", {"verb": "get", "resource": "pods", "name": "b"}, True),
        ("get on pods named a,b", {"verb": "get", "resource": "pods", "name": "c"}, False),
        ("get on pods named a", {"verb": "list", "resource": "pods"}, False),
        ("get on /healthz", {"verb": "get", "path": "/healthz"}, True),
        ("get on /apis/*", {"verb": "get", "path": "/apis/apps/v1"}, True),
        ("get on /apis/*", {"verb": "get", "path": "/apis"}, False),
        ("get on *", {"verb": "get", "path": "/metrics"}, True),
        ("get on * in *", {"verb": "get", "path": "/metrics"}, False),
    ],
)
def test_rule_allows(text: str, attributes: dict[str, str], allowed: bool) -> None:
    assert Rule(parse_rule(text)).allows(Attributes(_JOE, **attributes)) is allowed


def test_scope_of_cluster_role_bindings_and_role_bindings(objects: Objects) -> None:
    objects.add(CLUSTER_ROLES, role("reader", "get on pods"))
    objects.add(CLUSTER_ROLE_BINDINGS, binding("all", "reader", user_subject("amy")))
    objects.add(ROLE_BINDINGS, binding("some", "reader", user_subject("joe"), namespace="a"))
    requested = Attributes(_JOE, "get", resource="pods", namespace="a", name="x")
    assert objects.rbac.authorize(requested) == (
        True,
        'RBAC: allowed by RoleBinding "some/a" of ClusterRole "reader" to User "joe"',
    )
    assert not objects.rbac.authorize(requested._replace(namespace="b")).allowed
    assert not objects.rbac.authorize(requested._replace(namespace="")).allowed
    seen = objects.rbac.authorize(requested._replace(user=_AMY, namespace="b"))
    assert seen == (True, 'RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "reader" to User "amy"')


def test_service_account_and_group_subjects(objects: Objects) -> None:
    objects.add(ROLES, role("r", "get on pods", namespace="a"))
    objects.add(ROLE_BINDINGS, binding("b", "r", {"kind": "ServiceAccount", "name": "sa"}, namespace="a", kind="Role"))
    objects.add(CLUSTER_ROLES, role("c", "get on nodes"))
    objects.add(CLUSTER_ROLE_BINDINGS, binding("g", "c", {"kind": "Group", "name": "system:serviceaccounts:a"}))
    user = service_account("a", "sa")
    seen = objects.rbac.authorize(Attributes(user, "get", resource="pods", namespace="a"))
    assert seen.reason == 'RBAC: allowed by RoleBinding "b/a" of Role "r" to ServiceAccount "sa/a"'
    assert objects.rbac.authorize(Attributes(user, "get", resource="nodes")).allowed
    assert not objects.rbac.authorize(Attributes(service_account("b", "sa"), "get", resource="nodes")).allowed


def test_changes_update_the_cache(objects: Objects) -> None:
    requested = Attributes(_JOE, "get", resource="pods")
    objects.add(CLUSTER_ROLES, role("reader", "get on pods"))
    assert not objects.rbac.authorize(requested).allowed
    objects.add(CLUSTER_ROLE_BINDINGS, binding("b", "reader", user_subject("joe")))
    assert objects.rbac.authorize(requested).allowed
    objects.rbac.observe(CLUSTER_ROLES, "", "reader", role("reader", "list on pods"))
    assert not objects.rbac.authorize(requested).allowed
    objects.rbac.observe(CLUSTER_ROLE_BINDINGS, "", "b", None)
    assert not objects.rbac.authorize(requested._replace(verb="list")).allowed
    objects.rbac.invalidate()
    assert objects.rbac.authorize(requested).allowed


def test_system_masters_are_always_allowed(objects: Objects) -> None:
    requested = Attributes(User("root", groups=("system:masters",)), "eat", resource="everything")
    assert objects.rbac.authorize(requested) == (True, "")
    objects.rbac.require(requested)


def test_missing_roles_are_reported(objects: Objects) -> None:
    objects.add(CLUSTER_ROLE_BINDINGS, binding("c", "nope2", user_subject("joe")))
    objects.add(ROLE_BINDINGS, binding("rb1", "nope", user_subject("joe"), namespace="g1"))
    objects.add(ROLE_BINDINGS, binding("rb2", "nope", user_subject("joe"), namespace="g1", kind="Role"))
    with pytest.raises(Forbidden) as caught:
        objects.rbac.require(Attributes(_JOE, "list", resource="pods", namespace="g1"))
    assert caught.value.message == (
        'pods is forbidden: User "joe" cannot list resource "pods" in API group "" in the namespace "g1": RBAC: '
        '[clusterrole.rbac.authorization.k8s.io "nope2" not found, clusterrole.rbac.authorization.k8s.io "nope" not found, '
        'role.rbac.authorization.k8s.io "nope" not found]'
    )
    with pytest.raises(Forbidden, match=r'at the cluster scope: RBAC: clusterrole.rbac.authorization.k8s.io "nope2" not found$'):
        objects.rbac.require(Attributes(_JOE, "list", resource="nodes"))


@pytest.mark.parametrize(
    ("attributes", "message", "details"),
    [
        (
            Attributes(_JOE, "get", "apps", "v1", "deployments", "scale", "x", "foo"),
            (
                'deployments.apps "foo" is forbidden: User "joe" cannot get resource "deployments/scale" in API group "apps" '
                'in the namespace "x"'
            ),
            {"name": "foo", "group": "apps", "kind": "deployments"},
        ),
        (
            Attributes(_JOE, "delete", "", "v1", "nodes", "", "", "n1"),
            'nodes "n1" is forbidden: User "joe" cannot delete resource "nodes" in API group "" at the cluster scope',
            {"name": "n1", "kind": "nodes"},
        ),
        (Attributes(ANONYMOUS, "get", path="/api"), 'forbidden: User "system:anonymous" cannot get path "/api"', {}),
    ],
)
def test_forbidden_messages(attributes: Attributes, message: str, details: dict[str, str]) -> None:
    refused = forbidden(attributes)
    assert refused.message == message
    assert refused.status().get("details") == details


@pytest.fixture
def binder(objects: Objects) -> Rbac:
    """Amy may write RBAC objects and has no other permissions."""
    kinds = "roles,rolebindings,clusterroles,clusterrolebindings in rbac.authorization.k8s.io"
    objects.add(CLUSTER_ROLES, role("binder", f"create,update,patch,get on {kinds}"))
    objects.add(CLUSTER_ROLE_BINDINGS, binding("amy", "binder", user_subject("amy")))
    objects.add(CLUSTER_ROLES, role("pods", "get,list on pods", "get,list on deployments/scale in apps"))
    objects.add(CLUSTER_ROLES, role("logs", "get on /logs/*"))
    objects.add(CLUSTER_ROLES, role("binds", "bind on clusterroles in rbac.authorization.k8s.io named pods"))
    objects.add(CLUSTER_ROLES, role("escalates", "escalate on roles in rbac.authorization.k8s.io"))
    objects.add(ROLE_BINDINGS, binding("bo-1", "binds", user_subject("bo"), namespace="g1"))
    objects.add(ROLE_BINDINGS, binding("bo-2", "escalates", user_subject("bo"), namespace="g1"))
    return objects.rbac


def test_role_cannot_grant_more_than_its_author_has(binder: Rbac) -> None:
    new = {
        "metadata": {"name": "pods"},
        "rules": [parse_rule("create,* on roles,q in core,x named m,n")],
    }
    with pytest.raises(Forbidden) as caught:
        escalation.check(binder, escalation.Write(_AMY, "clusterroles", "", "pods"), new, role("pods"))
    lines = caught.value.message.split("\n")
    assert lines[0] == (
        'clusterroles.rbac.authorization.k8s.io "pods" is forbidden: user "amy" (groups=["system:authenticated"]) '
        "is attempting to grant RBAC permissions not currently held:"
    )
    assert lines[1] == '{APIGroups:[""], Resources:["q"], ResourceNames:["m"], Verbs:["create" "*"]}'
    assert len(lines) == 9
    assert caught.value.details == {"name": "pods", "group": "rbac.authorization.k8s.io", "kind": "clusterroles"}
    escalation.check(
        binder,
        escalation.Write(_AMY, "roles", "g1", ""),
        role("ok", "create on roles in rbac.authorization.k8s.io", namespace="g1"),
    )


def test_binding_cannot_grant_more_than_its_author_has(binder: Rbac) -> None:
    with pytest.raises(Forbidden) as caught:
        escalation.check(
            binder, escalation.Write(_AMY, "rolebindings", "g1", "b1"), binding("b1", "pods", user_subject("z"), namespace="g1")
        )
    assert caught.value.message.endswith(
        'not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}\n'
        '{APIGroups:["apps"], Resources:["deployments/scale"], Verbs:["get" "list"]}'
    )
    with pytest.raises(Forbidden, match=r'\{NonResourceURLs:\["/logs/\*"\], Verbs:\["get"\]\}$'):
        escalation.check(binder, escalation.Write(_AMY, "clusterrolebindings", "", "b1"), binding("b1", "logs", user_subject("z")))
    with pytest.raises(NotFound, match=r'^rolebindings.rbac.authorization.k8s.io "missing" not found$'):
        escalation.check(binder, escalation.Write(_AMY, "rolebindings", "g1", "b1"), binding("b1", "missing", user_subject("z")))


def test_bind_and_escalate_verbs_skip_the_checks(binder: Rbac) -> None:
    bo = User("bo")
    escalation.check(
        binder, escalation.Write(bo, "rolebindings", "g1", "b"), binding("b", "pods", user_subject("z"), namespace="g1")
    )
    escalation.check(binder, escalation.Write(bo, "roles", "g1", "r"), role("r", "* on * in *", namespace="g1"))
    with pytest.raises(Forbidden):
        escalation.check(binder, escalation.Write(bo, "clusterrolebindings", "", "b"), binding("b", "pods", user_subject("z")))
    escalation.check(
        binder, escalation.Write(User("root", groups=("system:masters",)), "clusterroles", "", "r"), role("r", "* on * in *")
    )


def test_aggregation_rule_needs_cluster_admin(binder: Rbac) -> None:
    gathering = role("agg1", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    with pytest.raises(Forbidden, match=r'"agg1" is forbidden: must have cluster-admin privileges to use the aggregationRule$'):
        escalation.check(binder, escalation.Write(_AMY, "clusterroles", "", "agg1"), gathering)


def test_finalizer_update_is_not_an_escalation(binder: Rbac) -> None:
    old = role("big", "* on * in *")
    new = {**old, "metadata": {**old["metadata"], "finalizers": ["x"]}}
    escalation.check(binder, escalation.Write(_AMY, "clusterroles", "", "big"), new, old)


def test_bootstrap_policy() -> None:
    objects = Objects()
    plural = {
        "ClusterRole": CLUSTER_ROLES,
        "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
        "Role": ROLES,
        "RoleBinding": ROLE_BINDINGS,
    }
    for obj in bootstrap_policy():
        objects.add(plural[obj["kind"]], obj)
    assert {kind.rpartition("/")[2]: len(kept) for kind, kept in objects.kept.items()} == {
        "roles": 7,
        "clusterroles": 68,
        "rolebindings": 7,
        "clusterrolebindings": 49,
    }
    reachable = [
        path
        for path in ("/healthz", "/livez", "/readyz", "/version", "/version/", "/api", "/metrics", "/")
        if objects.rbac.authorize(Attributes(ANONYMOUS, "get", path=path)).allowed
    ]
    assert reachable == ["/healthz", "/livez", "/readyz", "/version", "/version/"]
    assert objects.rbac.authorize(Attributes(_JOE, "get", path="/apis/apps/v1")).allowed
    assert objects.rbac.authorize(Attributes(_JOE, "create", "authorization.k8s.io", "v1", "selfsubjectaccessreviews")).allowed
    objects.add(ROLE_BINDINGS, binding("team", "admin", user_subject("joe"), namespace="a"))
    assert objects.rbac.authorize(Attributes(_JOE, "delete", "apps", "v1", "deployments", "", "a", "d")).allowed
    assert not objects.rbac.authorize(Attributes(_JOE, "get", "", "v1", "nodes", "", "a", "d")).allowed


def test_aggregated_rules_are_unique() -> None:
    parts = [
        {"metadata": {"name": "b", "labels": {"x": "y"}}, "rules": [parse_rule("get on pods"), parse_rule("get on nodes")]},
        {"metadata": {"name": "a", "labels": {"x": "y"}}, "rules": [parse_rule("get on pods")]},
        {"metadata": {"name": "c"}, "rules": [parse_rule("get on secrets")]},
    ]
    whole = role("all", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]})
    assert aggregated_rules(whole, [*parts, whole]) == [parse_rule("get on pods"), parse_rule("get on nodes")]
    assert aggregated_rules(parts[0], parts) is None


def test_large_role_is_checked_without_listing_all_combinations(monkeypatch: pytest.MonkeyPatch) -> None:
    """90 groups × 90 resources × 90 verbs are 729,000 combinations: they took 4.4 s in one piece."""
    created = 0
    initialize = Rule.__init__

    def counted(rule: Rule, raw: Mapping[str, Any]) -> None:
        nonlocal created
        created += 1
        initialize(rule, raw)

    monkeypatch.setattr(Rule, "__init__", counted)
    words = [f"x{number}" for number in range(90)]
    large, medium = (Rule({"apiGroups": parts, "resources": parts, "verbs": parts}) for parts in (words, words[:20]))
    assert uncovered_rules([Rule({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]})], [large]) == []
    assert len(uncovered_rules([Rule({"apiGroups": ["x1"], "resources": ["*"], "verbs": ["*"]})], [medium])) == 19 * 20
    assert created < 1_000
    assert uncovered_rules([], [large]) == [str(large)]
    assert len(uncovered_rules([], [medium] * 100)) <= 20 * 20 + 1
    named = Rule({"apiGroups": words, "resources": words, "verbs": words, "resourceNames": words})
    assert uncovered_rules([], [named]) == [str(named)]


def _random_rule(random: Random) -> dict[str, Any]:
    def some(values: str, most: int) -> list[str]:
        return random.sample(values.split(), random.randint(0, most))

    if random.random() < 0.2:
        return {"verbs": some("get list *", 2), "nonResourceURLs": some("/a /a/* * /b", 2)}
    return {
        "verbs": some("get list create *", 2),
        "apiGroups": some("a b *", 2) or [""],
        "resources": some("x y x/status */status *", 2),
        "resourceNames": some("n m", 1),
    }


@pytest.mark.parametrize("seed", range(200))
def test_rules_are_compared_by_an_index_as_one_by_one(seed: int) -> None:
    random = Random(seed)
    owned = [Rule(_random_rule(random)) for _ in range(random.randint(0, 6))]
    index = RuleIndex(owned)
    for _ in range(10):
        rule = Rule(_random_rule(random))
        assert index.covers(rule) is any(own_rule.covers(rule) for own_rule in owned)
        for verb in rule.verbs:
            for resource in rule.resources:
                wanted = Rule({"verbs": [verb], "apiGroups": rule.groups[:1], "resources": [resource]})
                single = f'{{APIGroups:["{rule.groups[0]}"], Resources:["{resource}"], Verbs:["{verb}"]}}'
                is_held = any(own_rule.covers(wanted) for own_rule in owned)
                assert (single in uncovered_rules(owned, [wanted])) is not is_held


def test_rules_beyond_the_comparisons_are_denied(monkeypatch: pytest.MonkeyPatch) -> None:
    """To compare them all would block the process; no rule is granted unseen."""
    monkeypatch.setattr("sliceworks.twin.apiserver.auth.rbac._MAX_COMPARISONS", 20)
    rules = [Rule({"verbs": ["get"], "nonResourceURLs": [f"/{number}"]}) for number in range(10)]
    assert uncovered_rules(rules, rules[:2]) == []
    assert uncovered_rules(rules, rules) == sorted(str(rule) for rule in rules[2:])
