"""Config Connector on an embedded twin: fields, webhooks, dependencies and deletion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from tests.support.embedded_twin import run_on_twin

from sliceworks.base import clock
from sliceworks.base.transport import Request

if TYPE_CHECKING:
    from tests.support.embedded_twin import EmbeddedTwin

Object = dict[str, Any]
IAM = "/apis/iam.cnrm.cloud.google.com/v1beta1/namespaces/team"
ACCOUNTS, MEMBERS, POLICIES = f"{IAM}/iamserviceaccounts", f"{IAM}/iampolicymembers", f"{IAM}/iampartialpolicies"
BUCKETS = "/apis/storage.cnrm.cloud.google.com/v1beta1/namespaces/team/storagebuckets"
PROJECTS = "/apis/resourcemanager.cnrm.cloud.google.com/v1beta1/namespaces/team/projects"
CLUSTERS = "/apis/container.cnrm.cloud.google.com/v1beta1/namespaces/team/containerclusters"
PREFIX = "cnrm.cloud.google.com"


def manifest(name: str, spec: Object | None = None, **annotations: str) -> Object:
    """An object without apiVersion and kind, which `post` derives from the path."""
    metadata: Object = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata} if spec is None else {"metadata": metadata, "spec": spec}


async def post(twin: EmbeddedTwin, path: str, obj: Object) -> Object:
    group, _, rest = path.removeprefix("/apis/").partition("/")
    kind = KINDS[rest.rpartition("/")[2]]
    return await twin.do("POST", path, {"apiVersion": f"{group}/v1beta1", "kind": kind, **obj})


KINDS = {
    "iamserviceaccounts": "IAMServiceAccount",
    "iampolicymembers": "IAMPolicyMember",
    "iampartialpolicies": "IAMPartialPolicy",
    "storagebuckets": "StorageBucket",
    "projects": "Project",
    "containerclusters": "ContainerCluster",
}


async def create_namespace(twin: EmbeddedTwin) -> None:
    annotations = {f"{PREFIX}/project-id": "k8sai-me"}
    await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "team", "annotations": annotations}})


def reason(obj: Object) -> str:
    return str(obj["status"]["conditions"][0]["reason"])


def test_service_account_has_the_fields_of_a_reconciled_one() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await create_namespace(twin)
        new = await post(twin, ACCOUNTS, manifest("sa"))
        assert new["metadata"]["generation"] == 1
        assert "status" not in new
        await clock.sleep(1)
        assert reason(await twin.do("GET", f"{ACCOUNTS}/sa")) == "Updating"
        await clock.sleep(9)
        result = await twin.do("GET", f"{ACCOUNTS}/sa")
        assert result["metadata"]["annotations"] == {
            f"{PREFIX}/management-conflict-prevention-policy": "none",
            f"{PREFIX}/project-id": "k8sai-me",
            f"{PREFIX}/state-into-spec": "absent",
        }
        assert result["metadata"]["finalizers"] == [f"{PREFIX}/finalizer", f"{PREFIX}/deletion-defender"]
        assert result["metadata"]["generation"] == result["status"]["observedGeneration"] == 2
        assert result["spec"] == {"resourceID": "sa"}
        assert result["status"]["email"] == "sa@k8sai-me.iam.gserviceaccount.com"
        reported = (await twin.do("GET", "/api/v1/namespaces/team/events"))["items"]
        assert {(event["type"], event["reason"]) for event in reported} == {("Normal", "Updating"), ("Normal", "UpToDate")}
        assert {event["source"]["component"] for event in reported} == {"cnrm-controller-manager"}

    run_on_twin(main, workloads=True, config_connector=True)


def test_dependents_continue_once_their_dependency_is_ready() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await create_namespace(twin)
        reference = {"kind": "Project", "name": "acquired"}
        spec = {"role": "roles/viewer", "memberFrom": {"serviceAccountRef": {"name": "sa"}}, "resourceRef": reference}
        new = await post(twin, MEMBERS, manifest("m", spec))
        assert new["spec"]["resourceRef"]["apiVersion"] == "resourcemanager.cnrm.cloud.google.com/v1beta1"
        await clock.sleep(1)
        waiting = await twin.do("GET", f"{MEMBERS}/m")
        assert waiting["status"]["conditions"][0]["message"] == "reference Project team/acquired is not found"
        assert "finalizers" not in waiting["metadata"]
        await post(twin, PROJECTS, manifest("acquired", {"name": "", "resourceID": "k8sai-me", "folderRef": {"external": "7"}}))
        await clock.sleep(1)
        assert reason(await twin.do("GET", f"{MEMBERS}/m")) == "DependencyNotReady"
        await clock.sleep(10)
        await post(twin, ACCOUNTS, manifest("sa"))
        await clock.sleep(7)
        assert reason(await twin.do("GET", f"{MEMBERS}/m")) == "UpToDate"

    run_on_twin(main, workloads=True, config_connector=True)


def test_immutable_fields_cannot_change() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await create_namespace(twin)
        await post(twin, CLUSTERS, manifest("big", {"location": "us-central1", "resourceID": "big"}))
        await clock.sleep(10)
        status, refused = await twin.ask("PATCH", f"{CLUSTERS}/big", {"spec": {"location": "europe-west4"}})
        assert status == 403
        assert refused["message"].endswith("cannot make changes to immutable field(s): [location]")
        status, _ = await twin.ask("PATCH", f"{CLUSTERS}/big", {"metadata": {"annotations": {f"{PREFIX}/project-id": "other"}}})
        assert status == 403
        status, _ = await twin.ask(
            "PATCH", f"{CLUSTERS}/big", {"metadata": {"annotations": {f"{PREFIX}/state-into-spec": "merge"}}}
        )
        assert status == 403
        await post(
            twin, MEMBERS, manifest("m", {"role": "roles/viewer", "member": "user:a@b.c", "resourceRef": {"kind": "Project"}})
        )
        status, refused = await twin.ask("PATCH", f"{MEMBERS}/m", {"spec": {"role": "roles/owner"}})
        assert status == 422, refused
        assert (await twin.do("PATCH", f"{CLUSTERS}/big", {"spec": {"nodeVersion": "1.35"}}))["metadata"]["generation"] == 2

    run_on_twin(main, workloads=True, config_connector=True)


def test_webhooks_deny_invalid_objects() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await create_namespace(twin)

        async def refused(path: str, obj: Object) -> str:
            group, _, rest = path.removeprefix("/apis/").partition("/")
            body = {"apiVersion": f"{group}/v1beta1", "kind": KINDS[rest.rpartition("/")[2]], **obj}
            status, answer = await twin.ask("POST", path, body)
            assert status in (403, 422), answer
            return str(answer["message"])

        assert "folderRef or spec.organizationRef" in await refused(PROJECTS, manifest("p", {"name": "p"}))
        wrong = {"role": "roles/viewer", "member": "user:a@b.c", "resourceRef": {"kind": "ContainerCluster", "name": "big"}}
        assert "ContainerCluster" in await refused(MEMBERS, manifest("m", wrong))
        limited = {"title": "t", "expression": "true"}
        topic = {"kind": "PubSubTopic", "name": "t"}
        on_topic = {"role": "roles/viewer", "member": "user:a@b.c", "resourceRef": topic, "condition": limited}
        assert "does not support IAM conditions" in await refused(MEMBERS, manifest("m", on_topic))
        both = {"encryption": {"kmsKeyRef": {"name": "k", "external": "projects/p"}}}
        assert "kmsKeyRef" in await refused(BUCKETS, manifest("b", both))
        assert "member" in await refused(MEMBERS, manifest("m", {"role": "roles/viewer", "resourceRef": {"kind": "Project"}}))
        assert "state-into-spec" in await refused(BUCKETS, manifest("b", {}, **{f"{PREFIX}/state-into-spec": "sometimes"}))

    run_on_twin(main, workloads=True, config_connector=True)


def test_project_takes_its_folder_from_the_namespace() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "team", "annotations": {f"{PREFIX}/folder-id": "42"}}})
        result = await post(twin, PROJECTS, manifest("p", {"name": "p"}))
        assert result["spec"]["folderRef"] == {"external": "42"}

    run_on_twin(main, workloads=True, config_connector=True)


def test_nonempty_bucket_is_deleted_once_it_is_empty() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await create_namespace(twin)
        await post(twin, BUCKETS, manifest("data", {}, **{"sliceworks.dev/bucket-objects": "2"}))
        await clock.sleep(5)
        assert reason(await twin.do("GET", f"{BUCKETS}/data")) == "UpToDate"
        await twin.do("DELETE", f"{BUCKETS}/data")
        await clock.sleep(30)
        assert reason(await twin.do("GET", f"{BUCKETS}/data")) == "DeleteFailed"
        await twin.do("PATCH", f"{BUCKETS}/data", {"metadata": {"annotations": {"sliceworks.dev/bucket-objects": "0"}}})
        await clock.sleep(5)
        assert await twin.gone(f"{BUCKETS}/data")

    run_on_twin(main, workloads=True, config_connector=True)


def test_annotations_of_namespace_and_object_delay_and_fail_updates() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await create_namespace(twin)
        await twin.do("PATCH", "/api/v1/namespaces/team", {"metadata": {"annotations": {"sliceworks.dev/cloud-seconds": "600"}}})
        await post(twin, BUCKETS, manifest("slow", {}))
        await post(
            twin, BUCKETS, manifest("bad", {}, **{"sliceworks.dev/cloud-fails": "quota", "sliceworks.dev/cloud-seconds": "1"})
        )
        await clock.sleep(590)
        assert reason(await twin.do("GET", f"{BUCKETS}/slow")) == "Updating"
        failed = (await twin.do("GET", f"{BUCKETS}/bad"))["status"]["conditions"][0]
        assert (failed["reason"], failed["message"]) == ("UpdateFailed", "Update call failed: quota")
        await clock.sleep(20)
        assert reason(await twin.do("GET", f"{BUCKETS}/slow")) == "UpToDate"
        await twin.do("PATCH", f"{BUCKETS}/bad", {"metadata": {"annotations": {"sliceworks.dev/cloud-fails": None}}})
        await clock.sleep(5)
        assert reason(await twin.do("GET", f"{BUCKETS}/bad")) == "UpToDate"

    run_on_twin(main, workloads=True, config_connector=True)


def test_kinds_exist_only_when_enabled() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        groups = [group["name"] for group in (await twin.do("GET", "/apis"))["groups"]]
        assert "kueue.x-k8s.io" in groups
        assert not [name for name in groups if "cnrm" in name]

    run_on_twin(main, workloads=True)


def test_table_shows_the_condition() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await create_namespace(twin)
        await post(twin, BUCKETS, manifest("data", {}))
        await clock.sleep(5)
        table = await twin.do("GET", BUCKETS, accept="application/json;as=Table;g=meta.k8s.io;v=v1")
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age", "Ready", "Status", "Status Age"]
        assert table["rows"][0]["cells"][2:4] == ["True", "UpToDate"]

    run_on_twin(main, workloads=True, config_connector=True)


def test_installation_objects() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        path = "/apis/core.cnrm.cloud.google.com/v1beta1/configconnectors"
        name = "configconnector.core.cnrm.cloud.google.com"
        account = {
            "mode": "cluster",
            "googleServiceAccount": "kcc-operator@k8sai-me.iam.gserviceaccount.com",
            "stateIntoSpec": "Absent",
        }
        typed = {"apiVersion": "core.cnrm.cloud.google.com/v1beta1", "kind": "ConfigConnector"}
        status, _ = await twin.ask("POST", path, {**typed, "metadata": {"name": "other"}, "spec": account})
        assert status == 403
        status, _ = await twin.ask("POST", path, {**typed, "metadata": {"name": name}, "spec": {"mode": "cluster"}})
        assert status == 403
        await twin.do("POST", path, {**typed, "metadata": {"name": name}, "spec": account})
        await clock.sleep(1)
        assert (await twin.do("GET", f"{path}/{name}"))["status"] == {"healthy": True, "observedGeneration": 1}

    run_on_twin(main, workloads=True, config_connector=True)


def test_namespace_deletion_deletes_all_objects() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        await create_namespace(twin)
        await post(twin, PROJECTS, manifest("acquired", {"name": "", "resourceID": "k8sai-me", "folderRef": {"external": "7"}}))
        await post(twin, ACCOUNTS, manifest("sa"))
        policy = {"resourceRef": {"kind": "IAMServiceAccount", "name": "sa"}}
        await post(twin, POLICIES, manifest("p", policy))
        await post(twin, BUCKETS, manifest("data", {}))
        await clock.sleep(30)
        await twin.do("DELETE", "/api/v1/namespaces/team")
        await clock.sleep(60)
        assert await twin.gone("/api/v1/namespaces/team")

    run_on_twin(main, workloads=True, config_connector=True)


ACCOUNT = "config-connector@k8sai-me.iam.gserviceaccount.com"
MANAGER = "k8sai-me.svc.id.goog[cnrm-system/cnrm-controller-manager]"


def test_objects_need_the_roles_and_the_workload_identity_of_the_google_service_account() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        project, account = "/cloudresourcemanager/v1/projects/k8sai-me", f"/iam/v1/projects/k8sai-me/serviceAccounts/{ACCOUNT}"

        async def call(path: str, body: Object) -> None:
            headers = {"authorization": f"Bearer {twin.cluster.token}"}
            response = await twin.cluster.serve_cloud(Request("POST", path, headers=headers, body=orjson.dumps(body)))
            assert response.status == 200, response.body

        async def grant(resource: str, role: str, member: str) -> None:
            bindings = [{"role": role, "members": [f"serviceAccount:{member}"]}] if member else []
            await call(f"{resource}:setIamPolicy", {"policy": {"bindings": bindings}})

        async def ready(path: str) -> tuple[str, str]:
            condition = (await twin.do("GET", path))["status"]["conditions"][0]
            return condition["reason"], condition["message"]

        await create_namespace(twin)
        await call("/iam/v1/projects/k8sai-me/serviceAccounts", {"accountId": "config-connector"})
        connector = {"mode": "cluster", "googleServiceAccount": ACCOUNT}
        name = {"metadata": {"name": "configconnector.core.cnrm.cloud.google.com"}}
        typed = {"apiVersion": "core.cnrm.cloud.google.com/v1beta1", "kind": "ConfigConnector"}
        await twin.do("POST", "/apis/core.cnrm.cloud.google.com/v1beta1/configconnectors", {**typed, **name, "spec": connector})
        twin.cluster.cloud.services["container"].configure(
            {"clusters": [{"project": "k8sai-me", "location": "us-central1", "name": "main"}]}
        )
        await grant(project, "roles/storage.admin", ACCOUNT)
        await post(twin, BUCKETS, manifest("data", {}))
        await clock.sleep(30)
        prefix = "Update call failed: error applying desired state: summary: googleapi: Error 403: "
        why, message = await ready(f"{BUCKETS}/data")
        assert why == "UpdateFailed"
        assert message.startswith(f"{prefix}{MANAGER} cannot act as {ACCOUNT}: ")
        assert "Permission 'iam.serviceAccounts.getAccessToken' denied" in message
        await grant(account, "roles/iam.workloadIdentityUser", MANAGER)
        await clock.sleep(30)
        assert (await ready(f"{BUCKETS}/data"))[0] == "UpToDate"

        await grant(project, "roles/viewer", ACCOUNT)
        await post(twin, BUCKETS, manifest("more", {}))
        policy = {"role": "roles/viewer", "member": "user:a@b.c", "resourceRef": {"kind": "StorageBucket", "name": "data"}}
        await post(twin, MEMBERS, manifest("m", policy))
        await clock.sleep(30)
        why, message = await ready(f"{BUCKETS}/more")
        assert why == "UpdateFailed"
        assert message.startswith(f"{prefix}{ACCOUNT} does not have storage.buckets.create access to project k8sai-me. ")
        assert "storage.buckets.setIamPolicy" in (await ready(f"{MEMBERS}/m"))[1]
        assert (await ready(f"{BUCKETS}/data"))[0] == "UpToDate"
        await grant(project, "roles/storage.admin", ACCOUNT)
        await clock.sleep(30)
        assert {(await ready(path))[0] for path in (f"{BUCKETS}/more", f"{MEMBERS}/m")} == {"UpToDate"}

    run_on_twin(main, workloads=True, config_connector=True)
