"""What one RBAC rule allows, and whether some rules cover others. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sliceworks.twin.auth.identity import User

GROUP = "rbac.authorization.k8s.io"


class Attributes(NamedTuple):
    """What somebody wants to do. A request for something other than a resource has a `path` and no resource."""

    user: User
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


class Rule:
    """A PolicyRule made ready for asking."""

    __slots__ = ("groups", "names", "resources", "urls", "verbs")

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self.verbs: tuple[str, ...] = tuple(raw.get("verbs") or ())
        self.groups: tuple[str, ...] = tuple(raw.get("apiGroups") or ())
        self.resources: tuple[str, ...] = tuple(raw.get("resources") or ())
        self.names: tuple[str, ...] = tuple(raw.get("resourceNames") or ())
        self.urls: tuple[str, ...] = tuple(raw.get("nonResourceURLs") or ())

    def allows(self, asked: Attributes) -> bool:
        verbs = self.verbs
        if asked.verb not in verbs and "*" not in verbs:
            return False
        if asked.path:
            return any(_url_covers(url, asked.path) for url in self.urls)
        groups = self.groups
        if asked.group not in groups and "*" not in groups:
            return False
        if self.names and asked.name not in self.names:
            return False
        return self._has_resource(f"{asked.resource}/{asked.subresource}" if asked.subresource else asked.resource)

    def covers(self, part: Rule) -> bool:
        """Whether this rule grants all that `part`, a rule of one verb and one resource or URL, grants."""
        return (
            _has_all(self.verbs, part.verbs)
            and _has_all(self.groups, part.groups)
            and all(self._has_resource(resource) for resource in part.resources)
            and (not self.names or (bool(part.names) and set(part.names) <= set(self.names)))
            and all(any(_url_covers(url, wanted) for url in self.urls) for wanted in part.urls)
        )

    def parts(self) -> list[Rule]:
        """The same rights as rules of one verb and one resource, name or URL each."""
        named: list[tuple[str, ...]] = [(name,) for name in self.names] or [()]
        return [
            _rule(verbs=(verb,), apiGroups=(group,), resources=(resource,), resourceNames=names)
            for group in self.groups
            for resource in self.resources
            for verb in self.verbs
            for names in named
        ] + [_rule(verbs=(verb,), nonResourceURLs=(url,)) for url in self.urls for verb in self.verbs]

    def _has_resource(self, resource: str) -> bool:
        resources = self.resources
        if "*" in resources or resource in resources:
            return True
        _, slash, subresource = resource.partition("/")
        return bool(slash) and f"*/{subresource}" in resources

    def __str__(self) -> str:
        """As Kubernetes shows a rule when it says what is missing."""
        parts = (
            ("APIGroups", self.groups),
            ("Resources", self.resources),
            ("NonResourceURLs", self.urls),
            ("ResourceNames", self.names),
            ("Verbs", self.verbs),
        )
        return "{" + ", ".join(f"{title}:{listed(values)}" for title, values in parts if values) + "}"


def missing(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[str]:
    """The rights in `wanted` that `owned` does not cover, in words, the verbs on one resource together."""
    uncovered = [part for rule in wanted for part in rule.parts() if not any(mine.covers(part) for mine in owned)]
    merged: dict[tuple[Any, ...], Rule] = {}
    for part in uncovered:
        # Kubernetes joins the verbs of resources only: URLs stay one verb each.
        key = (part.groups, part.resources, part.names) if part.resources else (part.urls, part.verbs)
        known = merged.setdefault(key, part)
        if known is not part and part.resources:
            merged[key] = _rule(
                verbs=known.verbs + part.verbs, apiGroups=part.groups, resources=part.resources, resourceNames=part.names
            )
    return sorted({str(rule) for rule in merged.values()})


def quoted(text: str) -> str:
    return orjson.dumps(text).decode()


def listed(values: Iterable[str]) -> str:
    """Strings as Go prints a list of them: `["a" "b"]`."""
    return "[" + " ".join(quoted(value) for value in values) + "]"


def aggregate(messages: Iterable[str]) -> str:
    """Several errors as one text: `a`, or `[a, b]`."""
    unique = list(dict.fromkeys(messages))
    return unique[0] if len(unique) == 1 else "[" + ", ".join(unique) + "]"


def _rule(**raw: Any) -> Rule:
    return Rule(raw)


def _has_all(owned: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    return "*" in owned or all(value in owned for value in wanted)


def _url_covers(owned: str, wanted: str) -> bool:
    return owned in (wanted, "*") or (owned.endswith("*") and wanted.startswith(owned.rstrip("*")))
