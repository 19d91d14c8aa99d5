"""Kubernetes' CEL libraries that Sliceworks implements itself."""

from __future__ import annotations

import pytest

from sliceworks.cel.libraries import addresses, quantities, regex, semver, urls
from sliceworks.cel.libraries.functions import NoSuchOverload, accepts


def test_find_returns_whole_matches() -> None:
    assert regex.find("xabbc", "(a)(b+)") == "abb"
    assert regex.find("xyz", "a") == ""
    assert regex.find_all("a1b22", "([a-z])([0-9]+)") == ["a1", "b22"]
    assert regex.find_all("a1b22", "[0-9]", 0) == []
    with pytest.raises(ValueError, match="Illegal regex"):
        regex.find("a", "[")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("https://u:p@Example.com:8443/a/b?x=1#f", ("https", "Example.com:8443", "Example.com", "8443", "/a/b", {"x": ["1"]})),
        ("/path", ("", "", "", "", "/path", {})),
        ("HTTP://[::1]/", ("http", "[::1]", "::1", "", "/", {})),
        ("mailto:x@y", ("mailto", "", "", "", "", {})),
        ("http://h?a=%20+b&c", ("http", "h", "h", "", "", {"a": ["  b"], "c": [""]})),
    ],
)
def test_parts_of_urls(text: str, parts: tuple[object, ...]) -> None:
    value, functions = urls.url(text), {one.name: one.run for one in urls.FUNCTIONS if one.member}
    names = ("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery")
    assert tuple(run(value) for name in names if (run := functions[name])) == parts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty url"),
        ("x", "invalid URI for request"),
        (":x", "missing protocol scheme"),
        ("http://a:b/", 'invalid port ":b" after host'),
        ("http://[::1/", "missing ']' in host"),
        ("http://a b/", 'invalid character " " in host name'),
        ("/%zz", 'invalid URL escape "%zz"'),
        ("/\n", "net/url: invalid control character in URL"),
    ],
)
def test_invalid_urls(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=r"parse ") as caught:
        urls.url(text)
    assert str(caught.value).endswith(f": {reason}")
    assert not accepts(urls.parse)(text)


def test_versions_are_ordered() -> None:
    ordered = [
        "0.9.0",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
        "1.0.0",
        "1.10.0",
    ]
    assert sorted(ordered, key=semver.parse) == ordered
    assert semver.semver("v01.2", True) == semver.semver("1.2.0")
    assert semver.semver("1.0.0+a") == semver.semver("1.0.0+b")
    assert [text for text in ("1", "1.2.3-01", "1.2.3-a..b", "1.2.3+", "1.2.x", "1.2.3-ä") if accepts(semver.semver)(text)] == []


def test_quantities_are_exact() -> None:
    assert quantities.add(quantities.quantity("0.1"), quantities.quantity("0.2")) == quantities.quantity("300m")
    assert quantities.as_integer(quantities.quantity("1Ki")) == 1024
    assert not quantities.is_integer(quantities.quantity("1e30"))


def test_values_of_other_types_match_no_overload() -> None:
    with pytest.raises(NoSuchOverload):
        quantities.sign({"a": "b"})


def test_networks_contain_their_own_family_only() -> None:
    assert addresses.contains_cidr(addresses.cidr("10.0.0.0/8"), "10.1.0.0/16")
    assert not addresses.contains_cidr(addresses.cidr("10.0.0.0/16"), "10.0.0.0/8")
    assert not addresses.contains_ip(addresses.cidr("10.0.0.0/8"), "::1")
    assert addresses.is_link_local_multicast(addresses.ip("ff02::1"))
