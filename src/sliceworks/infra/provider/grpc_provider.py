"""The calls of the plugin protocol: validate, plan, apply, read, import."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import CloudInvalid, CloudNotFound, SliceworksError, UsageError
from sliceworks.infra.provider import conversion, protocol, schema, validation
from sliceworks.infra.provider.protocol import UNKNOWN, decode, encode, schema_message
from sliceworks.infra.provider.resources import DATA_SOURCES, REPLACEMENTS, RESOURCES
from sliceworks.infra.provider.rest_resource import ProviderConfig, RestResource, match_template

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from sliceworks.infra.provider.rest_resource import Resource
    from sliceworks.infra.provider.schema import Block

Object = dict[str, Any]


def plan_state(block: Block, prior: Object | None, proposed: Object, config: Object) -> Object:
    """The planned state: computed attributes of a new resource are unknown."""
    return _unknown_where_computed(block, proposed, config) if prior is None else proposed


def _unknown_where_computed(block: Block, proposed: Object, config: Object) -> Object:
    state = dict(proposed)
    for name, attribute in block.attributes.items():
        if attribute.computed and config.get(name) is None:
            state[name] = UNKNOWN
    for name, nested in block.blocks.items():
        written, planned = config.get(name), proposed.get(name)
        if isinstance(planned, list) and isinstance(written, list) and len(planned) == len(written):
            state[name] = [
                _unknown_where_computed(nested.block, item, item_config)
                if isinstance(item, dict) and isinstance(item_config, dict)
                else item
                for item, item_config in zip(planned, written, strict=True)
            ]
    return state


def keep_equal_case(prior: Object | None, state: Object, names: Iterable[str]) -> Object:
    """Keep a value that differs from the state only in case, so that an imported resource is not replaced."""
    if prior is None:
        return state
    same = [name for name in names if str(prior.get(name)).upper() == str(state.get(name)).upper()]
    return {**state, **{name: prior[name] for name in same}}


_ERROR = 1
_DEFAULTS = ("project", "region", "zone")
_ATTRIBUTION = {"goog-terraform-provisioned": "true"}


class Provider:
    """Serves the calls of one or more consecutive runs of Terraform."""

    def __init__(self) -> None:
        self._schemas = schema.google_schema()
        self._settings = ProviderConfig.read({}, {})
        self._schema_response: Any = None

    def handlers(self) -> dict[str, Callable[[Any], Awaitable[Any]]]:
        """The handler of each call of the protocol."""
        return {
            "GetSchema": self.get_schema,
            "GetResourceIdentitySchemas": self.identities,
            "PrepareProviderConfig": self.prepare,
            "ValidateResourceTypeConfig": self.validate,
            "ValidateDataSourceConfig": self.accept,
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
        """All schemas, without resource types that the twin's cloud does not support, so that Terraform rejects them."""
        if self._schema_response is None:
            self._schema_response = self._build_schema_response()
        return self._schema_response

    def _build_schema_response(self) -> Any:
        result = protocol.message("ProviderSchemas")(provider=schema_message(self._schemas.provider))
        for name in RESOURCES:
            result.resource_schemas[name].CopyFrom(schema_message(self._schemas.resources[name]))
        for name in DATA_SOURCES:
            result.data_source_schemas[name].CopyFrom(schema_message(self._schemas.data_sources[name]))
        return result

    async def identities(self, _: Any) -> Any:
        """No resource has an identity beside its id."""
        return protocol.message("Identities")()

    async def prepare(self, request: Any) -> Any:
        """Accept the provider configuration unchanged."""
        return protocol.message("PrepareResponse")(prepared_config=request.config)

    async def validate(self, request: Any) -> Any:
        """Reject what the provider's code rejects; Terraform itself validates against the schema."""
        response = protocol.message("Verdict")()
        rules, config = self._schemas.rules.get(request.type_name), decode(request.config)
        for problem in validation.validate(rules, config) if rules and config else ():
            response.diagnostics.add(severity=_ERROR, summary=problem)
        return response

    async def accept(self, _: Any) -> Any:
        """Accept the configuration of a data source."""
        return protocol.message("Verdict")()

    async def upgrade(self, request: Any) -> Any:
        """Convert a stored state to this schema; unknown attributes are dropped."""
        block = self._schemas.resources[request.type_name]
        return protocol.message("UpgradeResponse")(upgraded_state=encode(_fitted(block, orjson.loads(request.raw_state.json))))

    async def configure(self, request: Any) -> Any:
        """Configure the provider; with the settings of an earlier run, its connections are reused."""
        config = ProviderConfig.read(decode(request.config) or {})
        if config != self._settings:
            await self._settings.close()
            self._settings = config
        return protocol.message("Verdict")()

    async def read(self, request: Any) -> Any:
        """Read the current state of a resource."""
        known = decode(request.current_state)
        block, kind = self._schemas.resources[request.type_name], RESOURCES[request.type_name]
        response = protocol.message("ReadResponse")(private=request.private)
        try:
            state = await kind.read(self._settings, block, known) if known else None
        except CloudNotFound:
            state = None
        except SliceworksError as error:
            return _refused(response, f"{request.type_name} cannot be read", error)
        response.new_state.CopyFrom(encode(state))
        return response

    async def plan(self, request: Any) -> Any:
        """Plan a change of a resource."""
        block, kind = self._schemas.resources[request.type_name], RESOURCES[request.type_name]
        prior, proposed, config = decode(request.prior_state), decode(request.proposed_new_state), decode(request.config)
        response = protocol.message("PlanResponse")(legacy_type_system=True)
        if proposed is None:
            response.planned_state.CopyFrom(encode(None))
            return response
        state = self._with_defaults(block, plan_state(block, prior, proposed, config), config)
        state.update({name: prior[name] if prior else UNKNOWN for name in kind.filled_in if not config.get(name)})
        state = keep_equal_case(prior, state, kind.names.upper if isinstance(kind, RestResource) else ())
        replaced = validation.find_replaced(self._schemas.rules[request.type_name], block, prior, state)
        if prior is not None and request.type_name in REPLACEMENTS:
            replaced += REPLACEMENTS[request.type_name](prior, state)
        for path in replaced:
            response.requires_replace.add().steps.add(attribute_name=path.partition(".")[0])
        response.planned_state.CopyFrom(encode(state))
        return response

    def _with_defaults(self, block: Block, state: Object, config: Object) -> Object:
        """Provider defaults: project, region and zone, and the labels that it adds."""
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
        """Create, update or delete a resource."""
        block, kind = self._schemas.resources[request.type_name], RESOURCES[request.type_name]
        prior, planned = decode(request.prior_state), decode(request.planned_state)
        response = protocol.message("ApplyResponse")(legacy_type_system=True)
        try:
            if planned is None:
                if _may_delete(request.type_name, prior):
                    with suppress(CloudNotFound):
                        await kind.delete(self._settings, block, prior)
                state = None
            elif prior is None:
                state = await kind.create(self._settings, block, conversion.resolve_unknown(block, planned))
            else:
                state = await kind.update(self._settings, block, prior, conversion.resolve_unknown(block, planned))
        except SliceworksError as error:
            # After a failed update, keep the prior state; the next refresh reads the actual one.
            response.new_state.CopyFrom(encode(prior))
            return _refused(response, f"{request.type_name}: {_doing(prior, planned)} failed", error)
        response.new_state.CopyFrom(encode(state))
        return response

    async def import_state(self, request: Any) -> Any:
        """Import an existing resource by its id."""
        block, kind = self._schemas.resources[request.type_name], RESOURCES[request.type_name]
        response = protocol.message("ImportResponse")()
        named = next((match for template in kind.imports if (match := match_template(template, request.id)) is not None), None)
        if named is None:
            return _refused(response, f"{request.type_name} cannot be imported", _no_import(kind, request.id))
        known = {"project": self._settings.project or None, "name": request.id, **named, conversion.IMPORTED: True}
        try:
            state = await kind.read(self._settings, block, known)
        except CloudNotFound:
            not_found = CloudNotFound(f"Cannot import non-existent remote object {request.id}")
            return _refused(response, "Cannot import non-existent remote object", not_found)
        except SliceworksError as error:
            return _refused(response, f"{request.type_name} cannot be read", error)
        response.imported_resources.add(type_name=request.type_name, state=encode(_fitted(block, {**known, **state})))
        return response

    async def read_data(self, request: Any) -> Any:
        """Read a data source."""
        block, config = self._schemas.data_sources[request.type_name], decode(request.config)
        response = protocol.message("DataResponse")()
        try:
            state = await DATA_SOURCES[request.type_name](self._settings, block, self._with_defaults(block, dict(config), config))
        except SliceworksError as error:
            return _refused(response, f"{request.type_name} cannot be read", error)
        response.state.CopyFrom(encode(_fitted(block, state)))
        return response

    async def stop(self, _: Any) -> Any:
        """Terraform was interrupted: pending calls complete, and Terraform sends no new ones."""
        return protocol.message("Stopped")()


_PROTECTED = {
    "google_container_cluster": "Cannot destroy cluster because deletion_protection is set to true. "
    "Set it to false to proceed with cluster deletion.",
    "google_bigquery_table": "cannot destroy table {id} without setting deletion_protection=false and running `terraform apply`",
}
_PROTECTED_OTHER = "cannot destroy {id} without setting deletion_protection=false and running `terraform apply`"


def _may_delete(type_name: str, prior: Object) -> bool:
    """Whether to call the API to delete a resource; raises the provider's error if the resource is protected."""
    policy = str(prior.get("deletion_policy") or "DELETE")
    if prior.get("deletion_protection"):
        raise CloudInvalid(_PROTECTED.get(type_name, _PROTECTED_OTHER).format(id=prior.get("id")))
    if policy == "PREVENT":
        raise CloudInvalid(f'cannot destroy {prior.get("id")} without setting deletion_policy="DELETE"')
    return policy != "ABANDON"


def _no_import(kind: Resource, import_id: str) -> UsageError:
    """The error for an id that cannot be imported."""
    if not kind.imports:
        return UsageError("this resource type does not support import", hint="it is created again without conflict")
    return UsageError(f"{import_id!r} is not a valid import id", hint=f"expected {' or '.join(kind.imports)}")


def _doing(prior: Object | None, planned: Object | None) -> str:
    return "deleting" if planned is None else "creating" if prior is None else "updating"


def _refused(response: Any, summary: str, error: SliceworksError) -> Any:
    detail = f"{error}. {error.hint}" if error.hint else str(error)
    response.diagnostics.add(severity=_ERROR, summary=summary, detail=detail)
    return response


def _fitted(block: Block, values: Object) -> Object:
    """Values reduced to the attributes and blocks of a schema; missing ones are null."""
    fitted: Object = {name: values.get(name) for name in block.attributes}
    for name, nested in block.blocks.items():
        value = values.get(name)
        if nested.nesting == "single":
            fitted[name] = _fitted(nested.block, value) if isinstance(value, dict) else None
        else:
            fitted[name] = [_fitted(nested.block, item) for item in value or []]
    return fitted
