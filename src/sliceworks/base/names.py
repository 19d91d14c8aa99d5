"""Names: Kubernetes' validation rules, generated and shortened names, suggestions for misspelled ones, plurals for messages."""

from __future__ import annotations

import re
from hashlib import blake2b, sha256
from typing import TYPE_CHECKING

from sliceworks.base.clock import rng

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ALNUM_ENDS = "and must start and end with an alphanumeric character"
SUFFIX_LENGTH = 5
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED_LENGTH = 63
_DIGEST_ALPHABET = "0123456789abcdefghijklmnopqrstuv"
_DIGEST_LENGTH = 10


def max_length_error(limit: int, unit: str = "characters") -> str:
    """Kubernetes' message for a value that is too long. Its newer checks, such as those of labels, count `bytes`."""
    return f"must be no more than {limit} {unit}"


def regex_error(rule: str, pattern: str, *examples: str) -> str:
    """Kubernetes' message for a value that does not match a pattern."""
    if not examples:
        return f"{rule} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{rule} (e.g. {shown}regex used for validation is '{pattern}')"


class _Rule:
    """A pattern, and Kubernetes' message for values that do not match it."""

    def __init__(self, pattern: str, rule: str, examples: tuple[str, ...]) -> None:
        self.pattern, self.error = pattern, regex_error(rule, pattern, *examples)
        self.matches = re.compile(pattern).fullmatch

    def errors(self, value: str, limit: int = 0, unit: str = "characters") -> list[str]:
        """Errors of a value whose length is limited, unless `limit` is 0."""
        is_match = self.matches(value) is not None
        if is_match and (not limit or len(value) <= limit):
            return []
        errors = _length_errors(value, limit, unit) if limit else []
        return errors if is_match else [*errors, self.error]


_LABEL = _Rule(
    "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
    f"a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', {_ALNUM_ENDS}",
    ("my-name", "123-abc"),
)
_SUBDOMAIN = _Rule(
    rf"{_LABEL.pattern}(\.{_LABEL.pattern})*",
    f"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', {_ALNUM_ENDS}",
    ("example.com",),
)
_LABEL_1035 = _Rule(
    "[a-z]([-a-z0-9]*[a-z0-9])?",
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character",
    ("my-name", "abc-123"),
)
_WILDCARD = _Rule(
    rf"\*\.{_SUBDOMAIN.pattern}",
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of "
    "lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
    ("*.example.com",),
)
_QUALIFIED = _Rule(
    "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]",
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}",
    ("MyName", "my.name", "123-abc"),
)
_LABEL_VALUE = _Rule(
    f"({_QUALIFIED.pattern})?",
    f"a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', {_ALNUM_ENDS}",
    ("MyValue", "my_value", "12345"),
)
_CONFIG_KEY = _Rule(
    "[-._a-zA-Z0-9]+",
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    ("key.name", "KEY_NAME", "key-name"),
)
_ENVIRONMENT = _Rule(
    "[-._a-zA-Z][-._a-zA-Z0-9]*",
    "a valid environment variable name must consist of alphabetic characters, digits, '_', '-', or '.', "
    "and must not start with a digit",
    ("my.env-name", "MY_ENV.NAME", "MyEnvName1"),
)
_PERCENT = _Rule("[0-9]+%", "a valid percent string must be a numeric string followed by an ending '%'", ("1%", "93%"))
_HEADER = _Rule("[-A-Za-z0-9]+", "a valid HTTP header must consist of alphanumeric characters or '-'", ("X-Header-Name",))
_is_port_charset = re.compile("[-a-z0-9]+").fullmatch
_is_relaxed_env = re.compile("[ -<>-~]+").fullmatch


def dns1123_label_errors(value: str) -> list[str]:
    """Errors in a DNS-1123 label: names of namespaces, containers and volumes."""
    errors = _LABEL.errors(value, 63)
    if errors and not _LABEL.matches(value) and _SUBDOMAIN.matches(value):
        errors[-1] = "must not contain dots"
    return errors


def dns1123_subdomain_errors(value: str, *, unit: str = "characters") -> list[str]:
    """Errors in a DNS-1123 subdomain: names of most objects."""
    return _SUBDOMAIN.errors(value, 253, unit)


def dns1035_label_errors(value: str) -> list[str]:
    """Errors in a DNS-1035 label: names of Services and of custom resources."""
    return _LABEL_1035.errors(value, 63)


def wildcard_subdomain_errors(value: str) -> list[str]:
    """Errors in a wildcard host such as `*.example.com`."""
    return _WILDCARD.errors(value, 253)


def qualified_name_errors(value: str) -> list[str]:
    """Errors in a qualified name, `name` or `prefix/name`: keys of labels and annotations, resource names, finalizers."""
    if len(value) <= 63 and _QUALIFIED.matches(value):
        return []
    prefix, slash, name = value.partition("/")
    if "/" in name:
        return [f"a valid label key {_QUALIFIED.error} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]
    errors: list[str] = []
    if not slash:
        name = prefix
    elif not prefix:
        errors.append("prefix part must be non-empty")
    else:
        errors.extend("prefix part " + error for error in dns1123_subdomain_errors(prefix, unit="bytes"))
    if not name:
        errors.append("name part must be non-empty")
    return errors + ["name part " + error for error in _QUALIFIED.errors(name, 63, "bytes")]


def label_value_errors(value: str) -> list[str]:
    """Errors in a label value."""
    return _LABEL_VALUE.errors(value, 63, "bytes")


def path_segment_errors(value: str) -> list[str]:
    """Errors in a path segment: names of RBAC objects."""
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{part}'" for part in "/%" if part in value]


def config_key_errors(value: str) -> list[str]:
    """Errors in a key of a ConfigMap or Secret."""
    return _CONFIG_KEY.errors(value, 253) + _parent_directory_errors(value)


def environment_name_errors(value: str) -> list[str]:
    """Errors in the name of a container's environment variable."""
    if not value:
        return ["environment variable name must be non-empty"]
    if not _is_relaxed_env(value):
        return ["a valid environment variable name must consist only of printable ASCII characters other than '='"]
    return []


def strict_environment_name_errors(value: str) -> list[str]:
    """Errors in the name of an environment variable by the older, stricter rule."""
    return _ENVIRONMENT.errors(value) + _parent_directory_errors(value)


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
    return _PERCENT.errors(value)


def header_name_errors(value: str) -> list[str]:
    """Errors in the name of an HTTP header of a probe or hook."""
    return _HEADER.errors(value)


# The grammar of image references, as container runtimes parse them: [HOST[:PORT]/]PATH[:TAG][@DIGEST].
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG, _DIGEST = r"[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}", r"[a-zA-Z][a-zA-Z0-9]*(?:[-_+.][a-zA-Z][a-zA-Z0-9]*)*:[0-9a-fA-F]{32,}"
_IMAGE = re.compile(rf"(?:{_HOST}/)?{_PATH}(?:/{_PATH})*(?::{_TAG})?(?:@{_DIGEST})?\Z")
LONGEST_IMAGE = 512


def image_error(value: str) -> str:
    """What is wrong with an image reference, in the words of container runtimes; empty if nothing."""
    host, separator, rest = value.partition("/")
    has_host = separator and (set(host) & {".", ":"} or host == "localhost" or host != host.lower())
    repository = (rest if has_host else value if separator else f"library/{value}").partition(":")[0]
    if repository != repository.lower():
        return f"invalid reference format: repository name ({repository}) must be lowercase"
    return "" if len(value) <= LONGEST_IMAGE and _IMAGE.match(value) else "invalid reference format"


def mask_trailing_dash(prefix: str) -> str:
    """A generateName with its trailing dash replaced, as kube-apiserver does before it validates the prefix."""
    return prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix


def generate(prefix: str) -> str:
    """A name from a generateName, with a random suffix; a long prefix is truncated."""
    return prefix[: _MAX_GENERATED_LENGTH - SUFFIX_LENGTH] + "".join(rng().choices(_SUFFIX_ALPHABET, k=SUFFIX_LENGTH))


def shorten(name: str, limit: int = 63) -> str:
    """The name if it fits, else its beginning and a digest of the whole name, so that different names stay different."""
    if len(name) <= limit:
        return name
    number = int.from_bytes(blake2b(name.encode(), digest_size=32).digest())
    digest = "".join(_DIGEST_ALPHABET[number >> 5 * index & 31] for index in range(_DIGEST_LENGTH))
    head = name[: max(0, limit - _DIGEST_LENGTH - 1)].rstrip("-._")
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


def join_words(words: Iterable[object], conjunction: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`; empty without words."""
    *others, last = [*map(str, words)] or [""]
    return f"{', '.join(others)} {conjunction} {last}" if others else last


def join_first(words: Sequence[str], limit: int, separator: str = ", ") -> str:
    """The first words, and how many more there are: `a, b and 3 more`."""
    rest = len(words) - limit
    return separator.join(words[:limit]) + (f" and {rest} more" if rest > 0 else "")


def suggest_name(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`did you mean …?` with the most similar known name; empty if no name is similar."""
    closest = closest_name(name, known, cutoff=cutoff)
    return f"did you mean {closest}?" if closest else ""


def closest_name(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The most similar known name, ignoring case; empty if no name is similar."""
    from difflib import get_close_matches

    by_lowercase = {candidate.lower(): candidate for candidate in known}
    matches = get_close_matches(name.lower(), by_lowercase, n=1, cutoff=cutoff)
    return by_lowercase[matches[0]] if matches else ""


def derive_number(name: str, digits: int) -> str:
    """A number of this many digits that is always the same for a name."""
    return str(int.from_bytes(sha256(name.encode()).digest()[:16], "big") % (9 * 10 ** (digits - 1)) + 10 ** (digits - 1))


def project_number(project: str) -> str:
    """The number of a simulated Google project; Config Connector and the cloud API derive it from the project's ID."""
    return derive_number(project, 12)


def numeric_id(path: str) -> str:
    """The numeric ID of a simulated Google resource."""
    return derive_number(path, 19)
