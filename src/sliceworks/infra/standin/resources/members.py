"""IAM members: one member of one role of a thing's policy, read, changed and written back; tried again when somebody was faster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import CloudAlreadyExists, CloudError, CloudNotFound, FailedPrecondition
from sliceworks.infra.standin.kinds import fill

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.infra.standin.schemas import Block
    from sliceworks.infra.standin.settings import Settings

Object = dict[str, Any]
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Member:
    """`path` is the thing's, a template over the state; verbs differ from API to API."""

    api: str
    path: str
    get: tuple[str, str] = ("POST", ":getIamPolicy")
    set: tuple[str, str] = ("POST", ":setIamPolicy")
    wrapped: bool = True
    id: str = "{thing}/{role}/{member}"
    thing: Callable[[str], str] = field(default=lambda path: path)
    fixed: tuple[str, ...] = ("role", "member", "condition")
    filled_in: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """Add the member."""
        await self._change(settings, planned, lambda bindings: _added(bindings, planned))
        made = await self.read(settings, block, planned)
        if made is None:
            raise CloudError(f"{planned['member']} did not become {planned['role']}")
        return made

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """The member, if it still is one."""
        try:
            policy = await self._policy(settings, known)
        except CloudNotFound:
            return None
        if not any(known["member"] in each.get("members", ()) for each in policy.get("bindings") or () if _same(each, known)):
            return None
        thing = self.thing(fill(self.path, known))
        return {**known, "etag": policy.get("etag"), "id": fill(self.id, {**known, "thing": thing})}

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """Nothing of a member can change."""
        return planned

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Take the member out."""
        try:
            await self._change(settings, prior, lambda bindings: _without(bindings, prior))
        except CloudNotFound:
            return

    async def _policy(self, settings: Settings, state: Object) -> Object:
        method, verb = self.get
        return await settings.session(self.api).call(method, "/" + fill(self.path, state) + verb, {} if method == "POST" else None)

    async def _change(self, settings: Settings, state: Object, change: Callable[[list[Object]], list[Object]]) -> None:
        method, verb = self.set
        for attempt in range(_TRIES):
            policy = await self._policy(settings, state)
            wanted = {**policy, "bindings": change(list(policy.get("bindings") or ()))}
            try:
                await settings.session(self.api).call(
                    method, "/" + fill(self.path, state) + verb, {"policy": wanted} if self.wrapped else wanted
                )
            except (FailedPrecondition, CloudAlreadyExists):
                if attempt == _TRIES - 1:
                    raise
            else:
                return


def _condition(state: Object) -> Object | None:
    found = state.get("condition") or []
    return {key: value for key, value in found[0].items() if value} if found else None


def _same(binding: Object, state: Object) -> bool:
    return binding.get("role") == state["role"] and (binding.get("condition") or None) == _condition(state)


def _added(bindings: list[Object], state: Object) -> list[Object]:
    condition = _condition(state)
    new = {"role": state["role"], "members": [state["member"]], **({"condition": condition} if condition else {})}
    return [*bindings, new]


def _without(bindings: list[Object], state: Object) -> list[Object]:
    return [
        {**each, "members": [member for member in each.get("members", ()) if member != state["member"]]}
        if _same(each, state)
        else each
        for each in bindings
    ]
