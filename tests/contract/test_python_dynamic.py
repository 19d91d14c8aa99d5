"""The official Python client without static types: patches of each type, the dynamic client, resumed watches."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import kubernetes
import kubernetes.dynamic
import kubernetes.utils
import pytest
import yaml
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, UnprocessibleEntityError
from tests.support.custom_resources import define, simple
from tests.support.http import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from tests.support.objects import deployment
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api

client: Any = kubernetes.client
watch: Any = kubernetes.watch
Object = dict[str, Any]
LIMITS: Object = {"type": "object", "properties": {"size": {"type": "integer", "maximum": 5, "default": 3}}}


@pytest.fixture
def dynamic_client(official: Any) -> Any:
    """The dynamic client."""
    created: Any = kubernetes.dynamic
    return created.DynamicClient(official)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (MERGE_PATCH, {"spec": {"replicas": 4}}),
        (STRATEGIC_PATCH, {"spec": {"replicas": 4, "template": {"spec": {"containers": [{"name": "main", "tty": True}]}}}}),
        (JSON_PATCH, [{"op": "replace", "path": "/spec/replicas", "value": 4}]),
        (APPLY_PATCH, deployment(replicas=4)),
    ],
    ids=["merge", "strategic", "json", "apply"],
)
def test_typed_patch_of_each_type(official: Any, ns: str, kind: str, body: Any) -> None:
    apps = client.AppsV1Api(official)
    apps.create_namespaced_deployment(ns, deployment())
    options = {"field_manager": "tester", "force": True} if kind == APPLY_PATCH else {}
    patched = apps.patch_namespaced_deployment("d", ns, body, _content_type=kind, **options)
    assert patched.spec.replicas == 4
    assert [container.image for container in patched.spec.template.spec.containers] == ["example.com/app:1"]


def test_dynamic_custom_resource_lifecycle(api: Api, dynamic_client: Any, ns: str) -> None:
    custom = define(api, simple(spec=LIMITS, subresources={"status": {}}))
    kind = eventually(lambda: _found(dynamic_client, custom.group, custom.kind), what="the dynamic client finds the new kind")
    assert kind.create(body=custom.object(spec={}), namespace=ns).spec.size == 3
    kind.patch(body={"spec": {"size": 4}}, name="a", namespace=ns, content_type=MERGE_PATCH)
    with pytest.raises(UnprocessibleEntityError):
        kind.patch(body={"spec": {"size": 6}}, name="a", namespace=ns, content_type=MERGE_PATCH)
    live = {**kind.get(name="a", namespace=ns).to_dict(), "status": {"ready": True}}
    assert kind.status.replace(body=live, namespace=ns, name="a").status.ready
    with pytest.raises(ConflictError):
        kind.replace(body=live, namespace=ns)
    assert kind.get(namespace=ns, field_selector="metadata.name=a").items[0].spec.size == 4
    kind.delete(name="a", namespace=ns)
    with pytest.raises(NotFoundError):
        kind.get(name="a", namespace=ns)


def _found(dynamic_client: Any, group: str, kind: str) -> Any:
    try:
        return dynamic_client.resources.get(api_version=f"{group}/v1", kind=kind)
    except kubernetes.dynamic.exceptions.ResourceNotFoundError:
        dynamic_client.resources.invalidate_cache()
        return None


def test_dynamic_apply_reports_conflicts(dynamic_client: Any, ns: str) -> None:
    maps = dynamic_client.resources.get(api_version="v1", kind="ConfigMap")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    maps.server_side_apply(body=body, namespace=ns, field_manager="one")
    other = {**body, "data": {"a": "2"}}
    with pytest.raises(ConflictError) as refused:
        maps.server_side_apply(body=other, namespace=ns, field_manager="two")
    assert 'conflict with \\"one\\": .data.a' in str(refused.value.body)
    assert maps.server_side_apply(body=other, namespace=ns, field_manager="two", force_conflicts=True).data.a == "2"


def test_multi_document_file_is_created(official: Any, ns: str) -> None:
    utils: Any = kubernetes.utils
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "d"}, "spec": {"ports": [{"port": 80}]}}
    objects = list(yaml.load_all(yaml.dump_all([deployment(), service]), yaml.CSafeLoader))
    utils.create_from_yaml(official, yaml_objects=objects, namespace=ns)
    assert client.CoreV1Api(official).read_namespaced_service("d", ns).spec.type == "ClusterIP"
    with pytest.raises(utils.FailToCreateError):
        utils.create_from_yaml(official, yaml_objects=objects, namespace=ns)


def test_watch_resumes_where_it_ended(official: Any, ns: str) -> None:
    core = client.CoreV1Api(official)
    following = watch.Watch()
    core.create_namespaced_config_map(ns, {"metadata": {"name": "a"}})
    seen = []
    for event in following.stream(core.list_namespaced_config_map, ns, field_selector="metadata.name!=kube-root-ca.crt"):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 1:
            core.create_namespaced_config_map(ns, {"metadata": {"name": "b"}})
        if len(seen) == 2:
            following.stop()
    core.delete_namespaced_config_map("b", ns)
    options = {"field_selector": "metadata.name=b", "resource_version": following.resource_version, "timeout_seconds": 60}
    event = next(iter(watch.Watch().stream(core.list_namespaced_config_map, ns, **options)))
    assert seen == [("ADDED", "a"), ("ADDED", "b")]
    assert (event["type"], event["object"].metadata.name) == ("DELETED", "b")


def test_watch_from_compacted_version_is_expired(cluster: Cluster, official: Any, api: Api, ns: str) -> None:
    widgets = define(api, simple("widgets"))
    api.post(widgets.at(ns), widgets.object("a")).ok(201)
    cluster.compact()
    objects = client.CustomObjectsApi(official)
    where = (widgets.group, "v1", ns, widgets.plural)
    with pytest.raises(ApiException) as deleted:
        list(watch.Watch().stream(objects.list_namespaced_custom_object, *where, resource_version="1", timeout_seconds=5))
    assert deleted.value.status == 410


def test_many_threads_share_a_client(official: Any, ns: str) -> None:
    core = client.CoreV1Api(official)

    def work(index: int) -> None:
        for number in range(5):
            core.create_namespaced_config_map(ns, {"metadata": {"name": f"c{index}-{number}", "labels": {"made": "here"}}})

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(core.list_namespaced_config_map(ns, label_selector="made=here").items) == 20
    core.delete_collection_namespaced_config_map(
        ns, label_selector="made=here", body=client.V1DeleteOptions(grace_period_seconds=0)
    )
    assert not core.list_namespaced_config_map(ns, label_selector="made=here").items
