"""Asks a running kube-apiserver for its schemas and discovery and writes the reduced pack the twin serves from.

    go build -C tests/real/gotypes -o /tmp/gotypes . && /tmp/gotypes > /tmp/gotypes.json
    python -m tests.real.extract_schemas --server https://127.0.0.1:6443 --token TOKEN --gotypes /tmp/gotypes.json

Only facts are kept: names, types, formats, enums, defaults, extensions, and how Go reads and writes each field. No descriptions.
The output is the same, byte for byte, for the same server version.
"""

from __future__ import annotations

import argparse
import ssl
import urllib.request
from collections import defaultdict
from pathlib import Path
from typing import Any

import orjson

PACK = Path(__file__).parents[2] / "src/sliceworks/schemas/data/kubernetes-1.35"
GROUP_VERSIONS = [
    ("", "v1"),
    ("apiregistration.k8s.io", "v1"),
    ("admissionregistration.k8s.io", "v1"),
    ("apps", "v1"),
    ("events.k8s.io", "v1"),
    ("authentication.k8s.io", "v1"),
    ("authorization.k8s.io", "v1"),
    ("autoscaling", "v2"),
    ("autoscaling", "v1"),
    ("batch", "v1"),
    ("certificates.k8s.io", "v1"),
    ("flowcontrol.apiserver.k8s.io", "v1"),
    ("networking.k8s.io", "v1"),
    ("node.k8s.io", "v1"),
    ("policy", "v1"),
    ("rbac.authorization.k8s.io", "v1"),
    ("resource.k8s.io", "v1"),
    ("storage.k8s.io", "v1"),
    ("apiextensions.k8s.io", "v1"),
    ("scheduling.k8s.io", "v1"),
    ("coordination.k8s.io", "v1"),
    ("discovery.k8s.io", "v1"),
]
LEFT_OUT = {"componentstatuses"}
ALWAYS = [
    "DeleteOptions",
    "Status",
    "WatchEvent",
    "APIResourceList",
    "Patch",
    "ListMeta",
    "ObjectMeta",
    "LabelSelector",
]
META = "io.k8s.apimachinery.pkg.apis.meta.v1."
REF = "#/components/schemas/"


class Server:
    """GET on a kube-apiserver."""

    def __init__(self, url: str, token: str) -> None:
        self.url, self.token = url, token
        self.context = ssl._create_unverified_context()

    def get(self, path: str, accept: str = "application/json") -> Any:
        headers = {"Authorization": f"Bearer {self.token}", "Accept": accept}
        request = urllib.request.Request(self.url + path, headers=headers)
        with urllib.request.urlopen(request, context=self.context) as response:
            return orjson.loads(response.read())


def base_path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def reduced(node: Any, *, names: bool = False) -> Any:
    """The schema without prose: a single `allOf` reference becomes `$ref` beside its siblings."""
    if isinstance(node, list):
        return [reduced(item) for item in node]
    if not isinstance(node, dict):
        return node
    if names:
        return {name: reduced(item) for name, item in node.items()}
    kept = {key: value for key, value in node.items() if key != "description"}
    references = kept.get("allOf", [])
    if len(references) == 1 and set(references[0]) == {"$ref"}:
        del kept["allOf"]
        kept["$ref"] = references[0]["$ref"]
    if "$ref" in kept:
        kept["$ref"] = kept["$ref"].removeprefix(REF)
    if "x-kubernetes-group-version-kind" in kept:
        kept["x-kubernetes-group-version-kind"] = served_kinds(kept["x-kubernetes-group-version-kind"])
    return {key: value if key == "default" else reduced(value, names=key == "properties") for key, value in kept.items()}


def served_kinds(kinds: list[dict[str, str]]) -> list[dict[str, str]]:
    """Option kinds list every group of the server: keep the groups of the pack."""
    return [kind for kind in kinds if (kind["group"], kind["version"]) in GROUP_VERSIONS]


def references(node: Any) -> set[str]:
    if isinstance(node, list):
        return {name for item in node for name in references(item)}
    if not isinstance(node, dict):
        return set()
    own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
    return own.union(*(references(value) for value in node.values()))


def reachable(components: dict[str, Any], roots: set[str]) -> set[str]:
    seen: set[str] = set()
    waiting = set(roots)
    while waiting:
        name = waiting.pop()
        seen.add(name)
        waiting |= references(components[name]) - seen
    return seen


def with_go_fields(components: dict[str, Any], go: dict[str, dict[str, str]]) -> None:
    """Adds to each property how Go reads and writes it (see gotypes/main.go)."""
    for name, component in components.items():
        for field, node in component.get("properties", {}).items():
            if field in go.get(name, {}):
                node["go"] = go[name][field]


def collect(server: Server, go: dict[str, dict[str, str]]) -> dict[str, Any]:
    components: dict[str, Any] = {}
    roots = {META + name for name in ALWAYS}
    for group, version in GROUP_VERSIONS:
        document = server.get("/openapi/v3/" + base_path(group, version))
        result = {name: reduced(node) for name, node in document["components"]["schemas"].items()}
        components |= {name: node for name, node in result.items() if name not in components}
        for name, node in result.items():
            kinds = node.get("x-kubernetes-group-version-kind", [])
            if served_kinds(kinds) and "ComponentStatus" not in name:
                roots.add(name)
    components = {name: components[name] for name in reachable(components, roots)}
    with_go_fields(components, go)
    return components


def discovery(server: Server) -> list[dict[str, Any]]:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    documents = server.get("/api", accept)["items"] + server.get("/apis", accept)["items"]
    groups = []
    for document in documents:
        group = document.get("metadata", {}).get("name", "")
        versions = [
            {"version": version["version"], "resources": resources(server, group, version)}
            for version in document["versions"]
            if (group, version["version"]) in GROUP_VERSIONS
        ]
        if versions:
            groups.append({"group": group, "versions": versions})
    return groups


def resources(server: Server, group: str, version: dict[str, Any]) -> list[dict[str, Any]]:
    plain = server.get("/" + base_path(group, version["version"]))["resources"]
    hashes = {item["name"]: item["storageVersionHash"] for item in plain if "storageVersionHash" in item}
    return [
        resource | ({"storageVersionHash": hashes[resource["resource"]]} if resource["resource"] in hashes else {})
        for resource in version["resources"]
        if resource["resource"] not in LEFT_OUT
    ]


def write(path: Path, entries: dict[str, Any] | list[Any]) -> None:
    """JSON with one entry on a line, so that a change of version reads as a diff."""
    if isinstance(entries, list):
        lines = [orjson.dumps(entry, option=orjson.OPT_SORT_KEYS) for entry in entries]
        path.write_bytes(b"[\n" + b",\n".join(lines) + b"\n]\n")
        return
    lines = [orjson.dumps(name) + b":" + orjson.dumps(entries[name], option=orjson.OPT_SORT_KEYS) for name in sorted(entries)]
    path.write_bytes(b"{\n" + b",\n".join(lines) + b"\n}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--gotypes", required=True, type=Path)
    arguments = parser.parse_args()
    server = Server(arguments.server, arguments.token)
    packages: dict[str, dict[str, Any]] = defaultdict(dict)
    for name, node in collect(server, orjson.loads(arguments.gotypes.read_bytes())).items():
        package, _, _ = name.rpartition(".")
        packages[package][name] = node
    PACK.mkdir(parents=True, exist_ok=True)
    for old in PACK.glob("*.json"):
        old.unlink()
    for package, components in packages.items():
        write(PACK / f"{package}.json", components)
    write(PACK / "discovery.json", discovery(server))


if __name__ == "__main__":
    main()
