"""Fuzzers of what aggregated APIs, DNS clients, image maps, volumes, policies and protobuf bodies can contain."""

from __future__ import annotations

import asyncio
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.objects import KINDS

from sliceworks.base import yaml_documents
from sliceworks.base.errors import InvalidDocument
from sliceworks.base.transport import Request
from sliceworks.platform import image_map
from sliceworks.schemas import builtins
from sliceworks.twin.apiserver import protobuf, protobuf_encoder
from sliceworks.twin.apiserver.aggregation import backend
from sliceworks.twin.apiserver.codec import PROTOBUF
from sliceworks.twin.nodes.runtime import pod_volumes
from sliceworks.twin.nodes.runtime.dns_server import DnsServer, respond
from sliceworks.twin.nodes.runtime.dns_zone import build_zone, encode_name
from sliceworks.twin.nodes.runtime.pod_dns import DnsName

if TYPE_CHECKING:
    from collections.abc import Mapping

_FACTOR = int(os.environ.get("SLICEWORKS_FUZZ", "0"))
pytestmark = pytest.mark.timeout(3600 if _FACTOR else 300)


def fuzz(examples: int) -> settings:
    """The number of examples: fixed ones in `make test`, random ones in `make test-heavy`."""
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    return settings(max_examples=examples * (_FACTOR or 1), derandomize=not _FACTOR, suppress_health_check=checks, deadline=None)


ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _encode_kinds() -> list[bytes]:
    bodies = []
    for kind in KINDS:
        if kind.kind != "CustomResourceDefinition":
            with suppress(TypeError, ValueError, AttributeError, KeyError):
                bodies.append(protobuf_encoder.encode(kind.object("a", "default")))
    return bodies


PROTOBUF_BODIES = _encode_kinds()
CHANGES = st.lists(st.tuples(st.integers(4, 400), st.binary(max_size=6), st.integers(0, 4)), min_size=1, max_size=4)


def _damage(data: bytes, changes: list[tuple[int, bytes, int]]) -> bytes:
    for start, added, removed in changes:
        at = min(start, len(data))
        data = data[:at] + added + data[at + removed :]
    return data


@fuzz(300)
@given(st.sampled_from(PROTOBUF_BODIES), CHANGES)
def test_damaged_protobuf_is_decoded_or_refused(body: bytes, changes: list[tuple[int, bytes, int]]) -> None:
    with suppress(protobuf.ProtobufError):
        protobuf.decode(_damage(body, changes), builtins.component_name)


def test_damaged_protobuf_never_fails_inside() -> None:
    @fuzz(4)
    @given(st.lists(st.tuples(st.sampled_from(PROTOBUF_BODIES), CHANGES), min_size=20, max_size=20))
    def send(bodies: list[tuple[bytes, list[tuple[int, bytes, int]]]]) -> None:
        async def main(twin: EmbeddedTwin) -> None:
            for whole, changes in bodies:
                body = _damage(whole, changes)
                for kind in KINDS[:: len(KINDS) // 5]:
                    request = Request("POST", kind.collection("default"), (), {"content-type": PROTOBUF}, body)
                    response = await twin.cluster.transport().send(request)
                    assert response.status < 500, (kind, body, response.body)

        run_on_twin(main)

    send()


SERVICE_NAMES = st.sampled_from(["web", "a" * 63, "_http._tcp.web", "1.2.1.127.in-addr.arpa", "web.default.svc.cluster.local", ""])
DNS_NAMES = SERVICE_NAMES | st.text("abc.-_\\é", max_size=30)
DNS_PACKETS = st.binary(max_size=40) | st.builds(
    lambda head, name, tail: head + name + tail,
    st.binary(min_size=12, max_size=12) | st.just(b"\0\7\1\0\0\1\0\0\0\0\0\0"),
    st.sampled_from([b"\3web\7default\3svc\7cluster\5local\0", b"\xc0\x0c", b"\x3f" + b"a" * 63 + b"\0", b"\0"]),
    st.sampled_from([b"\0\1\0\1", b"\0\x1c\0\1", b"\0\x0c\0\1", b"\0\x21\0\1", b"\0\xff\0\xff"]) | st.binary(max_size=6),
)
SERVICES = st.builds(
    lambda kind, name, ports: {"metadata": {"name": "web", "namespace": "default"}, "spec": {**kind, "ports": ports, **name}},
    st.sampled_from([{}, {"type": "ExternalName"}]),
    DNS_NAMES.filter(str.isascii).map(lambda name: {"externalName": name}),
    st.lists(st.builds(lambda name: {"name": name, "port": 80}, st.sampled_from(["", "http", "a" * 15])), max_size=2),
)


@fuzz(300)
@given(DNS_PACKETS, st.lists(SERVICES, max_size=2), st.integers(0, 60))
def test_dns_packets_are_answered_or_ignored(packet: bytes, services: list[dict[str, Any]], count: int) -> None:
    """A response fits into a datagram, repeats the number of the request, and is larger by the records of one name only."""
    zone = build_zone([DnsName("default", "web", tuple(f"127.1.2.{number}" for number in range(count)))], services)
    response = respond(packet, zone, 512)
    assert response[:2] == packet[:2].ljust(2, b"\0")
    assert response[2] & 0x80
    assert len(response) <= max(512, len(packet))
    server, sent = DnsServer((), [], lambda: zone), list[bytes]()  # type: ignore[arg-type]

    async def main() -> None:
        server._transport = type("", (), {"is_closing": lambda _: False, "sendto": lambda _, data, to: sent.append(data)})()
        server.on_datagram(packet, ("127.0.0.1", 1))
        await asyncio.gather(*server._tasks)

    asyncio.run(main())
    is_request = len(packet) >= 12 and not packet[2] & 0x80
    assert len(sent) == is_request


@fuzz(200)
@given(DNS_NAMES.filter(lambda name: all(len(label.encode()) < 64 for label in name.split("."))))
def test_names_survive_the_wire(name: str) -> None:
    data = encode_name(name)
    assert data.endswith(b"\0")
    assert len(data) <= len(name.encode()) + 2


IMAGE_FIELDS = st.fixed_dictionaries(
    {"image": st.text("a*/:@.-1 ", max_size=20) | ANY},
    optional={
        "entrypoint": st.lists(st.text(max_size=4), max_size=2) | ANY,
        "cmd": ANY,
        "env": st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2) | ANY,
        "workingDir": st.text(max_size=6) | ANY,
        "files": st.dictionaries(st.text("/.a\0", max_size=6), st.text("/.a\0", max_size=6), max_size=2) | ANY,
        "missing": ANY,
    },
)


@fuzz(150)
@given(st.lists(IMAGE_FIELDS, max_size=3) | ANY, st.lists(st.text("a*/:@.-1 é", max_size=40), max_size=4))
def test_image_maps_are_loaded_or_refused(images: Any, references: list[str]) -> None:
    head = {"apiVersion": "sliceworks.dev/v1alpha1", "kind": "ImageMap", "metadata": {"name": "a"}}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "images.yaml")
        file.write_text(yaml_documents.dump({**head, "spec": {"images": images}}), errors="replace")
        try:
            loaded = image_map.load(file)
        except InvalidDocument:
            return
    for reference in references:
        loaded.find(reference)


PATHS = st.lists(
    st.sampled_from(["a", "b", "link", "out", "up", "file", ".", "..", "", "é", "x" * 300, "\0", "loop"]), max_size=5
).map("/".join)


@fuzz(200)
@given(PATHS, st.booleans())
@example("loop/../\0", False)
def test_path_of_a_mount_stays_in_its_volume(path: str, is_expression: bool) -> None:
    """Whatever links a container has created: the path is below the volume, or the mount is refused."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        volume = folder / "volume"
        (volume / "a" / "b").mkdir(parents=True)
        (volume / "file").touch()
        for link, target in {"link": "a", "out": str(folder), "up": "..", "loop": "loop"}.items():
            (volume / link).symlink_to(target)
        mount = {"name": "v", "mountPath": "/v", "subPathExpr" if is_expression else "subPath": path}
        container = {"name": "c", "volumeMounts": [mount]}
        try:
            mounts = pod_volumes.mount_folders(container, {"v": volume})
            pod_volumes.create_sub_paths(container, {"v": volume}, mounts)
        except pod_volumes.InvalidVolume:
            pass
        else:
            assert Path(mounts["/v"]).is_relative_to(volume)
            assert Path(mounts["/v"]).exists()
        assert sorted(entry.name for entry in folder.iterdir()) == ["volume"]


RESOURCES = st.fixed_dictionaries(
    {},
    optional={
        "resource": st.sampled_from(["samples", "", "a/b"]) | ANY,
        "name": st.sampled_from(["samples", "samples/status", "/"]) | ANY,
        "responseKind": st.sampled_from([{"group": "g.io", "version": "v1", "kind": "Sample"}, {}]) | ANY,
        "scope": st.sampled_from(["Namespaced", "Cluster", "x"]) | ANY,
        "namespaced": ANY,
        "kind": st.just("Sample") | ANY,
        "verbs": st.lists(st.sampled_from(["get", "list", "watch"]), max_size=3) | ANY,
        "subresources": ANY,
        "shortNames": ANY,
        "categories": ANY,
        "singularResource": ANY,
    },
)
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.just("object") | ANY,
        "properties": ANY,
        "$ref": st.sampled_from(["#/definitions/a", "#/definitions/b", "x"]),
        "x-kubernetes-group-version-kind": st.just([{"group": "g.io", "version": "v1", "kind": "Sample"}]) | ANY,
    },
)
ANSWERS = st.fixed_dictionaries(
    {
        "/apis": ANY
        | st.lists(RESOURCES, max_size=3).map(
            lambda items: {"items": [{"metadata": {"name": "g.io"}, "versions": [{"version": "v1", "resources": items}]}]}
        ),
        "/apis/g.io/v1": ANY | st.lists(RESOURCES, max_size=3).map(lambda items: {"resources": items}),
        "/openapi/v3": ANY
        | st.dictionaries(st.sampled_from(["apis/g.io/v1", "api/v1", "x"]), ANY, max_size=2).map(lambda paths: {"paths": paths}),
        "/openapi/v2": ANY
        | st.builds(
            lambda definitions, paths: {"definitions": definitions, "paths": paths},
            st.dictionaries(st.sampled_from(["a", "b", "io.k8s.api.core.v1.Pod"]), SCHEMAS | ANY, max_size=3) | ANY,
            st.dictionaries(st.sampled_from(["/apis/g.io/v1/samples", "/"]), SCHEMAS | ANY, max_size=2) | ANY,
        ),
    }
)
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
DOCUMENTS = (
    *(("/apis", accept) for accept in ("application/json", AGGREGATED)),
    *(("/apis/g.io", "application/json"), ("/openapi/v2", "application/json"), ("/openapi/v3", "application/json")),
    *(
        ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"),
        ("/openapi/v3/apis/g.io/v1", "application/json"),
    ),
)


def test_answers_of_aggregated_apis_never_fail_inside(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Documents of any form: those of the twin's own groups stay readable."""

    @fuzz(15)
    @given(ANSWERS, st.booleans(), st.sampled_from([200, 200, 200, 404, 503]))
    def send(answers: dict[str, Any], is_aggregated: bool, status: int) -> None:
        async def get(
            self: object, path: str, user: object, headers: Mapping[str, str], seconds: float, *, verify: bool = True
        ) -> Any:
            media = AGGREGATED if is_aggregated and path == "/apis" else "application/json"
            code = 200 if path == "/apis/g.io/v1" and not verify else status
            return backend.Document(code, {"Content-Type": media}, orjson.dumps(answers.get(path)))

        async def main(twin: EmbeddedTwin) -> None:
            service = {"metadata": {"name": "b"}, "spec": {"type": "ExternalName", "externalName": "x.example.com"}}
            await twin.do("POST", "/api/v1/namespaces/default/services", service)
            spec = {
                "group": "g.io",
                "version": "v1",
                "groupPriorityMinimum": 1,
                "versionPriority": 1,
                "insecureSkipTLSVerify": True,
            }
            spec["service"] = {"namespace": "default", "name": "b"}
            path = "/apis/apiregistration.k8s.io/v1/apiservices"
            await twin.do("POST", path, {"metadata": {"name": "v1.g.io"}, "spec": spec})
            await twin.quiet()
            obj = await twin.do("GET", f"{path}/v1.g.io")
            assert obj["status"]["conditions"][0]["status"] == "True", obj
            for target, accept in DOCUMENTS:
                request = Request("GET", target, (), {"accept": accept}, b"")
                response = await twin.cluster.transport().send(request)
                assert response.status < 500 or target.endswith("g.io/v1"), (target, accept, answers, response.body[:500])
            groups = await twin.do("GET", "/apis")
            assert {"apps", "g.io"} <= {group["name"] for group in groups["groups"]}

        monkeypatch.setattr(backend.Backend, "get", get)
        run_on_twin(main)
        assert not caplog.records, (answers, caplog.text)

    send()


OPERATIONS = st.builds(
    "JSONPatch{{op: {}, path: {}{}}}".format,
    st.sampled_from(["'add'", "'remove'", "'replace'", "'move'", "'copy'", "'test'", "'x'", "object.metadata.name"]),
    st.sampled_from(
        [
            "'/data/a'",
            "'/data'",
            "'/metadata/labels'",
            "'/metadata/name'",
            "'/'",
            "''",
            "'a'",
            "'/kind'",
            "'/data/' + object.data.b",
        ]
    ),
    st.sampled_from(
        ["", ", value: 'x'", ", value: {'a': 'b'}", ", value: 1", ", from: '/data'", ", value: object", ", value: null"]
    ),
)
CONFIGURATIONS = st.sampled_from(
    [
        "Object{data: {'a': 'b'}}",
        "Object{metadata: Object.metadata{labels: object.data}}",
        "Object{metadata: Object.metadata{name: 'other'}}",
        "Object{data: object.data.map(k, k)}",
        "Object{kind: 'Pod', apiVersion: 'v1'}",
        "Object{metadata: Object.metadata{uid: 'x', resourceVersion: '7', managedFields: []}}",
        "object",
        "Object{data: {'a': 'x'.replace('x', string(object))}}",
        "Object{binaryData: {'a': b'x'}}",
        "Object{immutable: dyn('true')}",
    ]
)
MUTATIONS = st.builds(
    lambda parts, form: {"patchType": "JSONPatch", "jsonPatch": {"expression": form.format(", ".join(parts))}},
    st.lists(OPERATIONS, max_size=3),
    st.sampled_from(["[{}]", "[{}] + [{}]", "object.data.size() > 1 ? [{}] : []", "object.data.map(k, [{}][0])"]).map(
        lambda form: form.replace("{}", "{0}")
    ),
) | st.builds(lambda text: {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": text}}, CONFIGURATIONS)


def test_mutating_policies_never_fail_inside(caplog: pytest.LogCaptureFixture) -> None:
    admission = "/apis/admissionregistration.k8s.io/v1beta1"
    rule = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"]}
    maps = "/api/v1/namespaces/default/configmaps"

    @fuzz(15)
    @given(st.lists(MUTATIONS, min_size=1, max_size=3), st.sampled_from(["Fail", "Ignore"]), st.sampled_from(["Never", "IfNeeded"]))
    def send(mutations: list[dict[str, Any]], failure: str, again: str) -> None:
        async def main(twin: EmbeddedTwin) -> None:
            spec = {"failurePolicy": failure, "matchConstraints": {"resourceRules": [rule]}, "mutations": mutations}
            body = {"metadata": {"name": "p"}, "spec": {**spec, "reinvocationPolicy": again}}
            status, found = await twin.ask("POST", f"{admission}/mutatingadmissionpolicies", body)
            assert status in (201, 422), found
            binding = {"metadata": {"name": "p"}, "spec": {"policyName": "p"}}
            await twin.do("POST", f"{admission}/mutatingadmissionpolicybindings", binding)
            await twin.quiet()
            for data in ({"a": "1", "b": "c"}, {"b": "x" * 300_000}):
                # As in kube-apiserver, an object that cannot be decoded afterwards is a 500; a failure of the twin is logged too.
                await twin.ask("POST", maps, {"metadata": {"name": "a"}, "data": data})
                await twin.ask("PATCH", f"{maps}/a", {"data": {"d": "e"}})

        run_on_twin(main, features=builtins.FEATURES)
        assert not caplog.records, (mutations, caplog.text)

    send()
