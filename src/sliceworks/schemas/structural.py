"""The public face of the schema engine: one place to import it from."""

from sliceworks.schemas.decode import decode
from sliceworks.schemas.golang import TypeMismatch
from sliceworks.schemas.model import MISSING, Schema, build

__all__ = ["MISSING", "Schema", "TypeMismatch", "build", "decode"]
