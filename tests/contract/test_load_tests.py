"""Objects of a load test whose senders are pods: a cluster takes each of them strictly, and refuses what is misspelt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.waiting import eventually

from sliceworks.kube.resources import gvk_of
from sliceworks.kube.well_known import well_known
from sliceworks.loadtest.cluster import objects
from sliceworks.specs.load_test import Workers

if TYPE_CHECKING:
    from tests.support.http import Api

Object = dict[str, Any]
STRICT = {"fieldValidation": "Strict", "dryRun": "All"}


def made(namespace: str, **fields: Any) -> list[Object]:
    given = {"where": "cluster", "image": "registry/load-worker:1", **fields}
    files, secrets = {"test.json": b"{}", "prompts.jsonl": b'"Hello"\n'}, {"SLICEWORKS_LOAD_TOKEN": "secret"}
    launch = objects.Launch("load-chat-0a1b2c", namespace, Workers.model_validate(given), 60.0, files, secrets)
    return [objects.job(launch), *objects.around(launch)]


def test_every_object_is_taken(api: Api, ns: str) -> None:
    pool = {"name": "load", "labels": {"kind": "small"}, "tolerates": ["load"]}
    for wanted in ({}, {"count": 20, "pool": pool, "serviceAccount": "loads"}):
        for each in made(ns, **wanted):
            resource = well_known(gvk_of(each))
            assert resource is not None
            answer = api.post(resource.path(ns), each, query=STRICT)
            assert answer.status == 201, f"{each['kind']}: {answer.text}"
            assert answer.warnings == []


def test_its_pods_may_do_nothing_but_their_work(api: Api, ns: str) -> None:
    """By Kubernetes' own strictest profile."""
    api.patch(f"/api/v1/namespaces/{ns}", {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}).ok()
    [job, *_], [loose, *_] = made(ns, count=2), made(ns, count=2)
    del loose["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"]
    path = f"/apis/batch/v1/namespaces/{ns}/jobs"
    eventually(lambda: "restricted" in " ".join(api.post(path, loose, query=STRICT).ok(201).warnings))
    assert api.post(path, job, query=STRICT).ok(201).warnings == []


def test_what_is_misspelt_is_refused(api: Api, ns: str) -> None:
    [job, *_] = made(ns)
    resource = well_known(gvk_of(job))
    assert resource is not None
    job["spec"]["completionMood"] = "Indexed"
    assert api.post(resource.path(ns), job, query=STRICT).status == 400
