"""What Kueue does to a job, whatever its kind: start it, stop it, and let go of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import NotFound
from sliceworks.twin.workloads.kueue import conditions, placing
from sliceworks.twin.workloads.kueue.hands import Hands
from sliceworks.twin.workloads.kueue.keys import FLAVORS, Obj
from sliceworks.twin.workloads.kueue.paperwork import place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.twin.controllers.world import World
    from sliceworks.twin.workloads.kueue.kinds import Kind


class Acts:
    """Those for the jobs of one kind."""

    def __init__(self, world: World, kind: Kind) -> None:
        self.world, self.kind = world, kind
        self.hands = Hands(world, kind.component)

    async def start(self, job: Obj, workload: Obj) -> None:
        """Put what was admitted into the job and let it run; one that can never be started has failed."""
        try:
            infos = placing.infos(workload, self._flavor)
            await self.run(job, infos, f"Admitted by clusterQueue {workload['status']['admission']['clusterQueue']}")
        except placing.Clash as clash:
            text = str(clash)
            await self.hands.status(place(workload), lambda obj: conditions.finish(obj, "FailedToStart", text))

    async def run(self, job: Obj, infos: list[Obj], message: str) -> None:
        raise NotImplementedError

    async def stop(self, job: Obj, workload: Obj | None, reason: str, message: str) -> None:
        raise NotImplementedError

    async def finalize(self, job: Obj) -> None:
        """Nothing holds the job any longer."""

    async def compose(self, job: Obj) -> bool:
        """Make ready to write the job's Workload; False when it cannot be written yet."""
        return True

    async def settle(self, job: Obj, workload: Obj) -> bool:
        """Bring the job and its Workload together; tells whether that changed anything."""
        return False

    async def tell_checks(self, job: Obj, workload: Obj) -> None:
        checks = workload["status"].get("admissionChecks") or ()
        told = "; ".join(f"{one['name']}: {one['message']}" for one in checks if one["state"] == "Pending" and one.get("message"))
        if told:
            await self.hands.normal(job, "UpdatedAdmissionCheck", told)

    def _flavor(self, name: str) -> Mapping[str, Any]:
        found = self.world.get(FLAVORS, "", name)
        if found is None:
            raise NotFound(f'ResourceFlavor.kueue.x-k8s.io "{name}" not found')
        return found
