"""Kinds that are only ever created, to ask a question: access reviews, token reviews and who am I."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import MethodNotAllowed
from sliceworks.schemas.builtins import component_name
from sliceworks.twin.api import media
from sliceworks.twin.api.bodies import read_kind
from sliceworks.twin.api.calls import check_write_options
from sliceworks.twin.auth import reviews

if TYPE_CHECKING:
    from sliceworks.kube.transport import Response
    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.api.core import Core
    from sliceworks.twin.auth.tokens import Authenticator

Obj = dict[str, Any]
_GROUPS = {"authorization.k8s.io", "authentication.k8s.io"}


class Reviews:
    """Answers reviews; nothing of them is stored."""

    def __init__(self, core: Core, authenticator: Authenticator) -> None:
        self._core = core
        self._authenticator = authenticator

    def answers(self, call: Call) -> bool:
        return call.resource.group in _GROUPS

    async def handle(self, call: Call) -> Response:
        if call.target.verb != "create":
            raise MethodNotAllowed("the server does not allow this method on the requested resource", details={})
        check_write_options(call, "CreateOptions")
        kind = call.resource.kind
        body = read_kind(call, component_name(call.resource.group, call.version.name, kind), kind)
        await self._core.store.settled()
        answer = {**self._answer(call, kind, body), "kind": kind, "apiVersion": call.api_version}
        answer.setdefault("metadata", {})
        return media.json_response(201, orjson.dumps(answer), call.form)

    def _answer(self, call: Call, kind: str, body: Obj) -> Obj:
        rbac, user = self._core.rbac, call.user
        if kind == "SelfSubjectAccessReview":
            return reviews.self_subject_access_review(body, user, rbac)
        if kind == "SubjectAccessReview":
            return reviews.subject_access_review(body, rbac)
        if kind == "LocalSubjectAccessReview":
            return reviews.local_subject_access_review(body, call.namespace, rbac)
        if kind == "SelfSubjectRulesReview":
            return reviews.self_subject_rules_review(body, user, rbac)
        if kind == "TokenReview":
            return reviews.token_review(body, self._authenticator)
        return reviews.self_subject_review(user)
