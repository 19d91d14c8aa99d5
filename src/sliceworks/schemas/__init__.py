"""Structural schemas: decode, default, prune and validate objects by an OpenAPI schema. No I/O.

Reading order:
`model`: the schema of a value.
`builtins`, `crds`, `config_connector`: where schemas come from.
`decoder`, `golang`: decode built-in objects as Go does.
`pruning`, `defaults`: prune and default custom resources.
`validation`, `values`: validate an object, and a single value.
`formats`, `patterns`: string formats and Go regular expressions.
`field_errors`: the errors that validation returns.
"""

from __future__ import annotations

from sliceworks.schemas.decoder import decode
from sliceworks.schemas.defaults import set_defaults
from sliceworks.schemas.golang import TypeMismatch
from sliceworks.schemas.model import MISSING, Schema, build
from sliceworks.schemas.pruning import prune
from sliceworks.schemas.validation import validate

__all__ = ["MISSING", "Schema", "TypeMismatch", "build", "decode", "prune", "set_defaults", "validate"]
