"""What controllers of pods share: create from a template, delete, adopt and release pods; slow start; availability."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sliceworks.base import names
from sliceworks.base.errors import ApiError, Forbidden, NotFound
from sliceworks.kube.resources import owner_reference
from sliceworks.kube.selectors import from_label_selector
from sliceworks.twin.controllers.runtime.api_writer import ApiWriter
from sliceworks.twin.controllers.runtime.controller_context import ControllerContext, ObjectKey, controller_user
from sliceworks.twin.controllers.runtime.pod_index import TRACKING_FINALIZER, Pod, PodIndex
from sliceworks.twin.controllers.runtime.recorder import Recorder
from sliceworks.twin.controllers.runtime.resource_keys import PODS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from sliceworks.kube.resources import Object
    from sliceworks.kube.selectors import LabelSelector

PHASE_ORDER = {"Pending": 0, "Unknown": 1, "Running": 2}
"""Pods of a lower rank are deleted first."""


class PodControl:
    """Creates and deletes pods as one controller, with events on the pods' owner."""

    def __init__(self, context: ControllerContext, account: str, component: str) -> None:
        user = controller_user(account)
        self.writer = ApiWriter(context, user)
        self.recorder = Recorder(context, user, component)

    async def create(self, owner: Mapping[str, Any], template: Mapping[str, Any], *, prefix: str = "") -> bool:
        """Create a pod from a template; False if the namespace is terminating, where no pod can be created."""
        metadata, template_metadata = owner["metadata"], template.get("metadata") or {}
        fields = ("labels", "annotations", "finalizers")
        pod: Object = {
            "metadata": {
                "generateName": prefix or generate_name(metadata["name"]),
                "ownerReferences": [owner_reference(owner)],
                **{field: template_metadata[field] for field in fields if template_metadata.get(field)},
            },
            "spec": template.get("spec") or {},
        }
        try:
            created = (await self.writer.create(PODS, metadata["namespace"], pod)).object()
        except ApiError as error:
            if is_namespace_terminating(error):
                return False
            await self.recorder.warning(owner, "FailedCreate", f"Error creating: {error.message}")
            raise
        await self.recorder.normal(owner, "SuccessfulCreate", f"Created pod: {created['metadata']['name']}")
        return True

    async def delete(self, owner: Mapping[str, Any], pod: Pod) -> None:
        """Delete a pod; one that does not exist is ignored."""
        try:
            deleted = await self.writer.delete_if_exists(pod_key(pod))
        except ApiError as error:
            await self.recorder.warning(owner, "FailedDelete", f"Error deleting: {error.message}")
            raise
        if deleted:
            await self.recorder.normal(owner, "SuccessfulDelete", f"Deleted pod: {pod.name}")

    async def patch(self, pod: Pod, metadata: Mapping[str, Any]) -> None:
        """Patch a pod's metadata; a deleted pod is ignored."""
        with suppress(NotFound):
            await self.writer.patch_strategic(pod_key(pod), "", metadata)

    async def remove_tracking_finalizer(self, pod: Pod) -> None:
        """Remove the finalizer of Job tracking from a pod."""
        await self.patch(pod, {"$deleteFromPrimitiveList/finalizers": [TRACKING_FINALIZER]})

    async def claim(
        self,
        owner: Mapping[str, Any],
        pods: PodIndex,
        *,
        finalizers: Iterable[str] = (),
        active_only: bool = False,
        parent_name: str = "",
    ) -> list[Pod]:
        """The owner's pods, after it adopted matching orphans and released pods that no longer match its selector.

        With `active_only`, finished pods are neither adopted nor released. With `parent_name`, only pods named `parent_name-N` are
        adopted.
        """
        metadata = owner["metadata"]
        selector, deleting = selector_of(owner), bool(metadata.get("deletionTimestamp"))
        claimed: list[Pod] = []
        for pod in list(pods.owned_by(metadata["uid"])):
            if selector.matches(pod.labels):
                claimed.append(pod)
            elif not deleting and (pod.active or not active_only):
                with suppress(NotFound):
                    await self.writer.release(pod_key(pod), pod.uid, metadata["uid"], finalizers)
        if deleting:
            return claimed
        for pod in list(pods.orphans(metadata["namespace"])):
            if parent_name and pod.name.rpartition("-")[0] != parent_name:
                continue
            if selector.matches(pod.labels) and not pod.deleting and (pod.active or not active_only):
                with suppress(NotFound):
                    await self.writer.adopt(pod_key(pod), pod.uid, owner, finalizers)
                claimed.append(pods.get(pod.namespace, pod.name) or pod)
        return claimed


async def slow_start_batch(count: int, create: Callable[[int], Awaitable[bool]]) -> tuple[int, ApiError | None]:
    """Call `create` for 0 … count-1 in batches that double in size, until a batch has an error.

    Returns how many calls succeeded, and the last error.
    """
    created, first, size = 0, 0, 1
    error: ApiError | None = None
    while first < count and error is None:
        for number in range(first, min(first + size, count)):
            try:
                created += await create(number)
            except ApiError as failure:
                error = failure
        first, size = first + size, size * 2
    return created, error


def pod_key(pod: Pod) -> ObjectKey:
    return ObjectKey(PODS, pod.namespace, pod.name)


def selector_of(owner: Mapping[str, Any]) -> LabelSelector:
    selector = (owner.get("spec") or {}).get("selector")
    # A ReplicationController has a map of labels where all other kinds have a LabelSelector.
    return from_label_selector({"matchLabels": selector} if owner.get("kind") == "ReplicationController" else selector)


def generate_name(name: str) -> str:
    """The generateName of an owner's pods."""
    prefix = f"{name}-"
    return name if names.dns1123_subdomain_errors(f"{prefix}a") else prefix


def is_namespace_terminating(error: ApiError) -> bool:
    """Whether a create failed because its namespace is being deleted."""
    causes = ((error.status().get("details") or {}).get("causes")) or ()
    return isinstance(error, Forbidden) and any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def deletion_order(pods: Iterable[Pod]) -> list[Pod]:
    """Pods in the order in which a controller deletes them: unscheduled, pending and unready ones first."""
    ordered = list(pods)
    ordered.sort(key=lambda pod: pod.created, reverse=True)
    ordered.sort(key=lambda pod: -pod.restarts)
    ordered.sort(key=lambda pod: pod.ready_at, reverse=True)
    ordered.sort(key=lambda pod: (bool(pod.node), PHASE_ORDER.get(pod.phase, 0), pod.ready))
    return ordered


def parse_time(value: str) -> datetime:
    """An RFC 3339 time."""
    return datetime.fromisoformat(value).astimezone(UTC)


def scaled_value(value: int | str, total: int, *, round_up: bool = False) -> int:
    """An IntOrString: the number, or the percentage of a total."""
    if isinstance(value, int):
        return value
    part = int(value.removesuffix("%")) * total
    return -(-part // 100) if round_up else part // 100


def min_ready_seconds(owner: Mapping[str, Any]) -> int:
    return int(owner["spec"].get("minReadySeconds") or 0)


def is_available(pod: Pod, min_ready: int, now: datetime) -> bool:
    """Whether a pod has been ready for `min_ready` seconds."""
    if not pod.ready or not min_ready:
        return pod.ready
    return pod.ready_at != "-" and (now - parse_time(pod.ready_at)).total_seconds() >= min_ready


def seconds_to_available(pods: Iterable[Pod], min_ready: int, now: datetime) -> float | None:
    """Seconds until the next ready pod becomes available; None if no pod is waiting."""
    if not min_ready:
        return None
    waits = [min_ready - (now - parse_time(pod.ready_at)).total_seconds() for pod in pods if pod.ready and pod.ready_at != "-"]
    return min((wait for wait in waits if wait > 0), default=None)
