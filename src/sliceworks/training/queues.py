"""Queues of an environment's teams: flavors, cluster queues, priorities, and for each team a namespace with its own queue. Pure.

one-queue   every team's LocalQueue leads to one ClusterQueue that has everything
cohort      each team has a ClusterQueue with its shares of chips; what is nobody's share lies in one of its own, and all lend to
            each other. CPU and memory are what there is, for each: they are there to place work, not to ration it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.training.flavors import Flavor, flavors, machines

if TYPE_CHECKING:
    from sliceworks.specs.environment import Environment, EnvironmentSpec
    from sliceworks.specs.environment.teams import Share, Team

Object = dict[str, Any]
TEAM = "sliceworks.dev/team"
_KUEUE = "kueue.x-k8s.io/v1beta2"
_MACHINES = "machines"
_REST = "rest"
_SUBJECTS = {"user": "User", "group": "Group", "serviceAccount": "User", "domain": "Group"}
_RBAC = "rbac.authorization.k8s.io"
MEMBER_RULES: tuple[Object, ...] = (
    {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["*"]},
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues", "workloads"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["visibility.kueue.x-k8s.io"], "resources": ["localqueues/pendingworkloads"], "verbs": ["get"]},
)
"""What members of a team may do beyond the cluster's `edit`."""
READER_RULES: tuple[Object, ...] = (
    {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["clusterqueues", "cohorts", "resourceflavors", "workloadpriorityclasses"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": ["visibility.kueue.x-k8s.io"], "resources": ["clusterqueues/pendingworkloads"], "verbs": ["get"]},
)
"""What members of every team may read of the whole cluster: without it nobody can tell them that a queue never holds their job."""
_READERS = "sliceworks-queue-readers"


def manifests(environment: Environment) -> list[Object]:
    """Everything that teams need, in an order in which it can be applied."""
    spec, found = environment.spec, flavors(environment.spec)
    objects: list[Object] = [_priority(name, value) for name, value in spec.queues.priorities.items()]
    objects += [flavor.manifest() for flavor in found]
    objects.append({"apiVersion": _KUEUE, "kind": "ResourceFlavor", "metadata": {"name": _MACHINES}, "spec": {}})
    objects += _cluster_queues(spec, found)
    for name, team in spec.teams.items():
        objects += _team(spec, name, team)
    members = list(dict.fromkeys(member for team in spec.teams.values() for member in team.members))
    return objects + (_readers(members) if members else [])


def _priority(name: str, value: int) -> Object:
    return {
        "apiVersion": _KUEUE,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": f"Work of priority {name}",
    }


def _cluster_queues(spec: EnvironmentSpec, found: list[Flavor]) -> list[Object]:
    everything: dict[str, Object] = {resource: {"nominalQuota": amount} for resource, amount in machines(spec).items()}
    if spec.queues.sharing == "one-queue":
        quotas = {flavor.name: {"nominalQuota": flavor.chips} for flavor in found}
        return [_cluster_queue(spec, spec.queues.name, found, quotas, everything)]
    # What runs beside the chips is not shared out: who borrowed CPU could not take back the chips that it lent.
    everything = {resource: {**quota, "borrowingLimit": "0", "lendingLimit": "0"} for resource, quota in everything.items()}
    queues = []
    left = {flavor.name: flavor.chips for flavor in found}
    for name, team in spec.teams.items():
        quotas = {flavor.name: _quota(team.shares.get(flavor.name)) for flavor in found}
        for flavor in left:
            left[flavor] -= quotas[flavor]["nominalQuota"]
        queues.append(_cluster_queue(spec, name, found, quotas, everything))
    rest = {flavor: {"nominalQuota": max(chips, 0)} for flavor, chips in left.items()}
    return [*queues, _cluster_queue(spec, f"{spec.queues.name}-{_REST}", found, rest, everything)]


def _quota(share: Share | None) -> Object:
    if share is None:
        return {"nominalQuota": 0}
    limits = {"borrowingLimit": share.borrow, "lendingLimit": share.lend}
    return {"nominalQuota": share.chips, **{key: value for key, value in limits.items() if value is not None}}


def _cluster_queue(
    spec: EnvironmentSpec, name: str, found: list[Flavor], quotas: dict[str, Object], rest: dict[str, Object]
) -> Object:
    groups: list[Object] = []
    for resource in dict.fromkeys(flavor.resource for flavor in found):
        own = [
            {"name": flavor.name, "resources": [{"name": resource, **quotas[flavor.name]}]}
            for flavor in found
            if flavor.resource == resource
        ]
        groups.append({"coveredResources": [resource], "flavors": own})
    counted = [{"name": resource, **quota} for resource, quota in rest.items()]
    groups.append({"coveredResources": list(rest), "flavors": [{"name": _MACHINES, "resources": counted}]})
    queues = spec.queues
    preemption = {
        "withinClusterQueue": "LowerPriority" if queues.preemption else "Never",
        "reclaimWithinCohort": "Any" if queues.reclaim and queues.sharing == "cohort" else "Never",
    }
    return {
        "apiVersion": _KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            **({"cohortName": queues.name} if queues.sharing == "cohort" else {}),
            "namespaceSelector": {"matchExpressions": [{"key": TEAM, "operator": "Exists"}]},
            "queueingStrategy": queues.strategy,
            "preemption": preemption,
            "resourceGroups": groups,
        },
    }


def _team(spec: EnvironmentSpec, name: str, team: Team) -> list[Object]:
    namespace = team.namespace or name
    place = {"namespace": namespace}
    queue = name if spec.queues.sharing == "cohort" else spec.queues.name
    account = team.service_account or team.identity or "trainer"
    annotations = {"iam.gke.io/gcp-service-account": _address(spec, team)} if team.identity else {}
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {TEAM: name}}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, **place, **({"annotations": annotations} if annotations else {})},
        },
        {
            "apiVersion": _KUEUE,
            "kind": "LocalQueue",
            "metadata": {"name": team.queue, **place},
            "spec": {"clusterQueue": queue},
        },
    ]
    if team.most_jobs is not None:
        hard = {"count/jobsets.jobset.x-k8s.io": str(team.most_jobs)}
        objects.append({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "jobs", **place}, "spec": {"hard": hard}})
    if team.members:
        objects += _members(team, place)
    return objects


def _address(spec: EnvironmentSpec, team: Team) -> str:
    identity = spec.identities.workloads[team.identity or ""]
    return identity.existing or f"{team.identity}@{spec.project}.iam.gserviceaccount.com"


def _members(team: Team, place: Object) -> list[Object]:
    """What members may do. Neither JobSet nor Kueue adds its kinds to the cluster's `edit`: a role of the namespace has them."""
    subjects = [_subject(member) for member in team.members]
    metadata = {"name": "trainers", **place}
    return [
        {"apiVersion": f"{_RBAC}/v1", "kind": "Role", "metadata": metadata, "rules": list(MEMBER_RULES)},
        _binding("members", place, "ClusterRole", "edit", subjects),
        _binding("trainers", place, "Role", "trainers", subjects),
    ]


def _subject(member: str) -> Object:
    kind, _, name = member.partition(":")
    return {"kind": _SUBJECTS[kind], "name": name, "apiGroup": _RBAC}


def _readers(members: list[str]) -> list[Object]:
    metadata = {"name": _READERS}
    binding = _binding(_READERS, {}, "ClusterRole", _READERS, [_subject(member) for member in members])
    role = {"apiVersion": f"{_RBAC}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": list(READER_RULES)}
    return [role, {**binding, "kind": "ClusterRoleBinding"}]


def _binding(name: str, place: Object, kind: str, role: str, subjects: list[Object]) -> Object:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, **place},
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": role},
        "subjects": subjects,
    }
