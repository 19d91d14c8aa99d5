"""Puts steps into a cluster by server-side apply: each is written down, applied, and waited for. Done again, it changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import NotFound, SliceworksError, TimedOut
from sliceworks.infra.cluster import pruning, waiting
from sliceworks.infra.cluster.inventory import MANAGER, Entry
from sliceworks.infra.cluster.objects import OWNER, content, identity, is_owned, owner
from sliceworks.infra.cluster.outcomes import Outcome
from sliceworks.infra.troubles import AGAIN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sliceworks.infra.cluster.inventory import Inventory
    from sliceworks.infra.cluster.objects import Identity
    from sliceworks.infra.cluster.steps import Step
    from sliceworks.kube.client import Client

Object = dict[str, Any]
_FIRST, _LONGEST, _GROWTH = 0.5, 5.0, 1.5


@dataclass(frozen=True, slots=True)
class Applier:
    """One environment in one cluster. `patience` is how long each wait of a step may take."""

    client: Client
    environment: str
    patience: float = 600.0

    async def apply(
        self, steps: Iterable[Step], inventory: Inventory, begun: Callable[[Step], Callable[[str], None]]
    ) -> list[Outcome]:
        """Make the cluster as the steps say, and take away what they no longer ask for."""
        wanted = list(steps)
        outcomes = await self.apply_only(wanted, inventory, begun)
        kept = {who for step in wanted for who in step.keeps}
        outcomes += await pruning.prune(self.client, inventory, kept | {identity(obj) for step in wanted for obj in step.objects})
        return outcomes

    async def apply_only(
        self, steps: Iterable[Step], inventory: Inventory, begun: Callable[[Step], Callable[[str], None]]
    ) -> list[Outcome]:
        """Make some steps so, and leave everything else as it is."""
        outcomes: list[Outcome] = []
        await inventory.begin(self.client)
        for step in steps:
            outcomes += await self._step(step, inventory, begun(step))
        return outcomes

    async def _step(self, step: Step, inventory: Inventory, report: Callable[[str], None]) -> list[Outcome]:
        before = {identity(obj): await self._read(obj) for obj in step.objects}
        for who, found in before.items():
            self._refuse_others(who, found)
            inventory.note(Entry(step.name, who, adopted=found is not None and not is_owned(found, self.environment)))
        await inventory.save(self.client)
        outcomes = []
        for obj in step.objects:
            who = identity(obj)
            report(str(who))
            outcomes.append(Outcome(step.name, who, _action(before[who], await self._applied(step, obj, report))))
        for wait in step.waits:
            try:
                await waiting.until(self.client, wait, self.patience, report)
            except TimedOut as error:
                raise TimedOut(f"{step.name}: {error.message}", hint=error.hint) from error
        return outcomes

    def _refuse_others(self, who: Identity, found: Object | None) -> None:
        other = (found["metadata"].get("labels") or {}).get(OWNER) if found else None
        if other and other != owner(self.environment):
            raise SliceworksError(
                f"{who} is of the environment {other}",
                hint="they share a cluster: choose another name, or destroy that one",
            )

    async def _read(self, obj: Object) -> Object | None:
        try:
            resource = await self.client.resource_of(obj)
            return await self.client.get(resource, obj["metadata"]["name"], obj["metadata"].get("namespace"))
        except NotFound:
            return None

    async def _applied(self, step: Step, obj: Object, report: Callable[[str], None]) -> Object:
        """Apply one object. A kind that is not served yet, or a webhook that is still coming up, is waited for."""
        end, pause = clock.loop_time() + self.patience, _FIRST
        while True:
            try:
                return await self.client.apply(obj, field_manager=MANAGER, force=True, field_validation=step.validation)
            except (NotFound, *waiting.PASSING) as error:
                if clock.loop_time() >= end:
                    raise TimedOut(f"{step.name}: {identity(obj)}: {error.message}", hint=AGAIN) from error
                report(f"{identity(obj)}: {error.message}")
            except SliceworksError as error:
                raise SliceworksError(f"{step.name}: {identity(obj)}: {error.message}", hint=error.hint) from error
            await clock.sleep(pause)
            pause = min(pause * _GROWTH, _LONGEST)


def _action(before: Object | None, after: Object) -> str:
    if before is None:
        return "create"
    return "noop" if content(before) == content(after) else "update"
