"""Unknown and duplicate fields: rejected, warned about or dropped, according to fieldValidation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.custom_resources import define, simple
from tests.support.http import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, YAML
from tests.support.objects import deployment

if TYPE_CHECKING:
    from tests.support.http import Api

STRICT, WARN, IGNORE = ({"fieldValidation": mode} for mode in ("Strict", "Warn", "Ignore"))
SUPPORTED = 'Unsupported value: "Maybe": supported values: "", "Ignore", "Strict", "Warn"'
UNKNOWN = 'unknown field "spec.replicass"'


def misspelled() -> dict[str, Any]:
    """A deployment with two unknown fields."""
    body = deployment()
    body["spec"] = {"replicass": 3, **body["spec"]}
    body["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x"
    return body


def test_strict_rejects_unknown_fields(api: Api, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    answer = api.post(path, misspelled(), query=STRICT).refused(400, "BadRequest")
    assert answer.message == (
        f'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: {UNKNOWN}, '
        'unknown field "spec.template.spec.containers[0].imagee"'
    )
    api.get(f"{path}/d").refused(404, "NotFound")


def test_warn_is_the_default(api: Api, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    for query in ({}, WARN):
        answer = api.post(path, misspelled(), query={**query, "dryRun": "All"}).ok(201)
        assert answer.warnings == [
            '299 - "unknown field \\"spec.replicass\\""',
            '299 - "unknown field \\"spec.template.spec.containers[0].imagee\\""',
        ]
        assert "replicass" not in answer.json["spec"]


def test_ignore_drops_unknown_fields(api: Api, ns: str) -> None:
    answer = api.post(f"/apis/apps/v1/namespaces/{ns}/deployments", misspelled(), query=IGNORE).ok(201)
    assert answer.warnings == []
    assert "replicass" not in answer.json["spec"]


def test_duplicate_fields_are_reported(api: Api, core: str) -> None:
    body = '{"metadata": {"name": "c"}, "data": {"a": "1"}, "data": {"b": "2"}}'
    answer = api.post(f"{core}/configmaps", body, query=STRICT).refused(400, "BadRequest")
    assert answer.message.endswith('strict decoding error: duplicate field "data"')
    answer = api.post(f"{core}/configmaps", body).ok(201)
    assert answer.warnings == ['299 - "duplicate field \\"data\\""']


def test_duplicate_fields_are_reported_where_they_are(api: Api, ns: str) -> None:
    """Other fields with the same name come before them."""
    container = '{"name": "c", "image": "x", "env": [{"name": "A", "name": "B"}], "image": "y"}'
    pod = f'{{"metadata": {{"name": "p", "labels": {{"image": "z"}}}}, "spec": {{"containers": [{container}]}}}}'
    answer = api.post(f"/api/v1/namespaces/{ns}/pods", pod, query=STRICT).refused(400, "BadRequest")
    path = "spec.containers[0]"
    for field in (f"{path}.image", f"{path}.env[0].name"):
        assert f'duplicate field "{field}"' in answer.message
    assert answer.message.count("duplicate field") == 2


def test_duplicate_yaml_keys_are_reported(api: Api, core: str) -> None:
    body = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1'}\ndata: {b: '2'}\n"
    answer = api.post(f"{core}/configmaps", body, query=STRICT, content_type=YAML).refused(400, "BadRequest")
    assert 'key "data" already set in map' in answer.message


@pytest.mark.parametrize("kind", [MERGE_PATCH, STRATEGIC_PATCH])
def test_merge_patch_fields_are_validated(api: Api, ns: str, kind: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    api.post(path, deployment()).ok(201)
    patch = {"spec": {"replicass": 3}}
    response = api.patch(f"{path}/d", patch, kind, query=STRICT)
    assert response.status in (400, 422)
    assert f"strict decoding error: {UNKNOWN}" in response.message
    assert api.patch(f"{path}/d", patch, kind).ok(200).warnings == ['299 - "unknown field \\"spec.replicass\\""']


def test_json_patch_fields_are_validated(api: Api, ns: str) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    api.post(path, deployment()).ok(201)
    patch = [{"op": "add", "path": "/spec/replicass", "value": 3}]
    answer = api.patch(f"{path}/d", patch, JSON_PATCH, query=STRICT).refused(422, "Invalid")
    assert UNKNOWN in answer.message
    assert api.patch(f"{path}/d", patch, JSON_PATCH).ok(200).warnings == ['299 - "unknown field \\"spec.replicass\\""']


def test_apply_rejects_duplicate_keys(api: Api, core: str) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: '1', a: '2'}\n"
    query = {"fieldManager": "t", **STRICT}
    answer = api.patch(f"{core}/configmaps/c", text, APPLY_PATCH, query=query).refused(400, "BadRequest")
    assert 'key "a" already set in map' in answer.message


def test_custom_resource_fields_are_validated(api: Api, ns: str) -> None:
    custom = define(api, simple(spec={"type": "object", "properties": {"known": {"type": "string"}}}))
    body = custom.object(spec={"known": "x", "unknown": "y"})
    answer = api.post(custom.at(ns), body, query=STRICT).refused(400, "BadRequest")
    assert answer.message.endswith('strict decoding error: unknown field "spec.unknown"')
    answer = api.post(custom.at(ns), body).ok(201)
    assert answer.warnings == ['299 - "unknown field \\"spec.unknown\\""']
    assert answer.json["spec"] == {"known": "x"}


def test_unknown_metadata_fields_are_reported(api: Api, core: str) -> None:
    answer = api.post(f"{core}/configmaps", {"metadata": {"name": "c", "colour": "blue"}}, query=STRICT).refused(400, "BadRequest")
    assert answer.message.endswith('strict decoding error: unknown field "metadata.colour"')


def test_invalid_mode_is_rejected(api: Api, core: str) -> None:
    answer = api.post(f"{core}/configmaps", {"metadata": {"name": "c"}}, query={"fieldValidation": "Maybe"}).refused(422, "Invalid")
    assert answer.causes == [("FieldValueNotSupported", "fieldValidation", SUPPORTED)]
