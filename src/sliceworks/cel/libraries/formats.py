"""Kubernetes' named formats: `format.dns1123Label().validate(value)` returns an optional list of errors.

The engine accepts no optional from custom functions. These functions return an empty list or map for none, and the expression
transformer wraps the call in `optional.ofNonZeroValue`.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import date
from typing import TYPE_CHECKING, Any

from sliceworks.base import names
from sliceworks.cel.libraries import urls
from sliceworks.cel.libraries.functions import Function, unwrap, wrap

if TYPE_CHECKING:
    from collections.abc import Callable

KIND = "kubernetes.NamedFormat"
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\Z")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)\Z")


def _masked(errors: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    return lambda value: errors(names.mask_trailing_dash(value))


def _uri(value: str) -> list[str]:
    try:
        urls.parse(value)
    except ValueError as error:
        return [str(error)]
    return []


def _uuid(value: str) -> list[str]:
    return [] if _UUID.match(value) else ["does not match the UUID format"]


def _byte(value: str) -> list[str]:
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return []


def _is_date(value: str) -> bool:
    try:
        return len(value) == 10 and bool(date.fromisoformat(value))
    except ValueError:
        return False


def _date(value: str) -> list[str]:
    return [] if _is_date(value) else ["invalid date"]


def _datetime(value: str) -> list[str]:
    return [] if _DATE_TIME.match(value) and _is_date(value[:10]) else ["invalid datetime"]


CHECKS: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": names.dns1123_label_errors,
    "dns1123Subdomain": names.dns1123_subdomain_errors,
    "dns1035Label": names.dns1035_label_errors,
    "qualifiedName": names.qualified_name_errors,
    "dns1123LabelPrefix": _masked(names.dns1123_label_errors),
    "dns1123SubdomainPrefix": _masked(names.dns1123_subdomain_errors),
    "dns1035LabelPrefix": _masked(names.dns1035_label_errors),
    "labelValue": names.label_value_errors,
    "uri": _uri,
    "uuid": _uuid,
    "byte": _byte,
    "date": _date,
    "datetime": _datetime,
}
RETURNS_OPTIONAL = frozenset({"validate", "format.named"})


def named(name: str) -> dict[str, str]:
    return wrap(KIND, name) if name in CHECKS else {}


def validate(named_format: dict[str, Any], value: str) -> list[str]:
    return CHECKS[unwrap(KIND, named_format)](value)


def _constant(name: str) -> Callable[[], dict[str, str]]:
    return lambda: wrap(KIND, name)


FUNCTIONS = [
    Function("validate", f"{KIND}.validate(string)", "optional_type<list<string>>", validate),
    Function("format.named", "format.named(string)", f"optional_type<{KIND}>", named),
    *(Function(f"format.{name}", f"format.{name}()", KIND, _constant(name)) for name in CHECKS),
]
