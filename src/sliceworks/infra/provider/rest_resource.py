"""The provider's configuration, and a resource that is one object of a REST collection."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self
from urllib.parse import urlsplit

from sliceworks.base.errors import FailedPrecondition, UsageError
from sliceworks.base.retry import Backoff
from sliceworks.cloud import Session, Token
from sliceworks.infra.provider import conversion
from sliceworks.infra.provider.conversion import FieldNames

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.infra.provider.schema import Block

_PROJECT = ("GOOGLE_PROJECT", "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
_REGION = ("GOOGLE_REGION", "GCLOUD_REGION", "CLOUDSDK_COMPUTE_REGION")
_ZONE = ("GOOGLE_ZONE", "GCLOUD_ZONE", "CLOUDSDK_COMPUTE_ZONE")
_TOKEN = ("GOOGLE_OAUTH_ACCESS_TOKEN",)


@dataclass(slots=True)
class ProviderConfig:
    """The configuration from `provider "google" { … }` and environment variables."""

    project: str
    region: str
    zone: str
    labels: dict[str, str]
    endpoints: dict[str, str]
    token: str
    _sessions: dict[str, Session] = field(default_factory=dict, compare=False)
    _locks: dict[str, asyncio.Lock] = field(default_factory=dict, compare=False)

    @classmethod
    def read(cls, config: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> Self:
        """The configuration of a provider block; environment variables are the defaults."""

        def of(name: str, variables: tuple[str, ...]) -> str:
            return str(config.get(name) or next((environment[variable] for variable in variables if environment.get(variable)), ""))

        given = {
            name.removesuffix("_custom_endpoint"): value for name, value in config.items() if name.endswith("_custom_endpoint")
        }
        endpoints = {
            name: str(value or environment.get(f"GOOGLE_{name.upper()}_CUSTOM_ENDPOINT", "")) for name, value in given.items()
        }
        defaults = config.get("default_labels") or {}
        token, account = of("access_token", _TOKEN), config.get("impersonate_service_account")
        # The twin checks that the bearer of the token may act as the account.
        token = f"{token}~{account}" if account else token
        return cls(of("project", _PROJECT), of("region", _REGION), of("zone", _ZONE), dict(defaults), endpoints, token)

    def session(self, api: str) -> Session:
        """The session of an API. Its endpoint ends with the version; paths are relative to it."""
        if api not in self._sessions:
            address = self.endpoints.get(api, "")
            if not address:
                raise UsageError(
                    f"no endpoint for the {api} API",
                    hint=f"set GOOGLE_{api.upper()}_CUSTOM_ENDPOINT, as `sliceworks env --twin` does",
                )
            self._sessions[api] = Session(address, Token(self.token))
        return self._sessions[api]

    async def upload(self, path: str, content: bytes, query: Mapping[str, str], kind: str) -> dict[str, Any]:
        """Upload an object; Cloud Storage's upload path is at the root of its host."""
        parts = urlsplit(self.endpoints.get("storage", ""))
        host = Session(f"{parts.scheme}://{parts.netloc}", Token(self.token))
        async with host:
            return await host.upload(path, content, query, kind)

    def lock(self, path: str) -> asyncio.Lock:
        """The lock of a read-modify-write: Terraform sends calls in parallel."""
        return self._locks.setdefault(path, asyncio.Lock())

    async def close(self) -> None:
        """Close all connections."""
        for session in self._sessions.values():
            await session.close()


Object = dict[str, Any]
_POLLING = Backoff(first=0.02, factor=1.5, cap=0.5, jitter=0.0)


class Resource(Protocol):
    """One resource type. A state is a dict of attributes. All methods raise CloudNotFound if the resource does not exist."""

    filled_in: ClassVar[tuple[str, ...]] = ()
    """Blocks that the API computes if they are not configured."""

    @property
    def imports(self) -> tuple[str, ...]:
        """Templates of import ids; empty if import is not supported."""
        return ()

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Create the resource; returns its state."""

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object:
        """The current state."""

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Update the resource; returns its state."""

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Delete the resource."""


@dataclass(frozen=True)
class RestResource(Resource):
    """A resource that is one object of a REST collection. Paths and ids are templates over the state's attributes."""

    api: str
    path: str
    names: FieldNames = field(default_factory=FieldNames)
    id: str = ""
    """Default: the path."""
    collection: str = ""
    """Where the resource is created. Default: the path without its last segment."""
    create_query: str = ""
    """The query of the request that creates it."""
    create_method: str = "POST"
    update_method: str = "PATCH"
    update_mask: bool = False
    wrapped: str = ""
    """The field of an update's body that contains the whole resource, if the API has one."""
    operations: Literal["", "compute", "container", "longrunning"] = ""
    update_operations: bool = True
    """Whether an update returns an operation."""
    named_by_answer: bool = False
    """Whether the API generates the name and returns it on creation."""
    derived: Mapping[str, str] = field(default_factory=dict)
    """Computed attributes: templates over the state and the response (`{answer.email}`)."""
    also: tuple[str, ...] = ()
    """Additional import ids."""

    @property
    def imports(self) -> tuple[str, ...]:
        """The resource's id, then the additional ones."""
        return (self.id or self.path, *self.also)

    async def create(self, settings: ProviderConfig, block: Block, planned: Object) -> Object:
        """Create the resource and wait for the operation."""
        collection = (self.collection or self.path.rpartition("/")[0]) + (f"?{self.create_query}" if self.create_query else "")
        body = conversion.to_api_body(block, planned, self.names)
        answer = await settings.session(self.api).call(self.create_method, "/" + fill_template(collection, planned), body)
        done = await self._finished(settings, planned, answer)
        return await self.read(settings, block, {**planned, "name": done["response"]["name"]} if self.named_by_answer else planned)

    async def read(self, settings: ProviderConfig, block: Block, known: Object) -> Object:
        """The state as the API returns it."""
        answer = await settings.session(self.api).call("GET", "/" + fill_template(self.path, known))
        state = conversion.to_state(block, answer, known, self.names)
        state["id"] = fill_template(self.id or self.path, state)
        for name, template in self.derived.items():
            state[name] = fill_template(template, {**state, "answer": answer})
        return state

    async def update(self, settings: ProviderConfig, block: Block, prior: Object, planned: Object) -> Object:
        """Send the changed fields, or all of them if the API requires it."""
        new, old = conversion.to_api_body(block, planned, self.names), conversion.to_api_body(block, prior, self.names)
        changed = {key: new.get(key) for key in new.keys() | old.keys() if new.get(key) != old.get(key)}
        if changed:
            body = {self.wrapped: new} if self.wrapped else changed if self.update_method == "PATCH" else new
            query = {"updateMask": ",".join(sorted(changed))} if self.update_mask else None
            answer = await settings.session(self.api).call(self.update_method, "/" + fill_template(self.path, prior), body, query)
            if self.update_operations:
                await self._finished(settings, planned, answer)
        return await self.read(settings, block, planned)

    async def delete(self, settings: ProviderConfig, block: Block, prior: Object) -> None:
        """Delete the resource and wait for the operation."""
        answer = await settings.session(self.api).call("DELETE", "/" + fill_template(self.path, prior))
        await self._finished(settings, prior, answer)

    async def _finished(self, settings: ProviderConfig, state: Object, answer: Object) -> Object:
        return await wait_for_operation(settings, self.api, self.operations, state, answer) if self.operations else answer


async def wait_for_operation(settings: ProviderConfig, api: str, style: str, state: Object, operation: Object) -> Object:
    """Wait for an operation and return it; raises its error."""
    for pause in _POLLING.delays():
        if _done(style, operation):
            break
        await asyncio.sleep(pause)
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
        return "; ".join(f"{error.get('code')}: {error.get('message')}" for error in errors)
    if style == "container":
        return str((operation.get("error") or {}).get("message") or operation.get("statusMessage") or "")
    return str((operation.get("error") or {}).get("message") or "")


def _operation_path(style: str, state: Object, operation: Object) -> str:
    if style == "longrunning":
        return str(operation["name"])
    if style == "container":
        return fill_template("projects/{project}/locations/{location}/operations/", state) + str(operation["name"])
    scope = f"regions/{last_segment(state['region'])}" if state.get("region") else "global"
    if operation.get("zone"):
        scope = f"zones/{last_segment(operation['zone'])}"
    return f"projects/{state['project']}/{scope}/operations/{operation['name']}"


def fill_template(template: str, values: Mapping[str, Any]) -> str:
    """Fill in a template; of a value that is a path, only the last segment is used."""

    class Values(dict[str, Any]):
        def __missing__(self, key: str) -> Any:
            raise KeyError(f"{template} needs {key}")

    return template.format_map(Values({key: _TemplateValue(value) for key, value in values.items() if value is not None}))


class _TemplateValue:
    """A value in a template: `{name}` unchanged, `{network:last}` its last segment, `{answer.email}` a nested field."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __getattr__(self, name: str) -> _TemplateValue:
        return _TemplateValue(self._value[name])

    def __format__(self, how: str) -> str:
        return last_segment(str(self._value)) if how == "last" else str(self._value)


def match_template(template: str, text: str) -> dict[str, str] | None:
    """The values of a template's fields in a string; None if it does not match."""
    pattern, seen = "", set[str]()
    for index, part in enumerate(re.split(r"\{(\w+)\}", template)):
        if index % 2:
            pattern += f"(?P={part})" if part in seen else f"(?P<{part}>[^/]+)"
            seen.add(part)
        else:
            pattern += re.escape(part)
    match = re.fullmatch(pattern, text)
    return match.groupdict() if match else None


def last_segment(path: str) -> str:
    """The last segment of a path."""
    return str(path).rstrip("/").rpartition("/")[2]
