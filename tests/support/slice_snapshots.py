"""Hand-written pods, node pools and snapshots for tests of `decide`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sliceworks.cloud.container import Fault
from sliceworks.controllers.slices import node_pool_requirements
from sliceworks.controllers.slices.decide import decide
from sliceworks.controllers.slices.model import (
    Action,
    Decision,
    JobSetView,
    Leader,
    NodePool,
    ObjectReference,
    Placement,
    ReplicatedJobView,
    Snapshot,
    WorkloadView,
)
from sliceworks.controllers.slices.node_pool import job_key, pool_name
from sliceworks.controllers.slices.settings import Settings
from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from sliceworks.controllers.slices.node_pool_requirements import NodePoolRequirements


TPU = {"cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice", "cloud.google.com/gke-tpu-topology": "2x2x4"}


GPU = {"cloud.google.com/gke-accelerator": "nvidia-h100-80gb"}


def pod_template(selector: dict[str, str], *requests: dict[str, Any], **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Metadata and spec of a pod."""
    containers = [{"resources": {"requests": request}} for request in requests]
    metadata: dict[str, Any] = {name: more.pop(name) for name in ("labels", "annotations") if name in more}
    return metadata, {"nodeSelector": selector, "containers": containers, **more}


def requirements(selector: dict[str, str], *requests: dict[str, Any], pods: int = 1, **more: Any) -> NodePoolRequirements:
    metadata, spec = pod_template(selector, *requests, **more)
    kind = node_pool_requirements.accelerator_type(metadata, spec)
    assert kind is not None
    return node_pool_requirements.for_job(node_pool_requirements.read(kind, metadata, spec, ("team",)), pods)


NOW = 1_767_600_000.0


SETTINGS = Settings(project="p", location="l", cluster="c", zones=("z1", "z2"), node_min_lifespan=0.0)


REQUIREMENTS = requirements(TPU, {"google.com/tpu": 4}, pods=4)


STOCKOUT = Fault("GCE_STOCKOUT", "there are none left")


def seconds_after_now(after: float = 0.0) -> datetime:
    """NOW plus this many seconds."""
    return datetime.fromtimestamp(NOW + after, UTC)


def jobset(name: str = "js", replicas: int = 1, **more: Any) -> JobSetView:
    """A running JobSet."""
    ref = Key("ml", name)
    return JobSetView(
        subject=ObjectReference("jobset.x-k8s.io/v1alpha2", "JobSet", "ml", name, f"uid-{name}"),
        ref=ref,
        jobs=frozenset(f"{name}-slice-{index}" for index in range(replicas)),
        templates={"slice": ReplicatedJobView("slice", replicas, 4, more.pop("pod", None))},
        **more,
    )


def leader(index: int = 0, name: str = "js", **more: Any) -> Leader:
    """A leader pod, pending for a minute."""
    job = Key("ml", f"{name}-slice-{index}")
    given: dict[str, Any] = {"requirements": REQUIREMENTS, "since": seconds_after_now(-60), **more}
    return Leader(
        subject=ObjectReference("v1", "Pod", "ml", f"{job.name}-0-abcde", f"uid-{job.name}"),
        job=job,
        job_kind="Job",
        job_key=job_key(job),
        jobset=Key("ml", name),
        template="slice",
        **given,
    )


def pool(index: int = 0, name: str = "js", status: str = "RUNNING", **more: Any) -> NodePool:
    """The pool of a Job, as this controller creates it."""
    job = Key("ml", f"{name}-slice-{index}")
    given: dict[str, Any] = {"digest": REQUIREMENTS.digest, "created": NOW - 30, "zone": "z1", **more}
    return NodePool(pool_name(name, job_key(job)), status, is_managed=True, jobset=Key("ml", name), job=job, **given)


def workload(name: str = "js", state: Any = "Pending", **more: Any) -> WorkloadView:
    """The Workload of a JobSet, with quota reserved a minute ago; `message` is that of its admission check."""
    checks = {"slices": (state, more.pop("message", ""))}
    given: dict[str, Any] = {"reserved_since": seconds_after_now(-60), "active": True, "flavors": {"slice": ("v5p",)}, **more}
    return WorkloadView(
        ObjectReference("kueue.x-k8s.io/v1beta2", "Workload", "ml", f"jobset-{name}"), Key("ml", name), checks, **given
    )


def placement(on: NodePool, name: str, index: int = 0) -> dict[Key, Placement]:
    """The leader pod of a Job runs on a pool."""
    return {Key("ml", f"{name}-slice-{index}"): Placement(Key("ml", name), on.name)}


def snapshot(*things: Any, **more: Any) -> Snapshot:
    """A snapshot of leaders, JobSets, pools and Workloads."""
    return Snapshot(
        now=more.pop("now", NOW),
        leaders={item.job: item for item in things if isinstance(item, Leader)},
        jobsets={item.ref: item for item in things if isinstance(item, JobSetView)},
        pools={item.name: item for item in things if isinstance(item, NodePool)},
        workloads=tuple(item for item in things if isinstance(item, WorkloadView)),
        **more,
    )


def decided(*things: Any, settings: dict[str, Any] | None = None, **more: Any) -> Decision:
    """The decision for a snapshot of these objects."""
    return decide(snapshot(*things, **more), replace(SETTINGS, **(settings or {})))


def only(decision: Decision, *kinds: type) -> list[Any]:
    """The actions of these types."""
    return [action for action in decision.actions if isinstance(action, kinds)]


def one(decision: Decision, kind: type) -> Any:
    """The only action of a type."""
    [result] = only(decision, kind)
    return result


def kinds(decision: Decision) -> list[str]:
    """The types of the actions, in order."""
    return [type(action).__name__ for action in decision.actions]


__all__ = [
    "Action",
    "decided",
    "jobset",
    "kinds",
    "leader",
    "one",
    "only",
    "placement",
    "pool",
    "seconds_after_now",
    "snapshot",
    "workload",
]
