"""Links of pages and redirects behind the proxy."""

from __future__ import annotations

import pytest

from sliceworks.twin.apiserver.streaming.links import Links

PREFIX = "/api/v1/namespaces/default/pods/web/proxy"
LINKS = Links(PREFIX, {"127.1.0.1:80", "127.0.0.1:6443"})


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/a/b?c=d#e", f"{PREFIX}/a/b?c=d#e"),
        ("/a/", f"{PREFIX}/a/"),
        ("/", f"{PREFIX}/"),
        ("a/b", "a/b"),
        ("?a=b", "?a=b"),
        ("#top", "#top"),
        ("http://127.1.0.1:80/a", f"{PREFIX}/a"),
        ("https://example.com/a", "https://example.com/a"),
        ("//example.com/a", "//example.com/a"),
        (f"{PREFIX}/a", f"{PREFIX}/a"),
        ("mailto:a@example.com", "mailto:a@example.com"),
        ("http://[broken/a", "http://[broken/a"),
    ],
)
def test_url(url: str, expected: str) -> None:
    assert LINKS.rewrite(url) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="/x">x</a>', f'<a href="{PREFIX}/x">x</a>'),
        ("<A class=k HREF='/x'>x</A>", f'<A class=k HREF="{PREFIX}/x">x</A>'),
        ("<img src=/x alt=/y/>", f'<img src="{PREFIX}/x" alt=/y/>'),
        ('<a href="/x?a=1&amp;b=2">', f'<a href="{PREFIX}/x?a=1&amp;b=2">'),
        ('<p title="/x" href="/y">', '<p title="/x" href="/y">'),
        ('<a title="1 > 2" href="/x">', f'<a title="1 > 2" href="{PREFIX}/x">'),
        ("a < b and /x", "a < b and /x"),
        ('<a href="x">\u00e9</a>', '<a href="x">\u00e9</a>'),
    ],
)
def test_page(page: str, expected: str) -> None:
    assert LINKS.rewrite_page(page) == expected


@pytest.mark.parametrize("page", ["<" + "a" * 1_000_000, "<a " + "a" * 1_000_000 + ">", "<a b" + " " * 1_000_000 + ">"])
def test_long_names_take_linear_time(page: str) -> None:
    assert LINKS.rewrite_page(page) == page
