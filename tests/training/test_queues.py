"""Queues of an environment's teams: their manifests, and admission on a twin."""

from __future__ import annotations

from typing import Any

from sliceworks.base import clock
from sliceworks.base.yaml_documents import load_all
from sliceworks.kube.client import Client
from sliceworks.kube.resources import Resource
from sliceworks.specs import documents
from sliceworks.specs.environment import Environment
from sliceworks.training.queues import build_manifests
from sliceworks.twin.cluster import Cluster

WORKLOAD = Resource("kueue.x-k8s.io", "v1beta2", "Workload", "workloads", True)
HEAD = """apiVersion: sliceworks.dev/v1alpha1
kind: Environment
metadata: {name: small}
spec:
  project: my-project
  region: us-central2
  zones: [us-central2-b]
  automation: {bucket: small-automation}
  pools:
    cpu: {cpu: {nodes: 2}}
    tpu: {slice: {type: v4-16, count: 4}, cheap: {type: v4-16, count: 2, spot: true}}
  identities: {workloads: {trainer-sa: {namespace: research}}}
"""
ONE = (
    HEAD
    + """  teams:
    research: {identity: trainer-sa, members: ['group:research@example.com'], maxJobs: 5}
    product: {queue: jobs}
"""
)
COHORT = (
    HEAD
    + """  queues: {sharing: cohort}
  teams:
    research: {shares: {v4-16: {chips: 16, lend: 8}}}
    product: {shares: {v4-16: {chips: 8, borrow: 8}}}
"""
)


def build_queues(text: str) -> list[dict[str, Any]]:
    [document] = load_all(text, "environment.yaml")
    result = documents.read(document)
    assert isinstance(result, Environment)
    return build_manifests(result)


def named(objects: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {obj["metadata"]["name"]: obj for obj in objects if obj["kind"] == kind}


def quotas(queue: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        flavor["name"]: {resource["name"]: resource["nominalQuota"] for resource in flavor["resources"]}
        for group in queue["spec"]["resourceGroups"]
        for flavor in group["flavors"]
    }


def test_single_queue_has_all_chips_cpu_and_memory() -> None:
    queue = named(build_queues(ONE), "ClusterQueue")["slices"]
    result = quotas(queue)
    assert result["v4-16"] == {"google.com/tpu": 32}
    assert result["v4-16-spot"] == {"google.com/tpu": 16}
    assert set(result["machines"]) == {"cpu", "memory"}
    assert int(result["machines"]["cpu"]) > 12 * 200


def test_five_priorities_exist() -> None:
    result = {name: item["value"] for name, item in named(build_queues(ONE), "WorkloadPriorityClass").items()}
    assert result == {"very-low": 100, "low": 250, "medium": 500, "high": 750, "very-high": 1000}


def test_spot_slices_have_a_separate_flavor() -> None:
    result = named(build_queues(ONE), "ResourceFlavor")["v4-16-spot"]["spec"]["nodeLabels"]
    assert result["cloud.google.com/gke-spot"] == "true"
    assert result["cloud.google.com/gke-tpu-topology"] == "2x2x2"


def test_team_has_namespace_account_queue_and_members() -> None:
    objects = [item for item in build_queues(ONE) if item["metadata"].get("namespace") == "research"]
    kinds = ["ServiceAccount", "LocalQueue", "ResourceQuota", "Role", "RoleBinding", "RoleBinding"]
    assert [obj["kind"] for obj in objects] == kinds
    account = objects[0]["metadata"]
    assert account["annotations"] == {"iam.gke.io/gcp-service-account": "trainer-sa@my-project.iam.gserviceaccount.com"}
    assert objects[4]["subjects"][0] == {
        "kind": "Group",
        "name": "research@example.com",
        "apiGroup": "rbac.authorization.k8s.io",
    }


def test_members_may_submit_only_in_their_namespace() -> None:
    async def main() -> dict[tuple[str, str, str], bool]:
        async with Cluster() as twin:
            client, result = Client(twin.transport()), {}
            for item in build_queues(ONE):
                await client.create(item)
            for namespace, resource, verb in (
                ("research", "jobsets", "create"),
                ("research", "localqueues", "list"),
                ("research", "localqueues", "create"),
                ("product", "jobsets", "create"),
                ("", "clusterqueues", "list"),
                ("", "clusterqueues", "update"),
            ):
                group = "jobset.x-k8s.io" if resource == "jobsets" else "kueue.x-k8s.io"
                request = {"namespace": namespace, "verb": verb, "group": group, "resource": resource}
                review = {
                    "apiVersion": "authorization.k8s.io/v1",
                    "kind": "SubjectAccessReview",
                    "metadata": {},
                    "spec": {"user": "ada@example.com", "groups": ["research@example.com"], "resourceAttributes": request},
                }
                result[namespace, resource, verb] = (await client.create(review))["status"]["allowed"]
            return result

    assert list(clock.run(main(), virtual=True, seed=1).values()) == [True, True, False, False, True, False]


def test_shares_and_remainder_add_up() -> None:
    queues = named(build_queues(COHORT), "ClusterQueue")
    chips = {name: quotas(queue)["v4-16"]["google.com/tpu"] for name, queue in queues.items()}
    assert chips == {"research": 16, "product": 8, "slices-rest": 8}
    spot = {name: quotas(queue)["v4-16-spot"]["google.com/tpu"] for name, queue in queues.items()}
    assert spot == {"research": 0, "product": 0, "slices-rest": 16}
    [limits] = [flavor for flavor in queues["product"]["spec"]["resourceGroups"][0]["flavors"] if flavor["name"] == "v4-16"]
    assert limits["resources"][0]["borrowingLimit"] == 8
    assert {queue["spec"]["cohortName"] for queue in queues.values()} == {"slices"}


def job(namespace: str, chips: int) -> dict[str, Any]:
    requests = {"google.com/tpu": str(chips), "cpu": "1", "memory": "1Gi"}
    container = {"name": "main", "image": "train", "resources": {"requests": requests, "limits": {"google.com/tpu": str(chips)}}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": namespace, "labels": {"kueue.x-k8s.io/queue-name": "queue"}},
        "spec": {"suspend": True, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }


def test_lent_chips_are_reclaimed() -> None:
    """One team uses all chips, its own and borrowed ones; the other requests its share and gets it."""
    alone = COHORT.replace(", cheap: {type: v4-16, count: 2, spot: true}", "")
    assert alone != COHORT

    async def main() -> dict[str, str]:
        async with Cluster() as twin:
            client = Client(twin.transport())
            for item in build_queues(alone):
                await client.create(item)
            for name, namespace, chips in (
                ("own", "research", 16),
                ("lent", "research", 8),
                ("more", "research", 8),
                ("late", "product", 8),
            ):
                ask = job(namespace, chips)
                ask["metadata"]["name"] = name
                await client.create(ask)
                await clock.sleep(30)
            return {item["metadata"]["ownerReferences"][0]["name"]: flavor(item) for item in (await client.list(WORKLOAD)).items}

    result = clock.run(main(), virtual=True, seed=1)
    assert (result["own"], result["late"]) == ("v4-16", "v4-16")
    assert sorted((result["lent"], result["more"])) == ["", "v4-16"]


def flavor(workload: dict[str, Any]) -> str:
    """The flavor of a workload's chips, or None."""
    [assigned] = (workload["status"].get("admission") or {}).get("podSetAssignments") or [{"flavors": {}}]
    return str(assigned["flavors"].get("google.com/tpu", ""))


def test_jobs_are_admitted_within_shares_and_by_borrowing() -> None:
    async def main() -> list[dict[str, Any]]:
        async with Cluster() as twin:
            client = Client(twin.transport())
            for item in build_queues(COHORT):
                await client.create(item)
            await client.create(job("research", 24))
            await client.create(job("product", 17))
            await clock.sleep(30)
            return list((await client.list(WORKLOAD)).items)

    result = {item["metadata"]["namespace"]: item for item in clock.run(main(), virtual=True, seed=1)}
    admission = result["research"]["status"]["admission"]
    assert admission["clusterQueue"] == "research"
    assert admission["podSetAssignments"][0]["flavors"] == {"cpu": "machines", "google.com/tpu": "v4-16", "memory": "machines"}
    # 8 of its own and 8 borrowed are the maximum of this team for any flavor.
    assert "admission" not in (result["product"].get("status") or {})
