"""Conditions of a call: it is done only to the version of a thing that the caller has seen, or only where there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.cloud.errors import invalid, stale

if TYPE_CHECKING:
    from sliceworks.twin.cloud.routes import Call

_NONE = "0"


def check(call: Call, generation: str | None, metageneration: str) -> None:
    """Refuse with 412 what was asked on a condition that does not hold. A thing that is not there has the generation 0."""
    for name, present in (("Generation", generation), ("Metageneration", metageneration)):
        if present is None:
            continue
        must, must_not = _number(call, f"if{name}Match"), _number(call, f"if{name}NotMatch")
        if must not in (None, present) or (must_not is not None and must_not == present):
            raise stale()


def check_etag(call: Call, etag: str) -> None:
    """The same for APIs that name the version in a header."""
    wanted = call.headers.get("if-match", "").strip()
    if wanted and wanted not in ("*", etag, f'"{etag}"'):
        raise stale("Precondition check failed.")


def absent(call: Call) -> None:
    """The same where nothing is there."""
    check(call, _NONE, _NONE)


def _number(call: Call, field: str) -> str | None:
    given = call.query.get(field)
    if given is None:
        return None
    if not given.isdigit():
        raise invalid(f"Invalid value for field '{field}': '{given}'. It must be a whole number.")
    return str(int(given))
