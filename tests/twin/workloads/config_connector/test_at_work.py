"""Config Connector on a whole twin: what its objects carry, what its webhooks refuse, what waits and what goes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded import on_twin

from sliceworks.base import clock

if TYPE_CHECKING:
    from tests.support.embedded import Embedded

Object = dict[str, Any]
IAM = "/apis/iam.cnrm.cloud.google.com/v1beta1/namespaces/team"
ACCOUNTS, MEMBERS, POLICIES = f"{IAM}/iamserviceaccounts", f"{IAM}/iampolicymembers", f"{IAM}/iampartialpolicies"
BUCKETS = "/apis/storage.cnrm.cloud.google.com/v1beta1/namespaces/team/storagebuckets"
PROJECTS = "/apis/resourcemanager.cnrm.cloud.google.com/v1beta1/namespaces/team/projects"
CLUSTERS = "/apis/container.cnrm.cloud.google.com/v1beta1/namespaces/team/containerclusters"
PREFIX = "cnrm.cloud.google.com"


def made(name: str, spec: Object | None = None, **annotations: str) -> Object:
    """An object to post: its path says what it is."""
    metadata: Object = {"name": name, **({"annotations": annotations} if annotations else {})}
    return {"metadata": metadata} if spec is None else {"metadata": metadata, "spec": spec}


async def post(twin: Embedded, path: str, obj: Object) -> Object:
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


async def team(twin: Embedded) -> None:
    notes = {f"{PREFIX}/project-id": "k8sai-me"}
    await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "team", "annotations": notes}})


def reason(obj: Object) -> str:
    return str(obj["status"]["conditions"][0]["reason"])


def test_account_carries_what_a_reconciled_one_carries() -> None:
    async def main(twin: Embedded) -> None:
        await team(twin)
        new = await post(twin, ACCOUNTS, made("sa"))
        assert new["metadata"]["generation"] == 1
        assert "status" not in new
        await clock.sleep(1)
        assert reason(await twin.do("GET", f"{ACCOUNTS}/sa")) == "Updating"
        await clock.sleep(9)
        found = await twin.do("GET", f"{ACCOUNTS}/sa")
        assert found["metadata"]["annotations"] == {
            f"{PREFIX}/management-conflict-prevention-policy": "none",
            f"{PREFIX}/project-id": "k8sai-me",
            f"{PREFIX}/state-into-spec": "absent",
        }
        assert found["metadata"]["finalizers"] == [f"{PREFIX}/finalizer", f"{PREFIX}/deletion-defender"]
        assert found["metadata"]["generation"] == found["status"]["observedGeneration"] == 2
        assert found["spec"] == {"resourceID": "sa"}
        assert found["status"]["email"] == "sa@k8sai-me.iam.gserviceaccount.com"
        told = (await twin.do("GET", "/api/v1/namespaces/team/events"))["items"]
        assert {(event["type"], event["reason"]) for event in told} == {("Normal", "Updating"), ("Normal", "UpToDate")}
        assert {event["source"]["component"] for event in told} == {"cnrm-controller-manager"}

    on_twin(main, workloads=True, config_connector=True)


def test_dependents_wait_and_go_on_at_once() -> None:
    async def main(twin: Embedded) -> None:
        await team(twin)
        reference = {"kind": "Project", "name": "acquired"}
        spec = {"role": "roles/viewer", "memberFrom": {"serviceAccountRef": {"name": "sa"}}, "resourceRef": reference}
        new = await post(twin, MEMBERS, made("m", spec))
        assert new["spec"]["resourceRef"]["apiVersion"] == "resourcemanager.cnrm.cloud.google.com/v1beta1"
        await clock.sleep(1)
        waiting = await twin.do("GET", f"{MEMBERS}/m")
        assert waiting["status"]["conditions"][0]["message"] == "reference Project team/acquired is not found"
        assert "finalizers" not in waiting["metadata"]
        await post(twin, PROJECTS, made("acquired", {"name": "", "resourceID": "k8sai-me", "folderRef": {"external": "7"}}))
        await clock.sleep(1)
        assert reason(await twin.do("GET", f"{MEMBERS}/m")) == "DependencyNotReady"
        await clock.sleep(10)
        await post(twin, ACCOUNTS, made("sa"))
        await clock.sleep(7)
        assert reason(await twin.do("GET", f"{MEMBERS}/m")) == "UpToDate"

    on_twin(main, workloads=True, config_connector=True)


def test_what_may_not_change_does_not() -> None:
    async def main(twin: Embedded) -> None:
        await team(twin)
        await post(twin, CLUSTERS, made("big", {"location": "us-central1", "resourceID": "big"}))
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
        await post(twin, MEMBERS, made("m", {"role": "roles/viewer", "member": "user:a@b.c", "resourceRef": {"kind": "Project"}}))
        status, refused = await twin.ask("PATCH", f"{MEMBERS}/m", {"spec": {"role": "roles/owner"}})
        assert status == 422, refused
        assert (await twin.do("PATCH", f"{CLUSTERS}/big", {"spec": {"nodeVersion": "1.35"}}))["metadata"]["generation"] == 2

    on_twin(main, workloads=True, config_connector=True)


def test_what_cannot_work_is_refused() -> None:
    async def main(twin: Embedded) -> None:
        await team(twin)

        async def refused(path: str, obj: Object) -> str:
            group, _, rest = path.removeprefix("/apis/").partition("/")
            body = {"apiVersion": f"{group}/v1beta1", "kind": KINDS[rest.rpartition("/")[2]], **obj}
            status, answer = await twin.ask("POST", path, body)
            assert status in (403, 422), answer
            return str(answer["message"])

        assert "folderRef or spec.organizationRef" in await refused(PROJECTS, made("p", {"name": "p"}))
        wrong = {"role": "roles/viewer", "member": "user:a@b.c", "resourceRef": {"kind": "ContainerCluster", "name": "big"}}
        assert "ContainerCluster" in await refused(MEMBERS, made("m", wrong))
        limited = {"title": "t", "expression": "true"}
        topic = {"kind": "PubSubTopic", "name": "t"}
        on_topic = {"role": "roles/viewer", "member": "user:a@b.c", "resourceRef": topic, "condition": limited}
        assert "does not support IAM conditions" in await refused(MEMBERS, made("m", on_topic))
        both = {"encryption": {"kmsKeyRef": {"name": "k", "external": "projects/p"}}}
        assert "kmsKeyRef" in await refused(BUCKETS, made("b", both))
        assert "member" in await refused(MEMBERS, made("m", {"role": "roles/viewer", "resourceRef": {"kind": "Project"}}))
        assert "state-into-spec" in await refused(BUCKETS, made("b", {}, **{f"{PREFIX}/state-into-spec": "sometimes"}))

    on_twin(main, workloads=True, config_connector=True)


def test_project_takes_its_folder_from_the_namespace() -> None:
    async def main(twin: Embedded) -> None:
        await twin.do("POST", "/api/v1/namespaces", {"metadata": {"name": "team", "annotations": {f"{PREFIX}/folder-id": "42"}}})
        found = await post(twin, PROJECTS, made("p", {"name": "p"}))
        assert found["spec"]["folderRef"] == {"external": "42"}

    on_twin(main, workloads=True, config_connector=True)


def test_bucket_that_holds_something_stays_until_it_is_emptied() -> None:
    async def main(twin: Embedded) -> None:
        await team(twin)
        await post(twin, BUCKETS, made("data", {}, **{"sliceworks.dev/bucket-objects": "2"}))
        await clock.sleep(5)
        assert reason(await twin.do("GET", f"{BUCKETS}/data")) == "UpToDate"
        await twin.do("DELETE", f"{BUCKETS}/data")
        await clock.sleep(30)
        assert reason(await twin.do("GET", f"{BUCKETS}/data")) == "DeleteFailed"
        await twin.do("PATCH", f"{BUCKETS}/data", {"metadata": {"annotations": {"sliceworks.dev/bucket-objects": "0"}}})
        await clock.sleep(5)
        assert await twin.gone(f"{BUCKETS}/data")

    on_twin(main, workloads=True, config_connector=True)


def test_slow_and_failing_by_the_namespace_and_by_the_object() -> None:
    async def main(twin: Embedded) -> None:
        await team(twin)
        await twin.do("PATCH", "/api/v1/namespaces/team", {"metadata": {"annotations": {"sliceworks.dev/cloud-seconds": "600"}}})
        await post(twin, BUCKETS, made("slow", {}))
        await post(twin, BUCKETS, made("bad", {}, **{"sliceworks.dev/cloud-fails": "quota", "sliceworks.dev/cloud-seconds": "1"}))
        await clock.sleep(590)
        assert reason(await twin.do("GET", f"{BUCKETS}/slow")) == "Updating"
        failed = (await twin.do("GET", f"{BUCKETS}/bad"))["status"]["conditions"][0]
        assert (failed["reason"], failed["message"]) == ("UpdateFailed", "Update call failed: quota")
        await clock.sleep(20)
        assert reason(await twin.do("GET", f"{BUCKETS}/slow")) == "UpToDate"
        await twin.do("PATCH", f"{BUCKETS}/bad", {"metadata": {"annotations": {"sliceworks.dev/cloud-fails": None}}})
        await clock.sleep(5)
        assert reason(await twin.do("GET", f"{BUCKETS}/bad")) == "UpToDate"

    on_twin(main, workloads=True, config_connector=True)


def test_kinds_are_only_there_when_asked_for() -> None:
    async def main(twin: Embedded) -> None:
        groups = [group["name"] for group in (await twin.do("GET", "/apis"))["groups"]]
        assert "kueue.x-k8s.io" in groups
        assert not [name for name in groups if "cnrm" in name]

    on_twin(main, workloads=True)


def test_table_shows_the_condition() -> None:
    async def main(twin: Embedded) -> None:
        await team(twin)
        await post(twin, BUCKETS, made("data", {}))
        await clock.sleep(5)
        table = await twin.do("GET", BUCKETS, accept="application/json;as=Table;g=meta.k8s.io;v=v1")
        assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age", "Ready", "Status", "Status Age"]
        assert table["rows"][0]["cells"][2:4] == ["True", "UpToDate"]

    on_twin(main, workloads=True, config_connector=True)


def test_what_sets_it_up() -> None:
    async def main(twin: Embedded) -> None:
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

    on_twin(main, workloads=True, config_connector=True)


def test_namespace_takes_everything_along() -> None:
    async def main(twin: Embedded) -> None:
        await team(twin)
        await post(twin, PROJECTS, made("acquired", {"name": "", "resourceID": "k8sai-me", "folderRef": {"external": "7"}}))
        await post(twin, ACCOUNTS, made("sa"))
        policy = {"resourceRef": {"kind": "IAMServiceAccount", "name": "sa"}}
        await post(twin, POLICIES, made("p", policy))
        await post(twin, BUCKETS, made("data", {}))
        await clock.sleep(30)
        await twin.do("DELETE", "/api/v1/namespaces/team")
        await clock.sleep(60)
        assert await twin.gone("/api/v1/namespaces/team")

    on_twin(main, workloads=True, config_connector=True)
