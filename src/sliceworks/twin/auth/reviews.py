"""Questions about rights and identities, answered: the review kinds of the authorization and authentication APIs.

Each function takes the decoded body and gives the body to answer with. A body that makes no sense is an Invalid or a BadRequest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest
from sliceworks.schemas.field_errors import FieldError, invalid, refusal
from sliceworks.twin.auth.identity import User
from sliceworks.twin.auth.rules import Attributes
from sliceworks.twin.auth.tokens import Authenticator, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.auth.rbac import Rbac

_GROUP = "authorization.k8s.io"


def self_subject_access_review(body: dict[str, Any], user: User, rbac: Rbac) -> dict[str, Any]:
    """May I?"""
    spec = body.get("spec") or {}
    _refuse([*_check_attributes(spec), *_check_metadata(body, {})])
    return _answered(body, rbac, _attributes(spec, user))


def subject_access_review(body: dict[str, Any], rbac: Rbac) -> dict[str, Any]:
    """May they?"""
    spec = body.get("spec") or {}
    _refuse([*_check_attributes(spec), *_check_subject(spec), *_check_metadata(body, {})])
    return _answered(body, rbac, _attributes(spec, _subject(spec)))


def local_subject_access_review(body: dict[str, Any], namespace: str, rbac: Rbac) -> dict[str, Any]:
    """May they, in this namespace?"""
    spec = body.get("spec") or {}
    errors = [*_check_attributes(spec), *_check_subject(spec), *_check_metadata(body, {"namespace": namespace})]
    if (spec.get("resourceAttributes") or {}).get("namespace", namespace) != namespace and not errors:
        errors.append(
            invalid("spec.resourceAttributes.namespace", spec["resourceAttributes"]["namespace"], "must match metadata.namespace")
        )
    if spec.get("nonResourceAttributes") is not None:
        shown = _shown_path(spec["nonResourceAttributes"])
        errors.append(invalid("spec.nonResourceAttributes", shown, "disallowed on this kind of request"))
    _refuse(errors)
    body.setdefault("metadata", {})["namespace"] = namespace
    return _answered(body, rbac, _attributes(spec, _subject(spec)))


def self_subject_rules_review(body: dict[str, Any], user: User, rbac: Rbac) -> dict[str, Any]:
    """What may I do in a namespace?"""
    namespace = (body.get("spec") or {}).get("namespace", "")
    if not namespace:
        raise BadRequest("no namespace on request")
    resources: list[dict[str, Any]] = []
    paths: list[dict[str, Any]] = []
    grants = rbac.grants(user, namespace)
    for rule, _ in grants.rules:
        if rule.resources:
            parts = (
                ("verbs", rule.verbs),
                ("apiGroups", rule.groups),
                ("resources", rule.resources),
                ("resourceNames", rule.names),
            )
            resources.append({key: list(values) for key, values in parts if values})
        if rule.urls:
            paths.append({"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)})
    status: dict[str, Any] = {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
    if grants.missing:
        status["evaluationError"] = grants.error()
    return {"kind": "SelfSubjectRulesReview", "apiVersion": f"{_GROUP}/v1", "metadata": {}, "spec": {}, "status": status}


def self_subject_review(user: User) -> dict[str, Any]:
    """Who am I?"""
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": clock.timestamp()},
        "status": {"userInfo": user.info()},
    }


def token_review(body: dict[str, Any], authenticator: Authenticator) -> dict[str, Any]:
    """Whose token is this?"""
    spec = body.get("spec") or {}
    if not spec.get("token"):
        raise BadRequest("token is required for TokenReview in authentication")
    try:
        verified = authenticator.verify(spec["token"], spec.get("audiences") or ())
    except Refused as error:
        return {**body, "status": {"user": {}, "error": str(error)}}
    return {**body, "status": {"authenticated": True, "user": verified.user.info(), "audiences": list(verified.audiences)}}


def _answered(body: dict[str, Any], rbac: Rbac, asked: Attributes) -> dict[str, Any]:
    decision = rbac.authorize(asked)
    status: dict[str, Any] = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {**body, "status": status}


def _attributes(spec: Mapping[str, Any], user: User) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(user, path.get("verb", ""), path=path.get("path", ""))
    found = spec["resourceAttributes"]
    keys = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(user, *(found.get(key, "") for key in keys))


def _subject(spec: Mapping[str, Any]) -> User:
    extra = {key.lower(): tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


def _check_attributes(spec: Mapping[str, Any]) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        shown = _shown_path(path)
        return [invalid("spec.nonResourceAttributes", shown, "cannot be specified in combination with resourceAttributes")]
    if resource is None and path is None:
        return [
            invalid("spec.resourceAttributes", None, "exactly one of nonResourceAttributes or resourceAttributes must be specified")
        ]
    return []


def _check_subject(spec: Mapping[str, Any]) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid("spec.user", "", "at least one of user or group must be specified")]


def _check_metadata(body: Mapping[str, Any], allowed: Mapping[str, str]) -> list[FieldError]:
    found = {key: value for key, value in (body.get("metadata") or {}).items() if key != "managedFields" and value is not None}
    if all(allowed.get(key) == value for key, value in found.items()):
        return []
    return [invalid("metadata", found, "must be empty except for namespace" if allowed else "must be empty")]


def _shown_path(path: Mapping[str, Any]) -> dict[str, str]:
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _refuse(errors: list[FieldError]) -> None:
    if errors:
        # kube-apiserver names neither kind nor object here.
        refused = refusal(_GROUP, "", "", errors)
        refused.details = {"group": _GROUP, "causes": [error.cause() for error in errors]}
        raise refused
