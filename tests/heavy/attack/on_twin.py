"""Attacks on a twin: objects and requests that once blocked or ended it, and relatives of them. Each cleans up what it created."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.heavy.attack.requests import Http

    Attack = Callable[[Http], Awaitable[None]]

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
GRAPHS = "/apis/kro.run/v1alpha1/resourcegraphdefinitions"
APPLY = "application/apply-patch+yaml"
DEEP = "[" * 100_000
BOMB = "\n".join(
    ["a0: &a0 [x,x,x,x,x,x,x,x,x]", *(f"a{number}: &a{number} [{','.join([f'*a{number - 1}'] * 9)}]" for number in range(1, 12))]
)
PATTERNS = [r"(a+)+$", r"^([a-z0-9]+(-[a-z0-9]+)*)+$", r"(x+x+)+y", "a" * 50_000, "(" * 20_000 + ")" * 20_000, "a{1000}{1000}"]
RULES = [
    "self.s.split('').map(x, self.s.split('').join(x)).size() >= 0",
    "self.s.replace('a', self.s) != ''",
    "self.s.matches('(a+)+$')",
    "self.s.split('').all(a, self.s.split('').all(b, self.s.split('').all(c, a + b + c != 'x')))",
    "self.s.matches(self.s)",
]
_numbers = itertools.count()


async def _define(http: Http, properties: dict[str, Any], **schema: Any) -> tuple[int, str]:
    """Create a CRD with a new name; returns the status and the path of its objects."""
    kind = f"Attack{next(_numbers)}"
    plural = f"{kind.lower()}s"
    version = {"name": "v1", "served": True, "storage": True}
    structure = {"openAPIV3Schema": {"type": "object", "properties": properties, **schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    spec = {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [{**version, "schema": structure}]}
    status, _ = await http.ask("POST", CRDS, {"metadata": {"name": f"{plural}.x.io"}, "spec": spec})
    return status, f"/apis/x.io/v1/namespaces/default/{plural}"


async def _try_objects(http: Http, status: int, path: str, *objects: dict[str, Any]) -> None:
    plural = path.rpartition("/")[2]
    if status == 201:
        for number, obj in enumerate(objects):
            kind = plural.removesuffix("s").capitalize()
            await http.ask("POST", path, {"apiVersion": "x.io/v1", "kind": kind, "metadata": {"name": f"a{number}"}, **obj})
    await http.ask("DELETE", f"{CRDS}/{plural}.x.io")


async def yaml_in_config_maps(http: Http) -> None:
    """S1."""
    for namespace, name, key in (
        ("kueue-system", "kueue-manager-config", "controller_manager_config.yaml"),
        ("jobset-system", "jobset-manager-config", "controller_manager_config.yaml"),
    ):
        await http.ask("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        for text in (DEEP, BOMB, "a: " * 30_000, "{" * 50_000, "&a [*a]", "- " * 50_000):
            body = {"metadata": {"name": name}, "data": {key: text}}
            status, _ = await http.ask("POST", path, body)
            if status == 409:
                await http.ask("PATCH", f"{path}/{name}", {"data": {key: text}})
        await http.ask("DELETE", f"{path}/{name}")


async def patterns(http: Http) -> None:
    """S3."""
    for pattern in PATTERNS:
        status, path = await _define(http, {"s": {"type": "string", "pattern": pattern}})
        await _try_objects(http, status, path, {"s": "a" * 40 + "!"}, {"s": "a" * 200_000 + "!"})


async def rules(http: Http) -> None:
    """S4."""
    for rule in RULES:
        status, path = await _define(http, {"s": {"type": "string"}}, **{"x-kubernetes-validations": [{"rule": rule}]})
        await _try_objects(http, status, path, {"s": "a" * 12_000})
    many = [{"rule": f"self.s != 'a{number}'"} for number in range(400)]
    status, path = await _define(http, {"s": {"type": "string", "maxLength": 10}}, **{"x-kubernetes-validations": many})
    await _try_objects(http, status, path, {"s": "a7"})


async def defaults(http: Http) -> None:
    item = {"type": "object", "properties": {f"q{number}": {"type": "string", "default": "x" * 1000} for number in range(100)}}
    status, path = await _define(http, {"list": {"type": "array", "items": item}})
    await _try_objects(http, status, path, {"list": [{}] * 100_000})


async def owners(http: Http) -> None:
    """S5."""
    name = f"owned-{next(_numbers)}"
    owner = {"apiVersion": "v1", "kind": "ConfigMap"}
    references = [{**owner, "name": f"o{number}", "uid": str(UUID(int=number + 1))} for number in range(25_000)]
    await http.ask("POST", MAPS, {"metadata": {"name": name, "ownerReferences": references}})


async def replicas(http: Http) -> None:
    """S6: ten thousands of pods, and their deletion."""
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    for count in (20_000, 2_000_000):
        name = f"many-{next(_numbers)}"
        spec = {"replicas": count, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        await http.ask("POST", DEPLOYMENTS, {"metadata": {"name": name}, "spec": spec})
        await asyncio.sleep(3)
        await http.ask("DELETE", f"{DEPLOYMENTS}/{name}", {"propagationPolicy": "Background"})
    await http.ask("DELETE", PODS)


async def roles(http: Http) -> None:
    """S10: escalation checks of large roles, by a user who may write roles only."""
    group, name = "rbac.authorization.k8s.io", f"writer-{next(_numbers)}"
    may_create = {"apiGroups": [group], "resources": ["*"], "verbs": ["create"]}
    await http.ask("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [may_create]})
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    subjects = [{"apiGroup": group, "kind": "User", "name": "bob"}]
    await http.ask("POST", f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects})
    groups, resources, verbs = ([f"{letter}{number}" for number in range(90)] for letter in "grv")
    large = {"metadata": {"name": f"{name}-large"}, "rules": [{"apiGroups": groups, "resources": resources, "verbs": verbs}]}
    await http.ask("POST", f"{RBAC}/clusterroles", large, impersonate_user="bob")
    many = [{"apiGroups": [f"g{number}"], "resources": ["x"] * 50, "verbs": ["get"] * 50} for number in range(2000)]
    await http.ask("POST", f"{RBAC}/clusterroles", {"metadata": {"name": f"{name}-many"}, "rules": many}, impersonate_user="bob")
    for path in ("clusterroles", "clusterrolebindings"):
        await http.ask("DELETE", f"{RBAC}/{path}/{name}")


async def large_bodies(http: Http) -> None:
    """Megabytes of JSON and YAML, as creations, applies and patches."""
    name = f"large-{next(_numbers)}"
    data = {f"key-{number}": "x" * 10 for number in range(55_000)}
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
    path = f"{MAPS}/{name}?fieldManager=m&force=true"
    await http.ask("PATCH", path, applied, content_type=APPLY)
    lines = "".join(f"  key-{number}: 'a value'\n" for number in range(90_000))
    text = f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n{lines}".encode()
    await http.ask("PATCH", path, text, content_type=APPLY)
    await http.ask("POST", MAPS, text, content_type="application/yaml")
    items = b"".join(b'{"op":"add","path":"/data/k%d","value":"x"},' % number for number in range(9_000))
    await http.ask("PATCH", f"{MAPS}/{name}", b"[%b]" % items.rstrip(b","), content_type="application/json-patch+json")
    await http.ask("DELETE", f"{MAPS}/{name}")
    for body in (DEEP.encode(), b'{"metadata":' * 50_000, b'{"a":' * 1_000_000, b"9" * 3_000_000, BOMB.encode()):
        for kind in ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf"):
            await http.ask("POST", MAPS, body, content_type=kind)


async def patches(http: Http) -> None:
    """Copies that double, merge keys of thousands of items, and deep paths."""
    name = f"patched-{next(_numbers)}"
    await http.ask("POST", MAPS, {"metadata": {"name": name}, "data": {"a": "x" * 1000}})
    double = [{"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(40)]
    await http.ask("PATCH", f"{MAPS}/{name}", double, content_type="application/json-patch+json")
    deep = [{"op": "test", "path": "/data" * 50_000, "value": 1}]
    await http.ask("PATCH", f"{MAPS}/{name}", deep, content_type="application/json-patch+json")
    await http.ask("DELETE", f"{MAPS}/{name}")
    pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": f"c{number}", "image": "x"} for number in range(3000)]}}
    await http.ask("POST", PODS, pod)
    changed = {"spec": {"containers": [{"name": f"c{number}", "image": "y"} for number in range(3000)]}}
    await http.ask("PATCH", f"{PODS}/{name}", changed, content_type="application/strategic-merge-patch+json")
    await http.ask("DELETE", f"{PODS}/{name}")


async def selectors(http: Http) -> None:
    prefix = f"selected-{next(_numbers)}"
    for number in range(100):
        await http.ask("POST", MAPS, {"metadata": {"name": f"{prefix}-{number}", "labels": {"a": prefix}}})
    terms = (
        ",".join(f"k{number}!=v" for number in range(8000)),
        f"a in ({','.join(f'v{number}' for number in range(8000))},b)",
        "a in (" * 1000,
    )
    for term in terms:
        await http.ask("GET", f"{MAPS}?labelSelector={term}")
        await http.ask("GET", f"{MAPS}?fieldSelector={term}")
    await http.ask("DELETE", f"{MAPS}?labelSelector=a={prefix}")


async def pods(http: Http) -> None:
    container = {"name": "c", "image": "x"}
    ports = [{"containerPort": number % 60_000 + 1, "name": f"p{number}"} for number in range(10_000)]
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    constraints = [{**spread, "topologyKey": f"v{number}"} for number in range(4000)]
    variables = [{"name": f"A{number}", "value": f"$(A{number - 1})" * 2} for number in range(200)]
    specs = (
        {"containers": [{**container, "ports": ports}]},
        {"containers": [container], "topologySpreadConstraints": constraints},
        {"containers": [{**container, "env": variables}]},
    )
    for spec in specs:
        name = f"pod-{next(_numbers)}"
        await http.ask("POST", PODS, {"metadata": {"name": name}, "spec": spec})
        await http.ask("DELETE", f"{PODS}/{name}")


async def policies(http: Http) -> None:
    """Admission policies with expensive expressions; they match one name only, so that other attacks are not rejected."""
    name = f"policy-{next(_numbers)}"
    rule = {"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["configmaps"], "resourceNames": [name]}
    expression = "object.data.all(a, object.data.all(b, object.data.all(c, object.data.all(d, a + b + c + d != ''))))"
    validations = [
        {"expression": expression},
        {"expression": "object.data.map(k, object.data[k].replace('a', object.data[k])).size() > 0"},
    ]
    spec = {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule]}, "validations": validations}
    await http.ask("POST", f"{POLICIES}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    binding = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    await http.ask("POST", f"{POLICIES}/validatingadmissionpolicybindings", binding)
    data = {f"k{number}": "v" for number in range(100)} | {"a": "a" * 3000}
    await http.ask("POST", MAPS, {"metadata": {"name": name}, "data": data})
    for path in (f"{POLICIES}/validatingadmissionpolicybindings", f"{POLICIES}/validatingadmissionpolicies", MAPS):
        await http.ask("DELETE", f"{path}/{name}")


async def graphs(http: Http) -> None:
    """Definitions for the graph controller: deep, wide, with expensive expressions and patterns."""
    expressions = (
        "${schema.spec.name.split('').map(x, schema.spec.name.split('').join(x)).join('')}",
        "${" + "(" * 20_000 + "1" + ")" * 20_000 + "}",
        "${'a'.matches('(a+)+$')}",
        "${" * 10_000,
    )
    for expression in expressions:
        name = f"graph-{next(_numbers)}"
        template = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "${schema.spec.name}"}, "data": {"a": expression}}
        spec = {
            "schema": {"apiVersion": "v1alpha1", "kind": name.title().replace("-", ""), "spec": {"name": "string"}},
            "resources": [{"id": "map", "template": template}],
        }
        await http.ask(
            "POST",
            GRAPHS,
            {"apiVersion": "kro.run/v1alpha1", "kind": "ResourceGraphDefinition", "metadata": {"name": name}, "spec": spec},
        )
        await asyncio.sleep(0.5)
        await http.ask("DELETE", f"{GRAPHS}/{name}")


async def unread_watches(http: Http) -> None:
    """Clients that open watches and lists and read nothing."""
    opened = []
    head = "GET {} HTTP/1.1\r\nhost: x\r\nauthorization: " + http.authorization + "\r\n\r\n"
    for number in range(60):
        path = f"{MAPS}?watch=true" if number % 2 else "/api/v1/configmaps"
        opened.append(await http.open(head.format(path).encode()))
    await asyncio.sleep(1)
    for writer in opened:
        if writer is not None:
            writer.transport.abort()


async def anonymous_bodies(http: Http) -> None:
    """100 connections without a credential that announce large bodies, and 200 that send nothing."""
    head = f"POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 3000000\r\n\r\n".encode() + b"x" * 200_000
    opened = await asyncio.gather(*(http.open(head) for _ in range(100)), *(http.open(b"") for _ in range(200)))
    await asyncio.sleep(1)
    for writer in opened:
        if writer is not None:
            writer.transport.abort()


async def garbage(http: Http) -> None:
    for data in (
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /" + b"a" * 500_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"a:\r\n" * 20_000 + b"\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * 500_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ):
        await http.send_raw(data)


async def burst(http: Http) -> None:
    """More requests at once than a client may have waiting."""
    await asyncio.gather(*(http.ask("GET", "/api/v1/pods?limit=50") for _ in range(600)))


ATTACKS: list[Attack] = [
    *(yaml_in_config_maps, patterns, rules, defaults, owners, replicas, roles, large_bodies, patches, selectors, pods, policies),
    *(graphs, unread_watches, anonymous_bodies, garbage, burst),
]
