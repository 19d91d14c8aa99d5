"""What a cluster serves: a kind in a version of a group, and the paths it lives at."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import quote

from sliceworks.base.errors import BadRequest, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

Object: TypeAlias = dict[str, Any]

_PLAIN_SEGMENT = re.compile(r"[A-Za-z0-9._~:-]+\Z")


class GVK(NamedTuple):
    """Group, version and kind: what `apiVersion` and `kind` of an object say."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.api_version}, Kind={self.kind}"


class Key(NamedTuple):
    """Which object of a kind: `namespace` is empty for what belongs to the whole cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Resource:
    """One served kind. `subresources`, `verbs`, `short_names` and `categories` are empty where nobody asked the cluster."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    subresources: tuple[str, ...] = ()
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def gvk(self) -> GVK:
        return GVK(self.group, self.version, self.kind)

    @property
    def qualified(self) -> str:
        """The plural name with its group, as kubectl and error messages write it: `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The percent-encoded path of the collection, of one object, or of a part of one."""
        path = f"/apis/{self.group}/{self.version}/" if self.group else f"/api/{self.version}/"
        if namespace and self.namespaced:
            path += f"namespaces/{_segment(namespace)}/"
        elif name is not None and self.namespaced:
            raise UsageError(f"{self.kind} {name} needs a namespace")
        path += self.plural
        if name is not None:
            path += "/" + _segment(name)
            if subresource:
                path += "/" + subresource
        return path


def parse_api_version(api_version: str) -> tuple[str, str]:
    """Group and version of an `apiVersion`; the core group is empty."""
    group, slash, version = api_version.partition("/")
    if not slash:
        group, version = "", group
    if not version or "/" in version:
        raise BadRequest(f"unexpected GroupVersion string: {api_version}")
    return group, version


def gvk_of(obj: Mapping[str, Any]) -> GVK:
    """Group, version and kind that an object says it is of."""
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not isinstance(api_version, str) or not api_version:
        raise UsageError(f"{_described(obj)} has no apiVersion")
    if not isinstance(kind, str) or not kind:
        raise UsageError(f"{_described(obj)} has no kind")
    return GVK(*parse_api_version(api_version), kind)


def key_of(obj: Mapping[str, Any]) -> Key:
    """Namespace and name of an object."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace", ""), metadata.get("name", ""))


def owner_reference(owner: Mapping[str, Any], *, controller: bool = True, block: bool = True) -> Object:
    """The entry in `ownerReferences` that makes an object belong to this one."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": controller,
        "blockOwnerDeletion": block,
    }


def controller_of(obj: Mapping[str, Any]) -> Object | None:
    """The owner reference of the one controller of an object."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: Object = reference
            return found
    return None


def _segment(text: str) -> str:
    if not text or text in (".", ".."):
        raise UsageError(f"{text!r} cannot be a part of a path")
    return text if _PLAIN_SEGMENT.match(text) else quote(text, safe=":~")


def _described(obj: Mapping[str, Any]) -> str:
    name = (obj.get("metadata") or {}).get("name")
    return " ".join(str(part) for part in (obj.get("kind") or "object", name) if part)
