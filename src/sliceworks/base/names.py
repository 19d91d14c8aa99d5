"""Names: Kubernetes' validation rules, generated and shortened names, suggestions for misspelled ones, plurals for messages."""

from __future__ import annotations

import re
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING

from sliceworks.base.clock import rng

if TYPE_CHECKING:
    from collections.abc import Iterable

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = _LABEL + r"(\." + _LABEL + ")*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD = r"\*\." + _SUBDOMAIN
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = "(" + _KEY + ")?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_PERCENT = "[0-9]+%"
_HEADER = "[-A-Za-z0-9]+"
_ENV = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_is_label = re.compile(_LABEL).fullmatch
_is_subdomain = re.compile(_SUBDOMAIN).fullmatch
_is_label_1035 = re.compile(_LABEL_1035).fullmatch
_is_wildcard = re.compile(_WILDCARD).fullmatch
_is_key = re.compile(_KEY).fullmatch
_is_value = re.compile(_VALUE).fullmatch
_is_config_key = re.compile(_CONFIG_KEY).fullmatch
_is_percent = re.compile(_PERCENT).fullmatch
_is_header = re.compile(_HEADER).fullmatch
_is_env = re.compile(_ENV).fullmatch
_is_port_charset = re.compile("[-a-z0-9]+").fullmatch
_is_relaxed_env = re.compile("[ -<>-~]+").fullmatch
_ALNUM_ENDS = "and must start and end with an alphanumeric character"
_KEY_RULE = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}"
SUFFIX_LENGTH = 5
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED_LENGTH = 63
_DIGEST_ALPHABET = "0123456789abcdefghijklmnopqrstuv"


def max_length_error(limit: int, unit: str = "characters") -> str:
    """Kubernetes' message for a value that is too long. Its newer checks, such as those of labels, count `bytes`."""
    return f"must be no more than {limit} {unit}"


def regex_error(rule: str, pattern: str, *examples: str) -> str:
    """Kubernetes' message for a value that does not match a pattern."""
    if not examples:
        return f"{rule} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


def dns1123_label_errors(value: str) -> list[str]:
    """Errors in a DNS-1123 label: names of namespaces, containers and volumes."""
    if len(value) <= 63 and _is_label(value):
        return []
    errors = _length_errors(value, 63)
    if not _is_label(value):
        if _is_subdomain(value):
            errors.append("must not contain dots")
        else:
            rule = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALNUM_ENDS}"
            errors.append(regex_error(rule, _LABEL, "my-name", "123-abc"))
    return errors


def dns1123_subdomain_errors(value: str, *, unit: str = "characters") -> list[str]:
    """Errors in a DNS-1123 subdomain: names of most objects."""
    if len(value) <= 253 and _is_subdomain(value):
        return []
    errors = _length_errors(value, 253, unit)
    if not _is_subdomain(value):
        rule = f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ALNUM_ENDS}"
        errors.append(regex_error(rule, _SUBDOMAIN, "example.com"))
    return errors


def dns1035_label_errors(value: str) -> list[str]:
    """Errors in a DNS-1035 label: names of Services and of custom resources."""
    if len(value) <= 63 and _is_label_1035(value):
        return []
    errors = _length_errors(value, 63)
    if not _is_label_1035(value):
        rule = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
            "and end with an alphanumeric character"
        )
        errors.append(regex_error(rule, _LABEL_1035, "my-name", "abc-123"))
    return errors


def wildcard_subdomain_errors(value: str) -> list[str]:
    """Errors in a wildcard host such as `*.example.com`."""
    errors = _length_errors(value, 253)
    if not _is_wildcard(value):
        rule = (
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
            "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
        )
        errors.append(regex_error(rule, _WILDCARD, "*.example.com"))
    return errors


def qualified_name_errors(value: str) -> list[str]:
    """Errors in a qualified name, `name` or `prefix/name`: keys of labels and annotations, resource names, finalizers."""
    if len(value) <= 63 and _is_key(value):
        return []
    prefix, slash, name = value.partition("/")
    if "/" in name:
        rule = regex_error(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc")
        return [f"a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    errors: list[str] = []
    if not slash:
        name = prefix
    elif not prefix:
        errors.append("prefix part must be non-empty")
    else:
        errors.extend("prefix part " + error for error in dns1123_subdomain_errors(prefix, unit="bytes"))
    if not name:
        errors.append("name part must be non-empty")
    elif _byte_length(name) > 63:
        errors.append("name part " + max_length_error(63, "bytes"))
    if not _is_key(name):
        errors.append("name part " + regex_error(_KEY_RULE, _KEY, "MyName", "my.name", "123-abc"))
    return errors


def label_value_errors(value: str) -> list[str]:
    """Errors in a label value."""
    if len(value) <= 63 and _is_value(value):
        return []
    errors = _length_errors(value, 63, "bytes")
    if not _is_value(value):
        rule = f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}"
        errors.append(regex_error(rule, _VALUE, "MyValue", "my_value", "12345"))
    return errors


def path_segment_errors(value: str) -> list[str]:
    """Errors in a path segment: names of RBAC objects."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in "/%" if part in value]


def config_key_errors(value: str) -> list[str]:
    """Errors in a key of a ConfigMap or Secret."""
    errors = _length_errors(value, 253)
    if not _is_config_key(value):
        rule = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        errors.append(regex_error(rule, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return errors + _parent_directory_errors(value)


def environment_name_errors(value: str) -> list[str]:
    """Errors in the name of a container's environment variable."""
    if not value:
        return ["environment variable name must be non-empty"]
    if not _is_relaxed_env(value):
        return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]
    return []


def strict_environment_name_errors(value: str) -> list[str]:
    """Errors in the name of an environment variable by the older, stricter rule."""
    errors: list[str] = []
    if not _is_env(value):
        rule = (
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', "
            "and must not start with a digit"
        )
        errors.append(regex_error(rule, _ENV, "my.env-name", "MY_ENV.NAME", "MyEnvName1"))
    return errors + _parent_directory_errors(value)


def port_name_errors(value: str) -> list[str]:
    """Errors in a port name."""
    errors = _length_errors(value, 15)
    if not _is_port_charset(value):
        errors.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= letter <= "z" for letter in value):
        errors.append("must contain at least one letter (a-z)")
    if "--" in value:
        errors.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        errors.append("must not begin or end with a hyphen")
    return errors


def percent_errors(value: str) -> list[str]:
    """Errors in a percentage such as `25%`."""
    if _is_percent(value):
        return []
    return [regex_error("a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1%", "93%")]


def header_name_errors(value: str) -> list[str]:
    """Errors in the name of an HTTP header of a probe or hook."""
    if _is_header(value):
        return []
    return [regex_error("a valid HTTP header must consist of alphanumeric characters or '-'", _HEADER, "X-Header-Name")]


def mask_trailing_dash(prefix: str) -> str:
    """A generateName with its trailing dash replaced, as kube-apiserver does before it validates the prefix."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def random_suffix() -> str:
    """The suffix that kube-apiserver appends to a generateName."""
    return "".join(rng().choices(_SUFFIX_ALPHABET, k=SUFFIX_LENGTH))


def generate(prefix: str) -> str:
    """A name from a generateName; a long prefix is truncated."""
    return prefix[: _MAX_GENERATED_LENGTH - SUFFIX_LENGTH] + random_suffix()


def shorten(name: str, limit: int = 63, *, digest_bits: int = 50) -> str:
    """The name if it fits, else its beginning and a digest of the whole name, so that different names stay different."""
    if len(name) <= limit:
        return name
    length = -(-digest_bits // 5)
    number = int.from_bytes(blake2b(name.encode(), digest_size=32).digest())
    digest = "".join(_DIGEST_ALPHABET[number >> 5 * index & 31] for index in range(length))
    head = name[: max(0, limit - length - 1)].rstrip("-._")
    return f"{head}-{digest}" if head else digest[:limit]


def to_camel_case(name: str) -> str:
    """`ip_cidr_range` → `ipCidrRange`."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _length_errors(value: str, limit: int, unit: str = "characters") -> list[str]:
    return [max_length_error(limit, unit)] if _byte_length(value) > limit else []


def _byte_length(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))


def _parent_directory_errors(value: str) -> list[str]:
    if value in {".", ".."}:
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []


def pluralize(count: int, singular: str, plural: str = "") -> str:
    """`1 job`, `2 jobs`; give `plural` for nouns that do not just add an s."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def suggest_name(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`did you mean …?` with the most similar known name, ignoring case; empty if no name is similar."""
    from difflib import get_close_matches

    by_lowercase = {candidate.lower(): candidate for candidate in known}
    matches = get_close_matches(name.lower(), by_lowercase, n=1, cutoff=cutoff)
    return f"did you mean {by_lowercase[matches[0]]}?" if matches else ""


PROJECT_NUMBER_DIGITS = 12
"""Digits of the number of a simulated Google project; Config Connector and the cloud API derive it from the project's ID."""


def derive_number(name: str, digits: int) -> str:
    """A number of this many digits that is always the same for a name."""
    return str(int.from_bytes(sha256(name.encode()).digest()[:16], "big") % (9 * 10 ** (digits - 1)) + 10 ** (digits - 1))
