"""The admission chain: mutating plugins, validating plugins and webhooks, in kube-apiserver's order.

The built-in plugins of a kind are listed in its strategy (`registry.kinds`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sliceworks.base.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sliceworks.base.errors import Forbidden
    from sliceworks.twin.apiserver.auth.authentication import User
    from sliceworks.twin.apiserver.registry.resources import Strategy

    Plugin = Callable[["Admission", dict[str, Any], Mapping[str, Any] | None], None]

Obj = dict[str, Any]
CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"
QUOTAS = "/resourcequotas"
EXPOSED = "twin.exposed/services"
"""The store's key of addresses that `twin expose` gave to Services."""
_PROTECTED_NAMESPACES = {"default", "kube-system", "kube-public"}
_LOCAL_REVIEWS = "authorization.k8s.io/localsubjectaccessreviews"
_NAME_SUFFIX_LENGTH = 5
_CACHED = frozenset(
    {
        "/namespaces",
        "/serviceaccounts",
        "/limitranges",
        QUOTAS,
        "scheduling.k8s.io/priorityclasses",
        "storage.k8s.io/storageclasses",
        "networking.k8s.io/ingressclasses",
        "node.k8s.io/runtimeclasses",
    }
)
_MAX_CACHED = 10_000


class Charge(NamedTuple):
    """What a ResourceQuota's `status.used` becomes when the admitted write is stored."""

    namespace: str
    name: str
    used: dict[str, str]


@dataclass(slots=True)
class Admission:
    """The attributes of a write. `resource` is `group/plural`; objects from `get` and `find_all` must not be changed."""

    user: User
    operation: str
    resource: str
    subresource: str
    namespace: str
    name: str
    dry_run: bool
    get: Callable[[str, str, str], Mapping[str, Any] | None]
    find_all: Callable[[str, str], Sequence[Mapping[str, Any]]]
    warn: Callable[[str], None]
    charges: list[Charge] = field(default_factory=list)
    named: bool = False
    """Whether a generated name is final: it is once the object has been validated."""

    def forbidden(self, obj: Mapping[str, Any] | None, reason: str) -> Forbidden:
        """`pods "x" is forbidden: reason`."""
        from sliceworks.twin.apiserver.auth.rbac import new_forbidden

        group, _, plural = self.resource.rpartition("/")
        metadata = (obj or {}).get("metadata") or {}
        name = self.name or (metadata.get("name", "") if self.named else display_name(metadata))
        return new_forbidden(group, plural, name, reason)


def display_name(metadata: Mapping[str, Any]) -> str:
    """The name in an error message: the prefix of a name that was just generated, else the name."""
    name, prefix = metadata.get("name", ""), metadata.get("generateName", "")
    if prefix and (not name or (name.startswith(prefix) and len(name) == len(prefix) + _NAME_SUFFIX_LENGTH)):
        return str(prefix)
    return str(name or "Unknown")


class Entry(Protocol):
    """A stored object at one revision."""

    @property
    def resource(self) -> str: ...
    @property
    def key(self) -> str: ...
    def object(self) -> dict[str, Any]: ...


class Store(Protocol):
    """The part of the object store that admission reads."""

    def get(self, resource: str, namespace: str, name: str) -> Any: ...
    def has_objects(self, resource: str) -> bool: ...
    def scan(self, resource: str, namespace: str | None = None) -> Iterator[Any]: ...


class ObjectCache:
    """`get` and `find_all` of an Admission: the newest revision, decoded once for kinds that plugins read often."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decoded: dict[tuple[str, str], tuple[Entry, Mapping[str, Any]]] = {}

    def get(self, resource: str, namespace: str, name: str) -> Mapping[str, Any] | None:
        entry = self._store.get(resource, namespace, name)
        return self._decode(entry) if entry is not None else None

    def find_all(self, resource: str, namespace: str) -> list[Mapping[str, Any]]:
        if not self._store.has_objects(resource):
            return []
        return [self._decode(entry) for entry in self._store.scan(resource, namespace or None)]

    def _decode(self, entry: Entry) -> Mapping[str, Any]:
        if entry.resource not in _CACHED:
            return entry.object()
        key = (entry.resource, entry.key)
        cached = self._decoded.get(key)
        if cached is not None and cached[0] is entry:
            return cached[1]
        if len(self._decoded) >= _MAX_CACHED:
            self._decoded.clear()
        obj = entry.object()
        self._decoded[key] = (entry, obj)
        return obj


@dataclass(slots=True)
class Webhooks:
    """Plugins of systems that are installed in the cluster. They run after the built-in plugins."""

    mutating: dict[tuple[str, str, str], list[Plugin]] = field(default_factory=dict)
    validating: dict[tuple[str, str, str], list[Plugin]] = field(default_factory=dict)

    def add_mutating(self, resource: str, operation: str, plugin: Plugin, subresource: str = "") -> None:
        """Call a plugin that may change or reject such writes."""
        self.mutating.setdefault((resource, operation, subresource), []).append(plugin)

    def add_validating(self, resource: str, operation: str, plugin: Plugin, subresource: str = "") -> None:
        """Call a plugin that may reject such writes."""
        self.validating.setdefault((resource, operation, subresource), []).append(plugin)


def admit(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None, strategy: Strategy, webhooks: Webhooks) -> bool:
    """Run mutating admission; returns whether a webhook ran. A deletion passes an empty object and the old one."""
    namespace_lifecycle(ctx, obj, old)
    for plugin in strategy.mutating.get((ctx.operation, ctx.subresource), ()):
        plugin(ctx, obj, old)
    hooks = webhooks.mutating.get((ctx.resource, ctx.operation, ctx.subresource), ())
    for plugin in hooks:
        plugin(ctx, obj, old)
    return bool(hooks)


def validate(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None, strategy: Strategy, webhooks: Webhooks) -> None:
    """Run validating admission on a valid object; it may be rejected for reasons outside of itself."""
    if ctx.operation == DELETE:
        return
    ctx.named = True
    for plugin in strategy.validating.get((ctx.operation, ctx.subresource), ()):
        plugin(ctx, obj, old)
    for plugin in webhooks.validating.get((ctx.resource, ctx.operation, ctx.subresource), ()):
        plugin(ctx, obj, old)


def namespace_lifecycle(ctx: Admission, obj: Obj, old: Mapping[str, Any] | None) -> None:
    """NamespaceLifecycle: the namespace of a write exists, and is not being deleted when an object is created."""
    if ctx.resource == "/namespaces":
        if ctx.operation == DELETE and ctx.name in _PROTECTED_NAMESPACES:
            raise ctx.forbidden(old, "this namespace may not be deleted")
        return
    if not ctx.namespace or ctx.operation == DELETE or ctx.resource == _LOCAL_REVIEWS:
        return
    namespace = ctx.get("/namespaces", "", ctx.namespace)
    if namespace is None:
        raise NotFound(f'namespaces "{ctx.namespace}" not found', details={"name": ctx.namespace, "kind": "namespaces"})
    if ctx.operation == CREATE and (namespace.get("status") or {}).get("phase") == "Terminating":
        error = ctx.forbidden(obj, f"unable to create new content in namespace {ctx.namespace} because it is being terminated")
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {ctx.namespace} is being terminated",
            "field": "metadata.namespace",
        }
        error.details = {**(error.details or {}), "causes": [cause]}
        raise error
