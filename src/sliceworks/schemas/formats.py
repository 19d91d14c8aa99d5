"""String formats of CRD schemas, checked as kube-apiserver checks them."""

from __future__ import annotations

import re
from datetime import date
from ipaddress import AddressValueError, IPv6Address
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_HEX = "[0-9a-fA-F]"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOST_CHARACTER = r"[a-zA-Z0-9\u00a1-\uffff]"
_GO_DURATION = re.compile(r"[-+]?(0|((\d++\.?+\d*+|\.\d++)(ns|us|µs|μs|ms|s|m|h))+)")
_WORDY_DURATION = re.compile(r"(?<!\d)\d+\s*([A-Za-zµ]+)")
_DURATION_WORDS = frozenset(
    ["ns", "nano", "us", "µs", "micro", "ms", "milli", "s", "sec", "m", "min", "h", "hr", "hour", "d", "day", "w", "wk", "week"]
)
_LONG_WORDS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_TIME_OF_DAY = re.compile(r"(\d\d):(\d\d):(\d\d)(.\d+)?(z|[+-]\d\d:\d\d)")
_ADDRESS = re.compile(r'([^\s@<>()\[\],;:\\"]+|"[^"]+")@(\[[^\]]+\]|[^\s@<>()\[\],;:\\"]+)')


def normalize(name: str | None) -> str | None:
    """The canonical name of a supported format, or None: kube-apiserver ignores other formats."""
    return name if name is not None and name.replace("-", "") in _CHECKS else None


def is_valid(name: str, text: str) -> bool:
    return _CHECKS[name.replace("-", "")](text)


def _matching(pattern: str, flags: int = 0) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags | re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str, variant: str) -> Callable[[str], bool]:
    return _matching(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{version}-?{variant}-?{_HEX}{{12}}")


def _date(text: str) -> bool:
    try:
        return re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _date_time(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    match = _TIME_OF_DAY.fullmatch(rest.partition("t")[0]) if _date(day) else None
    return match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


def _duration(text: str) -> bool:
    if _GO_DURATION.fullmatch(text) and text.lstrip("+-"):
        return True
    return any(_duration_word(unit.lower()) for unit in _WORDY_DURATION.findall(text))


def _duration_word(unit: str) -> bool:
    return unit in _DURATION_WORDS or unit.startswith(_LONG_WORDS)


def _ipv4(text: str) -> bool:
    """An IPv4 address, also an IPv4-mapped IPv6 address; leading zeros are allowed."""
    return "." in text and (_plain_ipv4(text) or _ipv6(text))


def _plain_ipv4(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 4 and all(re.fullmatch(r"\d{1,10}", part, re.ASCII) and int(part) <= 255 for part in parts)


def _ipv6(text: str) -> bool:
    if "%" in text or ":" not in text:
        return False
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _cidr(text: str) -> bool:
    address, slash, prefix = text.rpartition("/")
    if not slash or not re.fullmatch(r"\d{1,3}", prefix, re.ASCII):
        return False
    return int(prefix) <= (32 if _plain_ipv4(address) else 128 if _ipv6(address) else -1)


def _uri(text: str) -> bool:
    """A request URI as Go parses it: absolute, or an absolute path."""
    if not text or re.search(r"[\x00-\x20\x7f]", text) or re.search(r"%(?![0-9A-Fa-f]{2})", text):
        return False
    return text.startswith("/") or re.match(r"[A-Za-z][-+.A-Za-z0-9]*:[^\s]", text) is not None or text == "*"


def _email(text: str) -> bool:
    named = re.fullmatch(r"[^<>]*<([^<>]+)>\s*", text)
    return _ADDRESS.fullmatch(named[1] if named else text.strip()) is not None


def _hostname(text: str) -> bool:
    if len(text.encode()) > 255 or any(len(part.encode()) > 63 for part in text.split(".")):
        return False
    plain = re.fullmatch(rf"{_HOST_CHARACTER}(-?{_HOST_CHARACTER}{{0,62}})?", text)
    dotted = re.fullmatch(
        rf"({_HOST_CHARACTER}([-{_HOST_CHARACTER[1:]}{{0,61}}{_HOST_CHARACTER})?\.)+[a-zA-Z\u00aa-\uffff]{{2,63}}", text
    )
    return plain is not None or dotted is not None


def _mac(text: str) -> bool:
    pairs, quads = rf"{_HEX}{{2}}", rf"{_HEX}{{4}}"
    octets = "|".join(rf"{pairs}([:-])({pairs}\{group}){{{count}}}{pairs}" for group, count in ((1, 4), (3, 6), (5, 18)))
    dotted = rf"{quads}(\.{quads}){{2}}|{quads}(\.{quads}){{3}}|{quads}(\.{quads}){{9}}"
    return re.fullmatch(octets, text) is not None or re.fullmatch(dotted, text) is not None


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits, re.ASCII):
        return False
    return sum((place + 1) * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"\d{13}", digits, re.ASCII):
        return False
    return sum(int(digit) * (1, 3)[place % 2] for place, digit in enumerate(digits)) % 10 == 0


def _credit_card(text: str) -> bool:
    digits = re.sub(r"\D+", "", text)
    issuers = r"4\d{12}(\d{3})?|5[1-5]\d{14}|6(011|5\d\d)\d{12}|3[47]\d{13}|3(0[0-5]|[68]\d)\d{11}|(2131|1800|35\d{3})\d{11}"
    if not re.fullmatch(issuers, digits, re.ASCII):
        return False
    doubled = (int(digit) * (1, 2)[place % 2] for place, digit in enumerate(reversed(digits)))
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


_BYTE = r"(\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])"
_CHECKS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matching(f"{_HEX}{{24}}"),
    "uri": _uri,
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "cidr": _cidr,
    "mac": _mac,
    "uuid": _uuid(f"{_HEX}{{4}}", f"{_HEX}{{4}}"),
    "uuid3": _uuid(f"3{_HEX}{{3}}", f"{_HEX}{{4}}"),
    "uuid4": _uuid(f"4{_HEX}{{3}}", f"[89abAB]{_HEX}{{3}}"),
    "uuid5": _uuid(f"5{_HEX}{{3}}", f"[89abAB]{_HEX}{{3}}"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _credit_card,
    "ssn": lambda text: re.fullmatch(r"\d{3}[- ]\d{2}[- ]\d{4}", text, re.ASCII) is not None,
    "hexcolor": _matching(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _matching(rf"rgb\(\s*{_BYTE}\s*,\s*{_BYTE}\s*,\s*{_BYTE}\s*\)"),
    "byte": _matching(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda text: True,
    "date": _date,
    "duration": _duration,
    "datetime": _date_time,
    "k8sshortname": lambda text: len(text) <= 63 and re.fullmatch(_LABEL, text) is not None,
    "k8slongname": lambda text: len(text) <= 253 and re.fullmatch(rf"{_LABEL}(\.{_LABEL})*", text) is not None,
}
