"""Bad requests: code, reason and message equal those of the real server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support import goldens
from tests.support.bad_requests import CASES, Bad
from tests.support.http import JSON

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Answer, Api


@pytest.mark.parametrize("bad", [pytest.param(bad, id=bad.id) for bad in CASES])
def test_bad_request_is_rejected_as_recorded(cluster: Cluster, api: Api, ns: str, bad: Bad) -> None:
    response = api.request(bad.method, where(bad.path, ns), bad.body, query=bad.query, content_type=bad.kind)
    assert response.headers["Content-Type"] == JSON
    goldens.check("test_bad_input", bad.id, refusal(cluster, response), real=cluster.name == "real", words={ns: "NS"})


def refusal(cluster: Cluster, answer: Answer) -> dict[str, Any]:
    """The expected Status: the real server answers some bad requests with 500 and no reason, where the twin answers 400
    BadRequest.
    """
    seen = answer.refusal
    if cluster.name == "real" and answer.status == 500:
        assert not answer.reason
        seen.update(code=400, reason="BadRequest")
    return seen


def where(path: str, ns: str) -> str:
    """The full path of a case."""
    if path.startswith("/"):
        return path
    group, version, rest = path.split("/", 2) if path.count("/") >= 2 else ("", "", path)
    return f"/apis/{group}/{version}/namespaces/{ns}/{rest}" if group else f"/api/v1/namespaces/{ns}/{path}"


def test_invalid_generate_name_is_rejected(api: Api, core: str) -> None:
    answer = api.post(f"{core}/configmaps", {"metadata": {"generateName": "Up-"}}).refused(422, "Invalid")
    assert answer.message.startswith('ConfigMap "Up-')
    assert {(reason, field) for reason, field, _ in answer.causes} == {
        ("FieldValueInvalid", "metadata.generateName"),
        ("FieldValueInvalid", "metadata.name"),
    }


def test_patch_with_wrong_type_is_rejected(api: Api, core: str) -> None:
    answer = api.patch(f"{core}/serviceaccounts/default", {"metadata": {"labels": "x"}}).refused(422, "Invalid")
    [(reason, where_, message)] = answer.causes
    assert (reason, where_) == ("FieldValueInvalid", "patch")
    assert message.endswith(
        "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.labels of type map[string]string"
    )


def test_unknown_subresource_is_not_found(api: Api, core: str) -> None:
    assert api.get(f"{core}/pods/p/nothing").status == 404


@pytest.mark.parametrize("annotation", ["metrics", "behavior"])
@pytest.mark.parametrize(
    "text", ["{", "1", "null", "[1]", '[{"type":"Resource","resource":5}]', '{"scaleUp":5}', '{"scaleUp":{"policies":[1]}}']
)
def test_malformed_annotation_of_an_old_version_is_ignored(api: Api, ns: str, annotation: str, text: str) -> None:
    """Fields of autoscaling/v2 are annotations in v1: one that cannot be decoded is dropped, and the object stays readable."""
    path = f"/apis/autoscaling/v1/namespaces/{ns}/horizontalpodautoscalers"
    metadata = {"name": "a", "annotations": {f"autoscaling.alpha.kubernetes.io/{annotation}": text}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
    api.post(path, {"metadata": metadata, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}).ok(201)
    assert api.get(path).ok(200).names == ["a"]
    assert "annotations" not in api.get(path.replace("v1", "v2") + "/a").ok(200).json["metadata"]


def test_negative_count_of_a_job_status_is_invalid(api: Api, core: str, ns: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{ns}/jobs"
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "example.com/a"}]}
    api.post(jobs, {"metadata": {"name": "a"}, "spec": {"suspend": True, "template": {"spec": pod}}}).ok(201)
    answer = api.patch(f"{jobs}/a/status", {"status": {"active": -1, "ready": None}})
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert "status.active: Invalid value: -1" in answer.json["message"]
