"""Values as Terraform sends them: msgpack, with a mark for what is not known yet."""

from __future__ import annotations

from typing import Any, Final

from msgspec import msgpack

from sliceworks.infra.standin import messages


class Unknown:
    """A value that is known only after something was made."""

    def __repr__(self) -> str:
        return "(known after apply)"


UNKNOWN: Final = Unknown()
_EXTENSION = 0


def decode(value: Any) -> Any:
    """The plain value of a DynamicValue: None, bool, int, float, str, list, dict, or UNKNOWN inside of these."""
    return msgpack.decode(value.msgpack, ext_hook=_known) if value.msgpack else None


def encode(value: Any) -> Any:
    """The DynamicValue of a plain value."""
    return messages.message("DynamicValue")(msgpack=msgpack.encode(value, enc_hook=_extension))


def _known(code: int, data: memoryview) -> Any:
    # Terraform may say more about an unknown value than that it is unknown (code 12); no answer depends on that here.
    return UNKNOWN


def _extension(value: Any) -> Any:
    if value is UNKNOWN:
        return msgpack.Ext(_EXTENSION, b"\x00")
    raise TypeError(f"{type(value).__name__} has no form on the wire")


def has_unknown(value: Any) -> bool:
    """Whether a value, or a part of it, is not known yet."""
    if isinstance(value, dict):
        return any(map(has_unknown, value.values()))
    if isinstance(value, list):
        return any(map(has_unknown, value))
    return value is UNKNOWN
