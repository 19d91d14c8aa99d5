"""SubjectAccessReview and its siblings, SelfSubjectReview and TokenReview."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest
from sliceworks.schemas.builtins import component_name
from sliceworks.schemas.field_errors import FieldError, invalid, new_invalid
from sliceworks.twin.apiserver import codec
from sliceworks.twin.apiserver.auth.authentication import Authenticator, InvalidToken, User
from sliceworks.twin.apiserver.auth.rbac import Attributes
from sliceworks.twin.apiserver.handlers.write import compute
from sliceworks.twin.apiserver.request_info import check_write_options, method_not_allowed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.transport import Response
    from sliceworks.twin.apiserver.auth.rbac import Rbac
    from sliceworks.twin.apiserver.generic_server import ApiServer
from sliceworks.twin.apiserver.request_info import Call

Obj = dict[str, Any]
_GROUP = "authorization.k8s.io"


def self_subject_access_review(body: dict[str, Any], user: User, rbac: Rbac) -> dict[str, Any]:
    """Whether the user may perform an action."""
    spec = body.get("spec") or {}
    _raise_if_invalid([*_check_attributes(spec), *_check_metadata(body, {})])
    return _reviewed(body, rbac, _attributes(spec, user))


def subject_access_review(body: dict[str, Any], rbac: Rbac) -> dict[str, Any]:
    """Whether another user may perform an action."""
    spec = body.get("spec") or {}
    _raise_if_invalid([*_check_attributes(spec), *_check_subject(spec), *_check_metadata(body, {})])
    return _reviewed(body, rbac, _attributes(spec, _subject(spec)))


def local_subject_access_review(body: dict[str, Any], namespace: str, rbac: Rbac) -> dict[str, Any]:
    """Whether another user may perform an action in this namespace."""
    spec = body.get("spec") or {}
    errors = [*_check_attributes(spec), *_check_subject(spec), *_check_metadata(body, {"namespace": namespace})]
    if (spec.get("resourceAttributes") or {}).get("namespace", namespace) != namespace and not errors:
        errors.append(
            invalid("spec.resourceAttributes.namespace", spec["resourceAttributes"]["namespace"], "must match metadata.namespace")
        )
    if spec.get("nonResourceAttributes") is not None:
        value = _go_path(spec["nonResourceAttributes"])
        errors.append(invalid("spec.nonResourceAttributes", value, "disallowed on this kind of request"))
    _raise_if_invalid(errors)
    body.setdefault("metadata", {})["namespace"] = namespace
    return _reviewed(body, rbac, _attributes(spec, _subject(spec)))


def self_subject_rules_review(body: dict[str, Any], user: User, rbac: Rbac) -> dict[str, Any]:
    """All rules of the user in a namespace."""
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
    """The attributes of the user."""
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": clock.timestamp()},
        "status": {"userInfo": user.info()},
    }


def token_review(body: dict[str, Any], authenticator: Authenticator) -> dict[str, Any]:
    """The user of a token."""
    spec = body.get("spec") or {}
    if not spec.get("token"):
        raise BadRequest("token is required for TokenReview in authentication")
    try:
        verified = authenticator.verify(spec["token"], spec.get("audiences") or ())
    except InvalidToken as error:
        return {**body, "status": {"user": {}, "error": str(error)}}
    return {**body, "status": {"authenticated": True, "user": verified.user.info(), "audiences": list(verified.audiences)}}


def _reviewed(body: dict[str, Any], rbac: Rbac, attributes: Attributes) -> dict[str, Any]:
    decision = rbac.authorize(attributes)
    status: dict[str, Any] = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {**body, "status": status}


def _attributes(spec: Mapping[str, Any], user: User) -> Attributes:
    path = spec.get("nonResourceAttributes")
    if path is not None:
        return Attributes(user, path.get("verb", ""), path=path.get("path", ""))
    attributes = spec["resourceAttributes"]
    keys = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(user, *(attributes.get(key, "") for key in keys))


def _subject(spec: Mapping[str, Any]) -> User:
    extra = {key.lower(): tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user", ""), spec.get("uid", ""), tuple(spec.get("groups") or ()), extra)


def _check_attributes(spec: Mapping[str, Any]) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        value = _go_path(path)
        return [invalid("spec.nonResourceAttributes", value, "cannot be specified in combination with resourceAttributes")]
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
    metadata = {key: value for key, value in (body.get("metadata") or {}).items() if key != "managedFields" and value is not None}
    if all(allowed.get(key) == value for key, value in metadata.items()):
        return []
    return [invalid("metadata", metadata, "must be empty except for namespace" if allowed else "must be empty")]


def _go_path(path: Mapping[str, Any]) -> dict[str, str]:
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _raise_if_invalid(errors: list[FieldError]) -> None:
    if errors:
        # kube-apiserver names neither kind nor object here.
        error = new_invalid(_GROUP, "", "", errors)
        error.details = {"group": _GROUP, "causes": [cause.cause() for cause in errors]}
        raise error


class ReviewHandler:
    """Handles reviews, which are not stored."""

    def __init__(self, server: ApiServer, authenticator: Authenticator) -> None:
        self._server = server
        self._authenticator = authenticator

    async def handle(self, call: Call) -> Response:
        if call.target.verb != "create":
            raise method_not_allowed()
        check_write_options(call, "CreateOptions")
        kind = call.resource.kind
        component = component_name(call.resource.group, call.version.name, kind)
        body = await compute(call, partial(codec.read_body_of_kind, call, component, kind))
        codec.drop_namespace(call, body)
        await self._server.admit_body(call, "CREATE", body)
        await self._server.store.wait_durable()
        review = {**self._review(call, kind, body), "kind": kind, "apiVersion": call.api_version}
        review.setdefault("metadata", {})
        return codec.json_response(201, orjson.dumps(review), call.form)

    def _review(self, call: Call, kind: str, body: Obj) -> Obj:
        rbac, user = self._server.rbac, call.user
        if kind == "SelfSubjectAccessReview":
            return self_subject_access_review(body, user, rbac)
        if kind == "SubjectAccessReview":
            return subject_access_review(body, rbac)
        if kind == "LocalSubjectAccessReview":
            return local_subject_access_review(body, call.namespace, rbac)
        if kind == "SelfSubjectRulesReview":
            return self_subject_rules_review(body, user, rbac)
        if kind == "TokenReview":
            return token_review(body, self._authenticator)
        return self_subject_review(user)
