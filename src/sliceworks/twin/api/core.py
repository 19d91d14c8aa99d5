"""What the handlers share: the store, the registry, and the people who decide who may do what."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson

from sliceworks.base.errors import NotFound
from sliceworks.schemas import structural
from sliceworks.twin.admission import plugins
from sliceworks.twin.admission.context import Admission
from sliceworks.twin.admission.known import Known
from sliceworks.twin.api import service_addresses
from sliceworks.twin.api.deletes import Deleter
from sliceworks.twin.api.reads import Reader, too_large
from sliceworks.twin.api.subresources import Subresources
from sliceworks.twin.api.writes import Writer
from sliceworks.twin.auth import escalation
from sliceworks.twin.auth.rules import GROUP as RBAC_GROUP
from sliceworks.twin.auth.rules import Attributes
from sliceworks.twin.store.entries import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from ipaddress import IPv4Network

    from sliceworks.kube.transport import Response
    from sliceworks.schemas.field_errors import FieldError
    from sliceworks.twin.api.calls import Call
    from sliceworks.twin.api.customs import Customs
    from sliceworks.twin.api.pages import Page
    from sliceworks.twin.api.paths import Target
    from sliceworks.twin.api.resources import Registry, Resource
    from sliceworks.twin.auth.identity import User
    from sliceworks.twin.auth.jwt import Issuer
    from sliceworks.twin.auth.rbac import Rbac
    from sliceworks.twin.store.store import Store

Obj = dict[str, Any]
_REVISION_PATIENCE = 3.0


def unknown_path() -> NotFound:
    return NotFound("the server could not find the requested resource", details={})


class StoreView:
    """Other objects, read straight from the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.service_network = service_addresses.NETWORK

    def get(self, resource: str, namespace: str, name: str) -> Obj | None:
        entry = self._store.get(resource, namespace, name)
        return entry.object() if entry else None

    def list(self, resource: str, namespace: str | None = None) -> Iterator[Obj]:
        return (entry.object() for entry in self._store.scan(resource, namespace or None))

    def holding(self, resource: str, text: str) -> Iterator[Obj]:
        """The objects of a resource in which some text occurs: cheaper than to decode them all."""
        wanted = text.encode()
        return (entry.object() for entry in self._store.scan(resource) if wanted in entry.data)


class Core:
    """One cluster's API, without its transport."""

    customs: Customs
    logs: Callable[[Call, Obj, str], Response] | None = None
    pod_network: IPv4Network | None = None
    """Where pods are on loopback: endpoints may have these addresses then, which the API refuses else."""

    def __init__(self, store: Store, registry: Registry, rbac: Rbac, issuer: Issuer) -> None:
        self.store = store
        self.registry = registry
        self.rbac = rbac
        self.issuer = issuer
        self.view = StoreView(store)
        self.webhooks = plugins.Webhooks()
        self.pages: dict[str, Page] = {}
        """Groups that are no stored resources: what answers their paths, as an aggregated API would."""
        self._known = Known(store)
        self.reader = Reader(self)
        self.writer = Writer(self)
        self.deleter = Deleter(self)
        self.subresources = Subresources(self)

    def authorize(self, user: User, target: Target, *, verb: str = "") -> None:
        """Refuse what the user may not do; with `verb`, ask for another verb than the request's own."""
        self.rbac.require(
            Attributes(
                user=user,
                verb=verb or target.verb,
                group=target.group,
                version=target.version,
                resource=target.resource,
                subresource=target.subresource,
                namespace=target.namespace,
                name=target.name,
                path="" if target.resource else target.path,
            )
        )

    def admit(self, call: Call, operation: str, obj: Obj, old: Obj | None) -> None:
        """Let the plugins change a write or refuse it, before it is validated."""
        target = call.target
        call.admission = Admission(
            user=call.user,
            operation=operation,
            resource=call.resource.key,
            subresource=target.subresource,
            namespace=call.namespace,
            name=target.name,
            dry_run=call.dry_run,
            get=self._known.get,
            find_all=self._known.find_all,
            warn=call.warnings.append,
        )
        changed = plugins.admit(call.admission, obj, old, self.webhooks)
        if changed and call.resource.custom:
            # What a webhook adds gets its defaults as what a client sends does.
            structural.set_defaults(call.version.schema(), obj)

    def judge(self, call: Call, obj: Obj, old: Obj | None) -> None:
        """Let the plugins refuse a write that is valid in itself, and nobody grant what they do not have."""
        assert call.admission is not None
        plugins.validate(call.admission, obj, old, self.webhooks)
        if call.resource.group == RBAC_GROUP:
            write = escalation.Write(call.user, call.resource.plural, call.namespace, call.name)
            escalation.check(self.rbac, write, obj, old)

    def settle_charges(self, call: Call) -> None:
        """Write what an admitted object uses into the status of the quotas it counts against."""
        charges = call.admission.charges if call.admission else ()
        for charge in charges:
            quota = self.view.get("/resourcequotas", charge.namespace, charge.name)
            if quota is not None and not call.dry_run:
                quota["status"] = {**(quota.get("status") or {}), "used": charge.used}
                self.store.put("/resourcequotas", charge.namespace, charge.name, quota)

    def cel(self, schema: Any, value: Any, old: Any, path: str) -> list[FieldError]:
        """Run a schema's own rules."""
        from sliceworks.cel.rules import evaluate_rules

        return evaluate_rules(schema, value, old, path)

    async def reached(self, revision: int) -> None:
        """Wait until the store has come to a revision; refuse one that does not come."""
        if revision <= self.store.revision:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + _REVISION_PATIENCE
        while revision > self.store.revision:
            if loop.time() >= end:
                raise too_large(revision, self.store.revision)
            await asyncio.sleep(0.05)

    def put(self, resource: Resource, namespace: str, name: str, obj: Obj, dry_run: bool) -> Entry:
        """Write an object, or only show how it would look."""
        if dry_run:
            return Entry(resource.stored_as, namespace, name, 0, orjson.dumps(obj))
        return self.store.put(resource.stored_as, namespace, name, obj)

    def remove(self, resource: Resource, namespace: str, name: str, obj: Obj, dry_run: bool) -> Entry:
        if dry_run:
            return Entry(resource.stored_as, namespace, name, 0, orjson.dumps(obj))
        return self.store.remove(resource.stored_as, namespace, name, obj)
