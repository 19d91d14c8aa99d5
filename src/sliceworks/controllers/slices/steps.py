"""The next step towards one slice: wait, make its pool, make way for another try, or say why there can be none."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha1
from typing import TYPE_CHECKING, Literal

from sliceworks.base.errors import SliceworksError
from sliceworks.controllers.slices import words
from sliceworks.controllers.slices.asks import HASH_PREFIX
from sliceworks.controllers.slices.bodies import other_name, pool_body, pool_labels, pool_name
from sliceworks.controllers.slices.capacity import candidates
from sliceworks.controllers.slices.reading import problem
from sliceworks.controllers.slices.shapes import shape_of
from sliceworks.controllers.slices.views import Attempt, Problem, Ref
from sliceworks.controllers.slices.world import Create, Decision, Delete, Remember, Tell

if TYPE_CHECKING:
    from sliceworks.controllers.slices.asks import Ask
    from sliceworks.controllers.slices.capacity import Candidate
    from sliceworks.controllers.slices.demands import Demand
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.views import JobSetView, Pool, Subject
    from sliceworks.controllers.slices.world import World

NO_ZONE = Problem(
    "NoZone", "no zone to make node pools in is known (set GCP_ZONE, or the pod's annotation slices.sliceworks.dev/zones)"
)
DRAINING = Problem("Draining", "slices are being drained: no node pools are made")
_WORKS = ("RUNNING", "RECONCILING")
_BROKEN = ("ERROR", "RUNNING_WITH_ERROR")


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a slice is. `refused` says that it cannot be had until the workload changes, `news` that a try has just failed."""

    state: Literal["ready", "making", "waiting"]
    problem: Problem | None = None
    refused: bool = False
    news: bool = False


@dataclass(slots=True)
class Memory:
    """What is to be remembered of one JobSet's failures after this look."""

    jobset: JobSetView
    attempts: dict[str, Attempt] = field(default_factory=dict)
    failed: list[tuple[Subject, Problem]] = field(default_factory=list)
    again: list[Problem] = field(default_factory=list)
    changed: bool = False


class Steps:
    """Goes through the demands one by one and collects what is to be done."""

    def __init__(self, world: World, settings: Settings, decision: Decision, going: set[str]) -> None:
        self._world, self._settings, self._decision, self._going = world, settings, decision, going
        self._memories: dict[Ref, Memory] = {}
        self._created = 0

    @cached_property
    def _by_job(self) -> dict[Ref, list[Pool]]:
        found: dict[Ref, list[Pool]] = {}
        for pool in self._world.pools.values():
            if pool.ours and pool.job.name:
                found.setdefault(pool.job, []).append(pool)
        return found

    def pool_of(self, demand: Demand) -> Pool | None:
        """The pool of a Job: one that works and fits before others, and none on which another JobSet's Job sits."""
        found = [pool for pool in self._by_job.get(demand.job) or () if self._world.guest(pool) is None]
        ask = demand.ask
        return min(
            found, key=lambda pool: (pool.status not in _WORKS, isinstance(ask, Problem) or not fits(pool, ask)), default=None
        )

    def step(self, demand: Demand) -> Standing:
        """Look at one slice."""
        try:
            standing = self._step(demand)
        except SliceworksError as error:
            standing = Standing("waiting", problem(error), refused=True)
        except Exception as error:
            # A mistake of ours about one workload is no reason to leave all others waiting.
            why = Problem("InternalError", f"unexpected {type(error).__name__}: {error}")
            standing = Standing("waiting", why, refused=True)
        self._tell(demand, standing)
        return standing

    def remembered(self) -> None:
        """Write down what has changed, a JobSet at a time; failures of what works by now are forgotten."""
        for jobset in self._world.jobsets.values():
            if jobset.attempts and not jobset.ended:
                self._forget(jobset)
        for memory in self._memories.values():
            if memory.changed:
                self._decision.actions.append(
                    Remember(memory.jobset.subject, memory.attempts, tuple(memory.failed), tuple(memory.again))
                )

    def _step(self, demand: Demand) -> Standing:
        if isinstance(demand.ask, Problem):
            return Standing("waiting", demand.ask, refused=True)
        shape_of(demand.ask)
        ways = candidates(demand.ask, self._settings)
        if not ways:
            return Standing("waiting", NO_ZONE, refused=True)
        pool = self.pool_of(demand)
        if pool is None:
            return self._without_pool(demand, demand.ask, ways)
        return self._with_pool(demand, demand.ask, pool, ways)

    def _without_pool(self, demand: Demand, ask: Ask, ways: tuple[Candidate, ...]) -> Standing:
        guests = [pool for pool in self._by_job.get(demand.job) or () if self._world.guest(pool) is not None]
        if guests and self._is_free(ask):
            return Standing(
                "waiting", Problem("Taken", f"another JobSet is on node pool {guests[0].name}, and one like it is free")
            )
        name = pool_name(demand.jobset.ref.name, demand.key)
        if guests:
            name = other_name(demand.jobset.ref.name, demand.key, len(guests))
        if self._world.busy.get(name) == "create":
            return Standing("making")
        if name in self._world.pools:
            return Standing("waiting", Problem("NameTaken", f"another node pool has the name {name}"), refused=True)
        attempt = self._attempt(demand)
        failure = self._world.failures.get(demand.job)
        if failure is not None and failure.attempt >= attempt.tries:
            return self._failed(demand, failure.attempt, failure.problem, ways)
        if self._settings.drain or demand.jobset.drained:
            return Standing("waiting", DRAINING)
        if attempt.not_before > self._world.now:
            self._decision.look_at(attempt.not_before)
            return Standing("waiting", self._waiting_for(attempt, ways))
        # One more than there is room for says that others wait; the rest is worked out when its turn comes.
        if self._created <= self._world.room:
            self._created += 1
            self._decision.actions.append(self._create(name, demand, ask, attempt.tries, ways))
        return Standing("making")

    def _is_free(self, ask: Ask) -> bool:
        """Whether a pool of this shape works and nobody is on it: whoever waits may go there."""
        pools = (pool for pool in self._world.pools.values() if pool.ours and pool.status in _WORKS and pool.digest == ask.digest)
        return any(pool.name not in self._world.sitting and pool.name not in self._going for pool in pools)

    def _with_pool(self, demand: Demand, ask: Ask, pool: Pool, ways: tuple[Candidate, ...]) -> Standing:
        if pool.status == "STOPPING" or pool.name in self._going or self._world.busy.get(pool.name) == "delete":
            return Standing("waiting", Problem("Stopping", f"node pool {pool.name} is still being deleted"))
        if not fits(pool, ask):
            return self._make_way(demand, pool, f"it is not what {demand.about.kind} {demand.about.name} asks for now")
        attempt = self._attempt(demand)
        if pool.status in _WORKS:
            return Standing("ready")
        if pool.status in _BROKEN:
            code = pool.fault.code if pool.fault is not None else "UNKNOWN"
            why = Problem(
                reason_of(code), (pool.fault.message if pool.fault is not None else "") or f"it is in state {pool.status}"
            )
        else:
            late = pool.created + self._settings.creation_timeout if pool.created else 0.0
            if not late or late > self._world.now:
                if late:
                    self._decision.look_at(late)
                return Standing("making")
            why = Problem("TimedOut", f"it was not ready within {self._settings.creation_timeout:g} s")
        if pool.attempt >= attempt.tries:
            return self._failed(demand, pool.attempt, why, ways)
        self._make_way(demand, pool, f"it failed ({why.reason}) and another is to be tried")
        return Standing("waiting", self._waiting_for(attempt, ways))

    def _create(self, name: str, demand: Demand, ask: Ask, tries: int, ways: tuple[Candidate, ...]) -> Create:
        way = ways[tries % len(ways)]
        stamps = {words.POOL_HASH: ask.digest, words.ATTEMPT: str(tries), words.CREATED: str(int(self._world.now))}
        labels = {**pool_labels(demand.job, demand.kind, demand.jobset.ref), **stamps}
        return Create(
            name=name,
            body=pool_body(name, labels, ask, way, self._settings),
            job=demand.job,
            jobset=demand.jobset.ref,
            attempt=tries,
            about=demand.about,
            owner=demand.jobset.subject,
            where=str(way),
            since=demand.since,
        )

    def _make_way(self, demand: Demand, pool: Pool, why: str) -> Standing:
        self._going.add(pool.name)
        self._decision.actions.append(Delete(pool.name, why, demand.jobset.subject, cancel=pool.status == "PROVISIONING"))
        return Standing("waiting", Problem("Replacing", f"node pool {pool.name} is deleted: {why}"))

    def _failed(self, demand: Demand, attempt: int, why: Problem, ways: tuple[Candidate, ...]) -> Standing:
        """One try was in vain: go on to the next way at once, and wait where all have been tried."""
        tries = attempt + 1
        wait = spread(pause(tries, len(ways), self._settings), f"{demand.job} {tries}")
        following = Attempt(tries, self._world.now + wait if wait else 0.0, why.reason)
        memory = self._memory(demand.jobset)
        before = memory.attempts.get(demand.job.name)
        memory.attempts[demand.job.name] = following
        memory.changed = True
        later = f" in {wait:g} s" if wait else ""
        message = f"no node pool as {ways[attempt % len(ways)]}: {why.message.rstrip('.')}; next: {ways[tries % len(ways)]}{later}"
        told = Problem(why.reason, message)
        # Every way is told of once; that the next round fails for the same reason is seen in conditions and numbers.
        if attempt >= len(ways) and before is not None and before.reason == why.reason:
            memory.again.append(told)
        else:
            memory.failed.append((demand.about, told))
        return Standing("waiting", told, news=True)

    def _waiting_for(self, attempt: Attempt, ways: tuple[Candidate, ...]) -> Problem:
        times = "once" if attempt.tries == 1 else f"{attempt.tries} times"
        return Problem(attempt.reason, f"tried {times} in vain; next: {ways[attempt.tries % len(ways)]}")

    def _tell(self, demand: Demand, standing: Standing) -> None:
        """Keep the pod's condition true. Pods without trouble have none: there are thousands of them."""
        if demand.workload is not None:
            return
        why = standing.problem
        if why is None:
            why = Problem("Provisioning", "its node pool is being made" if standing.state == "making" else "its node pool is ready")
            if not demand.told.status or demand.told.reason == why.reason:
                return
        elif demand.told.reason == why.reason and (demand.told.message == why.message or not (standing.refused or standing.news)):
            return
        self._decision.actions.append(
            Tell(
                demand.about,
                words.POD_CONDITION,
                "False",
                why.reason,
                why.message,
                event=standing.refused,  # a failed try is told aloud when it is written down, on the JobSet too
                urgent=standing.refused or standing.news,
                since=demand.told.since,
            )
        )

    def _attempt(self, demand: Demand) -> Attempt:
        return self._memory(demand.jobset).attempts.get(demand.job.name) or Attempt(0)

    def _forget(self, jobset: JobSetView) -> None:
        memory = self._memory(jobset)
        for job in jobset.attempts:
            found = self._by_job.get(Ref(jobset.ref.namespace, job)) or ()
            if job not in jobset.jobs or any(pool.status in _WORKS for pool in found):
                memory.attempts.pop(job, None)
                memory.changed = True

    def _memory(self, jobset: JobSetView) -> Memory:
        found = self._memories.get(jobset.ref)
        if found is None:
            found = self._memories[jobset.ref] = Memory(jobset, dict(jobset.attempts))
        return found


def pause(tries: int, ways: int, settings: Settings) -> float:
    """Seconds to wait after so many tries: nothing while there is a way left in this round, then longer after each round."""
    if tries % ways:
        return 0.0
    exponent = min(tries // ways - 1, 32)
    return float(min(settings.retry_cap, settings.retry_first * 2.0**exponent))


def spread(seconds: float, who: str) -> float:
    """A pause that differs from others' by up to a half: slices that failed together would be in each other's way again."""
    chance = int.from_bytes(sha1(who.encode()).digest()[:4], "big") / 2**33
    return float(round(seconds * (1 + chance)))


def fits(pool: Pool, ask: Ask) -> bool:
    """Whether a pool is what is asked for. One that another provisioner made is compared by what can be seen of it."""
    if pool.digest.startswith(HASH_PREFIX):
        return pool.digest == ask.digest
    shape = shape_of(ask)
    return pool.machine == shape.machine and pool.nodes == shape.nodes and pool.topology in ("", ask.topology)


def reason_of(code: str) -> str:
    """A code of Google's as the reason of a condition: GCE_STOCKOUT is Stockout."""
    words_of = code.removeprefix("GCE_").removeprefix("GKE_").split("_")
    return "".join(word.capitalize() for word in words_of if word) or "Unknown"
