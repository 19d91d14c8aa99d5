"""Objects of a load test with pods: a cluster accepts each of them strictly and rejects misspelt fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.polling import eventually

from sliceworks.kube.resources import find_builtin, gvk_of
from sliceworks.loadtest.cluster import worker_job
from sliceworks.specs.load_test import Workers

if TYPE_CHECKING:
    from tests.support.http import Api

Object = dict[str, Any]
STRICT = {"fieldValidation": "Strict", "dryRun": "All"}


def load_test_objects(namespace: str, **fields: Any) -> list[Object]:
    given = {"where": "cluster", "image": "registry/load-worker:1", **fields}
    files, secrets = {"test.json": b"{}", "prompts.jsonl": b'"Hello"\n'}, {"SLICEWORKS_LOAD_TOKEN": "secret"}
    launch = worker_job.WorkerJob("load-chat-0a1b2c", namespace, Workers.model_validate(given), 60.0, files, secrets)
    return [worker_job.build_job(launch), *worker_job.build_dependents(launch)]


def test_every_object_is_accepted(api: Api, ns: str) -> None:
    pool = {"name": "load", "labels": {"kind": "small"}, "tolerates": ["load"]}
    for expected in ({}, {"count": 20, "pool": pool, "serviceAccount": "loads"}):
        for item in load_test_objects(ns, **expected):
            resource = find_builtin(gvk_of(item))
            assert resource is not None
            response = api.post(resource.path(ns), item, query=STRICT)
            assert response.status == 201, f"{item['kind']}: {response.text}"
            assert response.warnings == []


def test_pods_are_restricted(api: Api, ns: str) -> None:
    """The pods satisfy the restricted Pod Security profile."""
    api.patch(f"/api/v1/namespaces/{ns}", {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}).ok()
    [job, *_], [loose, *_] = load_test_objects(ns, count=2), load_test_objects(ns, count=2)
    del loose["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"]
    path = f"/apis/batch/v1/namespaces/{ns}/jobs"
    eventually(lambda: "restricted" in " ".join(api.post(path, loose, query=STRICT).ok(201).warnings))
    assert api.post(path, job, query=STRICT).ok(201).warnings == []


def test_misspelt_field_is_rejected(api: Api, ns: str) -> None:
    [job, *_] = load_test_objects(ns)
    resource = find_builtin(gvk_of(job))
    assert resource is not None
    job["spec"]["completionMood"] = "Indexed"
    assert api.post(resource.path(ns), job, query=STRICT).status == 400
