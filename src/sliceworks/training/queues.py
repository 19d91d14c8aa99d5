"""Kueue objects of an environment: flavors, cluster queues, priorities, and a namespace with a local queue for each team. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sliceworks import catalog
from sliceworks.base import names, quantity
from sliceworks.catalog.labels import GPU, RESERVATION_NAME, SPOT, TPU

if TYPE_CHECKING:
    from sliceworks.specs.environment import Environment, EnvironmentSpec
    from sliceworks.specs.environment.cluster import Pool
    from sliceworks.specs.environment.teams import Share, Team

Object = dict[str, Any]
TEAM_LABEL = "sliceworks.dev/team"
_MACHINES = "machines"
_UNASSIGNED = "rest"


@dataclass(frozen=True, slots=True)
class Flavor:
    """One accelerator type with one capacity type: its node labels and its total chips."""

    name: str
    type: str
    resource: str
    labels: dict[str, str]
    chips: int

    def manifest(self) -> Object:
        """The ResourceFlavor. Kueue adds its labels and tolerations to admitted pods."""
        tolerations = [{"key": self.resource, "operator": "Exists", "effect": "NoSchedule"}]
        return _kueue("ResourceFlavor", {"name": self.name}, spec={"nodeLabels": dict(self.labels), "tolerations": tolerations})


def list_flavors(spec: EnvironmentSpec) -> list[Flavor]:
    """The flavors of an environment's pools, each once, in the order of the document."""
    flavors: dict[str, Flavor] = {}
    for tpu in spec.pools.tpu.values():
        shape = catalog.find(tpu.type, tpu.topology)
        flavor = _flavor(tpu, Flavor(shape.type_name, shape.type_name, TPU, _labels(shape), shape.chips * tpu.count))
        _count(flavors, flavor)
    for gpu in spec.pools.gpu.values():
        machine = catalog.find_gpu(gpu.machine_type, gpu.accelerator, gpu.accelerator_count)
        chips = machine.chips * gpu.max_nodes
        _count(flavors, _flavor(gpu, Flavor(machine.gpu.name, machine.gpu.name, GPU, _labels(machine), chips)))
    return list(flavors.values())


def _labels(accelerator: catalog.Accelerator) -> dict[str, str]:
    """The node labels that identify the accelerator, without chip counts."""
    return {key: value for key, value in accelerator.node_labels().items() if not key.endswith("-count")}


def _flavor(pool: Pool, plain: Flavor) -> Flavor:
    """The flavor for the capacity type of a pool."""
    if pool.spot:
        return replace(plain, name=names.shorten(f"{plain.name}-spot"), labels={**plain.labels, SPOT: "true"})
    if pool.reservation:
        reservation = pool.reservation.name
        return replace(
            plain, name=names.shorten(f"{plain.name}-{reservation}"), labels={**plain.labels, RESERVATION_NAME: reservation}
        )
    return plain


def _count(flavors: dict[str, Flavor], flavor: Flavor) -> None:
    counted = flavors[flavor.name].chips if flavor.name in flavors else 0
    flavors[flavor.name] = replace(flavor, chips=counted + flavor.chips)


def machine_capacity(spec: EnvironmentSpec) -> dict[str, str]:
    """The quota of CPU and memory: as in the document, else the allocatable resources of all nodes."""
    cpu, memory = quantity.parse("0"), quantity.parse("0")
    for machine, count in _all_machines(spec):
        allocatable = machine.allocatable()
        cpu += quantity.parse(allocatable["cpu"]) * count
        memory += quantity.parse(allocatable["memory"]) * count
    gib = 2**30
    return {"cpu": spec.queues.cpu or str(int(cpu)), "memory": spec.queues.memory or f"{int(memory) // gib}Gi"}


def _all_machines(spec: EnvironmentSpec) -> list[tuple[catalog.Machine, int]]:
    result = [(catalog.find_machine(cpu.machine_type), cpu.max_nodes) for cpu in spec.pools.cpu.values()]
    for tpu in spec.pools.tpu.values():
        shape = catalog.find(tpu.type, tpu.topology)
        result.append((shape.machine, shape.hosts * tpu.count))
    for gpu in spec.pools.gpu.values():
        machine = catalog.find_gpu(gpu.machine_type, gpu.accelerator, gpu.accelerator_count)
        result.append((machine.machine, gpu.max_nodes))
    return result


_SUBJECTS = {"user": "User", "group": "Group", "serviceAccount": "User", "domain": "Group"}
_RBAC = "rbac.authorization.k8s.io"

MEMBER_RULES: tuple[Object, ...] = (
    {"apiGroups": ["jobset.x-k8s.io"], "resources": ["jobsets"], "verbs": ["*"]},
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues", "workloads"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": ["visibility.kueue.x-k8s.io"], "resources": ["localqueues/pendingworkloads"], "verbs": ["get"]},
)
"""Permissions of team members in addition to the ClusterRole `edit`."""

READER_RULES: tuple[Object, ...] = (
    {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["clusterqueues", "cohorts", "resourceflavors", "workloadpriorityclasses"],
        "verbs": ["get", "list", "watch"],
    },
    {"apiGroups": ["visibility.kueue.x-k8s.io"], "resources": ["clusterqueues/pendingworkloads"], "verbs": ["get"]},
)
"""Cluster-wide read permissions of all team members; `train submit` needs them to check the quota."""

_READERS = "sliceworks-queue-readers"


def build_manifests(environment: Environment) -> list[Object]:
    """All objects of the teams' queues, in the order in which to apply them."""
    spec, flavors = environment.spec, list_flavors(environment.spec)
    objects = [
        _kueue("WorkloadPriorityClass", {"name": name}, value=value, description=f"Priority {name}")
        for name, value in spec.queues.priorities.items()
    ]
    objects += [flavor.manifest() for flavor in flavors]
    objects.append(_kueue("ResourceFlavor", {"name": _MACHINES}, spec={}))
    objects += _cluster_queues(spec, flavors)
    for name, team in spec.teams.items():
        objects += _team(spec, name, team)
    members = list(dict.fromkeys(member for team in spec.teams.values() for member in team.members))
    return objects + (_readers(members) if members else [])


def _kueue(kind: str, metadata: Object, **fields: Any) -> Object:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, **fields}


def _cluster_queues(spec: EnvironmentSpec, flavors: list[Flavor]) -> list[Object]:
    machine_quotas: dict[str, Object] = {resource: {"nominalQuota": amount} for resource, amount in machine_capacity(spec).items()}
    if spec.queues.sharing == "one-queue":
        quotas = {flavor.name: {"nominalQuota": flavor.chips} for flavor in flavors}
        return [_cluster_queue(spec, spec.queues.name, flavors, quotas, machine_quotas)]
    # CPU and memory are not shared: a queue that borrowed CPU could not reclaim the chips that it lent.
    machine_quotas = {resource: {**quota, "borrowingLimit": "0", "lendingLimit": "0"} for resource, quota in machine_quotas.items()}
    queues = []
    unassigned = {flavor.name: flavor.chips for flavor in flavors}
    for name, team in spec.teams.items():
        quotas = {flavor.name: _quota(team.shares.get(flavor.name)) for flavor in flavors}
        for flavor in unassigned:
            unassigned[flavor] -= quotas[flavor]["nominalQuota"]
        queues.append(_cluster_queue(spec, name, flavors, quotas, machine_quotas))
    rest = {flavor: {"nominalQuota": max(chips, 0)} for flavor, chips in unassigned.items()}
    return [*queues, _cluster_queue(spec, f"{spec.queues.name}-{_UNASSIGNED}", flavors, rest, machine_quotas)]


def _quota(share: Share | None) -> Object:
    if share is None:
        return {"nominalQuota": 0}
    limits = {"borrowingLimit": share.borrow, "lendingLimit": share.lend}
    return {"nominalQuota": share.chips, **{key: value for key, value in limits.items() if value is not None}}


def _cluster_queue(
    spec: EnvironmentSpec, name: str, flavors: list[Flavor], quotas: dict[str, Object], machine_quotas: dict[str, Object]
) -> Object:
    groups: list[Object] = []
    for resource in dict.fromkeys(flavor.resource for flavor in flavors):
        resource_flavors = [
            {"name": flavor.name, "resources": [{"name": resource, **quotas[flavor.name]}]}
            for flavor in flavors
            if flavor.resource == resource
        ]
        groups.append({"coveredResources": [resource], "flavors": resource_flavors})
    machine_resources = [{"name": resource, **quota} for resource, quota in machine_quotas.items()]
    groups.append({"coveredResources": list(machine_quotas), "flavors": [{"name": _MACHINES, "resources": machine_resources}]})
    queues = spec.queues
    preemption = {
        "withinClusterQueue": "LowerPriority" if queues.preemption else "Never",
        "reclaimWithinCohort": "Any" if queues.reclaim and queues.sharing == "cohort" else "Never",
    }
    queue_spec = {
        **({"cohortName": queues.name} if queues.sharing == "cohort" else {}),
        "namespaceSelector": {"matchExpressions": [{"key": TEAM_LABEL, "operator": "Exists"}]},
        "queueingStrategy": queues.strategy,
        "preemption": preemption,
        "resourceGroups": groups,
    }
    return _kueue("ClusterQueue", {"name": name}, spec=queue_spec)


def _team(spec: EnvironmentSpec, name: str, team: Team) -> list[Object]:
    namespace = team.namespace or name
    location = {"namespace": namespace}
    queue = name if spec.queues.sharing == "cohort" else spec.queues.name
    account = team.service_account or team.identity or "trainer"
    annotations = {"iam.gke.io/gcp-service-account": _address(spec, team)} if team.identity else {}
    objects: list[Object] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": {TEAM_LABEL: name}}},
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": account, **location, **({"annotations": annotations} if annotations else {})},
        },
        _kueue("LocalQueue", {"name": team.queue, **location}, spec={"clusterQueue": queue}),
    ]
    if team.max_jobs is not None:
        hard = {"count/jobsets.jobset.x-k8s.io": str(team.max_jobs)}
        objects.append(
            {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "jobs", **location}, "spec": {"hard": hard}}
        )
    if team.members:
        objects += _members(team, location)
    return objects


def _address(spec: EnvironmentSpec, team: Team) -> str:
    identity = spec.identities.workloads[team.identity or ""]
    return identity.existing or f"{team.identity}@{spec.project}.iam.gserviceaccount.com"


def _members(team: Team, place: Object) -> list[Object]:
    """Roles of the members. JobSet and Kueue do not aggregate to `edit`, so a Role in the namespace grants their kinds."""
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
