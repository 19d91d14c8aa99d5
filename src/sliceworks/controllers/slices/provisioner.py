"""Decides the next step for one slice request: wait, create its node pool, replace it, or report why it cannot be provisioned."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha1
from typing import TYPE_CHECKING, Literal

from sliceworks.base.errors import SliceworksError
from sliceworks.base.names import pluralize
from sliceworks.controllers.slices import well_known
from sliceworks.controllers.slices.capacity import candidates
from sliceworks.controllers.slices.model import (
    Attempt,
    CreateNodePool,
    Decision,
    DeleteNodePool,
    Problem,
    RecordAttempts,
    SetCondition,
)
from sliceworks.controllers.slices.node_pool import alternative_pool_name, pool_body, pool_labels, pool_name, shape_of
from sliceworks.controllers.slices.node_pool_requirements import HASH_PREFIX
from sliceworks.controllers.slices.object_views import problem_from
from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from sliceworks.controllers.slices.capacity import Candidate
    from sliceworks.controllers.slices.model import JobSetView, NodePool, ObjectReference, Snapshot
    from sliceworks.controllers.slices.node_pool_requirements import NodePoolRequirements
    from sliceworks.controllers.slices.settings import Settings
    from sliceworks.controllers.slices.slice_requests import SliceRequest

NO_ZONE = Problem("NoZone", "no zones configured (set GCP_ZONE, or the pod's annotation slices.sliceworks.dev/zones)")
_MAX_MESSAGE = 500  # characters of a cloud's message that are recorded
DRAINING = Problem("Draining", "slices are being drained: no node pools are created")


@dataclass(frozen=True, slots=True)
class SliceState:
    """The state of a slice. `permanent`: it needs a change of the workload; `just_failed`: an attempt has just failed."""

    state: Literal["ready", "creating", "waiting"]
    problem: Problem | None = None
    permanent: bool = False
    just_failed: bool = False


@dataclass(slots=True)
class AttemptLog:
    """The failed attempts of one JobSet, updated by this reconcile."""

    jobset: JobSetView
    attempts: dict[str, Attempt] = field(default_factory=dict)
    failed: list[tuple[ObjectReference, Problem]] = field(default_factory=list)
    repeated: list[Problem] = field(default_factory=list)
    changed: bool = False


class Provisioner:
    """Adds actions to a decision, for one slice request at a time. `deleting` are the names of pools being deleted."""

    def __init__(self, snapshot: Snapshot, settings: Settings, decision: Decision, deleting: set[str]) -> None:
        self._snapshot, self._settings, self._decision, self._deleting = snapshot, settings, decision, deleting
        self._attempt_logs: dict[Key, AttemptLog] = {}
        self._created = 0

    @cached_property
    def _by_job(self) -> dict[Key, list[NodePool]]:
        by_job: dict[Key, list[NodePool]] = {}
        for pool in self._snapshot.pools.values():
            if pool.is_managed and pool.job.name:
                by_job.setdefault(pool.job, []).append(pool)
        return by_job

    def pool_of(self, request: SliceRequest) -> NodePool | None:
        """The pool of a Job that no other JobSet occupies; running and matching pools are preferred."""
        pools = [pool for pool in self._by_job.get(request.job) or () if self._snapshot.occupant(pool) is None]
        requirements = request.requirements
        return min(
            pools,
            key=lambda pool: (not pool.is_running, isinstance(requirements, Problem) or not meets_requirements(pool, requirements)),
            default=None,
        )

    def step(self, request: SliceRequest) -> SliceState:
        """Decide the next step for one slice."""
        try:
            slice_state = self._step(request)
        except SliceworksError as error:
            slice_state = SliceState("waiting", problem_from(error), permanent=True)
        except Exception as error:
            # A bug that one workload triggers must not block the others.
            problem = Problem("InternalError", f"unexpected {type(error).__name__}: {error}")
            slice_state = SliceState("waiting", problem, permanent=True)
        self._update_condition(request, slice_state)
        return slice_state

    def record_attempts(self) -> None:
        """Record changed attempts by JobSet; attempts of Jobs with a running pool are dropped."""
        for jobset in self._snapshot.jobsets.values():
            if jobset.attempts and not jobset.ended:
                self._drop_provisioned(jobset)
        for attempt_log in self._attempt_logs.values():
            if attempt_log.changed:
                self._decision.actions.append(
                    RecordAttempts(
                        attempt_log.jobset.subject, attempt_log.attempts, tuple(attempt_log.failed), tuple(attempt_log.repeated)
                    )
                )

    def _step(self, request: SliceRequest) -> SliceState:
        if isinstance(request.requirements, Problem):
            return SliceState("waiting", request.requirements, permanent=True)
        shape_of(request.requirements)
        options = candidates(request.requirements, self._settings)
        if not options:
            return SliceState("waiting", NO_ZONE, permanent=True)
        pool = self.pool_of(request)
        if pool is None:
            return self._without_pool(request, request.requirements, options)
        return self._with_pool(request, request.requirements, pool, options)

    def _without_pool(
        self, request: SliceRequest, requirements: NodePoolRequirements, options: tuple[Candidate, ...]
    ) -> SliceState:
        occupied = [pool for pool in self._by_job.get(request.job) or () if self._snapshot.occupant(pool) is not None]
        if occupied and self._has_free_pool(requirements):
            return SliceState(
                "waiting", Problem("Taken", f"another JobSet uses node pool {occupied[0].name}, but an equivalent one is free")
            )
        name = pool_name(request.jobset.ref.name, request.key)
        if occupied:
            name = alternative_pool_name(request.jobset.ref.name, request.key, len(occupied))
        if self._snapshot.pending_operations.get(name) == "create":
            return SliceState("creating")
        if name in self._snapshot.pools:
            return SliceState(
                "waiting", Problem("NameTaken", f"node pool {name} already exists and belongs to another Job"), permanent=True
            )
        attempt = self._attempt(request)
        failure = self._snapshot.failures.get(request.job)
        if failure is not None and failure.attempt >= attempt.tries:
            return self._failed(request, failure.attempt, failure.problem, options)
        if self._settings.drain or request.jobset.drained:
            return SliceState("waiting", DRAINING)
        if attempt.not_before > self._snapshot.now and not self._has_new_sibling(request, attempt, options):
            self._decision.requeue_at(attempt.not_before)
            return SliceState("waiting", self._backing_off(attempt, options))
        # One create action beyond the limit shows that more are waiting; the others are not needed yet.
        if self._created <= self._snapshot.available_operations:
            self._created += 1
            self._decision.actions.append(self._create(name, request, requirements, attempt.tries, options))
        return SliceState("creating")

    def _has_new_sibling(self, request: SliceRequest, attempt: Attempt, options: tuple[Candidate, ...]) -> bool:
        """Whether another slice of the JobSet became ready after the last failure: then there is capacity again."""
        failed_at = attempt.not_before - _retry_wait(request, attempt.tries, options, self._settings)
        return self._last_ready.get(request.jobset.ref, 0.0) > failed_at

    @cached_property
    def _last_ready(self) -> dict[Key, float]:
        """When the newest slice of each JobSet became ready."""
        last: dict[Key, float] = {}
        for pool in self._snapshot.pools.values():
            if pool.is_managed and pool.is_running:
                ready = self._snapshot.running_since.get(pool.name, 0.0)
                last[pool.jobset] = max(last.get(pool.jobset, 0.0), ready)
        return last

    def _has_free_pool(self, requirements: NodePoolRequirements) -> bool:
        """Whether a matching pool is running and unoccupied, so that the leader can be scheduled there."""
        pools = (
            pool
            for pool in self._snapshot.pools.values()
            if pool.is_managed and pool.is_running and pool.digest == requirements.digest
        )
        return any(pool.name not in self._snapshot.occupants and pool.name not in self._deleting for pool in pools)

    def _with_pool(
        self, request: SliceRequest, requirements: NodePoolRequirements, pool: NodePool, options: tuple[Candidate, ...]
    ) -> SliceState:
        if pool.status == "STOPPING" or pool.name in self._deleting or self._snapshot.pending_operations.get(pool.name) == "delete":
            attempt = self._attempt(request)
            problem = Problem("Stopping", f"node pool {pool.name} is still being deleted")
            return SliceState("waiting", self._backing_off(attempt, options) if attempt.tries else problem)
        if not meets_requirements(pool, requirements):
            return self._replace(
                request, pool, f"it does not meet the requirements of {request.regarding.kind} {request.regarding.name}"
            )
        attempt = self._attempt(request)
        if pool.is_running:
            return SliceState("ready")
        if pool.is_broken:
            code = pool.fault.code if pool.fault is not None else "UNKNOWN"
            message = (pool.fault.message if pool.fault is not None else "") or f"node pool status is {pool.status}"
            problem = Problem(condition_reason(code), message)
        else:
            deadline = pool.created + self._settings.creation_timeout if pool.created else 0.0
            if not deadline or deadline > self._snapshot.now:
                if deadline:
                    self._decision.requeue_at(deadline)
                return SliceState("creating")
            problem = Problem("TimedOut", f"node pool was not ready within {self._settings.creation_timeout:g} s")
        if pool.attempt >= attempt.tries:
            return self._failed(request, pool.attempt, problem, options)
        self._replace(request, pool, f"it failed ({problem.reason}) and is replaced")
        return SliceState("waiting", self._backing_off(attempt, options))

    def _create(
        self, name: str, request: SliceRequest, requirements: NodePoolRequirements, tries: int, options: tuple[Candidate, ...]
    ) -> CreateNodePool:
        candidate = options[tries % len(options)]
        provisioning_labels = {
            well_known.POOL_HASH: requirements.digest,
            well_known.ATTEMPT: str(tries),
            well_known.CREATED: str(int(self._snapshot.now)),
        }
        labels = {**pool_labels(request.job, request.kind, request.jobset.ref), **provisioning_labels}
        return CreateNodePool(
            name=name,
            body=pool_body(name, labels, requirements, candidate, self._settings, cluster=self._snapshot.cluster),
            job=request.job,
            jobset=request.jobset.ref,
            attempt=tries,
            regarding=request.regarding,
            owner=request.jobset.subject,
            where=str(candidate),
            since=request.since,
        )

    def _replace(self, request: SliceRequest, pool: NodePool, reason: str) -> SliceState:
        self._deleting.add(pool.name)
        self._decision.actions.append(
            DeleteNodePool(pool.name, reason, request.jobset.subject, cancel=pool.status == "PROVISIONING")
        )
        return SliceState("waiting", Problem("Replacing", f"deleting node pool {pool.name}: {reason}"))

    def _failed(self, request: SliceRequest, attempt: int, problem: Problem, options: tuple[Candidate, ...]) -> SliceState:
        """Record a failed attempt: the next candidate is tried at once, and after the last one the retry is delayed."""
        tries = attempt + 1
        wait = _retry_wait(request, tries, options, self._settings)
        not_before = self._snapshot.now + wait if wait else 0.0
        attempt_log = self._attempt_log(request.jobset)
        before = attempt_log.attempts.get(request.job.name)
        attempt_log.attempts[request.job.name] = Attempt(
            tries, not_before, problem.reason, problem.message[:_MAX_MESSAGE].rstrip(".")
        )
        attempt_log.changed = True
        later = f" in {wait:g} s" if wait else ""
        failed, following = options[attempt % len(options)], options[tries % len(options)]
        message = f"cannot create node pool ({failed}): {problem.message.rstrip('.')}; next: {following}{later}"
        report = Problem(problem.reason, message)
        # Each candidate gets one event; repeated failures for the same reason only show in conditions and metrics.
        if attempt >= len(options) and before is not None and before.reason == problem.reason:
            attempt_log.repeated.append(report)
        else:
            attempt_log.failed.append((request.regarding, report))
        return SliceState("waiting", report, just_failed=True)

    def _backing_off(self, attempt: Attempt, options: tuple[Candidate, ...]) -> Problem:
        following = options[attempt.tries % len(options)]
        cause = f"{attempt.message}; " if attempt.message else ""
        return Problem(attempt.reason, f"{cause}{pluralize(attempt.tries, 'failed attempt')}; next: {following}")

    def _update_condition(self, request: SliceRequest, slice_state: SliceState) -> None:
        """Update the pod's condition. Only pods with a problem have one, because there may be thousands of pods."""
        if request.workload is not None:
            return
        problem = slice_state.problem
        if problem is None:
            message = "creating the node pool" if slice_state.state == "creating" else "the node pool is ready"
            problem = Problem("Provisioning", message)
            if not request.condition.status or request.condition.reason == problem.reason:
                return
        elif request.condition.reason == problem.reason and (
            request.condition.message == problem.message or not (slice_state.permanent or slice_state.just_failed)
        ):
            return
        self._decision.actions.append(
            SetCondition(
                request.regarding,
                well_known.POD_CONDITION,
                "False",
                problem.reason,
                problem.message,
                event=slice_state.permanent,  # a failed attempt gets its event when it is recorded
                urgent=slice_state.permanent or slice_state.just_failed,
                since=request.condition.since,
            )
        )

    def _attempt(self, request: SliceRequest) -> Attempt:
        return self._attempt_log(request.jobset).attempts.get(request.job.name) or Attempt(0)

    def _drop_provisioned(self, jobset: JobSetView) -> None:
        attempt_log = self._attempt_log(jobset)
        for job in jobset.attempts:
            pools = self._by_job.get(Key(jobset.ref.namespace, job)) or ()
            if job not in jobset.jobs or any(pool.is_running for pool in pools):
                attempt_log.attempts.pop(job, None)
                attempt_log.changed = True

    def _attempt_log(self, jobset: JobSetView) -> AttemptLog:
        if jobset.ref not in self._attempt_logs:
            self._attempt_logs[jobset.ref] = AttemptLog(jobset, dict(jobset.attempts))
        return self._attempt_logs[jobset.ref]


def _retry_wait(request: SliceRequest, tries: int, options: tuple[Candidate, ...], settings: Settings) -> float:
    """Seconds between the last failure of a slice and its next attempt."""
    return jitter(retry_delay(tries, len(options), settings), f"{request.job} {tries}")


def retry_delay(tries: int, options: int, settings: Settings) -> float:
    """Seconds to wait after a number of attempts: 0 while the round has candidates left, then exponential backoff by round."""
    if tries % options:
        return 0.0
    exponent = min(tries // options - 1, 32)
    return float(min(settings.retry_cap, settings.retry_first * 2.0**exponent))


def jitter(seconds: float, key: str) -> float:
    """Add a deterministic jitter of up to 50 %, so that slices which failed together do not retry together."""
    fraction = int.from_bytes(sha1(key.encode()).digest()[:4], "big") / 2**33
    return float(round(seconds * (1 + fraction)))


def meets_requirements(pool: NodePool, requirements: NodePoolRequirements) -> bool:
    """Whether a pool meets the requirements. Pools of other provisioners are compared by machine type, nodes and topology."""
    if pool.digest.startswith(HASH_PREFIX):
        return pool.digest == requirements.digest
    shape = shape_of(requirements)
    return pool.machine == shape.machine and pool.nodes == shape.nodes and pool.topology in ("", requirements.topology)


def condition_reason(code: str) -> str:
    """A Google error code as a condition reason: GCE_STOCKOUT becomes Stockout."""
    words = code.removeprefix("GCE_").removeprefix("GKE_").split("_")
    return "".join(word.capitalize() for word in words if word) or "Unknown"
