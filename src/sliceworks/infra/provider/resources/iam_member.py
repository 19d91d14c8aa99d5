"""IAM members: one member of one role, by read-modify-write with etags."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudAlreadyExists, CloudNotFound, FailedPrecondition
from sliceworks.infra.provider.rest_resource import Resource, fill_template

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.infra.provider.rest_resource import ProviderConfig
    from sliceworks.infra.provider.schema import Block

Object = dict[str, Any]
_TRIES = 20


@dataclass(frozen=True)
class IamMember(Resource):
    """One member of one role of a resource. `path` is a template over the state; verbs differ between APIs."""

    api: str
    path: str
    get: tuple[str, str] = ("POST", ":getIamPolicy")
    set: tuple[str, str] = ("POST", ":setIamPolicy")
    wrapped: bool = True
    id: str = "{resource_name}/{role}/{member}"
    resource_name: Callable[[str], str] = field(default=lambda path: path)

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Add the member."""
        await self._change(settings, planned, lambda bindings: _added(bindings, planned))
        return await self.read(settings, block, planned)

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object:
        """Read the member."""
        policy = await self._policy(settings, known)
        if not any(
            known["member"] in binding.get("members", ()) for binding in policy.get("bindings") or () if _same(binding, known)
        ):
            raise CloudNotFound(f"{known['member']} does not have {known['role']}")
        resource_name = self.resource_name(fill_template(self.path, known))
        return {**known, "etag": policy.get("etag"), "id": fill_template(self.id, {**known, "resource_name": resource_name})}

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Members are immutable."""
        return planned

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Remove the member."""
        await self._change(settings, prior, lambda bindings: _without(bindings, prior))

    async def _policy(self, settings: ProviderConfig, state: Object) -> Object:
        method, verb = self.get
        return await settings.session(self.api).call(
            method, "/" + fill_template(self.path, state) + verb, {} if method == "POST" else None
        )

    async def _change(self, settings: ProviderConfig, state: Object, change: Callable[[list[Object]], list[Object]]) -> None:
        method, verb = self.set
        for attempt in range(_TRIES):
            policy = await self._policy(settings, state)
            new_policy = {**policy, "bindings": change(list(policy.get("bindings") or ()))}
            try:
                await settings.session(self.api).call(
                    method, "/" + fill_template(self.path, state) + verb, {"policy": new_policy} if self.wrapped else new_policy
                )
            except (FailedPrecondition, CloudAlreadyExists):
                if attempt == _TRIES - 1:
                    raise
            else:
                return


def _condition(state: Object) -> Object | None:
    condition = state.get("condition") or []
    return {key: value for key, value in condition[0].items() if value} if condition else None


def _same(binding: Object, state: Object) -> bool:
    return binding.get("role") == state["role"] and (binding.get("condition") or None) == _condition(state)


def _added(bindings: list[Object], state: Object) -> list[Object]:
    condition = _condition(state)
    new = {"role": state["role"], "members": [state["member"]], **({"condition": condition} if condition else {})}
    return [*bindings, new]


def _without(bindings: list[Object], state: Object) -> list[Object]:
    return [
        {**binding, "members": [member for member in binding.get("members", ()) if member != state["member"]]}
        if _same(binding, state)
        else binding
        for binding in bindings
    ]
