"""CertificateSigningRequests: who requests, approves and signs; and FlowSchemas, which the server itself reads."""

from __future__ import annotations

import base64
import re
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.http import MERGE_PATCH
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.http import Api

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
SIGNER = "example.com/signer"
APPROVED = {"type": "Approved", "status": "True", "reason": "Tested", "message": "by a test"}
Object = dict[str, Any]


@cache
def signed_request(organization: str = "") -> tuple[str, str]:
    """A PKCS#10 request and a certificate for the same key, as base64-encoded PEM."""
    from datetime import UTC, datetime

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    names = [x509.NameAttribute(NameOID.COMMON_NAME, "jane")]
    if organization:
        names.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    subject = x509.Name(names)
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2036, 1, 1, tzinfo=UTC))
        .sign(key, hashes.SHA256())
    )
    return tuple(base64.b64encode(item.public_bytes(serialization.Encoding.PEM)).decode() for item in (request, certificate))  # type: ignore[return-value]


def create(api: Api, name: str, organization: str = "", **spec: Any) -> Object:
    body = {"request": signed_request(organization)[0], "signerName": SIGNER, "usages": ["client auth"], **spec}
    created: Object = api.post(REQUESTS, {"metadata": {"name": name}, "spec": body}).ok(201).json
    return created


def approve(api: Api, name: str, *conditions: Object) -> Object:
    current = api.get(f"{REQUESTS}/{name}").ok(200).json
    current["status"]["conditions"] = list(conditions or (APPROVED,))
    approved: Object = api.put(f"{REQUESTS}/{name}/approval", current).ok(200).json
    return approved


def test_requester_is_recorded(api: Api, unique_name: str) -> None:
    created = create(api, unique_name, username="somebody", groups=["a"], uid="u", extra={"a": ["b"]})
    spec = created["spec"]
    assert "system:authenticated" in spec["groups"]
    assert spec["username"] not in ("", "somebody")
    assert "extra" not in spec or "a" not in spec["extra"]
    assert created["status"] == {}


def test_names_are_free(api: Api, unique_name: str) -> None:
    name = f"{unique_name}:Any_Name"
    create(api, name)
    assert api.get(f"{REQUESTS}/{name}").ok(200).json["metadata"]["name"] == name


def test_request_is_immutable(api: Api, unique_name: str) -> None:
    create(api, unique_name)
    path = f"{REQUESTS}/{unique_name}"
    change = {"metadata": {"labels": {"a": "b"}}, "spec": {"usages": ["any"]}, "status": {"conditions": [APPROVED]}}
    changed = api.patch(path, change, MERGE_PATCH).ok(200).json
    assert changed["metadata"]["labels"] == {"a": "b"}
    assert (changed["spec"]["usages"], changed["status"]) == (["client auth"], {})


def test_approval_sets_conditions_only(api: Api, unique_name: str) -> None:
    create(api, unique_name)
    approved = approve(api, unique_name)
    (condition,) = approved["status"]["conditions"]
    assert condition == {
        **APPROVED,
        "lastUpdateTime": condition["lastUpdateTime"],
        "lastTransitionTime": condition["lastUpdateTime"],
    }
    path = f"{REQUESTS}/{unique_name}"
    certificate = {"status": {"certificate": signed_request()[1]}}
    assert "certificate" not in api.patch(f"{path}/approval", certificate, MERGE_PATCH).ok(200).json["status"]
    assert api.get(f"{path}/approval").ok(200).json["status"]["conditions"] == [condition]


def test_signer_adds_certificate_once(api: Api, unique_name: str) -> None:
    create(api, unique_name)
    approve(api, unique_name)
    path = f"{REQUESTS}/{unique_name}/status"
    signed = api.patch(path, {"status": {"certificate": signed_request()[1]}}, MERGE_PATCH).ok(200).json
    assert signed["status"]["certificate"] == signed_request()[1]
    assert [condition["type"] for condition in signed["status"]["conditions"]] == ["Approved"]
    other = signed_request("other")[1]
    again = api.patch(path, {"status": {"certificate": other}}, MERGE_PATCH)
    again.refused(422, "Invalid")
    assert again.causes == [
        ("FieldValueForbidden", "status.certificate", "Forbidden: updates may not modify existing certificate content")
    ]


def test_approval_cannot_be_withdrawn(api: Api, unique_name: str) -> None:
    create(api, unique_name)
    current = approve(api, unique_name)
    path = f"{REQUESTS}/{unique_name}/approval"
    current["status"]["conditions"] = []
    removed = api.put(path, current).refused(422, "Invalid")
    assert removed.causes == [
        ("FieldValueForbidden", "status.conditions", 'Forbidden: updates may not remove a condition of type "Approved"')
    ]


def test_status_does_not_approve(api: Api, unique_name: str) -> None:
    create(api, unique_name)
    change = {"status": {"conditions": [APPROVED]}}
    added = api.patch(f"{REQUESTS}/{unique_name}/status", change, MERGE_PATCH).refused(422, "Invalid")
    assert added.causes == [
        ("FieldValueForbidden", "status.conditions", 'Forbidden: updates may not add a condition of type "Approved"')
    ]


def test_requests_are_selected_by_signer(api: Api, unique_name: str) -> None:
    signer = f"{unique_name}.example.com/one"
    create(api, unique_name, signerName=signer)
    assert api.get(REQUESTS, {"fieldSelector": f"spec.signerName={signer}"}).ok(200).names == [unique_name]


def test_masters_get_no_client_certificate(api: Api, unique_name: str) -> None:
    client = "kubernetes.io/kube-apiserver-client"
    body = {"request": signed_request("system:masters")[0], "signerName": client, "usages": ["client auth"]}
    response = api.post(REQUESTS, {"metadata": {"name": unique_name}, "spec": body})
    response.refused(403, "Forbidden")
    assert response.message == (
        f'certificatesigningrequests.certificates.k8s.io "{unique_name}" is forbidden: use of {client} signer with system:masters '
        "group is not allowed"
    )


@pytest.mark.parametrize(("subresource", "verb"), [("approval", "approve"), ("status", "sign")])
def test_signers_need_permission(api: Api, unique_name: str, subresource: str, verb: str) -> None:
    create(api, unique_name)
    group = "certificates.k8s.io"
    resources = [f"certificatesigningrequests/{subresource}"]
    rules = [{"apiGroups": [group], "resources": resources, "verbs": ["get", "patch", "update"]}]
    roles, path = "/apis/rbac.authorization.k8s.io/v1", f"{REQUESTS}/{unique_name}/{subresource}"
    role = api.post(f"{roles}/clusterroles", {"metadata": {"name": unique_name}, "rules": rules}).ok(201).json
    binding = {
        "metadata": {"name": unique_name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": unique_name},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": unique_name}],
    }
    api.post(f"{roles}/clusterrolebindings", binding).ok(201)
    conditions = [APPROVED] if verb == "approve" else [{"type": "Failed", "status": "True", "reason": "R"}]
    change, headers = {"status": {"conditions": conditions}}, {"Impersonate-User": unique_name}

    def send(expected: str) -> Any:
        response = api.patch(path, change, MERGE_PATCH, headers=headers)
        assert expected in (response.message if response.status >= 400 else "success")
        return response

    refusal = f'user not permitted to {verb} requests with signerName "{SIGNER}"'
    denied = eventually(lambda: send(refusal), what="the role is known")
    denied.refused(403, "Forbidden", f'certificatesigningrequests.{group} "{unique_name}" is forbidden: {refusal}')
    role["rules"].append({"apiGroups": [group], "resources": ["signers"], "resourceNames": ["example.com/*"], "verbs": [verb]})
    api.put(f"{roles}/clusterroles/{unique_name}", role).ok(200)
    allowed = eventually(lambda: send("success"), what="the signer is permitted")
    assert allowed.json["status"]["conditions"][0]["type"] == conditions[0]["type"]


SCHEMAS = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"


def test_flow_schema_lifecycle(api: Api, unique_name: str) -> None:
    spec = {"priorityLevelConfiguration": {"name": "exempt"}, "matchingPrecedence": 9000}
    created = api.post(SCHEMAS, {"metadata": {"name": unique_name}, "spec": spec}).ok(201).json
    assert (created["spec"], created["metadata"]["generation"]) == (spec, 1)
    path = f"{SCHEMAS}/{unique_name}"
    patched = api.patch(path, {"spec": {"matchingPrecedence": 9001}}, MERGE_PATCH).ok(200).json
    assert (patched["spec"]["matchingPrecedence"], patched["metadata"]["generation"]) == (9001, 2)
    change = {"status": {"conditions": [{"type": "Tested", "status": "True"}]}}
    status = api.patch(f"{path}/status", change, MERGE_PATCH).ok(200).json
    assert "Tested" in [condition["type"] for condition in status["status"]["conditions"]]
    api.delete(path).ok(200)
    api.get(path).refused(404, "NotFound")


@pytest.mark.parametrize(
    ("name", "spec", "message"),
    [
        ("exempt", {"priorityLevelConfiguration": {"name": "other"}, "matchingPrecedence": 1}, "spec of 'exempt' must equal"),
        ("catch-all", {"priorityLevelConfiguration": {"name": "other"}}, "spec of 'catch-all' must equal the fixed value"),
    ],
)
def test_mandatory_flow_schemas_have_a_fixed_spec(api: Api, name: str, spec: Object, message: str) -> None:
    response = api.post(f"{SCHEMAS}", {"metadata": {"name": name}, "spec": spec}, {"dryRun": "All"})
    response.refused(422, "Invalid")
    assert message in response.message


def test_servers_find_the_authority_of_client_certificates(api: Api) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps"
    data = api.get(f"{path}/extension-apiserver-authentication").ok(200).json["data"]
    assert data["client-ca-file"].startswith("-----BEGIN CERTIFICATE-----\n")
    tracking = api.get(f"{path}/kube-apiserver-legacy-service-account-token-tracking").ok(200).json["data"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", tracking["since"])
