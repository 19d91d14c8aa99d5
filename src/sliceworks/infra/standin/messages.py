"""The messages of Terraform's plugin protocol, version 5: only those that a provider of resources and data sources speaks.

They are declared here field by field and built when first needed, so that no generated code is kept.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "tfplugin5"
SERVICE = f"{PACKAGE}.Provider"

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "bytes": _Field.TYPE_BYTES,
    "string": _Field.TYPE_STRING,
    "bool": _Field.TYPE_BOOL,
    "int": _Field.TYPE_INT64,
    "enum": _Field.TYPE_INT32,
}
"""An enumeration is read and written as its number: on the wire both are the same."""

# message → fields in the order of their numbers; `-` leaves a number out, `*` is a list, `@` a map from names.
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
"""Each call of the protocol: what is asked, what is answered."""


@cache
def message(name: str) -> Any:
    """The class of a message."""
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{PACKAGE}.{name}"))


@cache
def _pool() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="tfplugin5.proto", package=PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        described = file.message_type.add(name=name)
        for number, field in enumerate(fields.split(), start=1):
            if field != "-":
                _add_field(described, number, *field.split(":"))
    made = descriptor_pool.DescriptorPool()
    made.AddSerializedFile(file.SerializeToString())
    return made


def _add_field(described: Any, number: int, name: str, kind: str) -> None:
    repeated = kind[0] in "*@"
    field = described.field.add(name=name, number=number, label=_Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL)
    if kind[0] == "@":
        field.type, field.type_name = _Field.TYPE_MESSAGE, _add_entry(described, name, kind[1:])
    elif kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{kind.lstrip('*')}"
    if described.name == "Step":
        if not described.oneof_decl:
            described.oneof_decl.add(name="selector")
        field.oneof_index = 0


def _add_entry(described: Any, name: str, kind: str) -> str:
    """The entries of a map are messages of their own."""
    entry = described.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_STRING)
    entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL, type=_Field.TYPE_MESSAGE, type_name=f".{PACKAGE}.{kind}")
    return f".{PACKAGE}.{described.name}.{entry.name}"
