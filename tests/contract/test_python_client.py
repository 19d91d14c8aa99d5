"""The official Python client: typed, dynamic, and its watch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import kubernetes
import kubernetes.dynamic
import kubernetes.utils
import pytest
from kubernetes.client.exceptions import ApiException
from tests.support.custom_resources import define, simple
from tests.support.objects import deployment
from tests.support.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.http import Api

# The client's published types make every field optional; these tests read values.
client: Any = kubernetes.client
watch: Any = kubernetes.watch
dynamic: Any = kubernetes.dynamic
config: Any = kubernetes.config
utils: Any = kubernetes.utils


@pytest.fixture
def official(cluster: Cluster) -> Iterator[Any]:
    """The official Python client on this cluster."""
    with config.new_client_from_config(str(cluster.kubeconfig)) as created:
        yield created


def pod(name: str = "p") -> Any:
    """A pod in the client's types."""
    container = client.V1Container(
        name="main", image="example.com/app", resources=client.V1ResourceRequirements(limits={"cpu": "500m"})
    )
    metadata = client.V1ObjectMeta(name=name, labels={"app": "a"})
    return client.V1Pod(metadata=metadata, spec=client.V1PodSpec(containers=[container]))


def test_version_and_discovery(official: Any) -> None:
    assert client.VersionApi(official).get_code().minor == "35"
    assert "apps" in {group.name for group in client.ApisApi(official).get_api_versions().groups}
    assert "pods" in {resource.name for resource in client.CoreV1Api(official).get_api_resources().resources}


def test_typed_pod_lifecycle(official: Any, ns: str) -> None:
    core = client.CoreV1Api(official)
    created = core.create_namespaced_pod(ns, pod())
    assert created.status.phase == "Pending"
    assert created.spec.containers[0].resources.limits == {"cpu": "500m"}
    assert core.read_namespaced_pod("p", ns).metadata.uid == created.metadata.uid
    patched = core.patch_namespaced_pod("p", ns, {"metadata": {"labels": {"x": "y"}}})
    assert patched.metadata.labels == {"app": "a", "x": "y"}
    patched.metadata.annotations = {"note": "n"}
    assert core.replace_namespaced_pod("p", ns, patched).metadata.annotations == {"note": "n"}
    assert [p.metadata.name for p in core.list_namespaced_pod(ns, label_selector="app=a").items] == ["p"]
    status = core.patch_namespaced_pod_status("p", ns, {"status": {"phase": "Running"}})
    assert status.status.phase == "Running"
    core.delete_namespaced_pod("p", ns)
    with pytest.raises(ApiException) as deleted:
        core.read_namespaced_pod("p", ns)
    assert deleted.value.status == 404
    assert deleted.value.reason == "Not Found"


def test_conflict_and_invalid(official: Any, ns: str) -> None:
    core = client.CoreV1Api(official)
    settings = core.create_namespaced_config_map(ns, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="c"), data={"a": "1"}))
    core.patch_namespaced_config_map("c", ns, {"data": {"a": "2"}})
    with pytest.raises(ApiException) as stale:
        core.replace_namespaced_config_map("c", ns, settings)
    assert stale.value.status == 409
    with pytest.raises(ApiException) as invalid:
        core.create_namespaced_config_map(ns, client.V1ConfigMap(metadata=client.V1ObjectMeta(name="Bad Name")))
    assert invalid.value.status == 422


def test_chunked_list(official: Any, ns: str) -> None:
    core = client.CoreV1Api(official)
    for index in range(5):
        core.create_namespaced_secret(ns, client.V1Secret(metadata=client.V1ObjectMeta(name=f"s{index}"), string_data={"a": "b"}))
    first = core.list_namespaced_secret(ns, limit=2)
    rest = core.list_namespaced_secret(ns, _continue=first.metadata._continue)
    assert [s.metadata.name for s in (*first.items, *rest.items)] == [f"s{index}" for index in range(5)]


def test_watch(official: Any, ns: str) -> None:
    core = client.CoreV1Api(official)
    version = core.list_namespaced_pod(ns).metadata.resource_version
    seen: list[tuple[str, str]] = []

    def follow() -> None:
        stream = watch.Watch()
        for event in stream.stream(core.list_namespaced_pod, ns, resource_version=version, timeout_seconds=90):
            seen.append((event["type"], event["object"].metadata.name))
            if event["type"] == "DELETED":
                stream.stop()

    follower = threading.Thread(target=follow)
    follower.start()
    core.create_namespaced_pod(ns, pod())
    core.patch_namespaced_pod("p", ns, {"metadata": {"labels": {"x": "y"}}})
    core.delete_namespaced_pod("p", ns)
    follower.join(90)
    assert seen[:2] == [("ADDED", "p"), ("MODIFIED", "p")]
    assert seen[-1] == ("DELETED", "p")


def test_scale_and_collections(official: Any, ns: str) -> None:
    apps = client.AppsV1Api(official)
    utils.create_from_dict(official, deployment(), namespace=ns)
    assert apps.patch_namespaced_deployment_scale("d", ns, {"spec": {"replicas": 4}}).spec.replicas == 4
    assert apps.read_namespaced_deployment("d", ns).spec.replicas == 4
    apps.delete_collection_namespaced_deployment(ns)
    eventually(lambda: not apps.list_namespaced_deployment(ns).items)


def test_custom_objects(official: Any, api: Api, ns: str) -> None:
    custom = define(api, simple(subresources={"status": {}}))
    objects = client.CustomObjectsApi(official)
    where = (custom.group, "v1", ns, custom.plural)
    objects.create_namespaced_custom_object(*where, custom.object(spec={"a": 1}))
    objects.patch_namespaced_custom_object(*where, "a", {"spec": {"a": 2}})
    objects.patch_namespaced_custom_object_status(*where, "a", {"status": {"done": True}})
    seen = objects.get_namespaced_custom_object(*where, "a")
    assert (seen["spec"], seen["status"]) == ({"a": 2}, {"done": True})
    assert len(objects.list_namespaced_custom_object(*where)["items"]) == 1
    objects.delete_namespaced_custom_object(*where, "a")


def test_dynamic_client(official: Any, ns: str) -> None:
    anything = dynamic.DynamicClient(official)
    deployments = anything.resources.get(api_version="apps/v1", kind="Deployment")
    assert deployments.create(body=deployment(), namespace=ns).spec.replicas == 1
    applied = deployment(replicas=3)
    live = deployments.server_side_apply(body=applied, namespace=ns, name="d", field_manager="tester", force_conflicts=True)
    assert live.spec.replicas == 3
    patched = deployments.patch(body={"spec": {"replicas": 5}}, name="d", namespace=ns, content_type="application/merge-patch+json")
    assert patched.spec.replicas == 5
    assert [d.metadata.name for d in deployments.get(namespace=ns).items] == ["d"]
    events = deployments.watch(namespace=ns, timeout=90)
    first = next(iter(events))
    assert (first["type"], first["object"].metadata.name) == ("ADDED", "d")
    deployments.delete(name="d", namespace=ns)


def test_access_review_and_token(official: Any, ns: str) -> None:
    attributes = client.V1ResourceAttributes(namespace=ns, verb="create", resource="pods")
    review = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=attributes))
    assert client.AuthorizationV1Api(official).create_self_subject_access_review(review).status.allowed
    request = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=["x"]))
    answer = client.CoreV1Api(official).create_namespaced_service_account_token("default", ns, request)
    assert answer.status.token.count(".") == 2


def test_eviction(official: Any, ns: str) -> None:
    core = client.CoreV1Api(official)
    core.create_namespaced_pod(ns, pod())
    core.create_namespaced_pod_eviction("p", ns, client.V1Eviction(metadata=client.V1ObjectMeta(name="p")))
    with pytest.raises(ApiException):
        core.read_namespaced_pod("p", ns)
