"""Links of proxied pages and redirects: absolute paths get the path of the proxy, as kube-apiserver rewrites them."""

from __future__ import annotations

import html
import posixpath
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

if TYPE_CHECKING:
    from collections.abc import Collection

_ATTRIBUTES = {
    name: frozenset(attributes.split())
    for name, attributes in {
        "a": "href",
        "applet": "codebase",
        "area": "href",
        "audio": "src",
        "base": "href",
        "blockquote": "cite",
        "body": "background",
        "button": "formaction",
        "command": "icon",
        "del": "cite",
        "embed": "src",
        "form": "action",
        "frame": "longdesc src",
        "head": "profile",
        "html": "manifest",
        "iframe": "longdesc src",
        "img": "longdesc src usemap",
        "input": "src usemap formaction",
        "ins": "cite",
        "link": "href",
        "object": "classid codebase data usemap",
        "q": "cite",
        "script": "src",
        "source": "src",
        "video": "poster src",
    }.items()
}
"""Attributes with URLs, by element."""
# Without backtracking, and from the start of a name only: a hostile page takes time in proportion to its size.
_TAG = re.compile(r"""<([a-zA-Z][a-zA-Z0-9]*+)((?:[^<>"']++|"[^"]*+"|'[^']*+')*+)>""")
_ATTRIBUTE = re.compile(r"""(?<![^\s"'<>/=])([^\s"'<>/=]++)(\s*+=\s*+)("[^"]*+"|'[^']*+'|[^\s"'<>=`]++)""")


@dataclass(frozen=True, slots=True)
class Links:
    """Rewrites URLs of pages that are proxied below `prefix`; URLs of other `hosts` do not change."""

    prefix: str
    hosts: Collection[str]

    def rewrite(self, url: str) -> str:
        """The URL through the proxy, if it is an absolute path on the same host."""
        try:
            parts = urlsplit(url)
        except ValueError:
            return url
        if (parts.netloc and parts.netloc not in self.hosts) or not parts.path.startswith("/"):
            return url
        if parts.path.startswith(self.prefix):
            return urlunsplit(parts._replace(scheme="", netloc=""))
        path = posixpath.normpath(f"{self.prefix}/{parts.path}") + ("/" if parts.path.endswith("/") else "")
        return urlunsplit(parts._replace(scheme="", netloc="", path=path))

    def rewrite_page(self, page: str) -> str:
        """An HTML page with rewritten URLs; everything else is unchanged."""
        return _TAG.sub(self._rewrite_tag, page)

    def _rewrite_tag(self, tag: re.Match[str]) -> str:
        names = _ATTRIBUTES.get(tag[1].lower())
        if names is None:
            return tag[0]

        def rewrite(attribute: re.Match[str]) -> str:
            if attribute[1].lower() not in names:
                return attribute[0]
            url = html.unescape(attribute[3].strip("\"'"))
            rewritten = self.rewrite(url)
            return attribute[0] if rewritten == url else f'{attribute[1]}{attribute[2]}"{html.escape(rewritten)}"'

        return f"<{tag[1]}{_ATTRIBUTE.sub(rewrite, tag[2])}>"
