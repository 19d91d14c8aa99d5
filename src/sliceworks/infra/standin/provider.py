"""The calls of the plugin protocol: check, plan, apply, read. Each is a thin turn between Terraform's values and a kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import CloudNotFound, SliceworksError, UsageError
from sliceworks.infra.standin import mapping, messages, planning, schemas
from sliceworks.infra.standin.descriptions import as_message
from sliceworks.infra.standin.kinds import Rest, unfilled
from sliceworks.infra.standin.resources import DATA_SOURCES, KINDS
from sliceworks.infra.standin.settings import Settings
from sliceworks.infra.standin.values import UNKNOWN, decode, encode

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.infra.standin.kinds import Kind
    from sliceworks.infra.standin.schemas import Block

Object = dict[str, Any]
_ERROR = 1
_DEFAULTS = ("project", "region", "zone")
_ATTRIBUTION = {"goog-terraform-provisioned": "true"}


class Provider:
    """What answers Terraform: one run of it after another."""

    def __init__(self) -> None:
        self._schemas = schemas.google()
        self._settings = Settings.read({}, {})
        self._told: Any = None

    def handlers(self) -> dict[str, Callable[[Any], Awaitable[Any]]]:
        """Each call of the protocol with what answers it."""
        return {
            "GetSchema": self.get_schema,
            "GetResourceIdentitySchemas": self.identities,
            "PrepareProviderConfig": self.prepare,
            "ValidateResourceTypeConfig": self.validate,
            "ValidateDataSourceConfig": self.validate,
            "UpgradeResourceState": self.upgrade,
            "Configure": self.configure,
            "ReadResource": self.read,
            "PlanResourceChange": self.plan,
            "ApplyResourceChange": self.apply,
            "ImportResourceState": self.import_state,
            "ReadDataSource": self.read_data,
            "Stop": self.stop,
        }

    async def get_schema(self, _: Any) -> Any:
        """All schemas; kinds that the twin's cloud does not have are left out, so that they are refused by name."""
        if self._told is None:
            self._told = self._described()
        return self._told

    def _described(self) -> Any:
        found = messages.message("ProviderSchemas")(provider=as_message(self._schemas.provider))
        for name in KINDS:
            found.resource_schemas[name].CopyFrom(as_message(self._schemas.resources[name]))
        for name in DATA_SOURCES:
            found.data_source_schemas[name].CopyFrom(as_message(self._schemas.data_sources[name]))
        return found

    async def identities(self, _: Any) -> Any:
        """No resource has an identity beside its id."""
        return messages.message("Identities")()

    async def prepare(self, request: Any) -> Any:
        """The configuration as it was written."""
        return messages.message("PrepareResponse")(prepared_config=request.config)

    async def validate(self, request: Any) -> Any:
        """Terraform has checked the schema by itself."""
        return messages.message("Verdict")()

    async def upgrade(self, request: Any) -> Any:
        """A state in the form of this schema: unknown attributes of older ones are dropped."""
        block = self._schemas.resources[request.type_name]
        return messages.message("UpgradeResponse")(upgraded_state=encode(_fitted(block, orjson.loads(request.raw_state.json))))

    async def configure(self, request: Any) -> Any:
        """Take the provider's settings. With those of an earlier run, its connections are used again."""
        found = Settings.read(decode(request.config) or {})
        if found != self._settings:
            await self._settings.close()
            self._settings = found
        return messages.message("Verdict")()

    async def read(self, request: Any) -> Any:
        """A resource as it is now."""
        known = decode(request.current_state)
        block, kind = self._schemas.resources[request.type_name], KINDS[request.type_name]
        response = messages.message("ReadResponse")(private=request.private)
        try:
            found = await kind.read(self._settings, block, known) if known else None
        except SliceworksError as error:
            return _refused(response, f"{request.type_name} cannot be read", error)
        response.new_state.CopyFrom(encode(found))
        return response

    async def plan(self, request: Any) -> Any:
        """What a change will come to."""
        block, kind = self._schemas.resources[request.type_name], KINDS[request.type_name]
        prior, proposed, config = decode(request.prior_state), decode(request.proposed_new_state), decode(request.config)
        response = messages.message("PlanResponse")(legacy_type_system=True)
        if proposed is None:
            response.planned_state.CopyFrom(encode(None))
            return response
        state = self._with_defaults(block, planning.planned(block, prior, proposed, config), config)
        state.update({name: prior[name] if prior else UNKNOWN for name in kind.filled_in if not config.get(name)})
        state = planning.in_capitals(prior, state, kind.names.upper if isinstance(kind, Rest) else ())
        for path in planning.replaced(prior, state, kind.fixed):
            response.requires_replace.add().steps.add(attribute_name=path.partition(".")[0])
        response.planned_state.CopyFrom(encode(state))
        return response

    def _with_defaults(self, block: Block, state: Object, config: Object) -> Object:
        """What the provider itself fills in: the places it was told, and the labels it adds."""
        for name in _DEFAULTS:
            attribute = block.attributes.get(name)
            default = getattr(self._settings, name)
            if attribute is not None and attribute.optional and state.get(name) in (None, UNKNOWN) and default:
                state[name] = default
        if "effective_labels" in block.attributes:
            own = config.get("labels")
            if own is UNKNOWN:
                state["effective_labels"] = state["terraform_labels"] = UNKNOWN
            else:
                state["terraform_labels"] = {**_ATTRIBUTION, **self._settings.labels, **(own or {})}
                state["effective_labels"] = dict(state["terraform_labels"])
        return state

    async def apply(self, request: Any) -> Any:
        """Make, change or remove."""
        block, kind = self._schemas.resources[request.type_name], KINDS[request.type_name]
        prior, planned = decode(request.prior_state), decode(request.planned_state)
        response = messages.message("ApplyResponse")(legacy_type_system=True)
        try:
            if planned is None:
                await kind.delete(self._settings, block, prior)
                made = None
            elif prior is None:
                made = await kind.create(self._settings, block, mapping.settled(block, planned))
            else:
                made = await kind.update(self._settings, block, prior, mapping.settled(block, planned))
        except SliceworksError as error:
            # What failed to change is as it was; the next refresh says how far it came.
            response.new_state.CopyFrom(encode(prior))
            return _refused(response, f"{request.type_name}: {_doing(prior, planned)} failed", error)
        response.new_state.CopyFrom(encode(made))
        return response

    async def import_state(self, request: Any) -> Any:
        """Take over a thing that is there: its id says what it is called, and the cloud the rest."""
        block, kind = self._schemas.resources[request.type_name], KINDS[request.type_name]
        response = messages.message("ImportResponse")()
        named = next((found for template in kind.imports if (found := unfilled(template, request.id)) is not None), None)
        if named is None:
            return _refused(response, f"{request.type_name} cannot be imported", _no_import(kind, request.id))
        known = {"project": self._settings.project or None, "name": request.id, **named, mapping.IMPORTED: True}
        try:
            found = await kind.read(self._settings, block, known)
        except SliceworksError as error:
            return _refused(response, f"{request.type_name} cannot be read", error)
        if found is None:
            said = CloudNotFound(f"Cannot import non-existent remote object {request.id}")
            return _refused(response, "Cannot import non-existent remote object", said)
        response.imported_resources.add(type_name=request.type_name, state=encode(_fitted(block, {**known, **found})))
        return response

    async def read_data(self, request: Any) -> Any:
        """A data source."""
        block, config = self._schemas.data_sources[request.type_name], decode(request.config)
        response = messages.message("DataResponse")()
        try:
            found = await DATA_SOURCES[request.type_name](self._settings, block, self._with_defaults(block, dict(config), config))
        except SliceworksError as error:
            return _refused(response, f"{request.type_name} cannot be read", error)
        response.state.CopyFrom(encode(_fitted(block, found)))
        return response

    async def stop(self, _: Any) -> Any:
        """Terraform was interrupted: what is under way ends by itself, and nothing new is asked."""
        return messages.message("Stopped")()


def _no_import(kind: Kind, given: str) -> UsageError:
    """Why a thing cannot be taken over by an id."""
    if not kind.imports:
        return UsageError("the stand-in takes over nothing of this kind", hint="Made again, it does no harm.")
    return UsageError(f"{given!r} is none of its ids", hint=f"An id looks like {' or '.join(kind.imports)}.")


def _doing(prior: Object | None, planned: Object | None) -> str:
    return "deleting" if planned is None else "creating" if prior is None else "updating"


def _refused(response: Any, summary: str, error: SliceworksError) -> Any:
    detail = f"{error}. {error.hint}" if error.hint else str(error)
    response.diagnostics.add(severity=_ERROR, summary=summary, detail=detail)
    return response


def _fitted(block: Block, values: Object) -> Object:
    """Values in the form of a block: everything it has, nothing it does not have."""
    made: Object = {name: values.get(name) for name in block.attributes}
    for name, nested in block.blocks.items():
        found = values.get(name)
        if nested.nesting == "single":
            made[name] = _fitted(nested.block, found) if isinstance(found, dict) else None
        else:
            made[name] = [_fitted(nested.block, each) for each in found or []]
    return made
