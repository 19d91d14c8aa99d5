"""Every rule of the catalog has a case here: a refused request, a failed operation, or a document with a finding."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from tests.support.clouds import CLUSTER, PLACE, POOLS, Cloud, run_on_cloud

from sliceworks import catalog
from sliceworks.base import clock
from sliceworks.base.names import project_number
from sliceworks.catalog import gke_rules
from sliceworks.twin.cloud.core.exceptions import CODES
from sliceworks.twin.cloud.core.iam_policy import IamPolicies

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.catalog.gke_rules import Violation

    Case = Callable[[Cloud], Awaitable["Answer"]]

Obj = dict[str, Any]
V4 = {"machineType": "ct4p-hightpu-4t"}
SLICE = {"type": "COMPACT", "tpuTopology": "2x2x4"}
RESERVATION = {"consumeReservationType": "SPECIFIC_RESERVATION", "values": ["mine"]}
NUMBER = project_number("p")
REGION = "projects/p/locations/us-central1"
OWN = f"{REGION}/clusters/own"
ACCOUNT = "runner@p.iam.gserviceaccount.com"


class Answer(NamedTuple):
    """What a case observes: HTTP status, canonical code, message, and the condition code of a failed operation."""

    http: int
    status: str
    message: str
    code: str = ""


async def send(cloud: Cloud, method: str, path: str, body: Any = None, **options: Any) -> Answer:
    status, result = await cloud.send(method, path, body, **options)
    assert status >= 400, result
    return Answer(status, result["error"]["status"], result["error"]["message"])


def pool(**fields: Any) -> Case:
    """A node pool of the cluster `c` in us-central2-b that is refused."""

    async def case(cloud: Cloud) -> Answer:
        return await send(cloud, "POST", f"/container/v1/{POOLS}", {"nodePool": {"name": "a", "initialNodeCount": 1, **fields}})

    return case


def cluster(**fields: Any) -> Case:
    """A cluster in us-central1 that is refused; the network `net` exists."""

    async def case(cloud: Cloud) -> Answer:
        await cloud.network("us-central1")
        return await send(
            cloud, "POST", f"/container/v1/{REGION}/clusters", {"cluster": {"name": "own", "initialNodeCount": 1, **fields}}
        )

    return case


async def own_cluster(cloud: Cloud, nodes: str = "10.0.0.0/20", pods: str = "10.4.0.0/14", **fields: Any) -> None:
    """The running cluster `own` in us-central1, with the network `net`."""
    await cloud.network("us-central1", nodes, pods)
    body = {
        "name": "own",
        "initialNodeCount": 1,
        "network": "projects/p/global/networks/net",
        "subnetwork": "projects/p/regions/us-central1/subnetworks/sub",
        "locations": ["us-central1-a"],
        "ipAllocationPolicy": {"clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services"},
        **fields,
    }
    operation = await cloud.call("POST", f"/container/v1/{REGION}/clusters", {"cluster": body})
    while (await cloud.call("GET", f"/container/v1/{REGION}/operations/{operation['name']}"))["status"] != "DONE":
        await clock.sleep(10)


async def failed_pool(cloud: Cloud, parent: str, **fields: Any) -> Answer:
    """The failure of the operation that creates a node pool."""
    place = parent.partition("/clusters/")[0]
    body = {"nodePool": {"name": "a", "initialNodeCount": 1, **fields}}
    operation = await cloud.call("POST", f"/container/v1/{parent}/nodePools", body)
    while operation["status"] != "DONE":
        await clock.sleep(10)
        operation = await cloud.call("GET", f"/container/v1/{place}/operations/{operation['name']}")
    (condition,) = operation["nodepoolConditions"]
    result = await cloud.call("GET", f"/container/v1/{parent}/nodePools/a")
    assert result["status"] == "ERROR"
    return Answer(0, condition["canonicalCode"], condition["message"], condition.get("code", ""))


def checked(violation: Violation | None) -> Case:
    """A rule that only a document can break."""

    async def case(_: Cloud) -> Answer:
        assert violation is not None
        rule = violation.rule
        return Answer(CODES[rule.status].http, rule.status, violation.message, rule.code)

    return case


async def account(cloud: Cloud, name: str = "runner", *roles: str) -> str:
    """The token of a new service account with roles in the project."""
    await cloud.call("POST", "/iam/v1/projects/p/serviceAccounts", {"accountId": name})
    email = f"{name}@p.iam.gserviceaccount.com"
    bindings = [{"role": role, "members": [f"serviceAccount:{email}"]} for role in roles]
    IamPolicies(cloud.twin.store, "cloudresourcemanager").set("projects/p", {"bindings": bindings})
    member = {"roles/iam.serviceAccountTokenCreator": "user:administrator@example.com"}
    await bind(cloud, f"/iam/v1/projects/p/serviceAccounts/{email}", member)
    path = f"/iamcredentials/v1/projects/-/serviceAccounts/{email}:generateAccessToken"
    result = await cloud.call("POST", path, {"scope": ["https://www.googleapis.com/auth/cloud-platform"], "lifetime": "600s"})
    return str(result["accessToken"])


async def bind(cloud: Cloud, resource: str, members: dict[str, str]) -> Obj:
    bindings = [{"role": role, "members": [member]} for role, member in members.items()]
    return await cloud.call("POST", f"{resource}:setIamPolicy", {"policy": {"bindings": bindings}})


def policy(role: str, member: str) -> Case:
    """A binding in the project's policy that is refused."""

    async def case(cloud: Cloud) -> Answer:
        body = {"policy": {"bindings": [{"role": role, "members": [member]}]}}
        return await send(cloud, "POST", "/cloudresourcemanager/v1/projects/other-project:setIamPolicy", body)

    return case


async def resized_slice(cloud: Cloud) -> Answer:
    await cloud.done(await cloud.slice("slice"))
    return await send(cloud, "POST", f"/container/v1/{POOLS}/slice:setSize", {"nodeCount": 2})


async def newer_nodes(cloud: Cloud) -> Answer:
    await own_cluster(cloud, initialClusterVersion="1.34")
    body = {"nodePool": {"name": "a", "initialNodeCount": 1, "version": "1.35"}}
    return await send(cloud, "POST", f"/container/v1/{OWN}/nodePools", body)


async def busy_cluster(cloud: Cloud) -> Answer:
    await cloud.create("one")
    return await send(cloud, "DELETE", f"/container/v1/{CLUSTER}")


async def upgraded_cluster(cloud: Cloud) -> Answer:
    await own_cluster(cloud, initialClusterVersion="1.34")
    await cloud.call("PUT", f"/container/v1/{OWN}", {"update": {"desiredMasterVersion": "1.35"}})
    return await send(cloud, "POST", f"/container/v1/{OWN}/nodePools", {"nodePool": {"name": "a", "initialNodeCount": 1}})


async def many_operations(cloud: Cloud) -> Answer:
    cloud.set(operations=1)
    await cloud.create("one")
    return await pool()(cloud)


async def autopilot(cloud: Cloud) -> Answer:
    await own_cluster(cloud, autopilot={"enabled": True}, initialNodeCount=0)
    return await send(cloud, "POST", f"/container/v1/{OWN}/nodePools", {"nodePool": {"name": "a"}})


async def reserved(cloud: Cloud) -> Answer:
    cloud.set(reservations=[{"name": "mine", "zone": "us-central2-b", "nodes": 1}])
    return await pool(initialNodeCount=2, config={"reservationAffinity": RESERVATION})(cloud)


async def over_quota(cloud: Cloud) -> Answer:
    cloud.set(quotas=[{"region": "us-central2", "metric": "CPUS", "limit": 1}])
    return await pool(config={"machineType": "n1-standard-8"})(cloud)


async def over_tpu_quota(cloud: Cloud) -> Answer:
    cloud.set(quotas=[{"region": "us-central2", "metric": "TPU_PODSLICE_V4", "limit": 4}])
    return await failed_pool(cloud, CLUSTER, initialNodeCount=4, config=V4, placementPolicy=SLICE)


async def stockout(cloud: Cloud) -> Answer:
    cloud.set(capacity=[{"zone": "us-central2-b", "machineType": "ct4p-*", "nodes": 0}])
    return await failed_pool(cloud, CLUSTER, initialNodeCount=4, config=V4, placementPolicy=SLICE)


async def small_pod_range(cloud: Cloud) -> Answer:
    await own_cluster(cloud, pods="10.4.0.0/24")
    return await failed_pool(cloud, OWN)


async def small_node_range(cloud: Cloud) -> Answer:
    await own_cluster(cloud, nodes="10.0.0.0/29")
    return await failed_pool(cloud, OWN, initialNodeCount=4)


async def missing_image(cloud: Cloud) -> Answer:
    await own_cluster(cloud)
    disks = [{"diskImage": "projects/p/global/images/cache", "mode": "CONTAINER_IMAGE_CACHE"}]
    return await failed_pool(cloud, OWN, config={"secondaryBootDisks": disks, "gcfsConfig": {"enabled": True}})


async def tpu7x(cloud: Cloud) -> Answer:
    await own_cluster(cloud, locations=["us-central1-c"])
    config, placement = {"machineType": "tpu7x-standard-4t"}, {"type": "COMPACT", "tpuTopology": "2x2x2"}
    return await failed_pool(cloud, OWN, initialNodeCount=2, config=config, placementPolicy=placement)


async def missing_policy(cloud: Cloud) -> Answer:
    await own_cluster(cloud, locations=["us-central1-c"])
    config, placement = {"machineType": "tpu7x-standard-4t"}, {"policyName": "own", "tpuTopology": "2x2x2"}
    body = {"nodePool": {"name": "a", "initialNodeCount": 2, "config": config, "placementPolicy": placement}}
    return await send(cloud, "POST", f"/container/v1/{OWN}/nodePools", body)


async def missing_node_account(cloud: Cloud) -> Answer:
    await own_cluster(cloud)
    config = {"serviceAccount": "absent@p.iam.gserviceaccount.com"}
    return await send(cloud, "POST", f"/container/v1/{OWN}/nodePools", {"nodePool": {"name": "a", "config": config}})


async def deleted_node_account(cloud: Cloud) -> Answer:
    cloud.fault("ServiceAccountMissing")
    return await failed_pool(cloud, CLUSTER)


async def shared_vpc(cloud: Cloud) -> Answer:
    await cloud.call("POST", "/compute/v1/projects/host-project/global/networks", {"name": "net"})
    spec = {"name": "own", "initialNodeCount": 1, "network": "projects/host-project/global/networks/net"}
    return await send(cloud, "POST", f"/container/v1/{REGION}/clusters", {"cluster": spec})


async def without_permission(cloud: Cloud) -> Answer:
    token = await account(cloud, "runner", "roles/container.clusterViewer")
    await cloud.call("GET", f"/container/v1/{CLUSTER}", token=token)
    return await send(cloud, "POST", f"/container/v1/{POOLS}", {"nodePool": {"name": "a"}}, token=token)


async def without_compute(cloud: Cloud) -> Answer:
    token = await account(cloud)
    return await send(cloud, "POST", "/compute/v1/projects/p/global/networks", {"name": "net"}, token=token)


async def without_pubsub(cloud: Cloud) -> Answer:
    return await send(cloud, "PUT", "/pubsub/v1/projects/p/topics/one", {}, token=await account(cloud))


async def without_token_creator(cloud: Cloud) -> Answer:
    await cloud.call("POST", "/iam/v1/projects/p/serviceAccounts", {"accountId": "runner"})
    return await send(cloud, "POST", f"/iamcredentials/v1/projects/-/serviceAccounts/{ACCOUNT}:generateAccessToken", {})


async def without_act_as(cloud: Cloud) -> Answer:
    token = await account(cloud, "runner", "roles/container.admin")
    await cloud.call("POST", "/iam/v1/projects/p/serviceAccounts", {"accountId": "nodes-1"})
    body = {"nodePool": {"name": "a", "initialNodeCount": 1, "config": {"serviceAccount": "nodes-1@p.iam.gserviceaccount.com"}}}
    refused = await send(cloud, "POST", f"/container/v1/{POOLS}", body, token=token)
    nodes = "/iam/v1/projects/p/serviceAccounts/nodes-1@p.iam.gserviceaccount.com"
    await bind(cloud, nodes, {"roles/iam.serviceAccountUser": f"serviceAccount:{ACCOUNT}"})
    await cloud.call("POST", f"/container/v1/{POOLS}", body, token=token)
    return refused


async def other_role(cloud: Cloud) -> Answer:
    """An account that may grant only some roles, together with an administrator's bindings."""
    path, member = "/cloudresourcemanager/v1/projects/some-project", "serviceAccount:runner@some-project.iam.gserviceaccount.com"
    await cloud.call("POST", "/iam/v1/projects/some-project/serviceAccounts", {"accountId": "runner"})
    lists = ("['roles/viewer', 'roles/browser']", "['roles/pubsub.viewer']")
    grants = "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', [])"
    condition = {"title": "some", "expression": " || ".join(f"{grants}.hasOnly({roles})" for roles in lists)}
    bindings: list[Obj] = [{"role": "roles/resourcemanager.projectIamAdmin", "members": [member], "condition": condition}]
    await cloud.call("POST", f"{path}:setIamPolicy", {"policy": {"version": 3, "bindings": bindings}})
    creator = {"roles/iam.serviceAccountTokenCreator": "user:administrator@example.com"}
    await bind(cloud, f"/iam/v1/projects/some-project/serviceAccounts/{member.partition(':')[2]}", creator)
    token = f"{cloud.twin.token}~{member.partition(':')[2]}"

    def policy(*roles: str) -> Obj:
        return {"policy": {"version": 3, "bindings": [*bindings, *({"role": role, "members": ["user:a@b.com"]} for role in roles)]}}

    await cloud.call("POST", f"{path}:setIamPolicy", policy("roles/viewer", "roles/browser"), token=token)
    await send(cloud, "POST", f"{path}:setIamPolicy", policy("roles/viewer", "roles/pubsub.viewer"), token=token)
    return await send(cloud, "POST", f"{path}:setIamPolicy", policy("roles/viewer", "roles/browser", "roles/owner"), token=token)


async def stale_etag(cloud: Cloud) -> Answer:
    path = "/cloudresourcemanager/v1/projects/some-project"
    first = await bind(cloud, path, {"roles/viewer": "user:a@example.com"})
    await bind(cloud, path, {"roles/viewer": "user:b@example.com"})
    return await send(cloud, "POST", f"{path}:setIamPolicy", {"policy": {"etag": first["etag"]}})


async def stale_bucket_etag(cloud: Cloud) -> Answer:
    await cloud.call("POST", "/storage/v1/b?project=p", {"name": "bucket"})
    return await send(cloud, "PUT", "/storage/v1/b/bucket/iam", {"etag": "AAAA"})


async def disabled_service(cloud: Cloud) -> Answer:
    await cloud.call("POST", "/serviceusage/v1/projects/new-project/services/pubsub.googleapis.com:enable", {})
    await cloud.call("PUT", "/pubsub/v1/projects/new-project/topics/one", {})
    return await send(cloud, "GET", "/container/v1/projects/new-project/locations/us-central1/clusters")


async def second_feature(cloud: Cloud) -> Answer:
    path = "/gkehub/v1/projects/p/locations/global/features?featureId=servicemesh"
    await cloud.call("POST", path, {})
    return await send(cloud, "POST", path, {})


async def full_bucket(cloud: Cloud) -> Answer:
    await cloud.call("POST", "/storage/v1/b?project=p", {"name": "bucket"})
    await cloud.call("POST", "/upload/storage/v1/b/bucket/o?uploadType=media&name=file", {"a": 1})
    return await send(cloud, "DELETE", "/storage/v1/b/bucket")


def subscription(*, access: bool) -> Case:
    """A subscription whose table requires a field of proto3, with and without access of Pub/Sub's agent."""

    async def case(cloud: Cloud) -> Answer:
        definition = 'syntax = "proto3"; message Row { string name = 1; }'
        schema = {"type": "PROTOCOL_BUFFER", "definition": definition}
        await cloud.call("POST", "/pubsub/v1/projects/p/schemas?schemaId=row", schema)
        topic = {"schemaSettings": {"schema": "projects/p/schemas/row", "encoding": "JSON"}}
        await cloud.call("PUT", "/pubsub/v1/projects/p/topics/rows", topic)
        agent = f"service-{NUMBER}@gcp-sa-pubsub.iam.gserviceaccount.com"
        entries = [{"role": "roles/bigquery.dataEditor", "iamMember": f"serviceAccount:{agent}"}] if access else []
        dataset = {"datasetReference": {"projectId": "p", "datasetId": "d"}, "access": entries}
        await cloud.call("POST", "/bigquery/v2/projects/p/datasets", dataset)
        fields = [{"name": "name", "type": "STRING", "mode": "REQUIRED"}]
        table = {"tableReference": {"projectId": "p", "datasetId": "d", "tableId": "t"}, "schema": {"fields": fields}}
        await cloud.call("POST", "/bigquery/v2/projects/p/datasets/d/tables", table)
        config = {"table": "p.d.t", "useTopicSchema": True}
        body = {"topic": "projects/p/topics/rows", "bigqueryConfig": config}
        return await send(cloud, "PUT", "/pubsub/v1/projects/p/subscriptions/rows", body)

    return case


async def overlapping(cloud: Cloud) -> Answer:
    await cloud.call("POST", "/compute/v1/projects/p/global/networks", {"name": "net"})
    body: Obj = {"name": "s", "network": "projects/p/global/networks/net", "ipCidrRange": "10.0.0.0/20"}
    body |= {"secondaryIpRanges": [{"rangeName": "pods", "ipCidrRange": "10.0.8.0/24"}]}
    return await send(cloud, "POST", "/compute/v1/projects/p/regions/us-central1/subnetworks", body)


async def conflicting(cloud: Cloud) -> Answer:
    await cloud.network("us-central1")
    body = {"name": "s", "network": "projects/p/global/networks/net", "ipCidrRange": "10.0.0.0/24"}
    return await send(cloud, "POST", "/compute/v1/projects/p/regions/us-central1/subnetworks", body)


async def used_network(cloud: Cloud) -> Answer:
    await cloud.network("us-central1")
    return await send(cloud, "DELETE", "/compute/v1/projects/p/global/networks/net")


SUBNETWORK = "/compute/v1/projects/p/regions/us-central1/subnetworks/sub"


def changed_subnetwork(**fields: Any) -> Case:
    """A change of the subnetwork of a running cluster that is refused."""

    async def case(cloud: Cloud) -> Answer:
        await own_cluster(cloud)
        return await send(cloud, "PATCH", SUBNETWORK, fields)

    return case


def secondary(**ranges: str) -> list[Obj]:
    return [{"rangeName": name, "ipCidrRange": cidr} for name, cidr in ranges.items()]


async def used_subnetwork(cloud: Cloud) -> Answer:
    await own_cluster(cloud)
    return await send(cloud, "DELETE", SUBNETWORK)


async def used_policy(cloud: Cloud) -> Answer:
    await own_cluster(cloud, locations=["us-central1-c"])
    policies, policy = "/compute/v1/projects/p/regions/us-central1/resourcePolicies", {"name": "own"}
    await cloud.call("POST", policies, {**policy, "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x2"}})
    config, placement = {"machineType": "tpu7x-standard-4t"}, {"policyName": "own", "tpuTopology": "2x2x2"}
    pool = {"name": "a", "initialNodeCount": 2, "config": config, "placementPolicy": placement}
    await cloud.call("POST", f"/container/v1/{OWN}/nodePools", {"nodePool": pool})
    return await send(cloud, "DELETE", f"{policies}/own")


async def two_zones(cloud: Cloud) -> Answer:
    await own_cluster(cloud)
    config, placement = {"machineType": "ct6e-standard-4t"}, {"type": "COMPACT", "tpuTopology": "4x4"}
    body = {"name": "a", "config": config, "placementPolicy": placement, "locations": ["us-central1-a", "us-central1-b"]}
    return await send(cloud, "POST", f"/container/v1/{OWN}/nodePools", {"nodePool": body})


def ranges(pods: str, services: str) -> Case:
    """A cluster with secondary ranges that the subnetwork `sub` does not have."""
    names = {"clusterSecondaryRangeName": pods, "servicesSecondaryRangeName": services}
    return cluster(network="net", subnetwork="projects/p/regions/us-central1/subnetworks/sub", ipAllocationPolicy={**names})


PRIVATE = {"enablePrivateNodes": True, "enablePrivateEndpoint": True}
SCALING = {"enabled": True, "maxNodeCount": 2}
CASES: dict[str, Case] = {
    "access-token": without_token_creator,
    "authorized-network": cluster(
        privateClusterConfig=PRIVATE, masterAuthorizedNetworksConfig={"cidrBlocks": [{"cidrBlock": "1.2.3.4/32"}]}
    ),
    "auto-upgrade-in-channel": pool(management={"autoRepair": True}),
    "autopilot-node-pools": autopilot,
    "autoscaling-limits": pool(autoscaling={"enabled": True, "minNodeCount": 3, "maxNodeCount": 2}),
    "bigquery-subscription-access": subscription(access=False),
    "bigquery-subscription-schema": subscription(access=True),
    "bucket-not-empty": full_bucket,
    "cluster-name": cluster(name="Own"),
    "cluster-upgrading": upgraded_cluster,
    "control-plane-version": cluster(initialClusterVersion="1.27.3-gke.100"),
    "distinct-secondary-ranges": ranges("pods", "pods"),
    "fleet-feature-singleton": second_feature,
    "flex-start-autoscaling": pool(initialNodeCount=0, config={"flexStart": True}),
    "flex-start-reservation": pool(
        initialNodeCount=0, autoscaling=SCALING, config={"flexStart": True, "reservationAffinity": RESERVATION}
    ),
    "flex-start-size": pool(autoscaling=SCALING, config={"flexStart": True}),
    "gpu-attachment": pool(
        config={"machineType": "n2-standard-4", "accelerators": [{"acceleratorCount": "1", "acceleratorType": "nvidia-tesla-t4"}]}
    ),
    "gpu-machine-type": pool(config={"accelerators": [{"acceleratorCount": "1", "acceleratorType": "nvidia-tesla-t4"}]}),
    "identity-pool-missing": policy("roles/viewer", "serviceAccount:other-project.svc.id.goog[default/default]"),
    "incompatible-operation": busy_cluster,
    "initial-node-count": cluster(initialNodeCount=0),
    "initial-node-pools": cluster(nodePools=[{"name": "a", "initialNodeCount": 1}]),
    "location": lambda cloud: send(cloud, "GET", "/container/v1/projects/p/locations/nowhere/clusters"),
    "machine-quota": over_tpu_quota,
    "machine-type": pool(config={"machineType": "n1-standard-3"}),
    "machine-type-zone": pool(config={"machineType": "ct5p-hightpu-4t"}),
    "max-pods-per-node": pool(maxPodsConstraint={"maxPodsPerNode": "4"}),
    "multi-networking": pool(networkConfig={"additionalNodeNetworkConfigs": [{"network": "n", "subnetwork": "s"}]}),
    "network-in-use": used_network,
    "network-missing": cluster(network="absent"),
    "network-policy-dataplane": cluster(networkPolicy={"enabled": True}, networkConfig={"datapathProvider": "ADVANCED_DATAPATH"}),
    "node-account-deleted": deleted_node_account,
    "node-account-missing": missing_node_account,
    "node-count": pool(initialNodeCount=100_000),
    "node-label-kubernetes": pool(config={"labels": {"node-role.kubernetes.io/x": ""}}),
    "node-label-managed": pool(config={"labels": {"cloud.google.com/compute-class": "fast"}}),
    "node-pool-name": pool(name="A"),
    "node-range-exhausted": small_node_range,
    "node-version": pool(version="1.29.0-gke.1"),
    "node-version-newer": newer_nodes,
    "node-version-skew": pool(version="1.33.9-gke.1160000"),
    "operations-quota": many_operations,
    "permission-compute": without_compute,
    "permission-container": without_permission,
    "permission-denied": without_pubsub,
    "pod-range-exhausted": small_pod_range,
    "pod-range-missing": ranges("absent", "services"),
    "policy-account-missing": policy("roles/viewer", "serviceAccount:absent@p.iam.gserviceaccount.com"),
    "policy-condition": other_role,
    "policy-conflict": stale_etag,
    "policy-conflict-storage": stale_bucket_etag,
    "policy-member": policy("roles/viewer", "somebody"),
    "policy-role": policy("projects/p/roles/absent", "user:a@example.com"),
    "primary-range": changed_subnetwork(ipCidrRange="10.0.0.0/22"),
    "queued-provisioning-reservation": pool(queuedProvisioning={"enabled": True}),
    "regional-quota": over_quota,
    "reservation-exhausted": reserved,
    "reservation-missing": pool(config={"reservationAffinity": RESERVATION}),
    "resource-policy-in-use": used_policy,
    "secondary-boot-disk-image": missing_image,
    "secondary-boot-disk-streaming": pool(config={"secondaryBootDisks": [{"diskImage": "i"}]}),
    "secondary-range-in-use": changed_subnetwork(secondaryIpRanges=secondary(pods="10.4.0.0/14")),
    "secondary-range-modified": changed_subnetwork(secondaryIpRanges=secondary(pods="10.64.0.0/14", services="10.16.0.0/20")),
    "secondary-range-replaced": changed_subnetwork(secondaryIpRanges=secondary(pods="10.4.0.0/14", more="10.32.0.0/20")),
    "service-account-user": without_act_as,
    "service-disabled": disabled_service,
    "service-range-missing": ranges("pods", "absent"),
    "shared-vpc-agent": shared_vpc,
    "spot-reservation": pool(config={"spot": True, "reservationAffinity": RESERVATION}),
    "stockout": stockout,
    "subnetwork-conflict": conflicting,
    "subnetwork-in-use": used_subnetwork,
    "subnetwork-missing": cluster(network="net", subnetwork="absent"),
    "subnetwork-range": overlapping,
    "system-pool": checked(gke_rules.check_system_pool(tpu_pools=1, other_pools=0)),
    "tpu-largest-slice": pool(initialNodeCount=0, config=V4, placementPolicy={"type": "COMPACT", "tpuTopology": "16x16x16"}),
    "tpu-single-host-topology": pool(config=V4, placementPolicy={"type": "COMPACT", "tpuTopology": "2x2x1"}),
    "tpu-slice-autoscaling": pool(
        initialNodeCount=0, config=V4, placementPolicy=SLICE, autoscaling={"enabled": True, "totalMaxNodeCount": 4}
    ),
    "tpu-slice-nodes": pool(initialNodeCount=3, config=V4, placementPolicy=SLICE),
    "tpu-slice-resize": resized_slice,
    "tpu-slice-zone": two_zones,
    "tpu-topology": pool(initialNodeCount=0, config=V4, placementPolicy={"type": "COMPACT", "tpuTopology": "2x3x4"}),
    "tpu7x-workload-policy": tpu7x,
    "version-prefix": cluster(initialClusterVersion="1.2"),
    "workload-policy-missing": missing_policy,
    "zone-of-region": pool(locations=["europe-west4-b"]),
}


def _pattern(message: str) -> str:
    """A regular expression of a message whose placeholders match anything."""
    parts = re.split(r"\{\w+\}", message.replace("{{", "\0").replace("}}", "\1"))
    return ".*".join(re.escape(part.replace("\0", "{").replace("\1", "}")) for part in parts)


def test_every_rule_has_a_case() -> None:
    assert sorted(CASES) == sorted(gke_rules.rules())


@pytest.mark.parametrize("name", sorted(CASES))
def test_rule(name: str) -> None:
    rule = gke_rules.rules()[name]

    async def main(cloud: Cloud) -> None:
        answer = await CASES[name](cloud)
        assert re.fullmatch(_pattern(rule.message), answer.message), answer
        assert answer.status == rule.status
        assert answer.code == rule.code
        assert answer.http in (0, rule.http or CODES[rule.status].http)

    run_on_cloud(main)


def test_the_container_api_refuses_only_through_the_catalog() -> None:
    folder = Path(__file__).parents[3] / "src" / "sliceworks" / "twin" / "cloud" / "google" / "container"
    allowed = {"is already done", "The twin supports"}  # the second is a limit of the twin, not of Google
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in {"GoogleError", "invalid_argument"}
            ):
                assert any(words in ast.unparse(node) for words in allowed), f"{path.name}:{node.lineno}"


def test_gcloud_reads_and_writes_policies_with_url_safe_etags() -> None:
    async def main(cloud: Cloud) -> None:
        path = "/cloudresourcemanager/v1/projects/some-project"
        for role in ("roles/viewer", "roles/editor", "roles/browser", "roles/owner"):
            current = await cloud.call("POST", f"{path}:getIamPolicy", {})
            etag = current["etag"].replace("+", "-").replace("/", "_")
            bindings = [*current.get("bindings", ()), {"role": role, "members": ["user:a@example.com"]}]
            await cloud.call("POST", f"{path}:setIamPolicy", {"policy": {"etag": etag, "bindings": bindings}})

    run_on_cloud(main, workloads=False)


@pytest.mark.parametrize("role", ["roles/storage.objectReader", "roles/gke.admin", "roles/Owner", "roles/"])
def test_predefined_role_that_does_not_exist_is_refused(role: str) -> None:
    async def main(cloud: Cloud) -> None:
        refused = await policy(role, "user:a@example.com")(cloud)
        assert refused.message == f"Role {role} is not supported for this resource."

    run_on_cloud(main, workloads=False)


def put_pool(**change: Any) -> Case:
    """A change of a running node pool that is refused."""

    async def case(cloud: Cloud) -> Answer:
        await cloud.done(await cloud.create("a"))
        return await send(cloud, "PUT", f"/container/v1/{POOLS}/a", change)

    return case


async def enabled_network_policy(cloud: Cloud) -> Answer:
    await own_cluster(cloud, networkConfig={"datapathProvider": "ADVANCED_DATAPATH"})
    body = {"networkPolicy": {"enabled": True, "provider": "CALICO"}}
    return await send(cloud, "POST", f"/container/v1/{OWN}:setNetworkPolicy", body)


async def autoscaling_by_cluster(cloud: Cloud) -> Answer:
    await cloud.done(await cloud.create("a"))
    change = {"desiredNodePoolId": "a", "desiredNodePoolAutoscaling": {"enabled": True, "minNodeCount": 3, "maxNodeCount": 2}}
    return await send(cloud, "PUT", f"/container/v1/{CLUSTER}", {"update": change})


@pytest.mark.parametrize(
    ("rule", "case"),
    [
        ("node-label-kubernetes", put_pool(labels={"labels": {"node-role.kubernetes.io/x": "y"}})),
        ("node-label-managed", put_pool(labels={"labels": {"cloud.google.com/gke-nodepool": "b"}})),
        ("machine-type-zone", put_pool(machineType="ct5p-hightpu-4t")),
        ("zone-of-region", put_pool(locations=["us-east5-a"])),
        ("network-policy-dataplane", enabled_network_policy),
        ("autoscaling-limits", autoscaling_by_cluster),
    ],
)
def test_change_is_refused_like_a_creation(rule: str, case: Case) -> None:
    async def main(cloud: Cloud) -> None:
        answer = await case(cloud)
        assert re.fullmatch(_pattern(gke_rules.rules()[rule].message), answer.message), answer

    run_on_cloud(main)


def test_node_config_of_a_cluster_is_that_of_its_first_pool() -> None:
    async def main(cloud: Cloud) -> None:
        sent = {"machineType": "n1-standard-8", "oauthScopes": ["https://www.googleapis.com/auth/cloud-platform"]}
        await own_cluster(cloud, nodeConfig=sent)
        assert (await cloud.call("GET", f"/container/v1/{OWN}"))["nodeConfig"] == sent
        second = {"name": "b", "config": {"machineType": "n1-standard-4"}}
        await cloud.call("POST", f"/container/v1/{OWN}/nodePools", {"nodePool": second})
        await clock.sleep(600)
        await cloud.call("DELETE", f"/container/v1/{OWN}/nodePools/default-pool")
        await clock.sleep(600)
        assert (await cloud.call("GET", f"/container/v1/{OWN}"))["nodeConfig"] == second["config"]

    run_on_cloud(main)


def test_new_account_can_be_bound_at_once_unless_the_twin_is_told_otherwise() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.call("POST", "/iam/v1/projects/p/serviceAccounts", {"accountId": "at-once"})
        binding = {"roles/viewer": "serviceAccount:at-once@p.iam.gserviceaccount.com"}
        await bind(cloud, "/cloudresourcemanager/v1/projects/some-project", binding)
        cloud.server.services["iam"].configure({"propagationSeconds": 60})
        await cloud.call("POST", "/iam/v1/projects/p/serviceAccounts", {"accountId": "delayed"})
        refused = await policy("roles/viewer", "serviceAccount:delayed@p.iam.gserviceaccount.com")(cloud)
        assert refused.message == "Service account delayed@p.iam.gserviceaccount.com does not exist."
        await clock.sleep(61)
        binding = {"roles/viewer": "serviceAccount:delayed@p.iam.gserviceaccount.com"}
        await bind(cloud, "/cloudresourcemanager/v1/projects/other-project", binding)

    run_on_cloud(main, workloads=False)


@pytest.mark.parametrize(
    ("metric", "fields", "needed"),
    [
        ("IN_USE_ADDRESSES", {}, "3.0"),
        ("SSD_TOTAL_GB", {}, "300.0"),
        ("SSD_TOTAL_GB", {"config": {"diskType": "pd-ssd", "diskSizeGb": 500}}, "1500.0"),
        ("DISKS_TOTAL_GB", {"config": {"diskType": "pd-standard", "diskSizeGb": 50}}, "150.0"),
    ],
)
def test_nodes_count_against_quotas_of_addresses_and_disks(metric: str, fields: Obj, needed: str) -> None:
    async def main(cloud: Cloud) -> None:
        cloud.set(quotas=[{"region": "us-central2", "metric": metric, "limit": 2}])
        refused = await pool(initialNodeCount=3, **fields)(cloud)
        assert f"resource \"{metric}\": request requires '{needed}'" in refused.message

    run_on_cloud(main)


def test_private_nodes_use_no_public_addresses() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.set(quotas=[{"region": "us-central2", "metric": "IN_USE_ADDRESSES", "limit": 0}])
        await cloud.create("private", 3, networkConfig={"enablePrivateNodes": True})

    run_on_cloud(main)


def test_existing_cluster_needs_its_images_once_its_project_has_one() -> None:
    def config(image: str) -> Obj:
        return {"secondaryBootDisks": [{"diskImage": f"projects/p/global/images/{image}"}], "gcfsConfig": {"enabled": True}}

    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.create("any", 1, config=config("unknown")))
        assert (await cloud.pool("any"))["status"] == "RUNNING"
        body = {"name": "cache", "rawDisk": {"source": "gs://bucket/cache.tar.gz"}}
        await cloud.call("POST", "/compute/v1/projects/p/global/images", body)
        await cloud.done(await cloud.create("cached", 1, config=config("cache")))
        assert (await cloud.pool("cached"))["status"] == "RUNNING"
        failed = await failed_pool(cloud, CLUSTER, config=config("cahce"))
        assert failed.message.endswith("The resource 'projects/p/global/images/cahce' was not found")

    run_on_cloud(main)


def test_stockout_lasts_35_minutes_and_blocks_the_deletion_of_its_pool() -> None:
    async def main(cloud: Cloud) -> None:
        cloud.set(capacity=[{"zone": "us-central2-b", "machineType": "ct4p-*", "nodes": 0}])
        await cloud.create("slice", 4, config=V4, placementPolicy=SLICE)
        await clock.sleep(2100)
        refused = await send(cloud, "DELETE", f"/container/v1/{POOLS}/slice")
        assert refused.message.startswith("Cluster is running incompatible operation")
        await clock.sleep(60)
        await cloud.call("DELETE", f"/container/v1/{POOLS}/slice")

    run_on_cloud(main)


def test_node_pool_uses_capacity_that_returns_before_it_gives_up() -> None:
    async def main(cloud: Cloud) -> None:
        limit = {"zone": "us-central2-b", "machineType": "ct4p-*"}
        cloud.set(capacity=[{**limit, "nodes": 0}])
        created = await cloud.create("slice", 4, config=V4, placementPolicy=SLICE)
        await clock.sleep(1200)
        assert (await cloud.pool("slice"))["status"] == "PROVISIONING"
        cloud.set(capacity=[{**limit, "nodes": 4}])
        await cloud.done(created)
        assert (await cloud.pool("slice"))["status"] == "RUNNING"

    run_on_cloud(main)


def test_subnetwork_without_clusters_is_expanded_and_changed() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.network("us-central1")
        await cloud.call("POST", f"{SUBNETWORK}/expandIpCidrRange", {"ipCidrRange": "10.0.0.0/19"})
        await cloud.call("PATCH", SUBNETWORK, {"secondaryIpRanges": secondary(pods="10.4.0.0/14")})
        await cloud.call("PATCH", SUBNETWORK, {"secondaryIpRanges": secondary(pods="10.4.0.0/14", more="10.32.0.0/20")})
        result = await cloud.call("GET", SUBNETWORK)
        assert (result["ipCidrRange"], len(result["secondaryIpRanges"])) == ("10.0.0.0/19", 2)

    run_on_cloud(main, workloads=False)


def test_nodes_of_a_shared_vpc_use_the_ranges_of_the_host_project() -> None:
    async def main(cloud: Cloud) -> None:
        host = "/compute/v1/projects/host-project"
        await cloud.call("POST", f"{host}/global/networks", {"name": "net"})
        ranges = secondary(pods="10.4.0.0/24", services="10.16.0.0/20")
        body = {"name": "sub", "network": "projects/host-project/global/networks/net", "ipCidrRange": "10.0.0.0/20"}
        await cloud.call("POST", f"{host}/regions/us-central1/subnetworks", {**body, "secondaryIpRanges": ranges})
        await cloud.call("POST", "/serviceusage/v1/projects/service-project/services/container.googleapis.com:enable", {})
        number = project_number("service-project")
        agent = f"serviceAccount:service-{number}@container-engine-robot.iam.gserviceaccount.com"
        await bind(cloud, "/cloudresourcemanager/v1/projects/host-project", {"roles/container.hostServiceAgentUser": agent})
        network = {"network": body["network"], "subnetwork": "projects/host-project/regions/us-central1/subnetworks/sub"}
        policy = {"clusterSecondaryRangeName": "pods", "servicesSecondaryRangeName": "services"}
        spec = {"name": "own", "initialNodeCount": 1, "locations": ["us-central1-a"], "ipAllocationPolicy": policy, **network}
        place = "projects/service-project/locations/us-central1"
        await cloud.call("POST", f"/container/v1/{place}/clusters", {"cluster": spec})
        await clock.sleep(600)
        refused = await failed_pool(cloud, f"{place}/clusters/own")
        assert "projects/host-project/regions/us-central1/subnetworks/sub-pods' is exhausted" in refused.message

    run_on_cloud(main)


def test_five_operations_run_at_a_time() -> None:
    async def main(cloud: Cloud) -> None:
        for index in range(5):
            await cloud.create(f"pool-{index}")
        assert "hits the concurrent operations quota 5, please try again later." in (await pool()(cloud)).message

    run_on_cloud(main)


def test_another_machine_type_recreates_the_nodes_of_a_pool() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.create("pool", 2, config={"machineType": "n1-standard-4"}))
        await cloud.call("PUT", f"/container/v1/{POOLS}/pool", {"machineType": "n1-standard-8"})
        await clock.sleep(300)
        result = await cloud.pool("pool")
        assert (result["config"]["machineType"], result["status"]) == ("n1-standard-8", "RUNNING")
        nodes = [node for node in await cloud.nodes() if node["metadata"]["labels"]["cloud.google.com/gke-nodepool"] == "pool"]
        assert {node["metadata"]["labels"]["node.kubernetes.io/instance-type"] for node in nodes} == {"n1-standard-8"}
        assert {node["status"]["capacity"]["cpu"] for node in nodes} == {"8"}

    run_on_cloud(main)


def test_disk_size_is_a_string_in_an_update_and_a_number_in_a_node_pool() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.done(await cloud.create("pool"))
        await cloud.call("PUT", f"/container/v1/{POOLS}/pool", {"diskSizeGb": "200", "diskType": "pd-ssd"})
        await clock.sleep(300)
        config = (await cloud.pool("pool"))["config"]
        assert (config["diskSizeGb"], config["diskType"]) == (200, "pd-ssd")

    run_on_cloud(main)


def test_slice_that_autoscales_with_all_hosts_per_zone_is_accepted() -> None:
    async def main(cloud: Cloud) -> None:
        scaling = {"enabled": True, "minNodeCount": 0, "maxNodeCount": 4}
        await cloud.done(await cloud.create("slice", 0, config=V4, placementPolicy=SLICE, autoscaling=scaling))
        assert (await cloud.pool("slice"))["status"] == "RUNNING"

    run_on_cloud(main)


def test_administrator_acts_as_an_account_with_its_permissions_only() -> None:
    async def main(cloud: Cloud) -> None:
        clusters, acting = f"/container/v1/{PLACE}/clusters", f"{cloud.twin.token}~{ACCOUNT}"
        assert (await send(cloud, "GET", clusters, token=acting)).message.startswith(
            "Permission 'iam.serviceAccounts.getAccessToken'"
        )
        await account(cloud, "runner", "roles/container.viewer")
        await cloud.call("GET", clusters, token=acting)
        user = await cloud.call("GET", "/openidconnect/v1/userinfo", token=acting)
        assert (user["email"], (await cloud.call("GET", "/openidconnect/v1/userinfo"))["email"]) == (
            ACCOUNT,
            "administrator@example.com",
        )
        refused = await send(cloud, "POST", clusters, {"cluster": {"name": "own", "initialNodeCount": 1}}, token=acting)
        assert refused.message.startswith('Required "container.clusters.create" permission')

    run_on_cloud(main, workloads=False)


def test_roles_in_a_project_apply_to_its_buckets() -> None:
    async def main(cloud: Cloud) -> None:
        await cloud.call("POST", "/storage/v1/b?project=p", {"name": "bucket"})
        token = await account(cloud, "runner", "roles/storage.admin")
        await cloud.call("GET", "/storage/v1/b/bucket", token=token)
        assert (await send(cloud, "GET", "/storage/v1/b/absent", token=token)).http == 404
        other = await account(cloud, "other-1", "roles/container.viewer")
        assert (await send(cloud, "GET", "/storage/v1/b/bucket", token=other)).http == 403

    run_on_cloud(main, workloads=False)


def test_expired_token_is_refused() -> None:
    async def main(cloud: Cloud) -> None:
        token = await account(cloud, "runner", "roles/container.viewer")
        await cloud.call("GET", f"/container/v1/{PLACE}/clusters", token=token)
        await clock.sleep(601)
        assert (await send(cloud, "GET", f"/container/v1/{PLACE}/clusters", token=token)).http == 401

    run_on_cloud(main, workloads=False)


def test_caller_reads_its_permissions() -> None:
    async def main(cloud: Cloud) -> None:
        token = await account(cloud, "runner", "roles/container.viewer")
        body = {"permissions": ["container.clusters.get", "container.clusters.create"]}
        path = "/cloudresourcemanager/v1/projects/some-project:testIamPermissions"
        await bind(cloud, "/cloudresourcemanager/v1/projects/some-project", {"roles/container.viewer": f"serviceAccount:{ACCOUNT}"})
        assert await cloud.call("POST", path, body, token=token) == {"permissions": ["container.clusters.get"]}
        assert await cloud.call("POST", path, body) == body

    run_on_cloud(main, workloads=False)


def test_largest_slice_of_every_generation_is_accepted() -> None:
    for name in ("v4-6144", "v5p-12288", "v6e-256", "v5litepod-256", "tpu7x-18432"):
        result = catalog.find(name)
        assert isinstance(result, catalog.Slice)
        assert gke_rules.check_slice(result) is None
