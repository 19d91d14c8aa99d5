"""Names: validation errors with Kubernetes' messages, generated and shortened names, suggestions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sliceworks.base import clock, names

LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with "
    "an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
CONFIG_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
    "regex used for validation is '[-._a-zA-Z0-9]+')"
)


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ("a", []),
        ("a" * 63, []),
        ("", [LABEL]),
        ("A", [LABEL]),
        ("a\n", [LABEL]),
        ("a.b", ["must not contain dots"]),
        ("a" * 64, ["must be no more than 63 characters"]),
        ("é" * 32, ["must be no more than 63 characters", LABEL]),
    ],
)
def test_dns_labels(value: str, errors: list[str]) -> None:
    assert names.dns1123_label_errors(value) == errors


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ("a.b-c.9", []),
        ("a..b", [SUBDOMAIN]),
        ("My_Pod", [SUBDOMAIN]),
        ("a" * 254, ["must be no more than 253 characters"]),
        ("." * 254, ["must be no more than 253 characters", SUBDOMAIN]),
    ],
)
def test_dns_subdomains(value: str, errors: list[str]) -> None:
    assert names.dns1123_subdomain_errors(value) == errors


def test_dns_1035_labels() -> None:
    assert names.dns1035_label_errors("web-1") == []
    assert names.dns1035_label_errors("1web") == [LABEL_1035]
    assert names.dns1035_label_errors("a" * 64) == ["must be no more than 63 characters"]


@pytest.mark.parametrize(
    ("value", "errors"),
    [
        ("app", []),
        ("app.kubernetes.io/name", []),
        ("Upper.Case_ok", []),
        ("", ["name part must be non-empty", f"name part {KEY}"]),
        ("/a", ["prefix part must be non-empty"]),
        ("a/", ["name part must be non-empty", f"name part {KEY}"]),
        ("-a", [f"name part {KEY}"]),
        ("X/a", [f"prefix part {SUBDOMAIN}"]),
        ("a" * 64, ["name part must be no more than 63 bytes"]),
        ("a" * 254 + "/b", ["prefix part must be no more than 253 bytes"]),
        ("a/b/c", [f"a valid label key {KEY} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"]),
    ],
)
def test_qualified_names(value: str, errors: list[str]) -> None:
    assert names.qualified_name_errors(value) == errors


def test_label_values() -> None:
    assert names.label_value_errors("") == []
    assert names.label_value_errors("v1.2_x") == []
    assert names.label_value_errors("a b") == [VALUE]
    assert names.label_value_errors("a" * 64) == ["must be no more than 63 bytes"]


def test_path_segments() -> None:
    assert names.path_segment_errors("system:node") == []
    assert names.path_segment_errors("..") == ["may not be '..'"]
    assert names.path_segment_errors("a/b%") == ["may not contain '/'", "may not contain '%'"]


def test_config_keys() -> None:
    assert names.config_key_errors("config.yaml") == []
    assert names.config_key_errors("a/b") == [CONFIG_KEY]
    assert names.config_key_errors("..data") == ["must not start with '..'"]
    assert names.config_key_errors(".") == ["must not be '.'"]


def test_other_names() -> None:
    assert names.environment_name_errors("MY VAR-1") == []
    assert "printable ASCII" in names.environment_name_errors("a=b")[0]
    assert names.environment_name_errors("") == ["environment variable name must be non-empty"]
    assert names.strict_environment_name_errors("A_B.c-d") == []
    assert "must not start with a digit" in names.strict_environment_name_errors("1A")[0]
    assert names.port_name_errors("http-1") == []
    assert names.port_name_errors("--1") == [
        "must contain at least one letter (a-z)",
        "must not contain consecutive hyphens",
        "must not begin or end with a hyphen",
    ]
    assert names.port_name_errors("http" * 4) == ["must be no more than 15 characters"]
    assert names.percent_errors("25%") == []
    assert "percent string" in names.percent_errors("25")[0]
    assert names.header_name_errors("X-A") == []
    assert "HTTP header" in names.header_name_errors("X A")[0]
    assert names.wildcard_subdomain_errors("*.example.com") == []
    assert "wildcard" in names.wildcard_subdomain_errors("example.com")[0]


def test_generated_name_keeps_its_suffix() -> None:
    async def main() -> tuple[str, str]:
        return names.generate("web-"), names.generate("a" * 80)

    short, long = clock.run(main(), virtual=True, seed=1)
    assert short.startswith("web-")
    assert len(short) == 9
    assert len(long) == 63
    assert names.dns1123_label_errors(names.mask_trailing_dash("web-")) == []
    assert names.dns1123_label_errors(short) == []
    assert (short, long) == clock.run(main(), virtual=True, seed=1)


def test_single_dash_is_not_masked() -> None:
    assert names.mask_trailing_dash("-") == "-"
    assert names.mask_trailing_dash("a") == "a"


label_names = st.from_regex(r"[a-z]([-a-z0-9]{0,118}[a-z0-9])?", fullmatch=True)


@given(label_names, st.integers(12, 63))
def test_shortened_name_is_valid(name: str, limit: int) -> None:
    short = names.shorten(name, limit)
    assert len(short) <= limit
    assert names.dns1123_label_errors(short) == []
    assert short == names.shorten(name, limit)
    if len(name) <= limit:
        assert short == name


@given(st.lists(label_names, min_size=2, max_size=40, unique=True))
def test_shortened_names_do_not_collide(long_names: list[str]) -> None:
    assert len({names.shorten(name, 24) for name in long_names}) == len(long_names)


def test_shortened_names_differ_if_the_last_character_differs() -> None:
    shortened = {names.shorten("a" * 100 + f"-{number}") for number in range(5000)}
    assert len(shortened) == 5000
    assert {len(name) for name in shortened} == {63}


def test_pluralize_agrees_with_the_number() -> None:
    plurals = [names.pluralize(1, "job"), names.pluralize(2, "job"), names.pluralize(1200, "query", "queries")]
    assert plurals == ["1 job", "2 jobs", "1,200 queries"]


def test_suggest_name_returns_the_most_similar_name() -> None:
    assert names.suggest_name("tpu-trainin", ["serving", "tpu-training"]) == "did you mean tpu-training?"
    assert names.suggest_name("replicaset", ["Deployment", "ReplicaSet"]) == "did you mean ReplicaSet?"


def test_suggest_name_returns_nothing_without_a_similar_name() -> None:
    assert names.suggest_name("zebra", ["serving", "training"]) == ""
    assert names.suggest_name("zebra", []) == ""


def test_suggest_name_takes_a_similarity_cutoff() -> None:
    assert names.suggest_name("abcd", ["abxy"]) == ""
    assert names.suggest_name("abcd", ["abxy"], cutoff=0.5) == "did you mean abxy?"
