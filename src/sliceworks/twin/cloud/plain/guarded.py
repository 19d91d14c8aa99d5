"""Shelves whose things have policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.twin.cloud.routes import Call, Route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.twin.cloud.plain.policies import Policies
    from sliceworks.twin.cloud.plain.shelves import Shelf

Obj = dict[str, Any]


class Guarded:
    """A shelf whose things have policies."""

    def __init__(self, shelf: Shelf, policies: Policies) -> None:
        self._shelf, self._policies = shelf, policies

    def routes(self, item: str, may: str, *, http: str = "GET") -> Iterator[Route]:
        """Read and write the policy of a thing."""
        yield Route(http, f"{item}:getIamPolicy", f"{self._shelf.kind.plural}.getIamPolicy", self._get, f"{may}.getIamPolicy")
        yield Route(
            "POST",
            f"{item}:setIamPolicy",
            f"{self._shelf.kind.plural}.setIamPolicy",
            self._set,
            f"{may}.setIamPolicy",
            "SetIamPolicyRequest",
        )

    def _get(self, call: Call) -> Obj:
        self._shelf.found(call)
        return self._policies.get(self._shelf.path(call))

    def _set(self, call: Call) -> Obj:
        self._shelf.found(call)
        return self._policies.set(self._shelf.path(call), call.body.get("policy") or {})
