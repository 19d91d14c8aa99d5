"""No attack on a twin blocks its event loop: the API answers health checks between two turns, however busy the machine is.

Turns are measured in CPU time, and limits are multiples of the CPU time of a fixed piece of work on the same machine.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import orjson
import pytest
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.turns import measured_turns, work_seconds

from sliceworks.base import clock
from sliceworks.base.loops import VirtualLoop
from sliceworks.base.transport import Request, Response
from sliceworks.twin.apiserver import generic_server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

DEFAULT = "/api/v1/namespaces/default"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"


@pytest.fixture
def turns() -> Iterator[list[float]]:
    with measured_turns() as measured:
        yield measured


def crd(kind: str, properties: dict[str, Any], **schema: Any) -> dict[str, Any]:
    names = {"plural": f"{kind.lower()}s", "singular": kind.lower(), "kind": kind}
    version = {"name": "v1", "served": True, "storage": True}
    structure = {"openAPIV3Schema": {"type": "object", "properties": properties, **schema}}
    spec = {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [{**version, "schema": structure}]}
    return {"metadata": {"name": f"{kind.lower()}s.x.io"}, "spec": spec}


async def define(twin: EmbeddedTwin, kind: str, properties: dict[str, Any], **schema: Any) -> int:
    status, _ = await twin.ask("POST", CRDS, crd(kind, properties, **schema))
    await twin.quiet()
    return status


async def create(twin: EmbeddedTwin, kind: str, obj: dict[str, Any]) -> int:
    body = {"apiVersion": "x.io/v1", "kind": kind, "metadata": {"name": "a"}, **obj}
    return (await twin.ask("POST", f"/apis/x.io/v1/namespaces/default/{kind.lower()}s", body))[0]


async def patterns(twin: EmbeddedTwin) -> None:
    """S3, and a pattern as large as the value."""
    for number, pattern in enumerate([r"(a+)+$", r"^([a-z0-9]+(-[a-z0-9]+)*)+$", r"(x+x+)+y", "a" * 50_000]):
        kind = f"Pattern{number}"
        assert await define(twin, kind, {"s": {"type": "string", "pattern": pattern}}) == 201
        assert await create(twin, kind, {"s": "a" * 40 + "!"}) == 422
        assert await create(twin, kind, {"s": "a" * 200_000 + "!"}) == 422
    assert await define(twin, "Nested", {"s": {"type": "string", "pattern": "(" * 20_000 + ")" * 20_000}}) == 422


RULES = [
    "self.s.split('').map(x, self.s.split('').join(x)).size() >= 0",
    "self.s.replace('a', self.s) != ''",
    "self.s.matches('(a+)+$')",
    "url(self.s).getHost() != ''",
    "cidr('10.0.0.0/8').containsIP(self.s)",
]


async def rules(twin: EmbeddedTwin) -> None:
    """S4."""
    for number, rule in enumerate(RULES):
        kind = f"Rule{number}"
        if await define(twin, kind, {"s": {"type": "string"}}, **{"x-kubernetes-validations": [{"rule": rule}]}) == 201:
            await create(twin, kind, {"s": "a" * 12_000})


async def many_rules(twin: EmbeddedTwin) -> None:
    """Compiling a rule takes milliseconds: once when it is defined, once when the first object is created."""
    validations = [{"rule": f"self.s != 'a{number}'"} for number in range(400)]
    assert (
        await define(twin, "Many", {"s": {"type": "string", "maxLength": 10}}, **{"x-kubernetes-validations": validations}) == 201
    )
    assert await create(twin, "Many", {"s": "a7"}) == 422


async def defaults(twin: EmbeddedTwin) -> None:
    """Small items that would get 10 GB of defaults."""
    item = {"type": "object", "properties": {f"q{number}": {"type": "string", "default": "x" * 1000} for number in range(100)}}
    assert await define(twin, "Default", {"list": {"type": "array", "items": item}}) == 201
    assert await create(twin, "Default", {"list": [{}] * 100_000}) == 413


async def selectors(twin: EmbeddedTwin) -> None:
    """Thousands of requirements on hundreds of objects."""
    for number in range(300):
        await twin.do("POST", f"{DEFAULT}/configmaps", {"metadata": {"name": f"c{number}", "labels": {"a": "b"}}})
    terms = [
        ",".join(f"k{number}!=v" for number in range(8000)),
        f"a in ({','.join(f'v{number}' for number in range(8000))},b)",
        ",".join(f"a!=v{number}" for number in range(8000)),
    ]
    for term in terms:
        found = await twin.do("GET", f"{DEFAULT}/configmaps?labelSelector={term}")
        assert len(found["items"]) >= 300
    fields = ",".join(f"metadata.name!=v{number}" for number in range(8000))
    assert len((await twin.do("GET", f"{DEFAULT}/configmaps?fieldSelector={fields}"))["items"]) >= 300


async def tables(twin: EmbeddedTwin) -> None:
    """Columns whose paths multiply nested lists."""
    definition = crd("Column", {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}})
    columns = [{"name": f"c{number}", "type": "string", "jsonPath": ".spec" + ".a[*]" * 6} for number in range(100)]
    definition["spec"]["versions"][0]["additionalPrinterColumns"] = columns
    await twin.do("POST", CRDS, definition)
    await twin.quiet()
    spec: Any = "z"
    for _ in range(6):
        spec = {"a": [spec] * 6}
    path = "/apis/x.io/v1/namespaces/default/columns"
    for number in range(5):
        body = {"apiVersion": "x.io/v1", "kind": "Column", "metadata": {"name": f"a{number}"}, "spec": spec}
        await twin.do("POST", path, body)
    table = await twin.do("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table["rows"][4]["cells"] == ["a4", *["z"] * 100]


async def owners(twin: EmbeddedTwin) -> None:
    """S5."""
    owner = {"apiVersion": "v1", "kind": "ConfigMap"}
    references = [{**owner, "name": f"o{number}", "uid": str(UUID(int=number + 1))} for number in range(25_000)]
    await twin.do("POST", f"{DEFAULT}/configmaps", {"metadata": {"name": "many", "ownerReferences": references}})
    while twin.cluster.store.get("/configmaps", "default", "many") is not None:
        await asyncio.sleep(0)


async def replicas(twin: EmbeddedTwin) -> None:
    """S6."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    for count in (20_000, 2_000_000):
        spec = {"replicas": count, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        body = {"metadata": {"name": f"d{count}"}, "spec": spec}
        await twin.do("POST", "/apis/apps/v1/namespaces/default/deployments", body)
    while twin.cluster.store.count("/pods") < 1000:
        await asyncio.sleep(0)


async def roles(twin: EmbeddedTwin) -> None:
    """S10: a user who may write roles, but not grant what they contain."""
    group = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [group], "resources": ["*"], "verbs": ["create"]}
    await twin.do("POST", ROLES, {"metadata": {"name": "writer"}, "rules": [rule]})
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "writer"}
    subjects = [{"apiGroup": group, "kind": "User", "name": "bob"}]
    body: dict[str, Any] = {"metadata": {"name": "writer"}, "roleRef": reference, "subjects": subjects}
    await twin.do("POST", f"/apis/{group}/v1/clusterrolebindings", body)
    groups, resources, verbs = ([f"{letter}{number}" for number in range(90)] for letter in "grv")
    large = [{"apiGroups": groups, "resources": resources, "verbs": verbs}]
    many = [{"apiGroups": [f"g{number}"], "resources": ["x"] * 50, "verbs": ["get"] * 50} for number in range(2000)]
    for rules_of_role in (large, many):
        role = {"metadata": {"name": "large"}, "rules": rules_of_role}
        status, _ = await twin.ask("POST", ROLES, role, impersonate_user="bob")
        assert status == 403
    granted: list[dict[str, Any]] = [{"apiGroups": [f"g{number}"], "resources": ["x"], "verbs": ["get"]} for number in range(3000)]
    await twin.do("POST", ROLES, {"metadata": {"name": "held"}, "rules": granted})
    body = {"metadata": {"name": "held"}, "roleRef": {**reference, "name": "held"}, "subjects": subjects}
    await twin.do("POST", f"/apis/{group}/v1/clusterrolebindings", body)
    for verb, expected in (("get", 201), ("list", 403)):
        changed = [{**rule, "verbs": [verb]} for rule in granted]
        role = {"metadata": {"name": f"more-{verb}"}, "rules": changed}
        status, _ = await twin.ask("POST", ROLES, role, impersonate_user="bob")
        assert status == expected


async def pods(twin: EmbeddedTwin) -> None:
    """Pods with thousands of ports, constraints and references to variables."""
    container = {"name": "c", "image": "x"}
    ports = [{"containerPort": number % 60_000 + 1, "name": f"p{number}"} for number in range(10_000)]
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    constraints = [{**spread, "topologyKey": f"v{number}"} for number in range(4000)]
    variables = [{"name": f"A{number}", "value": f"$(A{number - 1})" * 2} for number in range(200)]
    specs = [
        {"containers": [{**container, "ports": ports}]},
        {"containers": [container], "topologySpreadConstraints": constraints},
        {"containers": [{**container, "env": variables}]},
    ]
    for number, spec in enumerate(specs):
        await twin.do("POST", f"{DEFAULT}/pods", {"metadata": {"name": f"p{number}"}, "spec": spec})
    await twin.quiet()


def test_large_apply_does_not_block_the_event_loop(turns: list[float]) -> None:
    """Server-side apply of 1.5 MB with 55,000 fields, as Go clients send it: decoded and merged in a thread."""

    async def main(twin: EmbeddedTwin) -> None:
        unit = work_seconds()
        data = {f"key-{number}": "x" * 10 for number in range(55_000)}
        for value in ("x", "y"):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {**data, "key-0": value}}
            turns.clear()
            path = f"{DEFAULT}/configmaps/large?fieldManager=m"
            result = await twin.do("PATCH", path, body, content_type="application/apply-patch+yaml")
            assert result["data"]["key-0"] == value
            assert max(turns) < 40 * max(unit, work_seconds()), "about 0.4 s"

    run_on_twin(main)


def test_large_yaml_body_does_not_block_the_event_loop(turns: list[float]) -> None:
    """2 MB of YAML take a second to parse: in a thread, also for a patch."""

    async def main(twin: EmbeddedTwin) -> None:
        unit = work_seconds()
        data = "".join(f"  key-{number}: 'a value'\n" for number in range(90_000))
        body = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: large\ndata:\n{data}".encode()
        requests = (
            Request("POST", f"{DEFAULT}/configmaps", (), {"content-type": "application/yaml"}, body),
            Request(
                "PATCH",
                f"{DEFAULT}/configmaps/large",
                (("fieldManager", "m"), ("force", "true")),
                {"content-type": "application/apply-patch+yaml"},
                body,
            ),
        )
        for request, status in zip(requests, (201, 200), strict=True):
            turns.clear()
            response = await asyncio.create_task(twin.cluster.transport().send(request))
            assert response.status == status
            assert max(turns) < 40 * max(unit, work_seconds()), "about 0.4 s"

    run_on_twin(main)


def test_validation_of_a_large_list_does_not_block_the_event_loop(turns: list[float]) -> None:
    """40,000 items with keys take as long to validate as to merge, also when a small patch changes the stored object."""

    async def main(twin: EmbeddedTwin) -> None:
        unit = work_seconds()
        item = {"type": "object", "properties": {"k": {"type": "string", "maxLength": 9}}, "required": ["k"]}
        keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
        assert await define(twin, "Item", {"l": {"type": "array", "items": item, **keys}, "n": {"type": "integer"}}) == 201
        turns.clear()
        assert await create(twin, "Item", {"l": [{"k": str(number)} for number in range(40_000)]}) == 201
        await twin.do("PATCH", "/apis/x.io/v1/namespaces/default/items/a", {"n": 1}, content_type="application/merge-patch+json")
        assert max(turns) < 10 * max(unit, work_seconds()), "about 0.1 s"

    run_on_twin(main)


def test_repeated_apply_of_a_large_list_does_not_block_the_event_loop(turns: list[float]) -> None:
    """60,000 items and as many managed fields are compared in a thread with the stored ones."""

    async def main(twin: EmbeddedTwin) -> None:
        unit = work_seconds()
        item = {"type": "object", "properties": {"k": {"type": "string", "maxLength": 9}}, "required": ["k"]}
        keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
        assert await define(twin, "Item", {"l": {"type": "array", "items": item, **keys}, "n": {"type": "integer"}}) == 201
        items = [{"k": str(number)} for number in range(60_000)]
        for status in (201, 200):
            body = orjson.dumps({"apiVersion": "x.io/v1", "kind": "Item", "metadata": {"name": "a"}, "l": items})
            headers = {"content-type": "application/apply-patch+yaml"}
            request = Request("PATCH", "/apis/x.io/v1/namespaces/default/items/a", (("fieldManager", "m"),), headers, body)
            turns.clear()
            response = await asyncio.create_task(twin.cluster.transport().send(request))
            assert response.status == status
        assert max(turns) < 5 * max(unit, work_seconds()), "about 0.05 s"

    run_on_twin(main)


FORMS = {
    "JSON": "application/json",
    "YAML": "application/yaml",
    "protobuf": "application/vnd.kubernetes.protobuf",
    "table": "application/json;as=Table;v=v1;g=meta.k8s.io",
    "table in YAML": "application/yaml;as=Table;v=v1;g=meta.k8s.io",
    "metadata": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
}


@pytest.mark.parametrize("form", FORMS)
def test_large_objects_do_not_block_the_event_loop_in_any_form(form: str, turns: list[float]) -> None:
    """25 objects of 0.5 MB, got, listed, selected and watched: each takes milliseconds to decode, and many more to encode."""

    async def main(twin: EmbeddedTwin) -> None:
        unit, store = work_seconds(), twin.cluster.store
        data = {f"key-{number}": "x" * 10 for number in range(20_000)}
        for number in range(25):
            metadata = {"name": f"large-{number}", "namespace": "default", "uid": str(number), "labels": {"a": "b"}}
            obj = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data}
            store.put("/configmaps", "default", f"large-{number}", obj)

        async def read(path: str, query: str, accept: str) -> None:
            pairs = tuple(pair.split("=", 1) for pair in query.split("&") if pair)
            request = Request("GET", f"{DEFAULT}/{path}", cast("Any", pairs), {"accept": accept}, b"")
            response = await twin.cluster.transport().send(request, stream=True)
            assert response.status == 200
            if response.stream is not None:
                events = 0
                async for chunk in response.stream:
                    events += chunk.count(b'"ADDED"') + chunk.count(b"ADDED\x12")
                    if "watch" in query and events >= 25:
                        break

        accept = FORMS[form]
        lists = accept.replace("Metadata", "MetadataList")
        queries = [("configmaps/large-0", "", accept), ("configmaps", "", lists)]
        if "yaml" not in accept:
            queries += [("configmaps", "pretty=1", lists), ("configmaps", "labelSelector=a!=c", lists)]
            queries += [("configmaps", f"watch=1{selector}", accept) for selector in ("", "&labelSelector=a=b")]
        for query in queries:
            for entry in store.scan("/configmaps", "default"):
                entry._labels = None  # nothing remembers the labels
            turns.clear()
            await asyncio.create_task(read(*query))
            assert max(turns) < 6 * max(unit, work_seconds()), (query, "about 0.06 s")

    run_on_twin(main)


LARGE_YAML = b"".join(b"- {a: b}\n" for _ in range(100_000))
BODIES = {
    "review": ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
    "deletion": ("DELETE", f"{DEFAULT}/configmaps/a"),
    "collection": ("DELETE", f"{DEFAULT}/configmaps"),
    "token": ("POST", f"{DEFAULT}/serviceaccounts/default/token"),
    "eviction": ("POST", f"{DEFAULT}/pods/a/eviction"),
    "binding": ("POST", f"{DEFAULT}/pods/a/binding"),
    "scale": ("PUT", "/apis/apps/v1/namespaces/default/deployments/a/scale"),
    "namespace": ("PUT", "/api/v1/namespaces/default/finalize"),
}


@pytest.mark.parametrize(("method", "path"), BODIES.values(), ids=BODIES)
def test_large_body_of_another_kind_does_not_block_the_event_loop(method: str, path: str, turns: list[float]) -> None:
    """A megabyte of YAML where a few fields are expected; a SelfSubjectAccessReview is allowed to every user."""

    async def main(twin: EmbeddedTwin) -> None:
        unit = work_seconds()
        await twin.do("POST", f"{DEFAULT}/configmaps", {"metadata": {"name": "a"}})
        body = b"spec:\n  extra:\n    a:\n" + LARGE_YAML
        request = Request(method, path, (), {"content-type": "application/yaml"}, body)
        turns.clear()
        response = await asyncio.create_task(twin.cluster.transport().send(request))
        assert response.status < 500
        assert max(turns) < 20 * max(unit, work_seconds()), "about 0.2 s"

    run_on_twin(main)


ATTACKS = [patterns, rules, many_rules, defaults, selectors, tables, owners, replicas, roles, pods]


@pytest.mark.parametrize("attack", ATTACKS)
def test_attack_does_not_block_the_event_loop(attack: Callable[[EmbeddedTwin], Awaitable[None]], turns: list[float]) -> None:
    """A few turns decode, validate and store the large object itself; all others are short enough for a health check."""

    async def main(twin: EmbeddedTwin) -> None:
        unit = work_seconds()
        await asyncio.sleep(0)
        turns.clear()
        await attack(twin)
        attacked = list(turns)
        unit = max(unit, work_seconds())
        assert max(attacked) < 10 * unit, "about 0.1 s"
        assert sum(turn > 5 * unit for turn in attacked) <= 4, "about 0.05 s"
        health = await twin.cluster.api.handle(Request("GET", "/livez", (), {}, b""))
        assert health.status == 200

    run_on_twin(main, workloads=True)


FIRST_RULE = """
import asyncio, sys
from tests.support.embedded_twin import run_on_twin
from sliceworks.base.loops import VirtualLoop

loaded, run_in_executor = set(), VirtualLoop.run_in_executor

def run_in_thread(*arguments):
    before = set(sys.modules)
    try:
        return run_in_executor(*arguments)
    finally:
        loaded.update(set(sys.modules) - before)

VirtualLoop.run_in_executor = run_in_thread

async def main(twin):
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "x-kubernetes-validations": [{"rule": "self.a != ''"}]}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "x.io", "scope": "Cluster", "names": {"plural": "xs", "kind": "X"}, "versions": [version]}
    body = {"metadata": {"name": "xs.x.io"}, "spec": spec}
    await twin.do("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)

run_on_twin(main)
assert "sliceworks.cel.environment" in loaded, sorted(loaded)
"""


def test_first_rule_of_a_twin_loads_the_engine_in_a_thread() -> None:
    """Its modules take a tenth of a second of CPU to import, and a multiple of that on a busy machine."""
    subprocess.run([sys.executable, "-c", FIRST_RULE], check=True, cwd=Path(__file__).parents[2])


def test_deletion_of_a_collection_lets_other_requests_run() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        for number in range(300):
            await twin.do("POST", f"{DEFAULT}/configmaps", {"metadata": {"name": f"c{number}"}})
        counts = [twin.cluster.store.count("/configmaps", "default")]
        deletion = asyncio.create_task(twin.do("DELETE", f"{DEFAULT}/configmaps"))
        while not deletion.done():
            await asyncio.sleep(0)
            counts.append(twin.cluster.store.count("/configmaps", "default"))
        assert counts[-1] == 0
        assert max(before - after for before, after in pairwise(counts)) <= 100

    run_on_twin(main)


def test_deletion_decodes_a_large_object_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An object with 25,000 owners of a kind that is not served, so that only the client deletes it."""
    owner = {"apiVersion": "x.io/v1", "kind": "X"}
    references = [{**owner, "name": f"o{number}", "uid": str(UUID(int=number + 1))} for number in range(25_000)]
    decoded, loads, run_in_executor = list[bool](), orjson.loads, cast("Any", VirtualLoop.run_in_executor)
    in_thread = False

    def count(data: bytes) -> Any:
        if len(data) > 1_000_000:
            decoded.append(in_thread)
        return loads(data)

    def run_in_thread(*arguments: Any) -> Any:
        nonlocal in_thread
        in_thread = True
        try:
            return run_in_executor(*arguments)
        finally:
            in_thread = False

    async def main(twin: EmbeddedTwin) -> None:
        await twin.do("POST", f"{DEFAULT}/configmaps", {"metadata": {"name": "many", "ownerReferences": references}})
        await twin.quiet()
        monkeypatch.setattr(orjson, "loads", count)
        monkeypatch.setattr(VirtualLoop, "run_in_executor", run_in_thread)
        await twin.do("DELETE", f"{DEFAULT}/configmaps/many")
        await twin.quiet()
        assert decoded == [True]
        assert await twin.gone(f"{DEFAULT}/configmaps/many")

    run_on_twin(main, workloads=True)


def test_large_documents_are_indented_and_compressed_in_a_thread(turns: list[float]) -> None:
    body = orjson.dumps([{"metadata": {"name": f"thing-{number}"}} for number in range(500_000)])
    request = Request("GET", "/", headers={"accept-encoding": "gzip", "user-agent": "curl"})

    async def main() -> None:
        response = await generic_server._finish(request, Response(200, {"content-type": "application/json"}, body))
        assert response.headers["content-encoding"] == "gzip"

    clock.run(main(), virtual=True)
    assert max(turns) < 10 * work_seconds(), "about 0.1 s"
