"""Names as Kubernetes checks them, with its own words, and names of our own making: shortened and generated.

Each `…_errors` function returns what is wrong with a value, an empty list when nothing is. Lengths are counted in bytes.
"""

from __future__ import annotations

import re
from hashlib import blake2b

from sliceworks.base.clock import randomness

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
_KEY_TEXT = f"must consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}"

SUFFIX_LENGTH = 5
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_GENERATED = 63
_DIGEST_ALPHABET = "0123456789abcdefghijklmnopqrstuv"


def too_long(limit: int, unit: str = "characters") -> str:
    """Kubernetes' sentence about length. Its newer checks, those of labels among them, say `bytes`."""
    return f"must be no more than {limit} {unit}"


def not_matching(text: str, pattern: str, *examples: str) -> str:
    """Kubernetes' sentence about a pattern that did not match."""
    if not examples:
        return f"{text} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


def dns1123_label_errors(value: str) -> list[str]:
    """Names of namespaces, containers, Services' selectors and the like."""
    if len(value) <= 63 and _is_label(value):
        return []
    errors = _length_errors(value, 63)
    if not _is_label(value):
        if _is_subdomain(value):
            errors.append("must not contain dots")
        else:
            text = f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALNUM_ENDS}"
            errors.append(not_matching(text, _LABEL, "my-name", "123-abc"))
    return errors


def dns1123_subdomain_errors(value: str, *, unit: str = "characters") -> list[str]:
    """Names of most objects."""
    if len(value) <= 253 and _is_subdomain(value):
        return []
    errors = _length_errors(value, 253, unit)
    if not _is_subdomain(value):
        text = f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ALNUM_ENDS}"
        errors.append(not_matching(text, _SUBDOMAIN, "example.com"))
    return errors


def dns1035_label_errors(value: str) -> list[str]:
    """Names of Services and of custom resources."""
    if len(value) <= 63 and _is_label_1035(value):
        return []
    errors = _length_errors(value, 63)
    if not _is_label_1035(value):
        text = (
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
            "and end with an alphanumeric character"
        )
        errors.append(not_matching(text, _LABEL_1035, "my-name", "abc-123"))
    return errors


def wildcard_subdomain_errors(value: str) -> list[str]:
    """Hosts such as `*.example.com`."""
    errors = _length_errors(value, 253)
    if not _is_wildcard(value):
        text = (
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
            "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
        )
        errors.append(not_matching(text, _WILDCARD, "*.example.com"))
    return errors


def qualified_name_errors(value: str) -> list[str]:
    """Keys of labels and annotations, names of resources, finalizers: `name` or `prefix/name`."""
    if len(value) <= 63 and _is_key(value):
        return []
    prefix, slash, name = value.partition("/")
    if "/" in name:
        sentence = not_matching(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc")
        return [f"a valid label key {sentence} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    errors: list[str] = []
    if not slash:
        name = prefix
    elif not prefix:
        errors.append("prefix part must be non-empty")
    else:
        errors.extend("prefix part " + text for text in dns1123_subdomain_errors(prefix, unit="bytes"))
    if not name:
        errors.append("name part must be non-empty")
    elif _bytes(name) > 63:
        errors.append("name part " + too_long(63, "bytes"))
    if not _is_key(name):
        errors.append("name part " + not_matching(_KEY_TEXT, _KEY, "MyName", "my.name", "123-abc"))
    return errors


def label_value_errors(value: str) -> list[str]:
    """Values of labels."""
    if len(value) <= 63 and _is_value(value):
        return []
    errors = _length_errors(value, 63, "bytes")
    if not _is_value(value):
        text = f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}"
        errors.append(not_matching(text, _VALUE, "MyValue", "my_value", "12345"))
    return errors


def path_segment_errors(value: str) -> list[str]:
    """Names of RBAC objects: anything that fits between two slashes of a path."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in "/%" if part in value]


def config_key_errors(value: str) -> list[str]:
    """Keys of ConfigMaps and Secrets."""
    errors = _length_errors(value, 253)
    if not _is_config_key(value):
        text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        errors.append(not_matching(text, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return errors + _parent_folder_errors(value)


def environment_name_errors(value: str) -> list[str]:
    """Names of environment variables, as containers may have them."""
    if not value:
        return ["environment variable name must be non-empty"]
    if not _is_relaxed_env(value):
        return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]
    return []


def strict_environment_name_errors(value: str) -> list[str]:
    """Names of environment variables where the older, narrower rule still holds."""
    errors: list[str] = []
    if not _is_env(value):
        text = (
            "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', "
            "and must not start with a digit"
        )
        errors.append(not_matching(text, _ENV, "my.env-name", "MY_ENV.NAME", "MyEnvName1"))
    return errors + _parent_folder_errors(value)


def port_name_errors(value: str) -> list[str]:
    """Names of ports."""
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
    """Percentages such as `25%`."""
    if _is_percent(value):
        return []
    return [not_matching("a valid percent string must be a numeric string followed by an ending '%'", _PERCENT, "1%", "93%")]


def header_name_errors(value: str) -> list[str]:
    """Names of HTTP headers in probes and hooks."""
    if _is_header(value):
        return []
    return [not_matching("a valid HTTP header must consist of alphanumeric characters or '-'", _HEADER, "X-Header-Name")]


def masked_prefix(prefix: str) -> str:
    """A generateName in the form in which it is checked as a name: its trailing dash is no fault."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def random_suffix() -> str:
    """What the API server appends to a generateName."""
    return "".join(randomness().choices(_SUFFIX_ALPHABET, k=SUFFIX_LENGTH))


def generate(prefix: str) -> str:
    """A name from a generateName; a long prefix loses its end, not the suffix."""
    return prefix[: _LONGEST_GENERATED - SUFFIX_LENGTH] + random_suffix()


def shorten(name: str, limit: int = 63, *, digest_bits: int = 50) -> str:
    """The name itself when it fits, else its beginning and a digest of the whole: different names stay different."""
    if len(name) <= limit:
        return name
    length = -(-digest_bits // 5)
    number = int.from_bytes(blake2b(name.encode(), digest_size=32).digest())
    digest = "".join(_DIGEST_ALPHABET[number >> 5 * place & 31] for place in range(length))
    head = name[: max(0, limit - length - 1)].rstrip("-._")
    return f"{head}-{digest}" if head else digest[:limit]


def camel(name: str) -> str:
    """`ip_cidr_range` → `ipCidrRange`."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _length_errors(value: str, limit: int, unit: str = "characters") -> list[str]:
    return [too_long(limit, unit)] if _bytes(value) > limit else []


def _bytes(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))


def _parent_folder_errors(value: str) -> list[str]:
    if value in {".", ".."}:
        return [f"must not be '{value}'"]
    return ["must not start with '..'"] if value.startswith("..") else []
