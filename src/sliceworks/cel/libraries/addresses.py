"""Kubernetes' IP address and CIDR functions."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

from sliceworks.cel.libraries.functions import Function, accepts, unwrap, wrap
from sliceworks.schemas.field_errors import quoted

IP, CIDR = "net.IP", "net.CIDR"
_Address = IPv4Address | IPv6Address


def _parse(text: str) -> _Address:
    if "%" in text and ":" in text:
        raise ValueError(f"IP address {quoted(text)} with zone value is not allowed")
    try:
        address = ip_address(text)
    except ValueError as error:
        reason = f"ParseAddr({quoted(text)}): {_reason(text)}"
        raise ValueError(f"IP Address {quoted(text)} parse error during conversion from string: {reason}") from error
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        raise ValueError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return address


def _reason(text: str) -> str:
    """Go's error message for an invalid address."""
    if ":" in text or "." not in text:
        return "unable to parse IP" if ":" not in text else "each colon-separated field must have at least one digit"
    fields = text.split(".")
    for position, field in enumerate(fields):
        if not field.isdecimal():
            rest = ".".join(fields[position:])
            invalid = next((index for index, letter in enumerate(rest) if not letter.isdecimal() and letter != "."), None)
            if invalid is None:
                return f"IPv4 field must have at least one digit (at {quoted('.' + rest if position else rest)})"
            return f"unexpected character (at {quoted(rest[invalid:])})"
        if len(field) > 1 and field.startswith("0"):
            return "IPv4 field has octet with leading zero"
        if int(field) > 255:
            return "IPv4 field has value >255"
    return "IPv4 address too short" if len(fields) < 4 else "IPv4 address too long"


def _parse_network(text: str) -> tuple[_Address, int]:
    """The address including host bits, and the prefix length."""
    start, slash, bits = text.rpartition("/")
    try:
        if not slash:
            raise ValueError(f"netip.ParsePrefix({quoted(text)}): no '/'")
        try:
            address = ip_address(start)
        except ValueError as error:
            raise ValueError(f"netip.ParsePrefix({quoted(text)}): ParseAddr({quoted(start)}): {_reason(start)}") from error
        if not bits.isdecimal() or (len(bits) > 1 and bits.startswith("0")):
            raise ValueError(f"netip.ParsePrefix({quoted(text)}): bad bits after slash: {quoted(bits)}")
        if int(bits) > address.max_prefixlen:
            raise ValueError(f"netip.ParsePrefix({quoted(text)}): prefix length out of range")
    except ValueError as error:
        raise ValueError(f"network address parse error during conversion from string: {error}") from error
    if isinstance(address, IPv6Address) and address.ipv4_mapped:
        raise ValueError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return address, int(bits)


def ip(text: str) -> dict[str, str]:
    return wrap(IP, str(_parse(text)))


def is_canonical(text: str) -> bool:
    return str(_parse(text)) == text


def cidr(text: str) -> dict[str, str]:
    try:
        address, bits = _parse_network(text)
    except ValueError as error:
        raise ValueError(f"network address parse error during conversion from string: {error}") from error
    return wrap(CIDR, f"{address}/{bits}")


def _address(value: dict[str, Any]) -> _Address:
    return ip_address(unwrap(IP, value))


def _network(value: dict[str, Any]) -> IPv4Network | IPv6Network:
    return ip_network(unwrap(CIDR, value), strict=False)


def contains_ip(value: dict[str, Any], argument: dict[str, Any] | str) -> bool:
    address = _parse(argument) if isinstance(argument, str) else _address(argument)
    return address in _network(value)


def contains_cidr(value: dict[str, Any], argument: dict[str, Any] | str) -> bool:
    outer, inner = _network(value), _network(cidr(argument) if isinstance(argument, str) else argument)
    return outer.version == inner.version and outer.overlaps(inner) and outer.prefixlen <= inner.prefixlen


def is_global_unicast(value: dict[str, Any]) -> bool:
    address = _address(value)
    broadcast = address == IPv4Address("255.255.255.255")
    return not (broadcast or address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)


def is_link_local_multicast(value: dict[str, Any]) -> bool:
    address = _address(value)
    if isinstance(address, IPv4Address):
        return address in IPv4Network("224.0.0.0/24")
    return address.packed[0] == 0xFF and address.packed[1] & 0x0F == 0x02


def to_string(value: dict[str, Any]) -> str:
    return unwrap(IP if IP in value else CIDR, value)


FUNCTIONS = [
    Function("ip", "ip(string)", IP, ip),
    Function("isIP", "isIP(string)", "bool", accepts(_parse)),
    Function("ip.isCanonical", "ip.isCanonical(string)", "bool", is_canonical),
    Function("family", f"{IP}.family()", "int", lambda value: _address(value).version),
    Function("isUnspecified", f"{IP}.isUnspecified()", "bool", lambda value: _address(value).is_unspecified),
    Function("isLoopback", f"{IP}.isLoopback()", "bool", lambda value: _address(value).is_loopback),
    Function("isLinkLocalUnicast", f"{IP}.isLinkLocalUnicast()", "bool", lambda value: _address(value).is_link_local),
    Function("isLinkLocalMulticast", f"{IP}.isLinkLocalMulticast()", "bool", is_link_local_multicast),
    Function("isGlobalUnicast", f"{IP}.isGlobalUnicast()", "bool", is_global_unicast),
    Function("cidr", "cidr(string)", CIDR, cidr),
    Function("isCIDR", "isCIDR(string)", "bool", accepts(_parse_network)),
    Function("containsIP", f"{CIDR}.containsIP(string)", "bool", contains_ip),
    Function("containsIP", f"{CIDR}.containsIP({IP})", "bool", contains_ip),
    Function("containsCIDR", f"{CIDR}.containsCIDR(string)", "bool", contains_cidr),
    Function("containsCIDR", f"{CIDR}.containsCIDR({CIDR})", "bool", contains_cidr),
    Function("ip", f"{CIDR}.ip()", IP, lambda value: wrap(IP, unwrap(CIDR, value).partition("/")[0])),
    Function("prefixLength", f"{CIDR}.prefixLength()", "int", lambda value: _network(value).prefixlen),
    Function("masked", f"{CIDR}.masked()", CIDR, lambda value: wrap(CIDR, str(_network(value)))),
    Function("string", f"string({IP})", "string", to_string),
    Function("string", f"string({CIDR})", "string", to_string),
]
