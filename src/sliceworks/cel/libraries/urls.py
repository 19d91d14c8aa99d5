"""Kubernetes' URL functions, reading URLs as Go does."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from sliceworks.cel.libraries.functions import Function, accepts, unwrap, wrap
from sliceworks.schemas.field_errors import quoted

KIND = "kubernetes.URL"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2}).{0,2}", re.DOTALL)
_BAD_HOST = re.compile(r"[\x00-\x20\"<>\\^`{|}\x7f]")
_PORT = re.compile(r":[0-9]*\Z")
# Characters that Go does not escape in a path.
_PATH_SAFE = "/$&+,:;=@!'()*[]~-_."


class Url(NamedTuple):
    """The parts of a URL that expressions can read."""

    scheme: str
    host: str
    path: str
    query: str


@lru_cache(maxsize=256)
def parse(text: str) -> Url:
    """A URL parsed like Go's ParseRequestURI, without its fragment; ValueError with Go's message."""
    try:
        _parse(text, request=True)
        return _parse(text.partition("#")[0], request=False)
    except ValueError as error:
        raise ValueError(f"parse {quoted(text)}: {error}") from error


def _parse(text: str, *, request: bool) -> Url:
    if any(ord(character) < 0x20 or character == "\x7f" for character in text):
        raise ValueError("net/url: invalid control character in URL")
    if not text and request:
        raise ValueError("empty url")
    if text == "*":
        return Url("", "", "*", "")
    scheme, rest = _scheme(text)
    rest, _, query = rest.partition("?")
    if not rest.startswith("/"):
        if scheme:
            return Url(scheme.lower(), "", "", query)  # an opaque URL such as mailto:x
        if request:
            raise ValueError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    host = ""
    if rest.startswith("//") and (scheme or not request or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        host, rest = _host(authority), slash + path
    _check_escapes(rest)
    return Url(scheme.lower(), host, rest, query)


def _scheme(text: str) -> tuple[str, str]:
    scheme, colon, rest = text.partition(":")
    if colon and not scheme:
        raise ValueError("missing protocol scheme")
    return (scheme, rest) if colon and _SCHEME.match(scheme) else ("", text)


def _host(authority: str) -> str:
    userinfo, at, host = authority.rpartition("@")
    if at and not re.fullmatch(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*", userinfo):
        raise ValueError("net/url: invalid userinfo")
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise ValueError("missing ']' in host")
        port = host[end + 1 :]
    else:
        port = host[host.rfind(":") :] if ":" in host else ""
    if port and not _PORT.match(port):
        raise ValueError(f"invalid port {quoted(port)} after host")
    _check_escapes(host)
    invalid = _BAD_HOST.search(host)
    if invalid:
        raise ValueError(f"invalid character {quoted(invalid[0])} in host name")
    return unquote_to_bytes(host).decode(errors="replace")


def _check_escapes(text: str) -> None:
    match = _BAD_ESCAPE.search(text)
    if match:
        raise ValueError(f"invalid URL escape {quoted(match[0])}")


def url(text: str) -> dict[str, str]:
    try:
        parse(text)
    except ValueError as error:
        raise ValueError(f"URL parse error during conversion from string: {error}") from error
    return wrap(KIND, text)


def _url(value: dict[str, Any]) -> Url:
    return parse(unwrap(KIND, value))


def hostname(value: dict[str, Any]) -> str:
    host = _url(value).host
    if host.startswith("["):
        return host[1 : host.rfind("]")]
    return host.partition(":")[0] if _PORT.search(host) else host


def port(value: dict[str, Any]) -> str:
    match = _PORT.search(_url(value).host)
    return match[0][1:] if match else ""


def escaped_path(value: dict[str, Any]) -> str:
    path = _url(value).path
    if path == "*":
        return path
    valid = re.fullmatch(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@/\[\]]|%[0-9A-Fa-f]{2})*", path)
    return path if valid else quote(unquote_to_bytes(path), safe=_PATH_SAFE)


def query(value: dict[str, Any]) -> dict[str, list[str]]:
    parameters: dict[str, list[str]] = {}
    for pair in _url(value).query.split("&"):
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        key, _, item = pair.partition("=")
        parameters.setdefault(_unescape(key), []).append(_unescape(item))
    return parameters


def _unescape(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ")).decode(errors="replace")


FUNCTIONS = [
    Function("url", "url(string)", KIND, url),
    Function("isURL", "isURL(string)", "bool", accepts(parse)),
    Function("getScheme", f"{KIND}.getScheme()", "string", lambda value: _url(value).scheme),
    Function("getHost", f"{KIND}.getHost()", "string", lambda value: _url(value).host),
    Function("getHostname", f"{KIND}.getHostname()", "string", hostname),
    Function("getPort", f"{KIND}.getPort()", "string", port),
    Function("getEscapedPath", f"{KIND}.getEscapedPath()", "string", escaped_path),
    Function("getQuery", f"{KIND}.getQuery()", "map<string, list<string>>", query),
]
