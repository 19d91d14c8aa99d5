"""Rolls out a model service: checks prerequisites, applies its objects in order and waits until they are ready."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from sliceworks.base import clock
from sliceworks.base.conditions import is_condition_true
from sliceworks.base.errors import AlreadyExists, Forbidden, NotFound, SliceworksError, TimedOut
from sliceworks.kube.resources import CONFIG_MAP, DEPLOYMENT, JOB, NAMESPACE, SECRET, SERVICE_ACCOUNT
from sliceworks.serving import cluster, ownership, saxml
from sliceworks.serving import record as records
from sliceworks.serving.compiler import manifests
from sliceworks.serving.ingress_route import ROUTE_KINDS, referenced_services
from sliceworks.serving.objects import COMPONENT_LABEL, GATEWAY_LABEL, SERVICE_LABEL
from sliceworks.serving.ownership import OPTIONAL_KINDS
from sliceworks.serving.record import RecordConflict, reference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from sliceworks.kube import Client
    from sliceworks.serving.record import Record, Reference
    from sliceworks.specs.model_service import ModelService

Object = dict[str, Any]
_POLL_INTERVAL = 2.0
_PROPAGATION_DELAY = 10.0
"""Seconds until every proxy uses a changed route."""
_ADDONS = {
    "gateway.networking.k8s.io": "the Gateway API is not installed in this cluster",
    "networking.istio.io": "Istio is not installed in this cluster",
}


class Prerequisite(NamedTuple):
    """A Secret, with the keys that it must have, or a ServiceAccount that pods refer to."""

    kind: str
    name: str
    keys: tuple[str, ...] = ()


def find_prerequisites(objects: Iterable[Object]) -> list[Prerequisite]:
    """What the pods of these objects refer to and the objects do not include."""
    listed = list(objects)
    own = {(ref.kind, ref.name) for ref in map(reference, listed)}
    keys: dict[tuple[str, str], set[str]] = {}
    for obj in listed:
        for kind, name, key in _pod_references(((obj.get("spec") or {}).get("template") or {}).get("spec") or {}):
            if (kind, name) not in own:
                keys.setdefault((kind, name), set()).update({key} if key else ())
    return [Prerequisite(kind, name, tuple(sorted(required))) for (kind, name), required in keys.items()]


def _pod_references(pod: Object) -> Iterator[tuple[str, str, str]]:
    """Kind, name and key of what a pod requires."""
    if account := pod.get("serviceAccountName"):
        yield "ServiceAccount", account, ""
    for volume in pod.get("volumes") or ():
        secret = volume.get("secret")
        if secret and not secret.get("optional"):
            yield "Secret", secret["secretName"], ""
    for container in (*(pod.get("initContainers") or ()), *(pod.get("containers") or ())):
        for variable in container.get("env") or ():
            secret = (variable.get("valueFrom") or {}).get("secretKeyRef")
            if secret and not secret.get("optional"):
                yield "Secret", secret["name"], secret["key"]


async def missing_prerequisites(client: Client, namespace: str, prerequisites: Iterable[Prerequisite]) -> list[str]:
    """Descriptions of missing prerequisites, with the command that creates each. Objects that the user may not read are skipped."""
    missing = []
    for required in prerequisites:
        try:
            live = await client.find(SECRET if required.kind == "Secret" else SERVICE_ACCOUNT, required.name, namespace)
        except Forbidden:
            continue
        data = (live or {}).get("data") or {}
        missing_keys = [key for key in required.keys if key not in data]
        if live is None:
            missing.append(f"{required.kind.lower()}/{required.name} in {namespace}{_create_command(required, namespace)}")
        elif missing_keys:
            missing.append(f"{', '.join(missing_keys)} of secret/{required.name} in {namespace}")
    return missing


def _create_command(required: Prerequisite, namespace: str) -> str:
    """The command that creates a prerequisite, if its content is known."""
    if required.kind == "Secret" and not required.keys:
        return ""
    literals = "".join(f" --from-literal={key}=…" for key in required.keys)
    kind = "secret generic" if required.kind == "Secret" else "serviceaccount"
    return f"; create it with `kubectl create {kind} {required.name} -n {namespace}{literals}`"


async def hand_over_replicas(client: Client, obj: Object, namespace: str, manager: str) -> None:
    """Keep the replicas of a Deployment that is about to be applied without `replicas`.

    Server-side apply resets a field that its manager no longer applies: `replicas` would fall back to 1 until the autoscaler scales
    up again. So another manager takes over the field first, and the autoscaler takes it from there.
    """
    if obj["kind"] != "Deployment" or "replicas" in obj["spec"]:
        return
    name = obj["metadata"]["name"]
    live = await client.find(DEPLOYMENT, name, namespace)
    replicas = live["spec"]["replicas"] if live else 0
    if live and replicas and _owns_replicas(live, manager):
        spec = {"replicas": replicas}
        body = {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": {"name": name}, "spec": spec}
        await client.apply(body, namespace, field_manager=f"{manager}-replicas", force=True)


def _owns_replicas(deployment: Object, manager: str) -> bool:
    entries = [entry for entry in deployment["metadata"].get("managedFields") or () if entry["manager"] == manager]
    return any("f:replicas" in entry["fieldsV1"].get("f:spec", {}) for entry in entries)


class Rollout:
    """The deployment of one service to a namespace."""

    def __init__(self, client: Client, service: ModelService, document: Mapping[str, Any], namespace: str) -> None:
        metadata = service.metadata.model_copy(update={"namespace": namespace})
        self.client, self.namespace, self.name = client, namespace, service.metadata.name
        self.service, self.document = service.model_copy(update={"metadata": metadata}), document
        self.skipped_objects: list[str] = []
        self.missing: list[str] = []
        """Missing prerequisites, for which pods will wait."""
        self.unchanged_components: frozenset[str] = frozenset()
        """Components whose workloads are not applied."""
        self.pending_steps: tuple[str, ...] = ()
        """Steps that the caller performs after `apply`; they are recorded as pending until `finish`."""
        self.based_on: Record | None = None
        """The record from which the document was edited: the rollout fails if it has changed since."""
        self._live: Object | None = None
        self._before: Record | None = None
        self._others: list[Record] = []
        self._objects: list[Object] = []
        self._applied: set[Reference] = set()
        self._borrowed: set[Reference] = set()

    async def prepare(self, *, create_namespace: bool = True) -> list[Object]:
        """All objects to apply, each accepted by the cluster in a dry run. Creates at most the namespace."""
        # 1. Read the records of this service and of the others.
        await self._read_records()
        await self._check_sax_cell()
        # 2. Compile, without optional kinds that the cluster does not serve.
        compiled = manifests(self.service, [record.service for record in self._gateway_peers()])
        self._objects = [obj for obj in compiled if await self._is_served(obj)]
        # 3. Create the namespace.
        if await self.client.find(NAMESPACE, self.namespace) is None:
            if not create_namespace:
                raise SliceworksError(f"namespace {self.namespace} not found", hint="deploying without --dry-run creates it")
            with suppress(AlreadyExists):
                await self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        # 4. Check ownership, validity and prerequisites.
        for obj in self._objects:
            await self._check_ownership(obj)
            await self._apply(obj, dry_run=True)
        self.missing = await missing_prerequisites(self.client, self.namespace, find_prerequisites(self._objects))
        return self._objects

    async def apply(self, report: Callable[[str], None], timeout: float, *, wait: bool = True) -> Record:
        """Apply all objects in order and return the record; steps that were not completed are recorded as pending.

        A Job waits for the servers applied before it, and later objects wait for the Job. A route to new backends waits until they
        are ready.
        """
        # 1. Write the record first: it owns the objects, and lists also those to delete.
        record = await self._write_record(self._recorded(), self._unfinished_steps())
        try:
            return await self._apply_and_prune(record, report, timeout, wait=wait)
        except RecordConflict:
            await records.append_references(self.client, record, self._applied - self._borrowed, self.namespace)
            raise

    async def _apply_and_prune(self, record: Record, report: Callable[[str], None], timeout: float, *, wait: bool) -> Record:
        try:
            # 2. Apply the objects.
            await self._apply_objects(record, report, clock.loop_time() + (timeout if wait else 0))
            # 3. Delete objects that are no longer part of the service.
            await self._prune(record, wait=wait)
        except TimedOut:
            record = await self._write_record(self._recorded(), self._unfinished_steps())
            if wait:
                raise
            return record
        # 4. Write the record again: only steps of the caller and of unchanged components are pending.
        return await self._write_record(pending_steps=[*self._inherited_steps(), *self.pending_steps])

    async def _read_records(self) -> None:
        self._live = await self.client.find(CONFIG_MAP, records.record_name(self.name), self.namespace)
        self._others = await self._list_others()
        with suppress(SliceworksError):  # An invalid record is overwritten.
            self._before = records.from_config_map(self._live) if self._live else None
        if self._before and self._before.is_deleting:
            raise SliceworksError(f"model service {self.name} is being deleted", hint="deploy it again when it is deleted")
        if self.based_on and (self._before is None or self._before.document != self.based_on.document):
            raise RecordConflict(self.name)

    async def _list_others(self) -> list[Record]:
        known = await cluster.list_records(self.client, self.namespace)
        return [record for record in known if record.service.metadata.name != self.name]

    async def _check_sax_cell(self) -> None:
        """Raise if the admin server of another service leads the cell: each would overwrite the other's address and models."""
        cell = saxml.led_cell(self.service)
        for record in await self._list_visible_records() if cell else ():
            metadata = record.service.metadata
            if saxml.led_cell(record.service) == cell and (metadata.name, record.namespace) != (self.name, self.namespace):
                hint = f"set spec.saxml.cell to another, such as /sax/{self.name}"
                raise SliceworksError(
                    f"{cell} is the cell of model service {metadata.name} in namespace {record.namespace}", hint=hint
                )

    async def _list_visible_records(self) -> list[Record]:
        """The records of all namespaces, or of this one if the caller may not list others."""
        try:
            return await cluster.list_records(self.client, None)
        except Forbidden:
            return self._others

    async def _check_ownership(self, obj: Object) -> None:
        """Raise if an object of that name exists and does not belong to this service: it would be taken over and later deleted."""
        ref = reference(obj)
        # Several services may use an account, and an environment may have taken it over since the last deployment.
        if await ownership.is_borrowed(self.client, obj, self.namespace):
            self._borrowed.add(ref)
        if ref in self._recorded() or obj["kind"] == "ServiceAccount":
            return
        live = await self.client.find(await self.client.resource_of(obj), obj["metadata"]["name"], self.namespace)
        if live is None:
            return
        labels, gateway = live["metadata"].get("labels") or {}, obj["metadata"]["labels"].get(GATEWAY_LABEL)
        sharing = {self.name, *(record.service.metadata.name for record in self._gateway_peers())}
        owners = {owner["name"] for owner in live["metadata"].get("ownerReferences") or ()}
        is_ours = labels.get(GATEWAY_LABEL) == gateway if gateway else labels.get(SERVICE_LABEL) in sharing
        if is_ours or owners & {records.record_name(name) for name in sharing}:
            return
        owner = labels.get(SERVICE_LABEL) or labels.get(GATEWAY_LABEL)
        problem = f"{ref} already exists and {f'belongs to {owner}' if owner else 'does not belong to a model service'}"
        raise SliceworksError(problem, hint="rename the service or its gateway")

    async def _apply_objects(self, record: Record, report: Callable[[str], None], deadline: float) -> None:
        peers = [peer.owner for peer in self._gateway_peers()]
        for obj in self._objects:
            if obj["kind"] == "Job" or (obj["kind"] in ROUTE_KINDS and await self._has_new_backends(obj)):
                await self._wait_until_ready(record, report, deadline)
            if self._is_unchanged(obj):
                continue
            is_shared = GATEWAY_LABEL in obj["metadata"]["labels"]
            if reference(obj) not in self._borrowed:
                obj["metadata"]["ownerReferences"] = [*(peers if is_shared else ()), record.owner]
            report(f"{obj['kind']} {obj['metadata']['name']}")
            self._applied.add(reference(obj))
            if obj["kind"] == "Job":
                await self._delete_failed_job(obj["metadata"]["name"])
            await self._apply(obj)
            if obj["kind"] == "Job":
                await self._wait_until_ready(record, report, deadline)

    async def _delete_failed_job(self, name: str) -> None:
        """Delete a Job that failed in an earlier deployment, so that it runs again."""
        live = await self.client.find(JOB, name, self.namespace)
        if live is None or not is_condition_true(live, "Failed"):
            return
        await self.client.delete(JOB, name, self.namespace, uid=live["metadata"]["uid"], propagation_policy="Background")
        while await self.client.find(JOB, name, self.namespace) is not None:
            await clock.sleep(_POLL_INTERVAL)

    def _unfinished_steps(self) -> list[str]:
        """The steps that have not been completed."""
        desired = [reference(obj) for obj in self._objects if not self._is_unchanged(obj)]
        steps = [f"apply {ref}" for ref in desired if ref not in self._applied]
        steps += [f"remove {ref}" for ref in self._obsolete()]
        return [*self._inherited_steps(), *steps, *self.pending_steps]

    def _inherited_steps(self) -> list[str]:
        """Pending steps of an earlier deployment for components that this one does not change."""
        unchanged = {f"apply {reference(obj)}" for obj in self._objects if self._is_unchanged(obj)}
        return [step for step in self._before.pending_steps if step in unchanged] if self._before else []

    async def finish(self) -> Record:
        """Record that the caller has performed its pending steps."""
        return await self._write_record(pending_steps=self._inherited_steps())

    async def follow(self, record: Record, report: Callable[[str], None], timeout: float) -> None:
        """Wait until everything is ready."""
        await self._wait_until_ready(record, report, clock.loop_time() + timeout)

    async def _has_new_backends(self, obj: Object) -> bool:
        """Whether an existing route is about to send requests to Services that may not be ready yet."""
        live = await self.client.find(await self.client.resource_of(obj), obj["metadata"]["name"], self.namespace)
        # The Service of all servers is not new: it has been serving under the same name.
        return live is not None and bool(referenced_services(obj) - referenced_services(live) - {self.name})

    def _is_unchanged(self, obj: Object) -> bool:
        return obj["kind"] == "Deployment" and obj["metadata"]["labels"].get(COMPONENT_LABEL) in self.unchanged_components

    def _gateway_peers(self) -> list[Record]:
        gateway = self.service.spec.gateway
        return cluster.gateway_peers(self.name, gateway.name, self._others) if gateway else []

    async def _is_served(self, obj: Object) -> bool:
        """Whether the cluster serves the object's kind; raises if the service requires it."""
        try:
            await self.client.resource_of(obj)
        except NotFound as error:
            kind = obj["kind"]
            if kind in OPTIONAL_KINDS:
                reason = f"{OPTIONAL_KINDS[kind]} not available in this cluster"
                self.skipped_objects.append(f"{kind} {obj['metadata']['name']}: {reason}")
                return False
            group = obj["apiVersion"].partition("/")[0]
            problem = _ADDONS.get(group, f"this cluster does not serve {kind} of {obj['apiVersion']}")
            raise SliceworksError(problem, hint="install it, or remove spec.route") from error
        return True

    async def _apply(self, obj: Object, *, dry_run: bool = False) -> Object:
        gateway = (obj["metadata"].get("labels") or {}).get(GATEWAY_LABEL)
        manager = ownership.gateway_field_manager(gateway) if gateway else f"sliceworks-{self.name}"
        if not dry_run:
            await hand_over_replicas(self.client, obj, self.namespace, manager)
        return await self.client.apply(
            obj, self.namespace, field_manager=manager, force=True, dry_run=dry_run, field_validation="Strict"
        )

    def _recorded(self) -> frozenset[Reference]:
        return self._before.objects if self._before else frozenset()

    async def _write_record(self, more: frozenset[Reference] = frozenset(), pending_steps: Sequence[str] = ()) -> Record:
        references = ({reference(obj) for obj in self._objects} - self._borrowed) | more
        body = records.to_config_map(self.service, self.document, references, pending_steps)
        self._live = await records.save(self.client, self.name, body, self._live, self.namespace)
        return records.from_config_map(self._live)

    def _obsolete(self) -> list[Reference]:
        """Objects of the previous deployment that neither this service nor another one needs, in deletion order."""
        used_by_others = frozenset(ref for record in self._others for ref in record.objects)
        return records.deletion_order(self._recorded() - {reference(obj) for obj in self._objects} - used_by_others)

    async def _prune(self, record: Record, *, wait: bool) -> None:
        """Delete obsolete objects, and update gateways whose services changed meanwhile."""
        gateway = self.service.spec.gateway.name if self.service.spec.gateway else ""
        done = ownership.gateway_sources([*self._gateway_peers(), record])
        self._others = await self._list_others()
        if self._before:
            for name in ownership.gateways_left_by(self._before, self._others, gateway):
                await ownership.update_shared_gateway(self.client, self.namespace, name, without=self.name)
        if gateway:
            await ownership.update_shared_gateway(self.client, self.namespace, gateway, last=self.name, done=done)
        obsolete = self._obsolete()
        if self.service.spec.route and any(ref.kind == "Service" for ref in obsolete):
            if not wait:
                raise TimedOut(f"not every proxy uses the changed route of {self.name} yet")
            await clock.sleep(_PROPAGATION_DELAY)
        for ref in obsolete:
            await ownership.delete_owned_object(self.client, ref, self.namespace, record.uid)

    async def _wait_until_ready(self, record: Record, report: Callable[[str], None], deadline: float) -> None:
        while True:
            if self._live:
                await records.verify_unchanged(self.client, self.name, self._live, self.namespace)
            applied = replace(record, objects=frozenset(self._applied))
            details = await cluster.describe(self.client, applied, self.namespace)
            status = details.status
            if status.is_settled or not (status.workloads or status.missing):
                return
            pending = [workload for workload in status.workloads if not workload.is_done]
            summary = ", ".join(f"{workload} {workload.ready}/{workload.desired} {workload.state}" for workload in pending)
            cause = details.causes[0] if details.causes else None
            if status.state == "failed":
                raise SliceworksError(f"model service {self.name} failed: {cause or summary}", hint=cause.hint if cause else "")
            if clock.loop_time() >= deadline:
                hint = cause.hint if cause and cause.hint else f"sliceworks models show {self.name} -n {self.namespace}"
                raise TimedOut(f"model service {self.name} is not ready: {cause or summary}", hint=hint)
            report(f"{summary}{f'; {cause}' if cause else ''}")
            await clock.sleep(_POLL_INTERVAL)
