"""The messages of Terraform's plugin protocol, version 5: only those that a provider of resources and data sources speaks.

They are declared here field by field and built when first needed, so that no generated code is kept.
"""

from __future__ import annotations

from typing import Any

from sliceworks.base.protos import Messages

PACKAGE = "tfplugin5"
SERVICE = f"{PACKAGE}.Provider"

# As base.protos reads them.
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


_ALL = Messages(PACKAGE, _MESSAGES, choices={"Step"})


def message(name: str) -> Any:
    """The class of a message."""
    return _ALL[name]
