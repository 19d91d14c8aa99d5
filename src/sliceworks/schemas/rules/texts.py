"""Small checks shared by all kinds: names, numbers, addresses and paths, each added to a list of errors.

Every check takes the list first. Paths of list items are put together only where something is wrong: most objects are right.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import names
from sliceworks.schemas.field_errors import FieldError, Shown, duplicate, invalid, not_supported, required
from sliceworks.schemas.rules import name_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

Errors = list[FieldError]
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"
PROTOCOLS = ("SCTP", "TCP", "UDP")
MAX_INT32 = 2**31 - 1

_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_is_http_path = re.compile(_HTTP_PATH).fullmatch
_IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}", re.ASCII).fullmatch


def go_struct(value: dict[str, Any] | None, *fields: str) -> Shown:
    """A value as Go prints a struct of its own: all fields, in their order, each with a capital."""
    printed = {field[0].upper() + field[1:]: (value or {}).get(field) for field in fields}
    return Shown(orjson.dumps(printed).decode())


def named(out: Errors, value: str, path: str, rule: Callable[[str], list[str]]) -> None:
    """The value follows a rule of `base.names`."""
    for message in rule(value):
        out.append(invalid(path, value, message))


def label(out: Errors, value: str, path: str) -> None:
    named(out, value, path, name_rules.dns1123_label_errors)


def subdomain(out: Errors, value: str, path: str) -> None:
    named(out, value, path, name_rules.dns1123_subdomain_errors)


def qualified(out: Errors, value: str, path: str) -> None:
    named(out, value, path, name_rules.qualified_name_errors)


def not_negative(out: Errors, value: int | None, path: str) -> None:
    if value is not None and value < 0:
        out.append(invalid(path, value, NEGATIVE))


def none_negative(out: Errors, value: dict[str, Any], path: str, *fields: str) -> None:
    for field in fields:
        found = value.get(field)
        if found is not None and found < 0:
            out.append(invalid(f"{path}.{field}", found, NEGATIVE))


def one_of(out: Errors, value: str, path: str, allowed: Sequence[str], *, needed: bool = True) -> None:
    """An enumerated field: required when empty (unless `needed` is off), else one of these."""
    if value in allowed:
        return
    if not value and needed:
        out.append(required(path))
    else:
        out.append(not_supported(path, value, allowed))


def in_range(out: Errors, value: int, path: str, low: int, high: int) -> None:
    if not low <= value <= high:
        out.append(invalid(path, value, f"must be between {low} and {high}, inclusive"))


def port_number(out: Errors, value: int, path: str) -> None:
    if not 1 <= value <= 65535:
        out.append(invalid(path, value, "must be between 1 and 65535, inclusive"))


def port_or_name(out: Errors, value: int | str, path: str) -> None:
    if isinstance(value, int):
        port_number(out, value, path)
    else:
        named(out, value, path, names.port_name_errors)


def percent_of(value: int | str | None) -> int | None:
    """The number before the percent sign; None when it is no percentage."""
    if isinstance(value, str) and not names.percent_errors(value):
        return int(value[:-1])
    return None


def int_or_percent(value: int | str | None) -> int:
    """The number, or the number before the percent sign, or 0."""
    if isinstance(value, int):
        return value
    found = percent_of(value)
    if found is not None:
        return found
    return int(value) if value and re.fullmatch(r"[+-]?\d+", value, re.ASCII) else 0


def positive_int_or_percent(out: Errors, value: int | str, path: str) -> None:
    if isinstance(value, str):
        named(out, value, path, names.percent_errors)
    else:
        not_negative(out, value, path)


def at_most_all(out: Errors, value: int | str, path: str) -> None:
    if (percent_of(value) or 0) > 100:
        out.append(invalid(path, value, "must not be greater than 100%"))


def immutable(out: Errors, new: Any, old: Any, path: str) -> None:
    """Nothing and empty are the same."""
    if new != old and (new or old or isinstance(new, int) or isinstance(old, int)):
        out.append(invalid(path, new, IMMUTABLE))


def unique(out: Errors, seen: set[str], value: str, path: str) -> None:
    if value in seen:
        out.append(duplicate(path, value))
    seen.add(value)


def is_address(text: str) -> bool:
    """Whether a text is an IP address, without making one of it."""
    if _IPV4(text):
        return all(int(part) <= 255 for part in text.split("."))
    return parse_address(text) is not None


def parse_address(text: str) -> IpAddress | None:
    """An IP address, leading zeros forgiven as the API server does."""
    if _IPV4(text):
        parts = [int(part) for part in text.split(".")]
        return ipaddress.IPv4Address(".".join(map(str, parts))) if max(parts) <= 255 else None
    if "%" in text:
        return None
    try:
        return ipaddress.IPv6Address(text) if ":" in text else None
    except ValueError:
        return None


def parse_network(text: str) -> IpNetwork | None:
    """A CIDR, bits beyond its prefix forgiven."""
    base, slash, length = text.partition("/")
    found = parse_address(base)
    if not slash or found is None or not (length.isascii() and length.isdigit()) or int(length) > found.max_prefixlen:
        return None
    return ipaddress.ip_network(f"{found}/{int(length)}", strict=False)


def address(out: Errors, value: str, path: str, known: Collection[str] = ()) -> None:
    if value not in known and not is_address(value):
        out.append(invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))


def network(out: Errors, value: str, path: str, known: Collection[str] = ()) -> None:
    if value not in known and parse_network(value) is None:
        out.append(invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))


def endpoint_address(out: Errors, value: str, path: str) -> None:
    """An address that can be a backend: not the machine itself, not only its link."""
    found = parse_address(value)
    if found is None:
        out.append(invalid(path, value, "must be a valid IP address"))
        return
    if found.is_unspecified:
        out.append(invalid(path, value, f"may not be unspecified ({value})"))
    if found.is_loopback:
        out.append(invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if found.is_link_local:
        out.append(invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if found in (_MULTICAST if found.version == 4 else _MULTICAST6):
        out.append(invalid(path, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"))


_MULTICAST = ipaddress.ip_network("224.0.0.0/24")
_MULTICAST6 = ipaddress.ip_network("ff02::/16")


def no_parent(out: Errors, value: str, path: str) -> None:
    if ".." in value.split("/"):
        out.append(invalid(path, value, "must not contain '..'"))


def descending(out: Errors, value: str, path: str) -> None:
    """A path below its root."""
    if value.startswith("/"):
        out.append(invalid(path, value, "must be a relative path"))
    no_parent(out, value, path)


def local_path(out: Errors, value: str, path: str) -> None:
    descending(out, value, path)
    if value.startswith("..") and not value.startswith("../"):
        out.append(invalid(path, value, "must not start with '..'"))


def file_mode(out: Errors, value: int | None, path: str) -> None:
    if value is not None and not 0 <= value <= 0o777:
        out.append(invalid(path, value, "must be a number between 0 and 0777 (octal), both inclusive"))


def domain_prefixed_path(out: Errors, value: str, path: str) -> None:
    """`example.com/foo`."""
    if not value:
        out.append(required(path))
        return
    host, _, rest = value.partition("/")
    if not host or not rest:
        out.append(invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")'))
        return
    subdomain(out, host, path)
    if not _is_http_path(rest):
        out.append(invalid(path, rest, names.not_matching("Invalid path", _HTTP_PATH)))
