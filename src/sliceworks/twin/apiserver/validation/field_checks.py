"""Checks of single fields shared by all kinds: names, numbers, addresses and paths."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import names
from sliceworks.schemas.field_errors import FieldError, Rendered, duplicate, invalid, not_supported, required

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

_REMEMBERED = 16384
qualified_name_errors = lru_cache(_REMEMBERED)(names.qualified_name_errors)
label_value_errors = lru_cache(_REMEMBERED)(names.label_value_errors)
dns1123_label_errors = lru_cache(_REMEMBERED)(names.dns1123_label_errors)
dns1123_subdomain_errors = lru_cache(_REMEMBERED)(names.dns1123_subdomain_errors)
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


def format_go_struct(value: dict[str, Any] | None, *fields: str) -> Rendered:
    """A value as Go's `%v` prints a struct: all fields in declaration order, by their Go names."""
    printed = {field[0].upper() + field[1:]: (value or {}).get(field) for field in fields}
    return Rendered(orjson.dumps(printed).decode())


def check_name(errors: Errors, value: str, path: str, rule: Callable[[str], list[str]]) -> None:
    """Report every message that a rule of `base.names` returns for the value."""
    for message in rule(value):
        errors.append(invalid(path, value, message))


def check_dns_label(errors: Errors, value: str, path: str) -> None:
    check_name(errors, value, path, dns1123_label_errors)


def check_dns_subdomain(errors: Errors, value: str, path: str) -> None:
    check_name(errors, value, path, dns1123_subdomain_errors)


def check_qualified_name(errors: Errors, value: str, path: str) -> None:
    check_name(errors, value, path, qualified_name_errors)


def check_not_negative(errors: Errors, value: int | None, path: str) -> None:
    if value is not None and value < 0:
        errors.append(invalid(path, value, NEGATIVE))


def check_none_negative(errors: Errors, value: dict[str, Any], path: str, *fields: str) -> None:
    for field in fields:
        count = value.get(field)
        if count is not None and count < 0:
            errors.append(invalid(f"{path}.{field}", count, NEGATIVE))


def check_enum(errors: Errors, value: str, path: str, allowed: Sequence[str], *, needed: bool = True) -> None:
    """Check an enumerated field: required when empty (unless `needed` is false), otherwise one of the allowed values."""
    if value in allowed:
        return
    if not value and needed:
        errors.append(required(path))
    else:
        errors.append(not_supported(path, value, allowed))


def check_range(errors: Errors, value: int, path: str, low: int, high: int) -> None:
    if not low <= value <= high:
        errors.append(invalid(path, value, f"must be between {low} and {high}, inclusive"))


def check_port(errors: Errors, value: int, path: str) -> None:
    if not 1 <= value <= 65535:
        errors.append(invalid(path, value, "must be between 1 and 65535, inclusive"))


def check_port_or_name(errors: Errors, value: int | str, path: str) -> None:
    if isinstance(value, int):
        check_port(errors, value, path)
    else:
        check_name(errors, value, path, names.port_name_errors)


def parse_percent(value: int | str | None) -> int | None:
    """The number before the percent sign, or None if the value is not a percentage."""
    if isinstance(value, str) and not names.percent_errors(value):
        return int(value[:-1])
    return None


def int_or_percent(value: int | str | None) -> int:
    """The number of an IntOrString, the number before its percent sign, or 0."""
    if isinstance(value, int):
        return value
    percent = parse_percent(value)
    if percent is not None:
        return percent
    return int(value) if value and re.fullmatch(r"[+-]?\d+", value, re.ASCII) else 0


def check_positive_int_or_percent(errors: Errors, value: int | str, path: str) -> None:
    if isinstance(value, str):
        check_name(errors, value, path, names.percent_errors)
    else:
        check_not_negative(errors, value, path)


def check_at_most_100_percent(errors: Errors, value: int | str, path: str) -> None:
    if (parse_percent(value) or 0) > 100:
        errors.append(invalid(path, value, "must not be greater than 100%"))


def check_immutable(errors: Errors, new: Any, old: Any, path: str) -> None:
    """Report a changed field; None and empty values count as equal."""
    if new != old and (new or old or isinstance(new, int) or isinstance(old, int)):
        errors.append(invalid(path, new, IMMUTABLE))


def check_unique(errors: Errors, seen: set[str], value: str, path: str) -> None:
    if value in seen:
        errors.append(duplicate(path, value))
    seen.add(value)


def is_ip(text: str) -> bool:
    """Whether the string is an IP address."""
    if _IPV4(text):
        return all(int(part) <= 255 for part in text.split("."))
    return parse_ip(text) is not None


def parse_ip(text: str) -> IpAddress | None:
    """An IP address; like kube-apiserver, it accepts leading zeros."""
    if _IPV4(text):
        parts = [int(part) for part in text.split(".")]
        return ipaddress.IPv4Address(".".join(map(str, parts))) if max(parts) <= 255 else None
    if "%" in text:
        return None
    try:
        return ipaddress.IPv6Address(text) if ":" in text else None
    except ValueError:
        return None


def parse_cidr(text: str) -> IpNetwork | None:
    """A CIDR; like kube-apiserver, it accepts bits set beyond the prefix."""
    base, slash, length = text.partition("/")
    ip = parse_ip(base)
    if not slash or ip is None or not (length.isascii() and length.isdigit()) or int(length) > ip.max_prefixlen:
        return None
    return ipaddress.ip_network(f"{ip}/{int(length)}", strict=False)


def check_ip(errors: Errors, value: str, path: str, known: Collection[str] = ()) -> None:
    if value not in known and not is_ip(value):
        errors.append(invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))


def check_cidr(errors: Errors, value: str, path: str, known: Collection[str] = ()) -> None:
    if value not in known and parse_cidr(value) is None:
        errors.append(invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"))


def check_endpoint_ip(errors: Errors, value: str, path: str) -> None:
    """Check an endpoint address: not unspecified, loopback or link-local."""
    ip = parse_ip(value)
    if ip is None:
        errors.append(invalid(path, value, "must be a valid IP address"))
        return
    if ip.is_unspecified:
        errors.append(invalid(path, value, f"may not be unspecified ({value})"))
    if ip.is_loopback:
        errors.append(invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if ip.is_link_local:
        errors.append(invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if ip in (_MULTICAST if ip.version == 4 else _MULTICAST6):
        errors.append(invalid(path, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"))


_MULTICAST = ipaddress.ip_network("224.0.0.0/24")
_MULTICAST6 = ipaddress.ip_network("ff02::/16")


def check_no_backsteps(errors: Errors, value: str, path: str) -> None:
    if ".." in value.split("/"):
        errors.append(invalid(path, value, "must not contain '..'"))


def check_descending_path(errors: Errors, value: str, path: str) -> None:
    """Check a relative path without `..`."""
    if value.startswith("/"):
        errors.append(invalid(path, value, "must be a relative path"))
    check_no_backsteps(errors, value, path)


def check_local_path(errors: Errors, value: str, path: str) -> None:
    check_descending_path(errors, value, path)
    if value.startswith("..") and not value.startswith("../"):
        errors.append(invalid(path, value, "must not start with '..'"))


def check_file_mode(errors: Errors, value: int | None, path: str) -> None:
    if value is not None and not 0 <= value <= 0o777:
        errors.append(invalid(path, value, "must be a number between 0 and 0777 (octal), both inclusive"))


def check_domain_prefixed_path(errors: Errors, value: str, path: str) -> None:
    """Check a domain-prefixed path such as `example.com/foo`."""
    if not value:
        errors.append(required(path))
        return
    host, _, rest = value.partition("/")
    if not host or not rest:
        errors.append(invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")'))
        return
    check_dns_subdomain(errors, host, path)
    if not _is_http_path(rest):
        errors.append(invalid(path, rest, names.regex_error("Invalid path", _HTTP_PATH)))
