"""The public face of the schema engine: one place to import it from."""

from sliceworks.schemas.decode import decode
from sliceworks.schemas.defaults import set_defaults
from sliceworks.schemas.golang import TypeMismatch
from sliceworks.schemas.model import MISSING, Schema, build
from sliceworks.schemas.prune import prune
from sliceworks.schemas.validate import validate

__all__ = ["MISSING", "Schema", "TypeMismatch", "build", "decode", "prune", "set_defaults", "validate"]
