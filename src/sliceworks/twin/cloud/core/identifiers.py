"""Numbers that Google derives for resources and projects; here they follow from names, so that they are the same in every run."""

from __future__ import annotations

import hashlib

from sliceworks.base.names import PROJECT_NUMBER_DIGITS, derive_number


def numeric_id(path: str) -> str:
    """A long number derived from a path, as Google's numeric IDs look."""
    return str(int.from_bytes(hashlib.sha256(path.encode()).digest()[:8]) % 10**18 + 10**18)


def project_number(project: str) -> str:
    """The number of a project, derived from its ID."""
    return derive_number(project, PROJECT_NUMBER_DIGITS)
