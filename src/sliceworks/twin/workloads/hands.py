"""What controllers of pods do to them: make them from a template, delete them, take them in and let them go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import names
from sliceworks.base.errors import ApiError, Forbidden, NotFound
from sliceworks.kube.resources import owner_reference
from sliceworks.kube.selectors import from_label_selector
from sliceworks.twin.controllers.events import Recorder
from sliceworks.twin.controllers.world import STRATEGIC, World, controller_user
from sliceworks.twin.workloads.pods import TRACKING, Pod, Pods

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from sliceworks.kube.selectors import LabelSelector

Obj = dict[str, Any]


class PodHands:
    """Acts as one controller, and tells of what it does in events on the pods' owner."""

    def __init__(self, world: World, account: str, component: str) -> None:
        self.world = world
        self.user = controller_user(account)
        self.recorder = Recorder(world, self.user, component)

    async def create(self, owner: Mapping[str, Any], template: Mapping[str, Any], *, prefix: str = "") -> bool:
        """Make a pod of a template that the owner controls; False when its namespace ends, so that no other can be made either."""
        metadata, made = owner["metadata"], template.get("metadata") or {}
        pod: Obj = {
            "metadata": {
                "generateName": prefix or generate_name(metadata["name"]),
                "ownerReferences": [owner_reference(owner)],
                **{field: made[field] for field in ("labels", "annotations", "finalizers") if made.get(field)},
            },
            "spec": template.get("spec") or {},
        }
        try:
            found = await self.world.send(self.user, "POST", f"/api/v1/namespaces/{metadata['namespace']}/pods", pod)
        except ApiError as error:
            if _namespace_ends(error):
                return False
            await self.recorder.warning(owner, "FailedCreate", f"Error creating: {error.message}")
            raise
        await self.recorder.normal(owner, "SuccessfulCreate", f"Created pod: {found['metadata']['name']}")
        return True

    async def delete(self, owner: Mapping[str, Any], pod: Pod) -> None:
        """Ask for a pod's deletion. One that is gone already is no error."""
        try:
            await self.world.tell(self.user, "DELETE", f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}")
        except NotFound:
            return
        except ApiError as error:
            await self.recorder.warning(owner, "FailedDelete", f"Error deleting: {error.message}")
            raise
        await self.recorder.normal(owner, "SuccessfulDelete", f"Deleted pod: {pod.name}")

    async def patch(self, pod: Pod, metadata: Mapping[str, Any]) -> None:
        """Change a pod's metadata; one that is gone already is no error."""
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        try:
            await self.world.tell(self.user, "PATCH", path, {"metadata": metadata}, content_type=STRATEGIC)
        except NotFound:
            return

    async def untrack(self, pod: Pod) -> None:
        """Take a Job's finalizer off a pod."""
        await self.patch(pod, {"$deleteFromPrimitiveList/finalizers": [TRACKING]})

    async def claim(
        self,
        owner: Mapping[str, Any],
        pods: Pods,
        *,
        finalizers: Iterable[str] = (),
        active_only: bool = False,
        named: str = "",
    ) -> list[Pod]:
        """The pods that are the owner's, after it took in orphans that it selects and let go of those that it no longer does.

        With `active_only` it does neither with pods that have ended. With `named` it takes in only pods whose names are this and a
        number.
        """
        metadata = owner["metadata"]
        selector, ending = selector_of(owner), bool(metadata.get("deletionTimestamp"))
        mine: list[Pod] = []
        for pod in list(pods.owned_by(metadata["uid"])):
            if selector.matches(pod.labels):
                mine.append(pod)
            elif not ending and (pod.active or not active_only):
                await self.patch(pod, _release(owner, pod, finalizers))
        if ending:
            return mine
        for pod in list(pods.orphans(metadata["namespace"])):
            if named and pod.name.rpartition("-")[0] != named:
                continue
            if selector.matches(pod.labels) and not pod.deleting and (pod.active or not active_only):
                await self.patch(pod, _adopt(owner, pod, finalizers))
                mine.append(pods.get(pod.namespace, pod.name) or pod)
        return mine


async def slow_start(count: int, make: Callable[[int], Awaitable[bool]]) -> tuple[int, ApiError | None]:
    """Make so many things in rounds that double until one fails, so that what cannot be made is not tried for each.

    Returns how many were made, and why no more.
    """
    made, first, size = 0, 0, 1
    error: ApiError | None = None
    while first < count and error is None:
        for number in range(first, min(first + size, count)):
            try:
                made += await make(number)
            except ApiError as failure:
                error = failure
        first, size = first + size, size * 2
    return made, error


def _adopt(owner: Mapping[str, Any], pod: Pod, finalizers: Iterable[str]) -> Obj:
    found: Obj = {"uid": pod.uid, "ownerReferences": [owner_reference(owner)]}
    return {**found, "finalizers": list(finalizers)} if finalizers else found


def _release(owner: Mapping[str, Any], pod: Pod, finalizers: Iterable[str]) -> Obj:
    found: Obj = {"uid": pod.uid, "ownerReferences": [{"$patch": "delete", "uid": owner["metadata"]["uid"]}]}
    return {**found, "$deleteFromPrimitiveList/finalizers": list(finalizers)} if finalizers else found


def selector_of(owner: Mapping[str, Any]) -> LabelSelector:
    return from_label_selector((owner.get("spec") or {}).get("selector"))


def generate_name(name: str) -> str:
    """The start of the names of an owner's pods."""
    prefix = f"{name}-"
    return name if names.dns1123_subdomain_errors(f"{prefix}a") else prefix


def _namespace_ends(error: ApiError) -> bool:
    causes = ((error.status().get("details") or {}).get("causes")) or ()
    return isinstance(error, Forbidden) and any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def removal_order(pods: Iterable[Pod]) -> list[Pod]:
    """Pods in the order in which a controller gives them up: those that are furthest from being of use first."""
    found = list(pods)
    found.sort(key=lambda pod: pod.created, reverse=True)
    found.sort(key=lambda pod: -pod.restarts)
    found.sort(key=lambda pod: pod.ready_at, reverse=True)
    found.sort(key=lambda pod: (bool(pod.node), PHASES.get(pod.phase, 0), pod.ready))
    return found


PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}
