"""Authorization: what rules allow, how decisions and refusals are worded, and that changes are seen."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.base.errors import Forbidden, NotFound
from sliceworks.twin.auth import escalation
from sliceworks.twin.auth.bootstrap import aggregated_rules, policy, rule
from sliceworks.twin.auth.identity import ANONYMOUS, User, service_account
from sliceworks.twin.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, Rbac, forbidden
from sliceworks.twin.auth.rules import Attributes, Rule

_JOE = User("joe", groups=("system:authenticated",))
_AMY = User("amy", groups=("system:authenticated",))


def role(name: str, *rules: str, namespace: str = "", **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "rules": [rule(text) for text in rules], **fields}


def binding(name: str, target: str, *subjects: dict[str, str], namespace: str = "", kind: str = "ClusterRole") -> dict[str, Any]:
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": target}
    return {"metadata": {"name": name, "namespace": namespace}, "roleRef": ref, "subjects": list(subjects)}


def person(name: str) -> dict[str, str]:
    return {"kind": "User", "name": name}


class Objects:
    """A cluster's RBAC objects, as lists a test may change."""

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
    ("text", "asked", "allowed"),
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
def test_a_rule_allows_what_it_names_and_no_more(text: str, asked: dict[str, str], allowed: bool) -> None:
    assert Rule(rule(text)).allows(Attributes(_JOE, **asked)) is allowed


def test_cluster_binding_reaches_every_namespace_and_a_role_binding_its_own(objects: Objects) -> None:
    objects.add(CLUSTER_ROLES, role("reader", "get on pods"))
    objects.add(CLUSTER_ROLE_BINDINGS, binding("all", "reader", person("amy")))
    objects.add(ROLE_BINDINGS, binding("some", "reader", person("joe"), namespace="a"))
    asked = Attributes(_JOE, "get", resource="pods", namespace="a", name="x")
    assert objects.rbac.authorize(asked) == (True, 'RBAC: allowed by RoleBinding "some/a" of ClusterRole "reader" to User "joe"')
    assert not objects.rbac.authorize(asked._replace(namespace="b")).allowed
    assert not objects.rbac.authorize(asked._replace(namespace="")).allowed
    seen = objects.rbac.authorize(asked._replace(user=_AMY, namespace="b"))
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


def test_changes_are_seen(objects: Objects) -> None:
    asked = Attributes(_JOE, "get", resource="pods")
    objects.add(CLUSTER_ROLES, role("reader", "get on pods"))
    assert not objects.rbac.authorize(asked).allowed
    objects.add(CLUSTER_ROLE_BINDINGS, binding("b", "reader", person("joe")))
    assert objects.rbac.authorize(asked).allowed
    objects.rbac.observe(CLUSTER_ROLES, "", "reader", role("reader", "list on pods"))
    assert not objects.rbac.authorize(asked).allowed
    objects.rbac.observe(CLUSTER_ROLE_BINDINGS, "", "b", None)
    assert not objects.rbac.authorize(asked._replace(verb="list")).allowed
    objects.rbac.invalidate()
    assert objects.rbac.authorize(asked).allowed


def test_masters_may_do_anything(objects: Objects) -> None:
    asked = Attributes(User("root", groups=("system:masters",)), "eat", resource="everything")
    assert objects.rbac.authorize(asked) == (True, "")
    objects.rbac.require(asked)


def test_missing_roles_are_told(objects: Objects) -> None:
    objects.add(CLUSTER_ROLE_BINDINGS, binding("c", "nope2", person("joe")))
    objects.add(ROLE_BINDINGS, binding("rb1", "nope", person("joe"), namespace="g1"))
    objects.add(ROLE_BINDINGS, binding("rb2", "nope", person("joe"), namespace="g1", kind="Role"))
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
    ("asked", "message", "details"),
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
def test_refusals_are_worded_as_kubernetes_does(asked: Attributes, message: str, details: dict[str, str]) -> None:
    refused = forbidden(asked)
    assert refused.message == message
    assert refused.status().get("details") == details


@pytest.fixture
def binder(objects: Objects) -> Rbac:
    """Amy may write RBAC objects but has no other right."""
    kinds = "roles,rolebindings,clusterroles,clusterrolebindings in rbac.authorization.k8s.io"
    objects.add(CLUSTER_ROLES, role("binder", f"create,update,patch,get on {kinds}"))
    objects.add(CLUSTER_ROLE_BINDINGS, binding("amy", "binder", person("amy")))
    objects.add(CLUSTER_ROLES, role("pods", "get,list on pods", "get,list on deployments/scale in apps"))
    objects.add(CLUSTER_ROLES, role("logs", "get on /logs/*"))
    objects.add(CLUSTER_ROLES, role("binds", "bind on clusterroles in rbac.authorization.k8s.io named pods"))
    objects.add(CLUSTER_ROLES, role("escalates", "escalate on roles in rbac.authorization.k8s.io"))
    objects.add(ROLE_BINDINGS, binding("bo-1", "binds", person("bo"), namespace="g1"))
    objects.add(ROLE_BINDINGS, binding("bo-2", "escalates", person("bo"), namespace="g1"))
    return objects.rbac


def test_a_role_may_not_hold_more_than_its_writer(binder: Rbac) -> None:
    new = {
        "metadata": {"name": "pods"},
        "rules": [rule("create,* on roles,q in core,x named m,n")],
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


def test_a_binding_may_not_give_more_than_its_writer_has(binder: Rbac) -> None:
    with pytest.raises(Forbidden) as caught:
        escalation.check(
            binder, escalation.Write(_AMY, "rolebindings", "g1", "b1"), binding("b1", "pods", person("z"), namespace="g1")
        )
    assert caught.value.message.endswith(
        'not currently held:\n{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}\n'
        '{APIGroups:["apps"], Resources:["deployments/scale"], Verbs:["get" "list"]}'
    )
    with pytest.raises(Forbidden, match=r'\{NonResourceURLs:\["/logs/\*"\], Verbs:\["get"\]\}$'):
        escalation.check(binder, escalation.Write(_AMY, "clusterrolebindings", "", "b1"), binding("b1", "logs", person("z")))
    with pytest.raises(NotFound, match=r'^rolebindings.rbac.authorization.k8s.io "missing" not found$'):
        escalation.check(binder, escalation.Write(_AMY, "rolebindings", "g1", "b1"), binding("b1", "missing", person("z")))


def test_bind_and_escalate_lift_the_checks(binder: Rbac) -> None:
    bo = User("bo")
    escalation.check(binder, escalation.Write(bo, "rolebindings", "g1", "b"), binding("b", "pods", person("z"), namespace="g1"))
    escalation.check(binder, escalation.Write(bo, "roles", "g1", "r"), role("r", "* on * in *", namespace="g1"))
    with pytest.raises(Forbidden):
        escalation.check(binder, escalation.Write(bo, "clusterrolebindings", "", "b"), binding("b", "pods", person("z")))
    escalation.check(
        binder, escalation.Write(User("root", groups=("system:masters",)), "clusterroles", "", "r"), role("r", "* on * in *")
    )


def test_aggregation_needs_every_right(binder: Rbac) -> None:
    gathering = role("agg1", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    with pytest.raises(Forbidden, match=r'"agg1" is forbidden: must have cluster-admin privileges to use the aggregationRule$'):
        escalation.check(binder, escalation.Write(_AMY, "clusterroles", "", "agg1"), gathering)


def test_changing_only_finalizers_is_no_escalation(binder: Rbac) -> None:
    old = role("big", "* on * in *")
    new = {**old, "metadata": {**old["metadata"], "finalizers": ["x"]}}
    escalation.check(binder, escalation.Write(_AMY, "clusterroles", "", "big"), new, old)


def test_bootstrap_policy_holds_what_a_cluster_starts_with() -> None:
    objects = Objects()
    plural = {
        "ClusterRole": CLUSTER_ROLES,
        "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
        "Role": ROLES,
        "RoleBinding": ROLE_BINDINGS,
    }
    for obj in policy():
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
    objects.add(ROLE_BINDINGS, binding("team", "admin", person("joe"), namespace="a"))
    assert objects.rbac.authorize(Attributes(_JOE, "delete", "apps", "v1", "deployments", "", "a", "d")).allowed
    assert not objects.rbac.authorize(Attributes(_JOE, "get", "", "v1", "nodes", "", "a", "d")).allowed


def test_aggregated_rules_are_a_union_without_repeats() -> None:
    parts = [
        {"metadata": {"name": "b", "labels": {"x": "y"}}, "rules": [rule("get on pods"), rule("get on nodes")]},
        {"metadata": {"name": "a", "labels": {"x": "y"}}, "rules": [rule("get on pods")]},
        {"metadata": {"name": "c"}, "rules": [rule("get on secrets")]},
    ]
    whole = role("all", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]})
    assert aggregated_rules(whole, [*parts, whole]) == [rule("get on pods"), rule("get on nodes")]
    assert aggregated_rules(parts[0], parts) is None
