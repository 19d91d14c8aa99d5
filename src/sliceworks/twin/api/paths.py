"""What a URL asks for: the verb, the resource and the object, or a path outside the resources."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAMESPACE_SUBRESOURCES = {"status", "finalize"}


@dataclass(frozen=True, slots=True)
class Target:
    """A request's place in the API. Outside the resources only `verb` and `path` say anything."""

    verb: str
    path: str
    resource: str = ""
    group: str = ""
    version: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    deeper: bool = False
    """Whether more path follows the subresource, as behind a proxy."""


def parse(method: str, path: str, *, watch: bool = False) -> Target:
    """Read a path as kube-apiserver does."""
    verb = _VERBS.get(method, method.lower())
    parts = path.strip("/").split("/")
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if path.startswith("//"):
        return Target(verb, path)
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return Target(method.lower(), path)
    always = rest[0] == "watch" and len(rest) > 1
    if always:
        rest = rest[1:]
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 1:
        namespace = rest[1]
        if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
            rest = rest[2:]
    resource, name, subresource = (*rest, "", "", "")[:3]
    if verb == "get" and (always or not name):
        verb = "watch" if watch or always else "list"
    elif verb == "delete" and not name:
        verb = "deletecollection"
    return Target(verb, path, resource, group, version, subresource, namespace, name, len(rest) > 3)
