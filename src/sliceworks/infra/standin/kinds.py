"""What the provider does with one kind of resource: paths of its API, names that differ, and what cannot change later."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from sliceworks.base.errors import CloudError, CloudNotFound, FailedPrecondition
from sliceworks.infra.standin import mapping
from sliceworks.infra.standin.mapping import Names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.infra.standin.schemas import Block
    from sliceworks.infra.standin.settings import Settings

Object = dict[str, Any]
_FIRST_POLL, _LAST_POLL = 0.02, 0.5


class Kind(Protocol):
    """One kind of resource. States are plain values by attribute; `None` is a thing that is not there."""

    @property
    def fixed(self) -> tuple[str, ...]:
        """Paths of the attributes that cannot change on a thing that exists."""

    @property
    def filled_in(self) -> tuple[str, ...]:
        """Blocks that the cloud fills in where nobody wrote them."""

    @property
    def imports(self) -> tuple[str, ...]:
        """Templates of the ids by which a thing that is there can be taken over; none where that makes no sense."""

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """Make it; returns its state."""

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """Its state now."""

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """Change it; returns its state."""

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Remove it; one that is gone is fine."""


@dataclass(frozen=True, slots=True)
class Rest:
    """A resource that is one object of a REST collection. Paths and ids are templates over the state's attributes."""

    api: str
    collection: str
    path: str
    id: str
    fixed: tuple[str, ...] = ()
    names: Names = field(default_factory=Names)
    create_method: str = "POST"
    update_method: str = "PATCH"
    update_mask: bool = False
    wrapped: str = ""
    operations: Literal["", "compute", "container", "longrunning"] = ""
    update_operations: bool = True
    """Whether a change is an operation too."""
    named_by_answer: bool = False
    """Whether the cloud chooses the name, and tells it when the thing is made."""
    derived: Mapping[str, str] = field(default_factory=dict)
    """Attributes that follow from others: templates over the state and, after a dot, the answer (`{answer.email}`)."""
    filled_in: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """Other ids by which it can be taken over."""

    @property
    def imports(self) -> tuple[str, ...]:
        """Its own id first."""
        return (self.id, *self.also)

    async def create(self, settings: Settings, block: Block, planned: Object) -> Object:
        """Make it, and wait until it is made."""
        sent = mapping.body(block, planned, self.names)
        session = settings.session(self.api)
        answer = await session.call(
            self.create_method, "/" + fill(self.collection, planned), {self.wrapped: sent} if self.wrapped else sent
        )
        done = await self._finished(settings, planned, answer)
        known = {**planned, "name": done["response"]["name"]} if self.named_by_answer else planned
        made = await self.read(settings, block, known)
        if made is None:
            raise CloudError(f"{fill(self.path, known)} was made and is not there")
        return made

    async def read(self, settings: Settings, block: Block, known: Object) -> Object | None:
        """What the API says about it."""
        try:
            answer = await settings.session(self.api).call("GET", "/" + fill(self.path, known))
        except CloudNotFound:
            return None
        state = mapping.state(block, answer, known, self.names)
        state["id"] = fill(self.id, state)
        for name, template in self.derived.items():
            state[name] = fill(template, {**state, "answer": answer})
        return state

    async def update(self, settings: Settings, block: Block, prior: Object, planned: Object) -> Object:
        """Send what differs, or all of it where the API wants that."""
        new, old = mapping.body(block, planned, self.names), mapping.body(block, prior, self.names)
        changed = {key: new.get(key) for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
        if changed:
            sent = changed if self.update_method == "PATCH" else new
            query = {"updateMask": ",".join(sorted(changed))} if self.update_mask else None
            answer = await settings.session(self.api).call(self.update_method, "/" + fill(self.path, prior), sent, query)
            if self.update_operations:
                await self._finished(settings, planned, answer)
        made = await self.read(settings, block, planned)
        if made is None:
            raise CloudNotFound(f"{fill(self.path, planned)} is gone")
        return made

    async def delete(self, settings: Settings, block: Block, prior: Object) -> None:
        """Remove it, and wait until it is gone."""
        try:
            answer = await settings.session(self.api).call("DELETE", "/" + fill(self.path, prior))
        except CloudNotFound:
            return
        await self._finished(settings, prior, answer)

    async def _finished(self, settings: Settings, state: Object, answer: Object) -> Object:
        return await finished(settings, self.api, self.operations, state, answer) if self.operations else answer


async def finished(settings: Settings, api: str, style: str, state: Object, operation: Object) -> Object:
    """Wait for an operation and return it when it is done; its error is raised in its own words."""
    pause = _FIRST_POLL
    while not _done(style, operation):
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, _LAST_POLL)
        operation = await settings.session(api).call("GET", "/" + _operation_path(style, state, operation))
    problem = _problem(style, operation)
    if problem:
        raise FailedPrecondition(problem)
    return operation


def _done(style: str, operation: Object) -> bool:
    return bool(operation.get("done")) if style == "longrunning" else operation.get("status") == "DONE"


def _problem(style: str, operation: Object) -> str:
    if style == "compute":
        errors = (operation.get("error") or {}).get("errors") or []
        return "; ".join(f"{each.get('code')}: {each.get('message')}" for each in errors)
    if style == "container":
        return str((operation.get("error") or {}).get("message") or operation.get("statusMessage") or "")
    return str((operation.get("error") or {}).get("message") or "")


def _operation_path(style: str, state: Object, operation: Object) -> str:
    if style == "longrunning":
        return str(operation["name"])
    if style == "container":
        return fill("projects/{project}/locations/{location}/operations/", state) + str(operation["name"])
    scope = f"regions/{last(state['region'])}" if state.get("region") else "global"
    if operation.get("zone"):
        scope = f"zones/{last(operation['zone'])}"
    return f"projects/{state['project']}/{scope}/operations/{operation['name']}"


def fill(template: str, values: Mapping[str, Any]) -> str:
    """A template with its names filled in; of a whole path only the last part is taken for a name."""

    class Values(dict[str, Any]):
        def __missing__(self, key: str) -> Any:
            raise KeyError(f"{template} needs {key}")

    return template.format_map(Values({key: _Text(value) for key, value in values.items() if value is not None}))


class _Text:
    """A value in a template: `{name}` as it is, `{network:last}` the last part of a path, `{answer.email}` a part of it."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __getattr__(self, name: str) -> _Text:
        return _Text(self._value[name])

    def __format__(self, how: str) -> str:
        return last(str(self._value)) if how == "last" else str(self._value)


def unfilled(template: str, text: str) -> dict[str, str] | None:
    """What stands in a text where a template has names; None when it does not fit."""
    pattern, seen = "", set[str]()
    for index, part in enumerate(re.split(r"\{(\w+)\}", template)):
        if index % 2:
            pattern += f"(?P={part})" if part in seen else f"(?P<{part}>[^/]+)"
            seen.add(part)
        else:
            pattern += re.escape(part)
    found = re.fullmatch(pattern, text)
    return found.groupdict() if found else None


def last(path: str) -> str:
    """The last part of a path."""
    return str(path).rstrip("/").rpartition("/")[2]
