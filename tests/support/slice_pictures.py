"""Worlds of the slices controller, written by hand: what `decide` is asked about."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tests.support.slice_asks import TPU, read

from sliceworks.cloud.operations import Fault
from sliceworks.controllers.slices.bodies import job_key, pool_name
from sliceworks.controllers.slices.decide import decide
from sliceworks.controllers.slices.settings import Settings
from sliceworks.controllers.slices.views import JobSetView, Leader, Pool, Ref, Seat, Subject, Template, WorkloadView
from sliceworks.controllers.slices.world import Action, Decision, World

NOW = 1_767_600_000.0
SETTINGS = Settings(project="p", location="l", cluster="c", zones=("z1", "z2"), node_min_lifespan=0.0)
ASK = read(TPU, {"google.com/tpu": 4}, pods=4)
STOCKOUT = Fault("GCE_STOCKOUT", "there are none left")


def moment(after: float = 0.0) -> datetime:
    """So many seconds after NOW."""
    return datetime.fromtimestamp(NOW + after, UTC)


def jobset(name: str = "js", replicas: int = 1, **more: Any) -> JobSetView:
    """A JobSet that runs."""
    ref = Ref("ml", name)
    return JobSetView(
        subject=Subject("jobset.x-k8s.io/v1alpha2", "JobSet", "ml", name, f"uid-{name}"),
        ref=ref,
        jobs=frozenset(f"{name}-slice-{index}" for index in range(replicas)),
        templates={"slice": Template("slice", replicas, 4, more.pop("pod", None))},
        **more,
    )


def leader(index: int = 0, name: str = "js", **more: Any) -> Leader:
    """A leader that waits since a minute ago."""
    job = Ref("ml", f"{name}-slice-{index}")
    given: dict[str, Any] = {"ask": ASK, "since": moment(-60), **more}
    return Leader(
        subject=Subject("v1", "Pod", "ml", f"{job.name}-0-abcde", f"uid-{job.name}"),
        job=job,
        job_kind="Job",
        job_key=job_key(job),
        jobset=Ref("ml", name),
        template="slice",
        **given,
    )


def pool(index: int = 0, name: str = "js", status: str = "RUNNING", **more: Any) -> Pool:
    """The pool of a Job, as this controller makes it."""
    job = Ref("ml", f"{name}-slice-{index}")
    given: dict[str, Any] = {"digest": ASK.digest, "created": NOW - 30, "zone": "z1", **more}
    return Pool(pool_name(name, job_key(job)), status, ours=True, jobset=Ref("ml", name), job=job, **given)


def workload(name: str = "js", state: Any = "Pending", **more: Any) -> WorkloadView:
    """The Workload of a JobSet, with quota since a minute ago. `message` is what it was told about its check."""
    checks = {"slices": (state, more.pop("message", ""))}
    given: dict[str, Any] = {"reserved_since": moment(-60), "active": True, "flavors": {"slice": ("v5p",)}, **more}
    return WorkloadView(Subject("kueue.x-k8s.io/v1beta2", "Workload", "ml", f"jobset-{name}"), Ref("ml", name), checks, **given)


def seat(on: Pool, name: str, index: int = 0) -> dict[Ref, Seat]:
    """The leader of a Job sits on a pool."""
    return {Ref("ml", f"{name}-slice-{index}"): Seat(Ref("ml", name), on.name)}


def world(*things: Any, **more: Any) -> World:
    """A world of leaders, JobSets, pools and Workloads."""
    return World(
        now=more.pop("now", NOW),
        leaders={each.job: each for each in things if isinstance(each, Leader)},
        jobsets={each.ref: each for each in things if isinstance(each, JobSetView)},
        pools={each.name: each for each in things if isinstance(each, Pool)},
        workloads=tuple(each for each in things if isinstance(each, WorkloadView)),
        **more,
    )


def decided(*things: Any, settings: dict[str, Any] | None = None, **more: Any) -> Decision:
    """What is decided about a world of these things."""
    return decide(world(*things, **more), replace(SETTINGS, **(settings or {})))


def only(decision: Decision, *kinds: type) -> list[Any]:
    """The actions of some kinds."""
    return [action for action in decision.actions if isinstance(action, kinds)]


def one(decision: Decision, kind: type) -> Any:
    """The one action of a kind."""
    [found] = only(decision, kind)
    return found


def kinds(decision: Decision) -> list[str]:
    """What kinds of actions there are, in order."""
    return [type(action).__name__ for action in decision.actions]


__all__ = ["Action", "decided", "jobset", "kinds", "leader", "moment", "one", "only", "pool", "seat", "workload", "world"]
