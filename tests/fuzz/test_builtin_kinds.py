"""Objects of all built-in kinds with unusual fields, sent and read in all forms: no internal error, no lost write."""

from __future__ import annotations

import base64
import logging
import os
from random import Random
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.objects import KINDS, Kind
from tests.support.schema_fuzzer import SchemaFuzzer

from sliceworks.base.transport import Request, Response
from sliceworks.schemas import builtins
from sliceworks.twin.apiserver import protobuf_encoder, yaml_codec
from sliceworks.twin.apiserver.codec import JSON, PROTOBUF, YAML

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sliceworks.schemas.model import Schema

_FACTOR = int(os.environ.get("SLICEWORKS_FUZZ", "1"))
pytestmark = pytest.mark.timeout(3600 if _FACTOR > 1 else 300)
NEW_GROUPS = ("resource.k8s.io", "discovery.k8s.io", "flowcontrol.apiserver.k8s.io", "node.k8s.io", "storage.k8s.io")
FORMS = (
    JSON,
    YAML,
    PROTOBUF,
    f"{JSON};as=Table;v=v1;g=meta.k8s.io",
    f"{JSON};as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    f"{PROTOBUF};as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
)
MERGE, APPLY, STRATEGIC = "application/merge-patch+json", "application/apply-patch+yaml", "application/strategic-merge-patch+json"
HOOKS = "admissionregistration.k8s.io"
"""Objects of this group would reject the writes of others: they are sent as dry runs."""
NAMES = ("a", "b", "c")
_RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
_MUTATIONS = [
    {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{data: {'a': 'b'}}"}},
    {"patchType": "JSONPatch", "jsonPatch": {"expression": "[JSONPatch{op: 'add', path: '/data', value: {'a': 'b'}}]"}},
]
_POLICY = {"matchConstraints": {"resourceRules": [_RULE]}, "mutations": _MUTATIONS, "reinvocationPolicy": "Never"}
_API = {"group": "a.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
ADDED = (
    Kind("apiregistration.k8s.io/v1", "APIService", "apiservices", False, {"spec": _API}),
    Kind(
        "apiregistration.k8s.io/v1",
        "APIService",
        "apiservices",
        False,
        {"spec": {**_API, "service": {"namespace": "default", "name": "a"}, "insecureSkipTLSVerify": True}},
    ),
    Kind(f"{HOOKS}/v1beta1", "MutatingAdmissionPolicy", "mutatingadmissionpolicies", False, {"spec": _POLICY}),
    Kind(
        f"{HOOKS}/v1beta1",
        "MutatingAdmissionPolicyBinding",
        "mutatingadmissionpolicybindings",
        False,
        {"spec": {"policyName": "a"}},
    ),
)
"""Kinds that register APIs or change the writes of others, with names that all of them may have."""
_HOOK = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://127.0.0.1:9/a"},
    "rules": [_RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}
_CHECK = {"matchConstraints": {"resourceRules": [_RULE]}, "validations": [{"expression": "object.metadata.name != 'x'"}]}
_FLOW = {
    "priorityLevelConfiguration": {"name": "global-default"},
    "rules": [
        {
            "subjects": [{"kind": "Group", "group": {"name": "a"}}],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
        }
    ],
}
REQUEST = base64.b64encode(
    x509.CertificateSigningRequestBuilder()
    .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a")]))
    .sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    .public_bytes(serialization.Encoding.PEM)
).decode()
_SIGNED = {"request": REQUEST, "signerName": "example.com/a", "usages": ["client auth"]}
ADMINISTRATIVE = (
    Kind(f"{HOOKS}/v1", "MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False, {"webhooks": [_HOOK]}),
    Kind(f"{HOOKS}/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False, {"webhooks": [_HOOK]}),
    Kind(f"{HOOKS}/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies", False, {"spec": _CHECK}),
    Kind(
        f"{HOOKS}/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        False,
        {"spec": {"policyName": "a", "validationActions": ["Deny"]}},
    ),
    Kind("certificates.k8s.io/v1", "CertificateSigningRequest", "certificatesigningrequests", False, {"spec": _SIGNED}),
    Kind("flowcontrol.apiserver.k8s.io/v1", "FlowSchema", "flowschemas", False, {"spec": _FLOW}),
    Kind("storage.k8s.io/v1", "VolumeAttributesClass", "volumeattributesclasses", False, {"driverName": "example.com/disk"}),
    Kind("networking.k8s.io/v1", "ServiceCIDR", "servicecidrs", False, {"spec": {"cidrs": ["10.97.0.0/16"]}}),
    Kind(
        "networking.k8s.io/v1",
        "IPAddress",
        "ipaddresses",
        False,
        {"spec": {"parentRef": {"resource": "services", "namespace": "default", "name": "a"}}},
    ),
)
"""Further kinds of administrators."""
ADMINISTRATIVE_NAMES = ("a", "b", "10.97.0.7")
ADDED_NAMES = ("v1.a.example.com",)


def _subresources(kind: Kind) -> tuple[str, ...]:
    return ("/status", "/approval") if kind.kind == "CertificateSigningRequest" else ("/status",)


class Sender:
    """Sends requests, and remembers what the accepted writes should have left."""

    def __init__(self, twin: EmbeddedTwin, source: Random, names: Sequence[str] = NAMES) -> None:
        self._twin, self._random, self._fuzzer, self._names = twin, source, SchemaFuzzer(source), names
        self.counts: dict[int, int] = {}
        self.versions: dict[tuple[str, str], tuple[str, int]] = {}
        """Paths and resource versions of accepted writes, by resource (of any version and group) and name."""

    async def send(self, kind: Kind) -> None:
        """One write to an object of a kind, and a read in some form."""
        group, _, version = kind.group_version.rpartition("/")
        schema = builtins.builtin_scheme().schema(group, version, kind.kind)
        name, pick = self._random.choice(self._names), self._random
        collection = kind.collection("default")
        path, query = f"{collection}/{name}", [("dryRun", "All")] if group == HOOKS else []
        obj = self._object(kind, schema, name)
        action = pick.random()
        if action < 0.45:
            body, media = self._encode(obj, kind)
            response = await self._ask("POST", collection, query, body=body, media=media)
        elif action < 0.6:
            body, media = self._encode(obj, kind)
            response = await self._ask("PUT", path + pick.choice(("", "", *_subresources(kind))), query, body=body, media=media)
        elif action < 0.9:
            media = pick.choice((MERGE, STRATEGIC, APPLY))
            options = [("fieldManager", pick.choice("mn")), ("force", "true")] if media == APPLY else []
            subresource = pick.choice(("", "", "", *_subresources(kind)))
            response = await self._ask("PATCH", path + subresource, query + options, body=orjson.dumps(obj), media=media)
        else:
            response = await self._ask("DELETE", path, query)
            if response.status < 300:
                self.versions.pop((kind.plural, name), None)
        if response.status < 300 and action < 0.9 and not query:
            stored = orjson.loads(response.body)
            metadata = stored["metadata"]
            self.versions[kind.plural, name] = path, int(metadata["resourceVersion"])
            if metadata.get("deletionTimestamp") or metadata.get("ownerReferences"):
                del self.versions[kind.plural, name]  # it may be deleted at any time
        accept, target = pick.choice(FORMS), pick.choice((path, collection))
        if "as=Partial" in accept and target == collection:
            accept = accept.replace("Metadata", "MetadataList")
        await self._ask("GET", target, [], accept=accept)

    def _object(self, kind: Kind, schema: Schema, name: str) -> dict[str, Any]:
        obj = self._fuzzer.overlay(kind.object(name, "default"), schema)
        metadata = obj["metadata"] if isinstance(obj.get("metadata"), dict) else {}
        kept = {key: value for key, value in metadata.items() if self._random.random() < 0.3}
        for field in ("resourceVersion", "uid", "managedFields", "namespace", "deletionTimestamp"):
            kept.pop(field, None)
        return {**obj, "metadata": {**kept, "name": name}}

    def _encode(self, obj: dict[str, Any], kind: Kind) -> tuple[bytes, str]:
        form = self._random.choice((JSON, JSON, YAML, PROTOBUF))
        if form == YAML:
            return yaml_codec.encode(obj), YAML
        if form == PROTOBUF and kind.kind != "CustomResourceDefinition":
            try:
                return protobuf_encoder.encode(obj), PROTOBUF
            except (TypeError, ValueError, AttributeError, KeyError):
                pass  # a value of another type has no protobuf form
        return orjson.dumps(obj), JSON

    async def _ask(
        self, method: str, path: str, query: list[tuple[str, str]], *, body: bytes = b"", media: str = JSON, accept: str = JSON
    ) -> Response:
        request = Request(method, path, tuple(query), {"content-type": media, "accept": accept}, body)
        response = await self._twin.cluster.transport().send(request)
        assert response.status < 500, (method, path, query, media, accept, body, response.body[:500])
        self.counts[response.status] = self.counts.get(response.status, 0) + 1
        return response

    async def check(self) -> None:
        """No accepted write is missing, except objects that controllers delete."""
        for (plural, _), (path, version) in self.versions.items():
            status, obj = await self._twin.ask("GET", path)
            if status == 200:
                assert int(obj["metadata"]["resourceVersion"]) >= version, path
            else:
                assert plural in CONTROLLED, (path, obj)


CONTROLLED = {"pods", "jobs", "events", "endpointslices", "endpoints", "replicasets", "controllerrevisions", "resourceclaims"}


def _run(
    kinds: Sequence[Kind],
    seed: int,
    rounds: int,
    *,
    workloads: bool,
    names: Sequence[str] = NAMES,
    features: tuple[str, ...] = (),
) -> dict[int, int]:
    sent: list[Sender] = []

    async def main(twin: EmbeddedTwin) -> None:
        sender = Sender(twin, Random(seed), names)
        sent.append(sender)
        pick = Random(seed)
        for _ in range(rounds):
            await sender.send(pick.choice(kinds))
        await twin.quiet()
        await sender.check()

    run_on_twin(main, workloads=workloads, features=features)
    return sent[0].counts


@pytest.mark.parametrize("workloads", [False, True], ids=["API", "with controllers"])
def test_builtin_kinds_never_fail_inside(workloads: bool, caplog: pytest.LogCaptureFixture) -> None:
    rounds, seeds = (150, 1) if _FACTOR == 1 else (1000, _FACTOR // 10)
    for seed in range(seeds):
        with caplog.at_level(logging.ERROR):
            counts = _run(KINDS, seed, rounds, workloads=workloads)
        assert counts.get(201, 0) > rounds / 40
        assert not caplog.records, caplog.text


def test_kinds_of_new_groups_never_fail_inside(caplog: pytest.LogCaptureFixture) -> None:
    """Dynamic resource allocation, slices of endpoints, flow control, and storage."""
    kinds = [kind for kind in KINDS if kind.group_version.startswith(NEW_GROUPS)]
    rounds, seeds = (200, 1) if _FACTOR == 1 else (1000, _FACTOR // 10)
    for seed in range(seeds):
        with caplog.at_level(logging.ERROR):
            counts = _run(kinds, seed, rounds, workloads=True)
        assert counts.get(201, 0) > rounds / 40
        assert not caplog.records, caplog.text


def test_kinds_of_administrators_never_fail_inside(caplog: pytest.LogCaptureFixture) -> None:
    """Webhooks, policies, certificates, flow control, classes of volumes, and addresses of Services."""
    rounds, seeds = (200, 1) if _FACTOR == 1 else (1000, _FACTOR // 10)
    for seed in range(seeds):
        with caplog.at_level(logging.ERROR):
            counts = _run(ADMINISTRATIVE, seed, rounds, workloads=True, names=ADMINISTRATIVE_NAMES)
        assert counts.get(201, 0) > rounds / 40
        assert not caplog.records, caplog.text


def test_api_services_and_mutating_policies_never_fail_inside(caplog: pytest.LogCaptureFixture) -> None:
    rounds, seeds = (200, 1) if _FACTOR == 1 else (1000, _FACTOR // 10)
    for seed in range(seeds):
        with caplog.at_level(logging.ERROR):
            counts = _run(ADDED, seed, rounds, workloads=False, names=ADDED_NAMES, features=builtins.FEATURES)
        assert counts.get(201, 0) > rounds / 40
        assert not caplog.records, caplog.text
