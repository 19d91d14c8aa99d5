"""The public face of the schema engine: one place to import it from."""

from sliceworks.schemas.model import MISSING, Schema, build

__all__ = ["MISSING", "Schema", "build"]
