"""The real cert-manager on a twin and on a real API server: certificates are issued, its webhook is called."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from tests.real import cert_manager
from tests.support.chainsaw import apply, locate
from tests.support.clusters import RealCluster, TwinCluster
from tests.support.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.clusters import Cluster
    from tests.support.http import Api

Object = dict[str, Any]
pytestmark = pytest.mark.timeout(1800)  # the first run builds cert-manager
GROUP = "cert-manager.io/v1"
NS = "certificates"
BAD = {
    "without a type": ({}, "spec: Required value: at least one issuer must be configured"),
    "with two types": (
        {"selfSigned": {}, "ca": {"secretName": "root"}},
        "spec.selfSigned: Forbidden: may not specify more than one issuer type",
    ),
    "without a Secret": ({"ca": {"secretName": ""}}, "spec.ca.secretName: Required value"),
}


@pytest.fixture(scope="module", params=[TwinCluster, RealCluster], ids=["twin", "real"])
def api(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A cluster with cert-manager whose webhook is called."""
    folder = tmp_path_factory.mktemp("cert-manager")
    cluster: Cluster = request.param(folder)
    try:
        cluster.api.post("/api/v1/namespaces", {"metadata": {"name": NS}}).ok(201)
        with cert_manager.running(cluster, folder):
            eventually(lambda: "denied the request" in post(cluster.api, issuer("probe")).message, what="its webhook is called")
            yield cluster.api
    finally:
        cluster.stop()


def typed(kind: str, name: str, **spec: Any) -> Object:
    return {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name, "namespace": NS}, "spec": spec}


def issuer(name: str, **spec: Any) -> Object:
    return typed("Issuer", name, **spec)


def certificate(name: str, issued_by: str, **spec: Any) -> Object:
    return typed("Certificate", name, secretName=name, issuerRef={"name": issued_by, "kind": "Issuer"}, **spec)


def post(api: Api, obj: Object) -> Any:
    return api.post(locate(api, obj).rpartition("/")[0], obj)


def await_ready(api: Api, obj: Object) -> Object:
    """The object once its controller reports it as ready."""

    def ready() -> Object | None:
        found: Object = api.get(locate(api, obj)).ok(200).json
        conditions = found.get("status", {}).get("conditions", [])
        return found if any(item["type"] == "Ready" and item["status"] == "True" for item in conditions) else None

    return eventually(ready, what=f"{obj['kind']} {obj['metadata']['name']} is ready")


def secret(api: Api, name: str) -> dict[str, bytes]:
    data = api.get(f"/api/v1/namespaces/{NS}/secrets/{name}").ok(200).json["data"]
    return {key: base64.b64decode(value) for key, value in data.items()}


def test_self_signed_certificate(api: Api) -> None:
    apply(api, issuer("plain", selfSigned={}))
    await_ready(api, issuer("plain"))
    wanted = certificate("web", "plain", dnsNames=["web.example.com"], privateKey={"algorithm": "ECDSA"})
    apply(api, wanted)
    ready = await_ready(api, wanted)
    assert ready["status"]["revision"] == 1
    files = secret(api, "web")
    assert sorted(files) == ["ca.crt", "tls.crt", "tls.key"]
    issued = x509.load_pem_x509_certificate(files["tls.crt"])
    names = issued.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["web.example.com"]
    [request] = api.get(f"/apis/{GROUP}/namespaces/{NS}/certificaterequests").ok().json["items"]
    assert request["metadata"]["ownerReferences"][0]["uid"] == ready["metadata"]["uid"]
    assert request["spec"]["username"]  # set by the mutating webhook


def test_certificate_of_an_authority_is_issued_again(api: Api) -> None:
    apply(api, issuer("root-signer", selfSigned={}))
    root = certificate("root", "root-signer", isCA=True, commonName="root")
    apply(api, root)
    await_ready(api, root)
    apply(api, issuer("authority", ca={"secretName": "root"}))
    await_ready(api, issuer("authority"))
    leaf = certificate("leaf", "authority", dnsNames=["leaf.example.com"])
    apply(api, leaf)
    await_ready(api, leaf)
    first = secret(api, "leaf")
    assert first["ca.crt"] == secret(api, "root")["tls.crt"]
    x509.load_pem_x509_certificate(first["tls.crt"]).verify_directly_issued_by(x509.load_pem_x509_certificate(first["ca.crt"]))
    api.delete(f"/api/v1/namespaces/{NS}/secrets/leaf").ok()
    eventually(lambda: secret(api, "leaf")["tls.crt"] != first["tls.crt"], what="the Secret is written again")


def test_authority_is_injected(api: Api) -> None:
    apply(api, issuer("injected-signer", selfSigned={}))
    apply(api, certificate("injected", "injected-signer", isCA=True, commonName="injected"))
    await_ready(api, certificate("injected", ""))
    hook = {
        "name": "never.example.com",
        "clientConfig": {"service": {"namespace": NS, "name": "never"}},
        "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"]}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    configuration = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "injected", "annotations": {"cert-manager.io/inject-ca-from": f"{NS}/injected"}},
        "webhooks": [hook],
    }
    apply(api, configuration)

    def injected() -> bytes:
        [found] = api.get(locate(api, configuration)).ok(200).json["webhooks"]
        return base64.b64decode(found["clientConfig"].get("caBundle", ""))

    eventually(lambda: injected() == secret(api, "injected")["ca.crt"], what="the authority is in the webhook")


@pytest.mark.parametrize("case", BAD)
def test_invalid_issuers_are_rejected(api: Api, case: str) -> None:
    spec, message = BAD[case]
    rejected = post(api, issuer("bad", **spec))
    assert rejected.status == 403
    assert rejected.message.startswith('admission webhook "webhook.cert-manager.io" denied the request: ')
    assert message in rejected.message
