"""Access reviews: results and validation errors."""

from __future__ import annotations

from typing import Any

import pytest

from sliceworks.base.errors import ApiError, BadRequest
from sliceworks.twin.apiserver.auth.authentication import User
from sliceworks.twin.apiserver.auth.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, Rbac
from sliceworks.twin.apiserver.bootstrap import parse_rule
from sliceworks.twin.apiserver.handlers import review

_AMY = User("amy", groups=("system:authenticated",))
_PODS = {"namespace": "g1", "verb": "list", "resource": "pods"}


@pytest.fixture
def rbac() -> Rbac:
    roles = [{"metadata": {"name": "reader"}, "rules": [parse_rule("list on pods"), parse_rule("get on /version")]}]
    subjects = [{"kind": "User", "name": "amy"}, {"kind": "Group", "name": "ops"}]
    bindings = [{"metadata": {"name": "b"}, "roleRef": {"kind": "ClusterRole", "name": "reader"}, "subjects": subjects}]
    deleted = {
        "metadata": {"name": "c"},
        "roleRef": {"kind": "ClusterRole", "name": "nope"},
        "subjects": [{"kind": "User", "name": "joe"}],
    }
    kept: dict[str, list[dict[str, Any]]] = {CLUSTER_ROLES: roles, CLUSTER_ROLE_BINDINGS: [*bindings, deleted]}
    return Rbac(lambda resource: kept.get(resource, []))


def test_self_subject_access_review_has_a_reason(rbac: Rbac) -> None:
    body = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": dict(_PODS)}}
    answer = review.self_subject_access_review(body, _AMY, rbac)
    assert answer["spec"] == body["spec"]
    assert answer["status"] == {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "reader" to User "amy"',
    }
    assert review.self_subject_access_review(body, User("zoe"), rbac)["status"] == {"allowed": False}
    path: dict[str, Any] = {"spec": {"nonResourceAttributes": {"path": "/version", "verb": "get"}}}
    assert review.self_subject_access_review(path, _AMY, rbac)["status"]["allowed"]


def test_subject_access_review_of_users_and_groups(rbac: Rbac) -> None:
    body: dict[str, Any] = {"spec": {"groups": ["ops"], "resourceAttributes": dict(_PODS)}}
    assert review.subject_access_review(body, rbac)["status"]["reason"].endswith('to Group "ops"')
    local = review.local_subject_access_review({"spec": {"user": "amy", "resourceAttributes": dict(_PODS)}}, "g1", rbac)
    assert local["status"]["allowed"]
    assert local["metadata"] == {"namespace": "g1"}


_SHOWN = '{"Path":"/","Verb":""}'


@pytest.mark.parametrize(
    ("kind", "body", "field", "message"),
    [
        (
            "self",
            {"spec": {}},
            "spec.resourceAttributes",
            "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
        ),
        (
            "self",
            {"spec": {"resourceAttributes": _PODS, "nonResourceAttributes": {"path": "/"}}},
            "spec.nonResourceAttributes",
            f"Invalid value: {_SHOWN}: cannot be specified in combination with resourceAttributes",
        ),
        (
            "other",
            {"spec": {"resourceAttributes": _PODS}},
            "spec.user",
            'Invalid value: "": at least one of user or group must be specified',
        ),
        (
            "local",
            {"spec": {"user": "a", "resourceAttributes": {**_PODS, "namespace": "g2"}}},
            "spec.resourceAttributes.namespace",
            'Invalid value: "g2": must match metadata.namespace',
        ),
        (
            "local",
            {"spec": {"user": "a", "nonResourceAttributes": {"path": "/"}}},
            "spec.nonResourceAttributes",
            f"Invalid value: {_SHOWN}: disallowed on this kind of request",
        ),
    ],
)
def test_invalid_reviews_are_rejected(rbac: Rbac, kind: str, body: dict[str, Any], field: str, message: str) -> None:
    ask = {
        "self": lambda: review.self_subject_access_review(body, _AMY, rbac),
        "other": lambda: review.subject_access_review(body, rbac),
        "local": lambda: review.local_subject_access_review(body, "g1", rbac),
    }
    with pytest.raises(ApiError) as caught:
        ask[kind]()
    assert caught.value.code == 422
    assert caught.value.message == f'.authorization.k8s.io "" is invalid: {field}: {message}'
    assert caught.value.details == {
        "group": "authorization.k8s.io",
        "causes": [{"reason": "FieldValueInvalid", "message": message, "field": field}],
    }


def test_self_subject_rules_review_lists_rules_and_errors(rbac: Rbac) -> None:
    answer = review.self_subject_rules_review({"spec": {"namespace": "g1"}}, _AMY, rbac)
    assert answer["status"] == {
        "resourceRules": [{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/version"]}],
        "incomplete": False,
    }
    broken = review.self_subject_rules_review({"spec": {"namespace": "g1"}}, User("joe"), rbac)["status"]
    assert broken["evaluationError"] == 'clusterrole.rbac.authorization.k8s.io "nope" not found'
    with pytest.raises(BadRequest, match=r"^no namespace on request$"):
        review.self_subject_rules_review({"spec": {}}, _AMY, rbac)


def test_self_subject_review() -> None:
    user = User("jane", "7", ("a",), {"foo/bar": ("z",)})
    assert review.self_subject_review(user)["status"] == {
        "userInfo": {"username": "jane", "uid": "7", "groups": ["a"], "extra": {"foo/bar": ["z"]}}
    }
