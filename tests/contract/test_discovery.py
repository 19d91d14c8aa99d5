"""Discovery: version, health, groups and resources, unaggregated and aggregated."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support import goldens
from tests.support.objects import KINDS
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
GAPS = Path(__file__).parent / "discovery_gaps.yaml"
GROUPS = sorted(
    {kind.group_version for kind in KINDS} | {"apiextensions.k8s.io/v1", "authentication.k8s.io/v1", "authorization.k8s.io/v1"}
)


def test_version_is_reported(api: Api) -> None:
    version = api.get("/version").ok(200).json
    assert version["major"] == "1"
    assert version["minor"] == "35"
    assert version["gitVersion"].startswith("v1.35.")
    fields = {
        "gitCommit",
        "gitTreeState",
        "buildDate",
        "goVersion",
        "compiler",
        "platform",
        "emulationMajor",
        "minCompatibilityMajor",
    }
    assert fields <= version.keys()


def test_clients_find_that_the_server_shares_its_time(api: Api) -> None:
    """kubectl and cert-manager, among others, limit their own requests unless these headers are here."""
    headers = api.request("HEAD", "/livez/ping").ok(200).headers
    assert headers["X-Kubernetes-Pf-Flowschema-Uid"]
    assert headers["X-Kubernetes-Pf-Prioritylevel-Uid"]


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/livez/ping", "/readyz/ping", "/healthz/ping"])
def test_health_endpoints_are_ok(api: Api, path: str) -> None:
    answer = api.get(path, accept=None).ok(200)
    assert answer.text == "ok"
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"


def test_verbose_health_lists_checks(api: Api) -> None:
    text = api.get("/readyz", {"verbose": ""}, accept=None).ok(200).text
    assert text.startswith("[+]ping ok\n")
    assert text.endswith("readyz check passed\n")


def test_core_versions_are_listed(api: Api) -> None:
    body = api.get("/api").ok(200).json
    assert (body["kind"], body["versions"]) == ("APIVersions", ["v1"])
    assert body["serverAddressByClientCIDRs"][0]["clientCIDR"] == "0.0.0.0/0"


def test_groups_are_listed(api: Api) -> None:
    body = api.get("/apis").ok(200).json
    assert (body["kind"], body["apiVersion"]) == ("APIGroupList", "v1")
    groups = {group["name"]: group for group in body["groups"]}
    for group_version in GROUPS:
        if "/" in group_version:
            group, version = group_version.split("/")
            assert {"groupVersion": group_version, "version": version} in groups[group]["versions"]
    autoscaling = groups["autoscaling"]
    assert autoscaling["preferredVersion"] == {"groupVersion": "autoscaling/v2", "version": "v2"}
    assert [version["version"] for version in autoscaling["versions"]] == ["v2", "v1"]


def test_group_is_described(api: Api) -> None:
    body = api.get("/apis/apps").ok(200).json
    assert (body["kind"], body["apiVersion"], body["name"]) == ("APIGroup", "v1", "apps")
    assert body["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}


@pytest.mark.parametrize("group_version", GROUPS)
def test_resources_of_group_are_listed(cluster: Cluster, api: Api, group_version: str) -> None:
    path = "/api/v1" if group_version == "v1" else f"/apis/{group_version}"
    body = api.get(path).ok(200).json
    assert (body["kind"], body["groupVersion"]) == ("APIResourceList", group_version)
    served = {resource.pop("name"): resource for resource in body["resources"]}
    for resource in served.values():
        resource.pop("storageVersionHash", None)
        resource["verbs"] = sorted(resource["verbs"])
        resource["shortNames"] = sorted(resource.get("shortNames", []))
    recorded = {name: resource for name, resource in served.items() if _expected(group_version, name)}
    goldens.check("test_discovery", group_version, recorded, real=cluster.name == "real")


def test_every_resource_of_kubernetes_is_served(cluster: Cluster, api: Api) -> None:
    """What `discovery_gaps.yaml` lists is missing on the twin; everything else is equal."""
    real, seen = cluster.name == "real", {}
    groups = [version["groupVersion"] for group in api.get("/apis").ok(200).json["groups"] for version in group["versions"]]
    for group_version in ["v1", *groups]:
        for resource in api.get(_path(group_version)).ok(200).json["resources"]:
            seen[f"{group_version} {resource['name']}"] = _described(resource)
    if real:
        builtin = {
            name: text for name, text in seen.items() if "." not in name.split("/")[0] or name.split("/")[0].endswith(".k8s.io")
        }
        goldens.check("test_discovery_resources", "all", builtin, real=True)
    expected = goldens.recorded("test_discovery_resources", "all")
    gaps = {} if real else yaml.load(GAPS.read_text(), yaml.CSafeLoader)
    different = {name: (text, seen.get(name, "")) for name, text in expected.items() if seen.get(name, "") != text}
    assert different.keys() == gaps.keys(), different


def _path(group_version: str) -> str:
    return f"/apis/{group_version}" if "/" in group_version else f"/api/{group_version}"


def _described(resource: dict[str, Any]) -> str:
    """One line about a resource: its kind, its scope and its verbs, then its names and categories."""
    kind = "/".join(resource[field] for field in ("group", "version", "kind") if field in resource)
    names = [resource["singularName"], *resource.get("shortNames", ()), *(f"in {name}" for name in resource.get("categories", ()))]
    scope = "namespaced" if resource["namespaced"] else "cluster"
    return f"{kind} {scope} {','.join(sorted(resource['verbs']))}: {', '.join(names)}"


def _expected(group_version: str, name: str) -> bool:
    """Kinds that ML platforms use, with their subresources except those that need a node."""
    plural, _, subresource = name.partition("/")
    known = {kind.plural for kind in KINDS if kind.group_version == group_version}
    needs_node = {"proxy", "exec", "attach", "portforward", "ephemeralcontainers", "resize"}
    return (plural in known and subresource not in needs_node) or group_version.startswith(
        ("authentication", "authorization", "apiext")
    )


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_aggregated_discovery_equals_unaggregated(api: Api, path: str) -> None:
    def same() -> bool:
        answer = api.get(path, accept=f"{AGGREGATED},application/json").ok(200)
        assert answer.headers["Content-Type"] == AGGREGATED
        body = answer.json
        assert (body["kind"], body["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
        for group in body["items"]:
            for version in group["versions"]:
                root = "/api/v1" if path == "/api" else f"/apis/{group['metadata']['name']}/{version['version']}"
                assert _flat(version["resources"]) == _legacy(api.get(root).ok(200).json), root
                assert version["freshness"] == "Current"
        return True

    # Kinds of earlier tests may still be terminating.
    assert eventually(same, what="both are equal")


def _flat(resources: list[dict[str, Any]]) -> set[tuple[str, str, bool, tuple[str, ...]]]:
    seen = set()
    for entry in resources:
        namespaced = entry["scope"] == "Namespaced"
        if "responseKind" in entry and entry["responseKind"].get("kind"):
            seen.add((entry["resource"], entry["responseKind"]["kind"], namespaced, tuple(sorted(entry["verbs"]))))
        for sub in entry.get("subresources") or []:
            seen.add(
                (f"{entry['resource']}/{sub['subresource']}", sub["responseKind"]["kind"], namespaced, tuple(sorted(sub["verbs"])))
            )
    return seen


def _legacy(body: dict[str, Any]) -> set[tuple[str, str, bool, tuple[str, ...]]]:
    return {(r["name"], r["kind"], r["namespaced"], tuple(sorted(r["verbs"]))) for r in body["resources"]}


BETA = AGGREGATED.replace("v=v2", "v=v2beta1")
ACCEPTED_TYPES = "application/json, application/yaml, application/vnd.kubernetes.protobuf"


@pytest.mark.parametrize("path", ["/api", "/apis"])
@pytest.mark.parametrize(
    "accept",
    [
        f"{BETA},{AGGREGATED}",
        f"{AGGREGATED},{BETA},application/json",
        f"application/json,{AGGREGATED}",
        f"{AGGREGATED};profile=nopeer",
        "application/json; as=APIGroupDiscoveryList; v=v2; g=apidiscovery.k8s.io",
        f"text/html, {AGGREGATED}",
    ],
)
def test_aggregated_form_wins_wherever_it_is_accepted(api: Api, path: str, accept: str) -> None:
    answer = api.get(path, accept=accept).ok(200)
    assert answer.headers["Content-Type"] == AGGREGATED
    assert answer.headers["Vary"] == "Accept"
    assert answer.json["kind"] == "APIGroupDiscoveryList"


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_aggregated_discovery_as_yaml(api: Api, path: str) -> None:
    accept = AGGREGATED.replace("json", "yaml")
    answer = api.get(path, accept=accept).ok(200)
    assert answer.headers["Content-Type"] == accept
    assert answer.text.startswith("apiVersion: apidiscovery.k8s.io/v2\nitems:\n- metadata:")


@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps", "/apis/apps/v1"])
def test_discovery_as_yaml(api: Api, path: str) -> None:
    answer = api.get(path, accept="application/yaml").ok(200)
    assert answer.headers["Content-Type"] == "application/yaml"
    assert "\nkind: API" in f"\n{answer.text}"


@pytest.mark.parametrize("path", ["/api", "/apis"])
@pytest.mark.parametrize("accept", [f"{BETA},application/json", "text/html,application/json", "*/*", None])
def test_unknown_aggregated_versions_fall_back(api: Api, path: str, accept: str | None) -> None:
    answer = api.get(path, accept=accept).ok(200)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json["kind"] in {"APIVersions", "APIGroupList"}


@pytest.mark.parametrize("path", ["/api", "/apis"])
@pytest.mark.parametrize(
    "accept",
    [
        BETA,
        AGGREGATED.replace("v=v2", "v=v9"),
        AGGREGATED.replace("apidiscovery.k8s.io", "example.com"),
        "application/json;as=APIGroupDiscoveryList",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
    ],
)
def test_unknown_forms_of_discovery_are_not_acceptable(api: Api, path: str, accept: str) -> None:
    answer = api.get(path, accept=accept).refused(406, "NotAcceptable")
    assert answer.message == f"only the following media types are accepted: {ACCEPTED_TYPES}"
    assert "details" not in answer.json


@pytest.mark.parametrize("path", ["/apis/apps", "/apis/apps/v1"])
def test_single_groups_have_no_aggregated_form(api: Api, path: str) -> None:
    answer = api.get(path, accept=AGGREGATED).refused(406, "NotAcceptable")
    assert answer.message == f"only the following media types are accepted: {ACCEPTED_TYPES}"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/api", "406: Not Acceptable\n\nAvailable representations"),
        ("/apis", "only the following media types are accepted"),
        ("/apis/apps", "only the following media types are accepted"),
        ("/apis/apps/v1", "406: Not Acceptable\n\nAvailable representations"),
    ],
)
def test_unknown_media_types_of_discovery_are_not_acceptable(api: Api, path: str, words: str) -> None:
    answer = api.get(path, accept="text/html").refused(406, "NotAcceptable")
    assert answer.message == f"{words}: {ACCEPTED_TYPES}"


def test_aggregated_discovery_has_an_etag(api: Api) -> None:
    def unchanged() -> bool:
        first = api.get("/apis", accept=AGGREGATED).ok(200)
        return api.get("/apis", accept=AGGREGATED, headers={"If-None-Match": first.headers["ETag"]}).status == 304

    assert eventually(unchanged, what="nothing has changed between two requests")


@pytest.mark.parametrize("path", ["/apis/nothing.example.com", "/apis/nothing.example.com/v1/things", "/nowhere"])
def test_unknown_paths_are_not_found(api: Api, path: str) -> None:
    response = api.get(path)
    assert response.status == 404
    assert response.text == "404 page not found\n"
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8"


@pytest.mark.parametrize("path", ["/apis/apps/v9", "/api/v2", "/api/v1/nothings", "/apis/apps/v1/namespaces/default/nothings/x"])
def test_unknown_resources_are_not_found(api: Api, path: str) -> None:
    answer = api.get(path).refused(404, "NotFound", "the server could not find the requested resource")
    assert answer.json["details"] == {}


@pytest.mark.parametrize("method", ["POST", "OPTIONS", "DELETE"])
def test_non_resource_paths_accept_any_method(api: Api, method: str) -> None:
    assert "paths" in api.request(method, "/").ok(200).json
    assert api.request(method, "/nowhere").status == 404


def test_double_slashes_are_not_normalised(api: Api) -> None:
    assert api.get("//apis").status == 404
    assert api.get("/healthz/nothing").status == 404


def test_root_lists_paths(api: Api) -> None:
    paths = api.get("/").ok(200).json["paths"]
    assert {"/api", "/api/v1", "/apis", "/apis/apps/v1", "/healthz", "/openapi/v3", "/readyz", "/version"} <= set(paths)
