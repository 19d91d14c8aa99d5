"""Applies steps by server-side apply, waits for each, prunes objects that are no longer desired, and previews all of it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.conditions import find_condition
from sliceworks.base.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    InternalError,
    NotFound,
    ServerTimeout,
    ServiceUnavailable,
    SliceworksError,
    TimedOut,
    Unreachable,
)
from sliceworks.base.retry import NEVER, Backoff
from sliceworks.infra.cluster.inventory import (
    FIELD_MANAGER,
    OWNER,
    ApplyResult,
    Available,
    ConditionTrue,
    Entry,
    KindsServed,
    ObjectReference,
    Wait,
    WebhookReady,
    is_owned,
    owner_label,
    reference_to,
    require_owner,
    strip_server_fields,
)
from sliceworks.infra.terraform_messages import RERUN_HINT
from sliceworks.kube.resources import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE, POD, SERVICE_ACCOUNT, STATEFUL_SET
from sliceworks.kube.selectors import from_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.infra.cluster.inventory import Inventory, Step
    from sliceworks.kube.client import Client
    from sliceworks.kube.resources import Resource

Object = dict[str, Any]
TRANSIENT = (InternalError, ServiceUnavailable, ServerTimeout, Unreachable)
"""Transient errors: a webhook or a server that is not up yet."""

POLLING = Backoff(first=0.1, factor=1.5, cap=2.0, jitter=0.0)
_RETRIES = Backoff(first=0.5, factor=1.5, cap=5.0, jitter=0.0)
_RUNNING = {"Deployment": DEPLOYMENT, "StatefulSet": STATEFUL_SET}


async def wait_until(client: Client, wait: Wait, timeout: float, report: Callable[[str], None]) -> None:
    """Wait until the condition holds; TimedOut says what is missing."""
    end = clock.loop_time() + timeout
    for pause in POLLING.delays():
        missing = await describe_missing(client, wait)
        if not missing:
            return
        report(missing)
        if clock.loop_time() >= end:
            raise TimedOut(f"timed out after {timeout:g} s: {missing}", hint=RERUN_HINT)
        await clock.sleep(pause)


async def describe_missing(client: Client, wait: Wait) -> str:
    """Why the condition does not hold yet; empty when it does."""
    try:
        if isinstance(wait, KindsServed):
            return await _check_kinds(client, wait)
        if isinstance(wait, WebhookReady):
            return await _probe_webhook(client.using(retry=NEVER), wait)
        return await (_check_available(client, wait) if isinstance(wait, Available) else _check_condition(client, wait))
    except TRANSIENT as error:
        return f"the cluster is not reachable: {error.message}"


async def _check_kinds(client: Client, wait: KindsServed) -> str:
    for api_version, kind in wait.kinds:
        if await find_resource(client, api_version, kind) is None:
            return f"kind {kind} of {api_version} is not served"
    return ""


async def find_resource(client: Client, api_version: str, kind: str) -> Resource | None:
    """The resource of a kind; None if the cluster does not serve it."""
    try:
        return await client.resource_of({"apiVersion": api_version, "kind": kind})
    except NotFound:
        return None


async def find_object(client: Client, reference: ObjectReference) -> Object | None:
    """The object; None if it does not exist or the cluster does not serve its kind."""
    resource = await find_resource(client, reference.api_version, reference.kind)
    return await client.find(resource, reference.name, reference.namespace or None) if resource else None


async def _probe_webhook(client: Client, wait: WebhookReady) -> str:
    try:
        await client.create(wait.probe, dry_run=True)
    except AlreadyExists:
        return ""
    except (NotFound, *TRANSIENT) as error:
        return f"{wait.component}'s webhooks are not ready: {error.message}"
    except ApiError:
        return ""  # the webhook rejected the probe, so it is up
    return ""


async def _check_available(client: Client, wait: Available) -> str:
    what = f"{wait.kind} {wait.namespace}/{wait.name}"
    workload = await client.find(_RUNNING[wait.kind], wait.name, wait.namespace)
    if workload is None:
        return f"{what} not found"
    status, desired = workload.get("status") or {}, int(workload["spec"].get("replicas", 1))
    is_observed = int(status.get("observedGeneration") or 0) >= int(workload["metadata"].get("generation") or 0)
    count = int(status.get("availableReplicas" if wait.kind == "Deployment" else "readyReplicas") or 0)
    if is_observed and count >= desired and int(status.get("updatedReplicas") or 0) >= desired:
        return ""
    return f"{what} has {count} of {desired} pods ready{await _waiting_reason(client, workload)}"


async def _waiting_reason(client: Client, workload: Object) -> str:
    """Why the first pod that is not ready is waiting."""
    labels = from_labels(workload["spec"]["selector"].get("matchLabels") or {})
    for pod in (await client.list(POD, workload["metadata"]["namespace"], labels=labels, limit=20)).items:
        for container in (pod.get("status") or {}).get("containerStatuses") or ():
            waiting = (container.get("state") or {}).get("waiting")
            if waiting and waiting.get("reason") not in (None, "ContainerCreating"):
                return f": pod {pod['metadata']['name']} is waiting: {waiting['reason']}"
        scheduled = find_condition(pod, "PodScheduled")
        if scheduled.get("status") == "False":
            return f": pod {pod['metadata']['name']} is unschedulable: {scheduled.get('message') or scheduled.get('reason')}"
    return ""


async def _check_condition(client: Client, wait: ConditionTrue) -> str:
    what = ObjectReference(wait.api_version, wait.kind, wait.namespace, wait.name)
    obj = await find_object(client, what)
    if obj is None:
        return f"{what} not found"
    if wait.field:
        return "" if (obj.get("status") or {}).get(wait.field) is True else f"{what} is not {wait.field}"
    condition = find_condition(obj, wait.condition)
    if not condition:
        return f"{what} is not {wait.condition} yet"
    if condition.get("status") == "True":
        return ""
    return f"{what} is not {wait.condition}: {condition.get('message') or condition.get('reason') or 'no reason given'}"


async def compare(client: Client, steps: Iterable[Step], inventory: Inventory) -> list[ApplyResult]:
    """Preview the result for each object, including objects to prune. Changes nothing."""
    all_steps, results = list(steps), list[ApplyResult]()
    for step in all_steps:
        results += [ApplyResult(step.name, reference_to(obj), *await _preview(client, step, obj)) for obj in step.objects]
    known = {result.reference for result in results} | {reference for step in all_steps for reference in step.keeps}
    results += [
        ApplyResult(entry.step, entry.reference, "delete")
        for entry in reversed(inventory.entries.values())
        if entry.reference not in known and not entry.adopted
    ]
    return results


def compare_new(steps: Iterable[Step]) -> list[ApplyResult]:
    """Preview the result for each object in a cluster that does not exist yet."""
    return [ApplyResult(step.name, reference_to(obj), "create") for step in steps for obj in step.objects]


async def _preview(client: Client, step: Step, obj: Object) -> tuple[str, str]:
    before = await find_object(client, reference_to(obj))
    if before is None:
        return "create", ""  # the object, its namespace or its kind does not exist yet
    try:
        after = await client.apply(obj, field_manager=FIELD_MANAGER, force=True, dry_run=True, field_validation=step.validation)
    except ApiError as error:
        return "refused", error.message
    return _action(before, after), ""


_DEFAULT_OBJECTS = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
_IGNORED_KINDS = {"Event", "Endpoints", "EndpointSlice", "Lease", "PodMetrics", "ControllerRevision"}


async def prune(client: Client, inventory: Inventory, desired: set[ObjectReference]) -> list[ApplyResult]:
    """Prune all inventory objects that are not in `desired`."""
    results: list[ApplyResult] = []
    orphans = [entry for entry in reversed(inventory.entries.values()) if entry.reference not in desired]
    needed = await _needed(client, orphans, inventory.environment)
    for entry in orphans:
        reason = needed.get(entry.step) or await _used(client, entry, inventory.environment)
        if not reason:
            await prune_object(client, entry, inventory.environment)
            inventory.strike(entry.reference)
        results.append(ApplyResult(entry.step, entry.reference, "keep" if reason else "delete", reason))
    await inventory.save(client)
    return results


async def prune_object(client: Client, entry: Entry, environment: str) -> str:
    """Delete an object; of an adopted object, only release our fields.

    Returns the uid of the object to wait for; empty if there is nothing to wait for.
    """
    obj = await find_object(client, entry.reference)
    if obj is None:
        return ""
    if entry.adopted:
        await _release_fields(client, entry.reference)
        return ""
    if not is_owned(obj, environment):
        return ""  # another owner has adopted it
    uid = str(obj["metadata"]["uid"])
    if not obj["metadata"].get("deletionTimestamp"):
        await delete(client, await client.resource_of(obj), entry.reference, uid)
    return uid


async def delete(client: Client, resource: Resource, reference: ObjectReference, uid: str) -> None:
    """Delete the object with this uid; does nothing if it is deleted or was recreated."""
    with suppress(NotFound, Conflict):
        await client.delete(resource, reference.name, reference.namespace or None, uid=uid, propagation_policy="Background")


async def _release_fields(client: Client, reference: ObjectReference) -> None:
    """Apply an empty object: the server removes fields that only we own."""
    metadata = {"name": reference.name, **({"namespace": reference.namespace} if reference.namespace else {})}
    bare = {"apiVersion": reference.api_version, "kind": reference.kind, "metadata": metadata}
    await client.apply(bare, field_manager=FIELD_MANAGER, force=True)


async def _needed(client: Client, orphans: list[Entry], environment: str) -> dict[str, str]:
    """Steps that must be kept, with the reason: others created objects of their kinds."""
    result: dict[str, str] = {}
    for entry in orphans:
        if entry.reference.kind == CUSTOM_RESOURCE_DEFINITION.kind and not entry.adopted and entry.step not in result:
            count, resource = await _objects_of(client, entry.reference, environment)
            if count:
                result[entry.step] = f"{resource} created by others exist"
    return result


async def _objects_of(client: Client, reference: ObjectReference, environment: str) -> tuple[int, str]:
    """How many objects of a CustomResourceDefinition others created, and their plural name."""
    definition = await client.find(CUSTOM_RESOURCE_DEFINITION, reference.name)
    if definition is None:
        return 0, ""
    resource = await resource_of_definition(client, definition)
    items = (await client.list_all(resource)).items if resource else []
    return sum(not is_owned(item, environment) for item in items), str(definition["spec"]["names"]["plural"])


async def resource_of_definition(client: Client, definition: Object) -> Resource | None:
    """The resource of a CustomResourceDefinition in a served version."""
    spec = definition["spec"]
    version = next((item["name"] for item in spec["versions"] if item.get("served")), "")
    return await find_resource(client, f"{spec['group']}/{version}", spec["names"]["kind"]) if version else None


async def _used(client: Client, entry: Entry, environment: str) -> str:
    """Why a namespace is kept: the first object of another owner in it."""
    if entry.reference.kind != NAMESPACE.kind or entry.adopted:
        return ""
    for resource in await client.discovery.resources():
        if not resource.namespaced or "list" not in resource.verbs or resource.kind in _IGNORED_KINDS:
            continue
        try:
            selector = f"{OWNER}!={owner_label(environment)}"
            users = (await client.list(resource, entry.reference.name, labels=selector, limit=3)).items
        except ApiError:
            continue  # an API that cannot be listed does not block the deletion
        others = [item["metadata"]["name"] for item in users if (resource.kind, item["metadata"]["name"]) not in _DEFAULT_OBJECTS]
        if others:
            return f"it contains {resource.kind} {others[0]}"
    return ""


@dataclass(frozen=True, slots=True)
class Applier:
    """Applies the objects of one environment. `timeout` limits each wait, in seconds."""

    client: Client
    environment: str
    timeout: float = 600.0

    async def apply(
        self, steps: Iterable[Step], inventory: Inventory, start_step: Callable[[Step], Callable[[str], None]]
    ) -> list[ApplyResult]:
        """Apply the steps, then prune objects that no step contains any more."""
        all_steps = list(steps)
        results = await self.apply_only(all_steps, inventory, start_step)
        desired = {reference for step in all_steps for reference in (*step.keeps, *map(reference_to, step.objects))}
        return [*results, *await prune(self.client, inventory, desired)]

    async def apply_only(
        self, steps: Iterable[Step], inventory: Inventory, start_step: Callable[[Step], Callable[[str], None]]
    ) -> list[ApplyResult]:
        """Apply the steps without pruning."""
        results: list[ApplyResult] = []
        await inventory.begin(self.client)
        for step in steps:
            results += await self._step(step, inventory, start_step(step))
        return results

    async def _step(self, step: Step, inventory: Inventory, report: Callable[[str], None]) -> list[ApplyResult]:
        before = {reference: await find_object(self.client, reference) for reference in map(reference_to, step.objects)}
        for reference, existing in before.items():
            require_owner(reference, existing, self.environment)
            inventory.note(Entry(step.name, reference, adopted=existing is not None and not is_owned(existing, self.environment)))
        await inventory.save(self.client)
        results = []
        for obj in step.objects:
            reference = reference_to(obj)
            report(str(reference))
            after = await self._release(await self._apply_object(step, obj, report))
            results.append(ApplyResult(step.name, reference, _action(before[reference], after)))
        for wait in step.waits:
            try:
                await wait_until(self.client, wait, self.timeout, report)
            except TimedOut as error:
                raise TimedOut(f"{step.name}: {error.message}", hint=error.hint) from error
        return results

    async def _release(self, obj: Object) -> Object:
        """Remove the owners of a service account: it may not be deleted with the model service that created it."""
        metadata = obj["metadata"]
        if obj["kind"] != SERVICE_ACCOUNT.kind or not metadata.get("ownerReferences"):
            return obj
        patch = {"metadata": {"uid": metadata["uid"], "ownerReferences": None}}
        return await self.client.patch(SERVICE_ACCOUNT, metadata["name"], patch, metadata["namespace"])

    async def _apply_object(self, step: Step, obj: Object, report: Callable[[str], None]) -> Object:
        """Apply one object; retry while its kind is not served or a webhook is not up yet."""
        end, pauses = clock.loop_time() + self.timeout, _RETRIES.delays()
        while True:
            try:
                return await self.client.apply(obj, field_manager=FIELD_MANAGER, force=True, field_validation=step.validation)
            except (NotFound, *TRANSIENT) as error:
                if clock.loop_time() >= end:
                    raise TimedOut(f"{step.name}: {reference_to(obj)}: {error.message}", hint=RERUN_HINT) from error
                report(f"{reference_to(obj)}: {error.message}")
            except SliceworksError as error:
                raise SliceworksError(f"{step.name}: {reference_to(obj)}: {error.message}", hint=error.hint) from error
            await clock.sleep(next(pauses))


def _action(before: Object | None, after: Object) -> str:
    if before is None:
        return "create"
    return "noop" if strip_server_fields(before) == strip_server_fields(after) else "update"
