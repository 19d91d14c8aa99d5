"""Model services put into a cluster and followed until they are ready: server-side apply through the client.

A deployment may end anywhere, and others may come between any two of its writes. So the record says from the first write on what is
left to do, and is written only in the place of the one that was read; gateways that are shared are looked at again in the end.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import AlreadyExists, NotFound, SliceworksError, TimedOut
from sliceworks.kube.well_known import CONFIG_MAP, NAMESPACE
from sliceworks.serving import cluster, keeping, naming, needs, removing, replicas, sharing
from sliceworks.serving import record as records
from sliceworks.serving.compile import manifests
from sliceworks.serving.keeping import ChangedMeanwhile
from sliceworks.serving.naming import GATEWAY
from sliceworks.serving.sharing import OPTIONAL
from sliceworks.serving.ways import LEADING, led_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sliceworks.kube import Client
    from sliceworks.serving.record import Record, Reference
    from sliceworks.specs.serving import ModelService

Object = dict[str, Any]
_EVERY = 2.0  # seconds between two looks
_HEARD = 10.0  # seconds until every proxy has heard of a route that leads elsewhere
_ADDONS = {
    "gateway.networking.k8s.io": "the Gateway API is not installed in this cluster",
    "networking.istio.io": "Istio is not installed in this cluster",
}


class Rollout:
    """One service on its way into a namespace."""

    def __init__(self, client: Client, service: ModelService, document: Mapping[str, Any], namespace: str) -> None:
        placed = service.metadata.model_copy(update={"namespace": namespace})
        self.client, self.namespace, self.name = client, namespace, service.metadata.name
        self.service, self.document = service.model_copy(update={"metadata": placed}), document
        self.left_out: list[str] = []
        self.missing: list[str] = []
        """What pods will wait for."""
        self.untouched: frozenset[str] = frozenset()
        """Components whose workloads stay as they are, although the document says otherwise."""
        self.afterwards: tuple[str, ...] = ()
        """What whoever deploys does when all is applied: it is left to do until `finish`."""
        self.based_on: Record | None = None
        """The record that the document was made from, where it was: what another says by now is not overwritten."""
        self._live: Object | None = None
        self._before: Record | None = None
        self._known: list[Record] = []
        self._objects: list[Object] = []
        self._applied: set[Reference] = set()
        self._lent: set[Reference] = set()

    async def prepare(self, *, make_namespace: bool = True) -> list[Object]:
        """Everything that will be applied, each taken by the cluster in a dry run. At most a missing namespace is made."""
        # 1. Who is there already.
        await self._read_records()
        # 2. What it becomes, less what this cluster does not know.
        made = manifests(self.service, [each.service for each in self._sharing()])
        self._objects = [each for each in made if await self._served(each)]
        # 3. A place to put it.
        if await self.client.find(NAMESPACE, self.namespace) is None:
            if not make_namespace:
                raise SliceworksError(f"there is no namespace {self.namespace}", hint="a deployment that is no dry run makes it")
            with suppress(AlreadyExists):
                await self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        # 4. Whether the cluster would take it, nobody else has it, and what it lacks.
        for each in self._objects:
            await self._refuse_others(each)
            await self._apply(each, dry=True)
        self.missing = await needs.missing(self.client, self.namespace, needs.needs(self._objects))
        return self._objects

    async def apply(self, tell: Callable[[str], None], timeout: float, *, wait: bool = True) -> Record:
        """Apply everything in order. A Job waits for the servers before it, and what comes after waits for the Job. A route that
        is to lead to somebody more waits until they answer. What nobody waits for, or what waits too long, is recorded as left."""
        # 1. The record first: it owns the rest, and names also what may have to go.
        record = await self._write_record(self._recorded(), self._left())
        try:
            return await self._carry_out(record, tell, timeout, wait=wait)
        except ChangedMeanwhile:
            await keeping.hand_on(self.client, record, self._applied - self._lent, self.namespace)
            raise

    async def _carry_out(self, record: Record, tell: Callable[[str], None], timeout: float, *, wait: bool) -> Record:
        try:
            # 2. The objects.
            await self._apply_objects(record, tell, clock.loop_time() + (timeout if wait else 0))
            # 3. What is no longer part of it.
            await self._prune(record, wait=wait)
        except TimedOut:
            record = await self._write_record(self._recorded(), self._left())
            if wait:
                raise
            return record
        # 4. The record last: nothing is left but what others do.
        return await self._write_record(left=[*self._undone(), *self.afterwards])

    async def _read_records(self) -> None:
        self._live = await self.client.find(CONFIG_MAP, records.record_name(self.name), self.namespace)
        self._known = await self._others()
        with suppress(SliceworksError):  # somebody has changed it beyond use: it is written anew
            self._before = records.read(self._live) if self._live else None
        if self._before and self._before.going:
            raise SliceworksError(f"{self.name} is being deleted", hint="it can be deployed again when it is gone")
        if self.based_on and (self._before is None or self._before.document != self.based_on.document):
            raise ChangedMeanwhile(self.name)

    async def _others(self) -> list[Record]:
        known = await cluster.all_records(self.client, self.namespace)
        return [each for each in known if each.service.metadata.name != self.name]

    async def _refuse_others(self, obj: Object) -> None:
        """What is there under the same name and not of this service would be taken over, and be deleted with it."""
        if records.reference(obj) in self._recorded():
            return
        if await sharing.is_lent(self.client, obj, self.namespace):
            self._lent.add(records.reference(obj))
        if obj["kind"] == "ServiceAccount":
            return  # several may use it
        live = await self.client.find(await self.client.resource_of(obj), obj["metadata"]["name"], self.namespace)
        if live is None:
            return
        labels, front = live["metadata"].get("labels") or {}, obj["metadata"]["labels"].get(GATEWAY)
        together = {self.name, *(each.service.metadata.name for each in self._sharing())}
        owners = {each["name"] for each in live["metadata"].get("ownerReferences") or ()}
        ours = labels.get(GATEWAY) == front if front else labels.get(naming.SERVICE) in together
        if ours or owners & {records.record_name(each) for each in together}:
            return
        whose = labels.get(naming.SERVICE) or labels.get(GATEWAY)
        problem = f"{records.reference(obj)} is there already, and is {f'part of {whose}' if whose else 'not of a model service'}"
        raise SliceworksError(problem, hint="give the service or its gateway another name")

    async def _apply_objects(self, record: Record, tell: Callable[[str], None], ends: float) -> None:
        owners = [each.owner for each in self._sharing()]
        for each in self._objects:
            if each["kind"] == "Job" or (each["kind"] in LEADING and await self._leads_to_newcomers(each)):
                await self._until_ready(record, tell, ends)
            if self._stays(each):
                continue
            shared = GATEWAY in each["metadata"]["labels"]
            if records.reference(each) not in self._lent:
                each["metadata"]["ownerReferences"] = [*(owners if shared else ()), record.owner]
            tell(f"{each['kind']} {each['metadata']['name']}")
            self._applied.add(records.reference(each))
            await self._apply(each)
            if each["kind"] == "Job":
                await self._until_ready(record, tell, ends)

    def _left(self) -> list[str]:
        """What has not been done of it, a step a line."""
        wanted = [records.reference(each) for each in self._objects if not self._stays(each)]
        waiting = [each for each in wanted if each not in self._applied]
        steps = [f"apply {each}" for each in waiting] + [f"remove {each}" for each in self._gone()]
        return [*self._undone(), *steps, *self.afterwards]

    def _undone(self) -> list[str]:
        """What an earlier deployment has left to do with that which stays as it is."""
        stays = {f"apply {records.reference(each)}" for each in self._objects if self._stays(each)}
        return [each for each in self._before.left if each in stays] if self._before else []

    async def finish(self) -> Record:
        """Record that what was to come afterwards is done."""
        return await self._write_record(left=self._undone())

    async def follow(self, record: Record, tell: Callable[[str], None], timeout: float) -> None:
        """Wait until everything is ready."""
        await self._until_ready(record, tell, clock.loop_time() + timeout)

    async def _leads_to_newcomers(self, obj: Object) -> bool:
        """Whether a route that is there already is to lead to somebody whom it did not lead to, and who may not answer yet."""
        live = await self.client.find(await self.client.resource_of(obj), obj["metadata"]["name"], self.namespace)
        return live is not None and bool(led_to(obj) - led_to(live) - {self.name})  # all servers together are no newcomers

    def _stays(self, obj: Object) -> bool:
        return obj["kind"] == "Deployment" and obj["metadata"]["labels"].get(naming.COMPONENT) in self.untouched

    def _sharing(self) -> list[Record]:
        wanted = self.service.spec.gateway
        return cluster.neighbours(self.name, wanted.name, self._known) if wanted else []

    async def _served(self, obj: Object) -> bool:
        try:
            await self.client.resource_of(obj)
        except NotFound as error:
            if obj["kind"] in OPTIONAL:
                self.left_out.append(f"{obj['kind']} {obj['metadata']['name']}: this cluster has no {OPTIONAL[obj['kind']]}")
                return False
            group = obj["apiVersion"].partition("/")[0]
            problem = _ADDONS.get(group, f"this cluster does not know {obj['kind']} of {obj['apiVersion']}")
            raise SliceworksError(problem, hint="install it, or leave spec.route out") from error
        return True

    async def _apply(self, obj: Object, *, dry: bool = False) -> Object:
        shared = (obj["metadata"].get("labels") or {}).get(GATEWAY)
        manager = sharing.manager(shared) if shared else f"sliceworks-{self.name}"
        if not dry:
            await replicas.hand_over(self.client, obj, self.namespace, manager)
        return await self.client.apply(
            obj, self.namespace, field_manager=manager, force=True, dry_run=dry, field_validation="Strict"
        )

    def _recorded(self) -> frozenset[Reference]:
        return self._before.objects if self._before else frozenset()

    async def _write_record(self, more: frozenset[Reference] = frozenset(), left: Sequence[str] = ()) -> Record:
        objects = ({records.reference(each) for each in self._objects} - self._lent) | more
        body = records.write(self.service, self.document, objects, left)
        self._live = await keeping.keep(self.client, self.name, body, self._live, self.namespace)
        return records.read(self._live)

    def _gone(self) -> list[Reference]:
        """What was part of it, and is of nobody's now, in the order in which it goes."""
        shared = frozenset(reference for each in self._known for reference in each.objects)
        return records.in_order_of_removal(self._recorded() - {records.reference(each) for each in self._objects} - shared)

    async def _prune(self, record: Record, *, wait: bool) -> None:
        """Let go of what is no longer part of it. What is others' by now stays, and a gateway is as all say who share it by now."""
        front = self.service.spec.gateway.name if self.service.spec.gateway else ""
        done = sharing.said([*self._sharing(), record])
        self._known = await self._others()
        if self._before:
            for name in sharing.left_by(self._before, self._known, front):
                await sharing.share(self.client, self.namespace, name, without=self.name)
        if front:
            await sharing.share(self.client, self.namespace, front, last=self.name, done=done)
        gone = self._gone()
        if self.service.spec.route and any(each.kind == "Service" for each in gone):
            if not wait:
                raise TimedOut(f"not every proxy has heard that {self.name} is led to elsewhere")
            await clock.sleep(_HEARD)
        for each in gone:
            await removing.remove(self.client, each, self.namespace, record.uid)

    async def _until_ready(self, record: Record, tell: Callable[[str], None], ends: float) -> None:
        while True:
            if self._live:
                await keeping.check(self.client, self.name, self._live, self.namespace)
            partial = replace(record, objects=frozenset(self._applied))
            seen = await cluster.look(self.client, partial, self.namespace)
            if seen.standing.settled or not (seen.standing.parts or seen.standing.missing):
                return
            waiting = [each for each in seen.standing.parts if not each.done]
            words = ", ".join(f"{each} {each.ready}/{each.wanted} {each.word}" for each in waiting)
            first = seen.causes[0] if seen.causes else None
            if seen.standing.state == "failed":
                raise SliceworksError(f"{self.name} failed: {first or words}", hint=first.remedy if first else "")
            if clock.loop_time() >= ends:
                hint = first.remedy if first and first.remedy else f"sliceworks models show {self.name} -n {self.namespace}"
                raise TimedOut(f"{self.name} is not ready in time: {first or words}", hint=hint)
            tell(f"{words}{f'; {first}' if first else ''}")
            await clock.sleep(_EVERY)
