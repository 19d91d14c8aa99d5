"""The error list of an object, and the checks of single fields that all kinds share: names, numbers, addresses and paths."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base import names
from sliceworks.schemas import field_errors
from sliceworks.schemas.field_errors import FieldError, Rendered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence, Sized

    Struct = Mapping[str, Any]
    NameRule = Callable[[str], list[str]]

_REMEMBERED = 16384
qualified_name_errors = lru_cache(_REMEMBERED)(names.qualified_name_errors)
label_value_errors = lru_cache(_REMEMBERED)(names.label_value_errors)
dns1123_label_errors = lru_cache(_REMEMBERED)(names.dns1123_label_errors)
dns1123_subdomain_errors = lru_cache(_REMEMBERED)(names.dns1123_subdomain_errors)
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"
NOT_AN_IP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
PROTOCOLS = ("SCTP", "TCP", "UDP")
MAX_INT32 = 2**31 - 1
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_is_http_path = re.compile(_HTTP_PATH).fullmatch
_IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}", re.ASCII).fullmatch
_MULTICAST, _MULTICAST6 = ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16")


class ErrorList(list[FieldError]):
    """The errors of an object, like upstream's `field.ErrorList`: a check appends what it finds.

    Checks of fields take the struct with its path, and the names of the fields.
    """

    __slots__ = ()

    def required(self, path: str, detail: str = "") -> None:
        self.append(field_errors.required(path, detail))

    def invalid(self, path: str, value: Any, detail: str) -> None:
        self.append(field_errors.invalid(path, value, detail))

    def forbidden(self, path: str, detail: str) -> None:
        self.append(field_errors.forbidden(path, detail))

    def not_supported(self, path: str, value: Any, allowed: Sequence[str]) -> None:
        self.append(field_errors.not_supported(path, value, allowed))

    def duplicate(self, path: str, value: Any) -> None:
        self.append(field_errors.duplicate(path, value))

    def not_found(self, path: str, value: Any) -> None:
        self.append(field_errors.not_found(path, value))

    def too_long(self, path: str, limit: int) -> None:
        self.append(field_errors.too_long(path, limit))

    def check_count(self, items: Sized, path: str, limit: int) -> None:
        """Check the number of items of a list or map."""
        if len(items) > limit:
            self.append(field_errors.too_many(path, len(items), limit))

    def check_required(self, struct: Struct, path: str, *fields: str) -> None:
        """Check that fields are set and not empty."""
        for field in fields:
            if not struct.get(field):
                self.required(join(path, field))

    def check_required_name(self, struct: Struct, path: str, field: str, rule: NameRule, absent: str = "") -> None:
        """Check a name that must be set, with a rule of `base.names`."""
        if name := struct.get(field):
            self.check_name(name, join(path, field), rule)
        else:
            self.required(join(path, field), absent)

    def check_optional_names(self, struct: Struct, path: str, rule: NameRule, *fields: str) -> None:
        """Check the names that are set and not empty."""
        for field in fields:
            if name := struct.get(field):
                self.check_name(name, join(path, field), rule)

    def check_enum(self, struct: Struct, path: str, field: str, allowed: Sequence[str], absent: str = "") -> None:
        """Check a field that must have one of the allowed values. `absent` is the detail of the error if it is not set."""
        value = struct.get(field)
        if value in allowed:
            return
        if value:
            self.not_supported(join(path, field), value, allowed)
        else:
            self.required(join(path, field), absent)

    def check_optional_enum(self, struct: Struct, path: str, field: str, allowed: Sequence[str]) -> None:
        """Check a field that may be unset, or must have one of the allowed values."""
        value = struct.get(field)
        if value is not None and value not in allowed:
            self.not_supported(join(path, field), value, allowed)

    def check_supported(self, struct: Struct, path: str, field: str, allowed: Sequence[str]) -> None:
        """Check a field whose empty value is an unsupported one, too."""
        if struct.get(field) not in allowed:
            self.not_supported(join(path, field), struct.get(field) or "", allowed)

    def check_unset(self, struct: Struct, path: str, detail: str, *fields: str) -> None:
        """Check that fields are not set."""
        for field in fields:
            if struct.get(field) is not None:
                self.forbidden(join(path, field), detail)

    def check_not_negative(self, struct: Struct, path: str, *fields: str) -> None:
        for field in fields:
            number = struct.get(field)
            if number is not None and number < 0:
                self.invalid(join(path, field), number, NEGATIVE)

    def check_unchanged(self, new: Struct, old: Struct, path: str, *fields: str) -> None:
        """Check that an update does not change immutable fields."""
        for field in fields:
            self.check_immutable(new.get(field), old.get(field), join(path, field))

    def check_immutable(self, new: Any, old: Any, path: str) -> None:
        """Check that a value has not changed; None and empty values count as equal."""
        if new != old and (new or old or isinstance(new, int) or isinstance(old, int)):
            self.invalid(path, new, "field is immutable")

    def check_unique(self, seen: set[Any], value: Any, path: str) -> None:
        if value in seen:
            self.duplicate(path, value)
        seen.add(value)

    def check_wildcard(self, values: Sequence[str], path: str, noun: str) -> None:
        """Check that a `*` is the only value."""
        if len(values) > 1 and "*" in values:
            self.invalid(path, values, f"if '*' is present, must not specify other {noun}")

    def check_name(self, value: str, path: str, rule: NameRule) -> None:
        """Report every message that a rule of `base.names` returns for the value."""
        for message in rule(value):
            self.invalid(path, value, message)

    def check_dns_label(self, value: str, path: str) -> None:
        self.check_name(value, path, dns1123_label_errors)

    def check_dns_subdomain(self, value: str, path: str) -> None:
        self.check_name(value, path, dns1123_subdomain_errors)

    def check_qualified_name(self, value: str, path: str) -> None:
        self.check_name(value, path, qualified_name_errors)

    def check_domain_prefixed_path(self, value: str, path: str) -> None:
        """Check a domain-prefixed path such as `example.com/foo`."""
        if not value:
            self.required(path)
            return
        host, _, rest = value.partition("/")
        if not host or not rest:
            self.invalid(path, value, 'must be a domain-prefixed path (such as "acme.io/foo")')
            return
        self.check_dns_subdomain(host, path)
        if not _is_http_path(rest):
            self.invalid(path, rest, names.regex_error("Invalid path", _HTTP_PATH))

    def check_range(self, value: int, path: str, low: int, high: int) -> None:
        if not low <= value <= high:
            self.invalid(path, value, f"must be between {low} and {high}, inclusive")

    def check_port(self, value: int, path: str) -> None:
        self.check_range(value, path, 1, 65535)

    def check_port_or_name(self, value: int | str, path: str) -> None:
        if isinstance(value, int):
            self.check_port(value, path)
        else:
            self.check_name(value, path, names.port_name_errors)

    def check_token_seconds(self, seconds: int, path: str) -> None:
        """Check the validity of a service account token."""
        if seconds < 600:
            self.invalid(path, seconds, "may not specify a duration less than 10 minutes")
        if seconds > 1 << 32:
            self.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")

    def check_positive_int_or_percent(self, value: int | str, path: str) -> None:
        if isinstance(value, str):
            self.check_name(value, path, names.percent_errors)
        elif value < 0:
            self.invalid(path, value, NEGATIVE)

    def check_at_most_100_percent(self, value: int | str, path: str) -> None:
        if (parse_percent(value) or 0) > 100:
            self.invalid(path, value, "must not be greater than 100%")

    def check_ip(self, value: str, path: str) -> None:
        if not is_ip(value):
            self.invalid(path, value, NOT_AN_IP)

    def check_cidr(self, value: str, path: str) -> None:
        if parse_cidr(value) is None:
            self.invalid(path, value, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)")

    def check_endpoint_ip(self, value: str, path: str) -> None:
        """Check an endpoint address: not unspecified, loopback or link-local."""
        ip = parse_ip(value)
        if ip is None:
            self.invalid(path, value, "must be a valid IP address")
            return
        if ip.is_unspecified:
            self.invalid(path, value, f"may not be unspecified ({value})")
        if ip.is_loopback:
            self.invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)")
        if ip.is_link_local:
            self.invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
        if ip in (_MULTICAST if ip.version == 4 else _MULTICAST6):
            self.invalid(path, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")

    def check_no_backsteps(self, value: str, path: str) -> None:
        if ".." in value.split("/"):
            self.invalid(path, value, "must not contain '..'")

    def check_descending_path(self, value: str, path: str) -> None:
        """Check a relative path without `..`."""
        if value.startswith("/"):
            self.invalid(path, value, "must be a relative path")
        self.check_no_backsteps(value, path)

    def check_local_path(self, value: str, path: str) -> None:
        self.check_descending_path(value, path)
        if value.startswith("..") and not value.startswith("../"):
            self.invalid(path, value, "must not start with '..'")

    def check_file_mode(self, value: int | None, path: str) -> None:
        if value is not None and not 0 <= value <= 0o777:
            self.invalid(path, value, "must be a number between 0 and 0777 (octal), both inclusive")


def join(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def list_items(struct: Struct, path: str, field: str) -> Iterator[tuple[Any, str]]:
    """The items of a list, each with its path."""
    for index, item in enumerate(struct.get(field) or ()):
        yield item, f"{path}.{field}[{index}]" if path else f"{field}[{index}]"


def immutable(*paths: str) -> Callable[[ErrorList, Struct, Struct], None]:
    """Build the validation of updates that may not change the fields at these paths, such as `spec.selector`."""
    fields = [(path, path.split(".")) for path in paths]

    def validate(errors: ErrorList, new: Struct, old: Struct) -> None:
        for path, parts in fields:
            value: Any = new
            before: Any = old
            for part in parts:
                value, before = (value or {}).get(part), (before or {}).get(part)
            errors.check_immutable(value, before, path)

    return validate


def format_go_struct(value: Struct | None, *fields: str) -> Rendered:
    """A value as Go's `%v` prints a struct: all fields in declaration order, by their Go names."""
    printed = {field[0].upper() + field[1:]: (value or {}).get(field) for field in fields}
    return Rendered(orjson.dumps(printed).decode())


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
