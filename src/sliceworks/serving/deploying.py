"""Model services put into a cluster, followed until they are ready, and taken out again: server-side apply through the client."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import NotFound, SliceworksError, TimedOut
from sliceworks.kube.well_known import CONFIG_MAP, NAMESPACE
from sliceworks.serving import cluster, front, naming, needs, replicas
from sliceworks.serving import record as records
from sliceworks.serving.compile import manifests
from sliceworks.serving.naming import GATEWAY
from sliceworks.serving.ways import LEADING, led_to

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sliceworks.kube import Client
    from sliceworks.serving.record import Record, Reference
    from sliceworks.specs.serving import ModelService

Object = dict[str, Any]
_EVERY = 2.0  # seconds between two looks
_HEARD = 10.0  # seconds until every proxy has heard of a route that leads elsewhere
# What a cluster may lack without harm to the service itself.
OPTIONAL = {
    "PodMonitoring": "managed Prometheus",
    "HealthCheckPolicy": "Google's load balancers",
    "GCPBackendPolicy": "Google's load balancers",
}
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
        self._before: Record | None = None
        self._known: list[Record] = []
        self._objects: list[Object] = []

    async def prepare(self, *, make_namespace: bool = True) -> list[Object]:
        """Everything that will be applied, each taken by the cluster in a dry run. At most a missing namespace is made."""
        # 1. Who is there already.
        self._known = await cluster.all_records(self.client, self.namespace)
        self._before = next((each for each in self._known if each.service.metadata.name == self.name), None)
        # 2. What it becomes, less what this cluster does not know.
        made = manifests(self.service, [each.service for each in self._sharing()])
        self._objects = [each for each in made if await self._served(each)]
        # 3. A place to put it.
        if await self.client.find(NAMESPACE, self.namespace) is None:
            if not make_namespace:
                raise SliceworksError(f"there is no namespace {self.namespace}", hint="a deployment that is no dry run makes it")
            await self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        # 4. Whether the cluster would take it, and what it lacks.
        for each in self._objects:
            await self._apply(each, dry=True)
        self.missing = await needs.missing(self.client, self.namespace, needs.needs(self._objects))
        return self._objects

    async def apply(self, tell: Callable[[str], None], timeout: float, *, wait: bool = True) -> Record:
        """Apply everything in order. A Job waits for the servers before it, and what comes after waits for the Job. A route that
        is to lead to somebody more waits until they answer. What nobody waits for, or what waits too long, is recorded as left."""
        # 1. The record first: it owns the rest, and names also what may have to go.
        record = await self._write_record(self._recorded())
        try:
            # 2. The objects.
            await self._apply_objects(record, tell, clock.loop_time() + (timeout if wait else 0))
            # 3. What is no longer part of it.
            await self._prune(wait=wait)
        except TimedOut:
            record = await self._write_record(self._recorded(), self._left())
            if wait:
                raise
            return record
        return await self._write_record()

    async def _apply_objects(self, record: Record, tell: Callable[[str], None], ends: float) -> None:
        owners = [each.owner for each in self._sharing()]
        for each in self._objects:
            if each["kind"] == "Job" or (each["kind"] in LEADING and await self._leads_to_newcomers(each)):
                await self._until_ready(record, tell, ends)
            if self._stays(each):
                continue
            shared = GATEWAY in each["metadata"]["labels"]
            each["metadata"]["ownerReferences"] = [*(owners if shared else ()), record.owner]
            tell(f"{each['kind']} {each['metadata']['name']}")
            await self._apply(each)
            if each["kind"] == "Job":
                await self._until_ready(record, tell, ends)

    def _left(self) -> list[str]:
        """What has not been done of it, a step a line."""
        waiting = [each for each in self._objects if not (each["metadata"].get("ownerReferences") or self._stays(each))]
        return [f"apply {records.reference(each)}" for each in waiting] + [f"remove {each}" for each in self._gone()]

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
        manager = f"sliceworks-gateway-{shared}" if shared else f"sliceworks-{self.name}"
        if not dry:
            await replicas.hand_over(self.client, obj, self.namespace, manager)
        return await self.client.apply(
            obj, self.namespace, field_manager=manager, force=True, dry_run=dry, field_validation="Strict"
        )

    def _recorded(self) -> frozenset[Reference]:
        return self._before.objects if self._before else frozenset()

    async def _write_record(self, more: frozenset[Reference] = frozenset(), left: Sequence[str] = ()) -> Record:
        objects = {records.reference(each) for each in self._objects} | more
        return records.read(await self._apply(records.write(self.service, self.document, objects, left)))

    def _gone(self) -> list[Reference]:
        """What was part of it, and is of nobody's now, in the order in which it goes."""
        shared = frozenset(reference for each in self._known if each is not self._before for reference in each.objects)
        return records.in_order_of_removal(self._recorded() - {records.reference(each) for each in self._objects} - shared)

    def _left_gateways(self) -> list[str]:
        """Gateways that others go on to share without this one: what it had in common with them, and has no more, tells."""
        was = self._recorded() - {records.reference(each) for each in self._objects}
        others = [each for each in self._known if each is not self._before and each.objects & was]
        fronts = {each.service.spec.gateway.name for each in others if each.service.spec.gateway}
        return sorted(fronts - {self.service.spec.gateway.name if self.service.spec.gateway else ""})

    async def _prune(self, *, wait: bool) -> None:
        gone = self._gone()
        for name in self._left_gateways():
            await _share(self.client, self.namespace, cluster.neighbours(self.name, name, self._known))
        if self.service.spec.route and any(each.kind == "Service" for each in gone):
            if not wait:
                raise TimedOut(f"not every proxy has heard that {self.name} is led to elsewhere")
            await clock.sleep(_HEARD)
        for each in gone:
            await _remove(self.client, each, self.namespace)

    async def _until_ready(self, record: Record, tell: Callable[[str], None], ends: float) -> None:
        applied = {records.reference(each) for each in self._objects if each["metadata"].get("ownerReferences")}
        while True:
            partial = replace(record, objects=frozenset(applied))
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


async def _share(client: Client, namespace: str, staying: Sequence[Record]) -> None:
    """A gateway that others go on to share, without the one that leaves."""
    for each in front.manifests([record.service for record in staying]) if staying else ():
        each["metadata"]["ownerReferences"] = [record.owner for record in staying]
        name = each["metadata"]["labels"][GATEWAY]
        try:
            await client.apply(each, namespace, field_manager=f"sliceworks-gateway-{name}", force=True)
        except NotFound:
            if each["kind"] not in OPTIONAL:
                raise


async def delete(client: Client, record: Record, namespace: str, timeout: float) -> None:
    """Remove a service with everything that belongs to it alone, and wait until it is gone."""
    spec, name = record.service.spec, record.service.metadata.name
    # 1. Others keep the gateway.
    if spec.gateway:
        await _share(client, namespace, cluster.neighbours(name, spec.gateway.name, await cluster.all_records(client, namespace)))
    # 2. The record goes when everything that it owns has gone.
    await client.delete(CONFIG_MAP, records.record_name(name), namespace, propagation_policy="Foreground")
    ends = clock.loop_time() + timeout
    while await client.find(CONFIG_MAP, records.record_name(name), namespace):
        if clock.loop_time() >= ends:
            raise TimedOut(f"{name} is still going away", hint=f"kubectl get all -n {namespace} -l {naming.SERVICE}={name}")
        await clock.sleep(_EVERY)


async def _remove(client: Client, gone: Reference, namespace: str) -> None:
    try:
        resource = await client.resource_of({"apiVersion": gone.api_version, "kind": gone.kind})
        await client.delete(resource, gone.name, namespace, propagation_policy="Background")
    except NotFound:
        return
