"""Conversion webhooks of CustomResourceDefinitions, on the twin and on kube-apiserver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import goldens
from tests.support.custom_resources import Custom, define, definition
from tests.support.http import MERGE_PATCH, TABLE
from tests.support.polling import eventually
from tests.support.webhooks import Reply, WebhookServer, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.clusters import Cluster
    from tests.support.http import Api

Object = dict[str, Any]
FIELDS = {"v1": "hostPort", "v2": "address"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookServer]:
    with serve(tmp_path_factory.mktemp("conversion")) as running:
        yield running


def version(name: str, *, storage: bool) -> Object:
    properties = {"spec": {"type": "object", "properties": {FIELDS[name]: {"type": "string"}, "size": {"type": "integer"}}}}
    columns = [{"name": "Where", "type": "string", "jsonPath": f".spec.{FIELDS[name]}"}]
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "selectableFields": [{"jsonPath": f".spec.{FIELDS[name]}"}],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {**properties, "status": {"type": "object"}}}},
    }


def rename(review: Object) -> Object:
    """Convert `hostPort` of v1 to `address` of v2, and back."""
    desired = review["desiredAPIVersion"]
    to, start = ("v2", "v1") if desired.endswith("/v2") else ("v1", "v2")
    converted = []
    for obj in review["objects"]:
        spec = dict(obj["spec"]) if isinstance(obj.get("spec"), dict) else {}
        if FIELDS[start] in spec:
            spec[FIELDS[to]] = spec.pop(FIELDS[start])
        converted.append({**obj, "apiVersion": desired, "spec": spec})
    return {"convertedObjects": converted, "result": {"status": "Success"}}


def reviewed(answer: Callable[[Object], Object]) -> Callable[[Object], Reply]:
    """The ConversionReview of a webhook that answers with this response."""

    def reply(request: Object) -> Reply:
        response = {"uid": request["uid"], **answer(request)}
        review = {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": response}
        return Reply(orjson.dumps(review))

    return reply


def converted(api: Api, server: WebhookServer, path: str) -> Custom:
    """A definition with the versions v1 and v2, which is stored, and a webhook between them."""
    webhook = {"clientConfig": server.client(path), "conversionReviewVersions": ["v1"]}
    body = definition("hosts", [version("v1", storage=False), version("v2", storage=True)])
    body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    return define(api, body)


@pytest.fixture
def hosts(api: Api, server: WebhookServer, unique_name: str) -> Custom:
    server.paths[unique_name] = reviewed(rename)
    return converted(api, server, unique_name)


def at(custom: Custom, ns: str, name: str) -> str:
    return f"/apis/{custom.group}/{name}/namespaces/{ns}/hosts"


def host(custom: Custom, name: str, number: str, where: str, **metadata: Any) -> Object:
    api_version = f"{custom.group}/{number}"
    return {"apiVersion": api_version, "kind": "Host", "metadata": {"name": name, **metadata}, "spec": {FIELDS[number]: where}}


def test_both_versions_read_what_the_other_wrote(api: Api, ns: str, hosts: Custom) -> None:
    created = api.post(at(hosts, ns, "v1"), host(hosts, "a", "v1", "one:1")).ok(201).json
    assert (created["apiVersion"], created["spec"]) == (f"{hosts.group}/v1", {"hostPort": "one:1"})
    read = api.get(f"{at(hosts, ns, 'v2')}/a").ok(200).json
    assert (read["apiVersion"], read["spec"]) == (f"{hosts.group}/v2", {"address": "one:1"})
    assert read["metadata"]["uid"] == created["metadata"]["uid"]
    api.post(at(hosts, ns, "v2"), host(hosts, "b", "v2", "two:2")).ok(201)
    listed = api.get(at(hosts, ns, "v1")).ok(200).json
    assert [item["spec"] for item in listed["items"]] == [{"hostPort": "one:1"}, {"hostPort": "two:2"}]
    assert {item["apiVersion"] for item in listed["items"]} == {f"{hosts.group}/v1"}


def test_update_patch_and_apply_through_the_other_version(api: Api, ns: str, hosts: Custom) -> None:
    path = f"{at(hosts, ns, 'v1')}/a"
    api.post(at(hosts, ns, "v2"), host(hosts, "a", "v2", "one:1")).ok(201)
    current = api.get(path).ok(200).json
    current["spec"]["hostPort"] = "two:2"
    updated = api.put(path, current).ok(200).json
    assert (updated["spec"], updated["metadata"]["generation"]) == ({"hostPort": "two:2"}, 2)
    patched = api.patch(path, {"spec": {"size": 3}}, MERGE_PATCH).ok(200).json
    assert patched["spec"] == {"hostPort": "two:2", "size": 3}
    applied = api.apply(path, host(hosts, "a", "v1", "three:3"), force=True).ok(200).json
    assert applied["spec"] == {"hostPort": "three:3", "size": 3}
    status = api.patch(f"{path}/status", {"metadata": {"labels": {"a": "b"}}, "spec": {"hostPort": "no"}}, MERGE_PATCH).ok(200)
    assert status.json["spec"] == {"hostPort": "three:3", "size": 3}
    assert api.get(f"{at(hosts, ns, 'v2')}/a").ok(200).json["spec"] == {"address": "three:3", "size": 3}


def test_unchanged_update_keeps_the_version(api: Api, ns: str, hosts: Custom) -> None:
    path = f"{at(hosts, ns, 'v1')}/a"
    api.post(at(hosts, ns, "v1"), host(hosts, "a", "v1", "one:1")).ok(201)
    current = api.get(path).ok(200).json
    assert api.put(path, current).ok(200).json["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]


def test_watch_and_table_are_converted(api: Api, ns: str, hosts: Custom) -> None:
    api.post(at(hosts, ns, "v2"), host(hosts, "a", "v2", "one:1")).ok(201)
    with api.watch(at(hosts, ns, "v1")) as watch:
        first = watch.next()
        assert (first["type"], first["object"]["spec"]) == ("ADDED", {"hostPort": "one:1"})
        api.patch(f"{at(hosts, ns, 'v2')}/a", {"spec": {"address": "two:2"}}, MERGE_PATCH).ok(200)
        second = watch.next()
        assert (second["type"], second["object"]["spec"]) == ("MODIFIED", {"hostPort": "two:2"})
        api.delete(f"{at(hosts, ns, 'v2')}/a").ok(200)
        third = watch.next()
        assert (third["type"], third["object"]["apiVersion"]) == ("DELETED", f"{hosts.group}/v1")
        assert third["object"]["spec"] == {"hostPort": "two:2"}
    api.post(at(hosts, ns, "v2"), host(hosts, "b", "v2", "three:3")).ok(201)
    table = api.get(at(hosts, ns, "v1"), accept=TABLE).ok(200).json
    assert [row["cells"] for row in table["rows"]] == [["b", "three:3"]]


def test_watch_with_selector_is_converted(api: Api, ns: str, hosts: Custom) -> None:
    api.post(at(hosts, ns, "v2"), host(hosts, "other", "v2", "none:0")).ok(201)
    api.post(at(hosts, ns, "v2"), host(hosts, "a", "v2", "one:1", labels={"keep": "yes"})).ok(201)
    path = f"{at(hosts, ns, 'v2')}/a"
    with api.watch(at(hosts, ns, "v1"), {"labelSelector": "keep=yes"}) as watch:
        assert watch.next()["object"]["spec"] == {"hostPort": "one:1"}
        api.patch(f"{at(hosts, ns, 'v2')}/other", {"spec": {"address": "none:1"}}, MERGE_PATCH).ok(200)
        api.patch(path, {"metadata": {"labels": {"keep": "no"}}, "spec": {"address": "two:2"}}, MERGE_PATCH).ok(200)
        left = watch.next()
        assert (left["type"], left["object"]["spec"]) == ("DELETED", {"hostPort": "one:1"})
        api.patch(path, {"metadata": {"labels": {"keep": "yes"}}}, MERGE_PATCH).ok(200)
        back = watch.next()
        assert (back["type"], back["object"]["spec"]) == ("ADDED", {"hostPort": "two:2"})


def test_field_selectors_see_the_fields_of_the_version(api: Api, ns: str, hosts: Custom) -> None:
    path = at(hosts, ns, "v1")
    for name, where in (("a", "one:1"), ("b", "two:2"), ("c", "one:1")):
        api.post(at(hosts, ns, "v2"), host(hosts, name, "v2", where)).ok(201)
    for number, field in FIELDS.items():
        assert api.get(at(hosts, ns, number), {"fieldSelector": f"spec.{field}=one:1"}).ok(200).names == ["a", "c"]
    chunk = api.get(path, {"fieldSelector": "spec.hostPort=one:1", "limit": 1}).ok(200)
    rest = {"fieldSelector": "spec.hostPort=one:1", "continue": chunk.json["metadata"]["continue"]}
    assert (chunk.names, api.get(path, rest).ok(200).names) == (["a"], ["c"])
    other = api.get(path, {"fieldSelector": "spec.address=one:1"}).refused(400, "BadRequest")
    assert "field label not supported: spec.address" in other.message
    with api.watch(path, {"fieldSelector": "spec.hostPort=one:1"}) as watch:
        assert [watch.next()["object"]["metadata"]["name"] for _ in range(2)] == ["a", "c"]
        api.patch(f"{at(hosts, ns, 'v2')}/b", {"spec": {"address": "one:1"}}, MERGE_PATCH).ok(200)
        added = watch.next()
        assert (added["type"], added["object"]["spec"]) == ("ADDED", {"hostPort": "one:1"})
        api.patch(f"{path}/a", {"spec": {"hostPort": "three:3"}}, MERGE_PATCH).ok(200)
        assert watch.next()["type"] == "DELETED"
    api.delete(path, query={"fieldSelector": "spec.hostPort=one:1"}).ok(200)
    assert api.get(path).ok(200).names == ["a"]


def test_deletion_with_finalizer(api: Api, ns: str, hosts: Custom) -> None:
    path = f"{at(hosts, ns, 'v1')}/a"
    api.post(at(hosts, ns, "v1"), host(hosts, "a", "v1", "one:1", finalizers=["example.com/hold"])).ok(201)
    deleting = api.delete(path).ok(200).json
    assert (deleting["spec"], "deletionTimestamp" in deleting["metadata"]) == ({"hostPort": "one:1"}, True)
    api.patch(path, {"metadata": {"finalizers": None}}, MERGE_PATCH).ok(200)
    api.get(path).refused(404, "NotFound")


def test_labels_may_change_and_other_metadata_is_restored(api: Api, server: WebhookServer, ns: str, unique_name: str) -> None:
    def relabel(review: Object) -> Object:
        answer = rename(review)
        for obj in answer["convertedObjects"]:
            obj["metadata"] = {
                **obj["metadata"],
                "labels": {"via": "webhook"},
                "finalizers": ["example.com/never"],
                "generation": 9,
            }
        return answer

    server.paths[unique_name] = reviewed(relabel)
    custom = converted(api, server, unique_name)
    api.post(at(custom, ns, "v2"), host(custom, "a", "v2", "one:1", labels={"own": "label"})).ok(201)
    metadata = api.get(f"{at(custom, ns, 'v1')}/a").ok(200).json["metadata"]
    assert (metadata["labels"], metadata["generation"], "finalizers" in metadata) == ({"via": "webhook"}, 1, False)


def _without(obj: Object, *path: str) -> Object:
    """A copy without the field at a path."""
    copy = dict(obj)
    if len(path) > 1 and path[0] in copy:
        copy[path[0]] = _without(copy[path[0]], *path[1:])
    else:
        copy.pop(path[0], None)
    return copy


LOSSES: dict[str, Callable[[Object], Object]] = {
    "a field": lambda obj: _without(obj, "spec", "size"),
    "spec": lambda obj: _without(obj, "spec"),
    "status": lambda obj: _without(obj, "status"),
    "labels": lambda obj: _without(obj, "metadata", "labels"),
    "annotations": lambda obj: {**obj, "metadata": {**obj["metadata"], "annotations": None}},
    "other metadata": lambda obj: {**obj, "metadata": {key: obj["metadata"].get(key) for key in ("name", "namespace", "uid")}},
    "metadata": lambda obj: _without(obj, "metadata"),
    "all but its kind": lambda obj: {key: obj[key] for key in ("apiVersion", "kind")},
    "name": lambda obj: _without(obj, "metadata", "name"),
    "uid": lambda obj: _without(obj, "metadata", "uid"),
    "namespace": lambda obj: _without(obj, "metadata", "namespace"),
    "spec that is null": lambda obj: {**obj, "spec": None},
    "spec of another type": lambda obj: {**obj, "spec": "text"},
    **{
        f"labels that become {value!r}": lambda obj, value=value: {**obj, "metadata": {**obj["metadata"], "labels": value}}  # type: ignore[misc]
        for value in (["a"], "a", 1, {"a": 1}, {"a": None}, {"not a key": "b"}, {"a": "not a value"})
    },
    "annotations with an invalid key": lambda obj: {**obj, "metadata": {**obj["metadata"], "annotations": {"not a key": "b"}}},
    "metadata that becomes a list": lambda obj: {**obj, "metadata": []},
}


REFUSED = (
    "metadata",
    "all but its kind",
    "name",
    "uid",
    "namespace",
    *(case for case in LOSSES if " that become" in case or " with " in case),
)


@pytest.mark.parametrize("case", LOSSES)
def test_conversion_that_loses_fields(
    api: Api, cluster: Cluster, server: WebhookServer, *, ns: str, unique_name: str, case: str
) -> None:
    """What the webhook drops is lost for the reader of the other version; the stored object keeps it until it is written so."""

    def lose(review: Object) -> Object:
        answer = rename(review)
        return {**answer, "convertedObjects": [LOSSES[case](obj) for obj in answer["convertedObjects"]]}

    server.paths[unique_name] = reviewed(lose)
    custom = converted(api, server, unique_name)
    body = host(custom, "a", "v2", "one:1", labels={"a": "b"}, annotations={"c": "d"}, finalizers=["example.com/f"])
    body["spec"]["size"] = 3
    api.post(at(custom, ns, "v2"), body).ok(201)
    api.patch(f"{at(custom, ns, 'v2')}/a/status", {"status": {"seen": "yes"}}, MERGE_PATCH).ok(200)
    old, stored = f"{at(custom, ns, 'v1')}/a", f"{at(custom, ns, 'v2')}/a"
    answers = {"get": api.get(old)}
    if case not in REFUSED:  # lists of the real server are read from a cache, which then waits for the webhook
        eventually(lambda: api.get(at(custom, ns, "v1")).ok().json["items"], what="the object is listed")
        answers["list"] = api.get(at(custom, ns, "v1"))
    answers["patch"] = api.patch(old, {"metadata": {"labels": {"new": "label"}}}, MERGE_PATCH)
    answers["create"] = api.post(at(custom, ns, "v1"), host(custom, "b", "v1", "two:2", labels={"x": "y"}))
    seen = {name: _essence(answer.json) for name, answer in answers.items()}
    seen["stored"] = _essence(api.get(stored).ok(200).json)
    server.paths[unique_name] = reviewed(rename)
    words = {str(server.port): "PORT", custom.group: "GROUP", ns: "NS", unique_name: "PATH"}
    goldens.check("test_conversion", f"loses {case}", seen, real=cluster.name == "real", words=words)
    api.patch(stored, {"metadata": {"finalizers": None}}, MERGE_PATCH)


def _essence(obj: Object) -> Object:
    """An object, list or Status without what depends on time and order."""
    if "items" in obj:
        return {"items": [_essence(item) for item in obj["items"]]}
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ("managedFields", "resourceVersion")}
    return {**obj, "metadata": metadata}


def test_review_has_the_objects(api: Api, server: WebhookServer, ns: str, hosts: Custom, unique_name: str) -> None:
    api.post(at(hosts, ns, "v1"), host(hosts, "a", "v1", "one:1")).ok(201)
    requests = [request for path, found in server.seen.items() for request in found if path == unique_name]
    to_storage = next(request for request in requests if request["desiredAPIVersion"] == f"{hosts.group}/v2" and request["objects"])
    (obj,) = to_storage["objects"]
    assert (obj["apiVersion"], obj["kind"], obj["spec"]) == (f"{hosts.group}/v1", "Host", {"hostPort": "one:1"})
    assert obj["metadata"]["uid"]
    review = next(item for item in server.reviews if item.get("request") == to_storage)
    assert (review["kind"], review["apiVersion"]) == ("ConversionReview", "apiextensions.k8s.io/v1")


def _changed(**fields: Any) -> Callable[[Object], Object]:
    def answer(review: Object) -> Object:
        found = rename(review)
        found["convertedObjects"] = [{**obj, **fields} for obj in found["convertedObjects"]]
        return found

    return answer


def _moved(**fields: Any) -> Callable[[Object], Object]:
    def answer(review: Object) -> Object:
        found = rename(review)
        found["convertedObjects"] = [{**obj, "metadata": {**obj["metadata"], **fields}} for obj in found["convertedObjects"]]
        return found

    return answer


FAILURES: dict[str, Callable[[Object], Object | Reply]] = {
    "refused": reviewed(lambda _: {"result": {"status": "Failure", "message": "not today"}}),
    "no result": reviewed(lambda _: {}),
    "no objects": reviewed(lambda _: {"convertedObjects": [], "result": {"status": "Success"}}),
    "other uid": reviewed(lambda review: {**rename(review), "uid": "other"}),
    "other version": reviewed(_changed(apiVersion="other.example.com/v3")),
    "other kind": reviewed(_changed(kind="Other")),
    "other name": reviewed(_moved(name="other")),
    "other namespace": reviewed(_moved(namespace="other")),
    "no response": lambda _: Reply(b'{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/v1"}'),
    "other review": lambda _: Reply(b'{"kind":"Other","apiVersion":"example.com/v1"}'),
    "error 500": lambda _: Reply(b"broken", status=500, media="text/plain"),
    "empty": lambda _: Reply(b""),
    "closed connection": lambda _: Reply(cut=True),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failing_webhook_is_reported(
    cluster: Cluster, api: Api, server: WebhookServer, *, ns: str, unique_name: str, case: str
) -> None:
    server.paths[unique_name] = FAILURES[case]
    custom = converted(api, server, unique_name)
    body = host(custom, "a", "v1", "one:1")

    def is_called() -> Any:
        response = api.post(at(custom, ns, "v1"), body)
        return response if response.status == 500 else None

    answer = eventually(is_called, what="the webhook is called")
    uids = {str(request["uid"]): "UID" for request in server.seen[unique_name]}
    words = {str(server.port): "PORT", custom.group: "GROUP", ns: "NS", unique_name: "PATH", **uids}
    seen = {"status": answer.status, "message": answer.json["message"], "reason": answer.json.get("reason")}
    goldens.check("test_conversion", case, seen, real=cluster.name == "real", words=words)
    # Nothing was stored.
    server.paths[unique_name] = reviewed(rename)
    api.get(f"{at(custom, ns, 'v2')}/a").refused(404, "NotFound")
