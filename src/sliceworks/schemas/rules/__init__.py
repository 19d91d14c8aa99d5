"""What the API server does to built-in kinds beyond their schemas: defaults, validation, and what an update may not change.

Everything here is pure. A kind is written `group/Kind`, with nothing before the slash for the core group: `/Pod`.
- `defaulters()` fill a value of one component in place; the schema engine walks the tree.
- `kind_checks()` check a whole object, its metadata apart, as it is created and again on every update. An object without a resource
  version counts as new. `checks()` are the same functions by component, for the schema engine: call one of the two, not both.
- `update_checks()` say what changed that may not; `status_checks()` are for writes to the status: (new object, old object).
- `kind_warnings()` are texts for the `Warning` header of an object that is otherwise right.
- `metadata_errors` and `metadata_update_errors` are for every object, custom ones too. Names are checked by whoever knows the kind.
"""

from sliceworks.schemas.rules.catalogue import checks, defaulters, kind_checks, kind_warnings, status_checks, update_checks
from sliceworks.schemas.rules.metadata import metadata_errors, metadata_update_errors

__all__ = [
    "checks",
    "defaulters",
    "kind_checks",
    "kind_warnings",
    "metadata_errors",
    "metadata_update_errors",
    "status_checks",
    "update_checks",
]
