"""How far a JobSet has come: counts of its Jobs, what depends on what, and when it has succeeded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.twin.workloads.jobset.keys import Obj, replicas, replicated_jobs

if TYPE_CHECKING:
    from sliceworks.twin.workloads.jobset.children import Child, Children

Counts = dict[str, Obj]
_KEPT = ("jobRestarts", "jobRestartsCountTowardsMax")


def counts(jobset: Obj, children: Children, *, restart_job: bool) -> Counts:
    """`replicatedJobsStatus` by name."""
    found: Counts = {
        job["name"]: {"name": job["name"], "ready": 0, "succeeded": 0, "failed": 0, "active": 0, "suspended": 0}
        for job in replicated_jobs(jobset)
    }
    named = {name: entry for name, entry in found.items() if name}  # Jobs of one without a name cannot be told from strangers
    for child in children.active:
        if (entry := named.get(child.replicated_job)) is not None:
            entry["ready"] += child.succeeded + child.ready >= child.pods
            entry["active"] += child.active > 0
            entry["suspended"] += child.suspended
    for field, ended in (("succeeded", children.successful), ("failed", children.failed)):
        for child in ended:
            if (entry := named.get(child.replicated_job)) is not None:
                entry[field] += 1
    if restart_job:
        for old in (jobset.get("status") or {}).get("replicatedJobsStatus") or ():
            if (entry := found.get(old["name"])) is not None:
                entry |= {key: list(old[key]) for key in _KEPT if old.get(key)}
    return found


def listed(found: Counts) -> list[Obj]:
    """In the order in which JobSet writes them."""
    return [found[name] for name in sorted(found, reverse=True)]


def all_ready(jobset: Obj, found: Counts) -> bool:
    wanted = sum(map(replicas, replicated_jobs(jobset)))
    return wanted == sum(int(entry["ready"] + entry["succeeded"]) for entry in found.values())


def all_started(replicated_job: Obj, found: Counts) -> bool:
    """Whether each of its Jobs runs or has ended."""
    entry = found[replicated_job["name"]]
    return replicas(replicated_job) == int(entry["failed"] + entry["ready"] + entry["succeeded"])


def may_start(jobset: Obj, replicated_job: Obj, found: Counts) -> bool:
    """Whether everything that a replicated Job depends on has come far enough."""
    wanted = {job["name"]: replicas(job) for job in replicated_jobs(jobset)}
    for dependency in replicated_job.get("dependsOn") or ():
        entry = found.get(dependency["name"])
        if entry is None:
            return False
        done = entry["succeeded"]
        if dependency["status"] == "Ready":
            done += entry["failed"] + entry["ready"]
        if wanted[dependency["name"]] != done:
            return False
    return True


def in_order(jobset: Obj) -> bool:
    return bool((jobset["spec"].get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder")


def succeeded(jobset: Obj, successful: list[Child]) -> bool:
    """Whether the success policy is met."""
    policy = jobset["spec"]["successPolicy"]
    targets = policy.get("targetReplicatedJobs") or ()
    done = sum(not targets or child.replicated_job in targets for child in successful)
    if policy["operator"] == "Any":
        return done >= 1
    return done >= sum(replicas(job) for job in replicated_jobs(jobset) if not targets or job["name"] in targets)
