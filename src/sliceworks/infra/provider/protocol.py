"""Terraform's plugin protocol, version 5: messages, dynamic values and schemas on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson
from msgspec import msgpack

from sliceworks.base.protobuf import MessagePackage

if TYPE_CHECKING:
    from sliceworks.infra.provider.schema import Block

PACKAGE = "tfplugin5"
SERVICE = f"{PACKAGE}.Provider"

# In the notation of base.protobuf.
_MESSAGES: dict[str, str] = {
    "DynamicValue": "msgpack:bytes json:bytes",
    "Step": "attribute_name:string element_key_string:string element_key_int:int",
    "AttributePath": "steps:*Step",
    "Diagnostic": "severity:enum summary:string detail:string attribute:AttributePath",
    "RawState": "json:bytes",
    "Attribute": "name:string type:bytes description:string required:bool optional:bool computed:bool sensitive:bool",
    "NestedBlock": "type_name:string block:Block nesting:enum min_items:int max_items:int",
    "Block": "version:int attributes:*Attribute block_types:*NestedBlock",
    "Schema": "version:int block:Block",
    "Capabilities": "plan_destroy:bool get_provider_schema_optional:bool",
    "Empty": "",
    "Stopped": "error:string",
    "ProviderSchemas": (
        "provider:Schema resource_schemas:@Schema data_source_schemas:@Schema diagnostics:*Diagnostic provider_meta:Schema "
        "server_capabilities:Capabilities"
    ),
    "Identities": "- diagnostics:*Diagnostic",
    "PrepareRequest": "config:DynamicValue",
    "PrepareResponse": "prepared_config:DynamicValue diagnostics:*Diagnostic",
    "ConfigureRequest": "terraform_version:string config:DynamicValue",
    "Verdict": "diagnostics:*Diagnostic",
    "ValidateRequest": "type_name:string config:DynamicValue",
    "UpgradeRequest": "type_name:string version:int raw_state:RawState",
    "UpgradeResponse": "upgraded_state:DynamicValue diagnostics:*Diagnostic",
    "ReadRequest": "type_name:string current_state:DynamicValue private:bytes",
    "ReadResponse": "new_state:DynamicValue diagnostics:*Diagnostic private:bytes",
    "PlanRequest": (
        "type_name:string prior_state:DynamicValue proposed_new_state:DynamicValue config:DynamicValue prior_private:bytes"
    ),
    "PlanResponse": (
        "planned_state:DynamicValue requires_replace:*AttributePath planned_private:bytes diagnostics:*Diagnostic "
        "legacy_type_system:bool"
    ),
    "ApplyRequest": (
        "type_name:string prior_state:DynamicValue planned_state:DynamicValue config:DynamicValue planned_private:bytes"
    ),
    "ApplyResponse": "new_state:DynamicValue private:bytes diagnostics:*Diagnostic legacy_type_system:bool",
    "ImportRequest": "type_name:string id:string",
    "Imported": "type_name:string state:DynamicValue private:bytes",
    "ImportResponse": "imported_resources:*Imported diagnostics:*Diagnostic",
    "DataRequest": "type_name:string config:DynamicValue",
    "DataResponse": "state:DynamicValue diagnostics:*Diagnostic",
}

METHODS: dict[str, tuple[str, str]] = {
    "GetSchema": ("Empty", "ProviderSchemas"),
    "GetResourceIdentitySchemas": ("Empty", "Identities"),
    "PrepareProviderConfig": ("PrepareRequest", "PrepareResponse"),
    "ValidateResourceTypeConfig": ("ValidateRequest", "Verdict"),
    "ValidateDataSourceConfig": ("ValidateRequest", "Verdict"),
    "UpgradeResourceState": ("UpgradeRequest", "UpgradeResponse"),
    "Configure": ("ConfigureRequest", "Verdict"),
    "ReadResource": ("ReadRequest", "ReadResponse"),
    "PlanResourceChange": ("PlanRequest", "PlanResponse"),
    "ApplyResourceChange": ("ApplyRequest", "ApplyResponse"),
    "ImportResourceState": ("ImportRequest", "ImportResponse"),
    "ReadDataSource": ("DataRequest", "DataResponse"),
    "Stop": ("Empty", "Stopped"),
}
"""Request and response of each call of the protocol."""

_ALL = MessagePackage(PACKAGE, _MESSAGES, choices={"Step"})


def message(name: str) -> Any:
    """The protobuf class of a message."""
    return _ALL[name]


class Unknown:
    """A value that is known only after apply."""

    def __repr__(self) -> str:
        return "(known after apply)"


UNKNOWN: Final = Unknown()
_EXTENSION = 0


def decode(value: Any) -> Any:
    """The plain value of a DynamicValue: None, bool, int, float, str, list, dict, or UNKNOWN inside of these."""
    return msgpack.decode(value.msgpack, ext_hook=_known) if value.msgpack else None


def encode(value: Any) -> Any:
    """The DynamicValue of a plain value."""
    return message("DynamicValue")(msgpack=msgpack.encode(value, enc_hook=_extension))


def _known(code: int, data: memoryview) -> Any:
    # Terraform may refine an unknown value (code 12); refinements are ignored.
    return UNKNOWN


def _extension(value: Any) -> Any:
    if value is UNKNOWN:
        return msgpack.Ext(_EXTENSION, b"\x00")
    raise TypeError(f"cannot encode {type(value).__name__}")


def has_unknown(value: Any) -> bool:
    """Whether a value is unknown or contains an unknown value."""
    if isinstance(value, dict):
        return any(map(has_unknown, value.values()))
    if isinstance(value, list):
        return any(map(has_unknown, value))
    return value is UNKNOWN


_NESTING: Final = {"single": 1, "list": 2, "set": 3, "map": 4}


def schema_message(block: Block) -> Any:
    """The schema of a block as a protocol message."""
    return message("Schema")(version=0, block=_described(block))


def _described(block: Block) -> Any:
    described = message("Block")()
    for name, attribute in sorted(block.attributes.items()):
        described.attributes.add(
            name=name,
            type=orjson.dumps(attribute.type),
            required=attribute.required,
            optional=attribute.optional,
            computed=attribute.computed,
        )
    for name, nested in sorted(block.blocks.items()):
        described.block_types.add(
            type_name=name,
            block=_described(nested.block),
            nesting=_NESTING[nested.nesting],
            min_items=nested.min,
            max_items=nested.max,
        )
    return described
