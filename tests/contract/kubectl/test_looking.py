"""kubectl commands that read: their output on the twin equals the output recorded on the real server."""

from __future__ import annotations

import re
import subprocess
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.clusters import real_enabled
from tests.support.objects import kind, pod
from tests.support.polling import eventually

if TYPE_CHECKING:
    from tests.support.clusters import Cluster
    from tests.support.http import Api
    from tests.support.kubectl import Kubectl

pytestmark = [
    pytest.mark.long(30),
    pytest.mark.real,
    pytest.mark.skipif(not real_enabled(), reason="needs kubectl built from its Go module: SLICEWORKS_REAL=1"),
]


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize(
    "output", ["", "wide", "name", "yaml", "json", "jsonpath={.items[*].metadata.name}", "custom-columns=N:.metadata.name"]
)
def test_get(kubectl: Kubectl, same: Any, output: str) -> None:
    flags = ["-o", output] if output else []
    for plural in (
        "deployments",
        "services",
        "configmaps/settings" if output != "jsonpath={.items[*].metadata.name}" else "services",
    ):
        same(kubectl("get", plural, *flags).ok(), f"{plural} {output}")


def test_get_nothing(kubectl: Kubectl, same: Any) -> None:
    output = kubectl("get", "pods")
    same(output.out + output.err, "empty")
    output = kubectl("get", "pod", "absent")
    assert output.code == 1
    same(output.err, "absent")
    output = kubectl("get", "nothings")
    assert output.code == 1
    same(output.err, "unknown")


@pytest.mark.usefixtures("platform")
def test_get_selectors_and_sorting(kubectl: Kubectl, same: Any) -> None:
    same(kubectl("get", "deploy,cm,svc", "-l", "app=web").ok(), "labels")
    same(kubectl("get", "cm", "--field-selector", "metadata.name=settings", "--show-labels").ok(), "fields")
    same(kubectl("get", "cm", "--sort-by=.metadata.name", "-o", "name").ok(), "sorted")
    same(kubectl("get", "deploy", "-L", "app", "--no-headers").ok(), "label column")
    same(kubectl("get", "cm", "--chunk-size=1", "-o", "name").ok(), "chunks")


def test_get_watch(kubectl: Kubectl, api: Api, core: str) -> None:
    watching = subprocess.Popen(
        kubectl.command("get", "pods", "--watch", "--output-watch-events"),
        stdout=subprocess.PIPE,
        text=True,
        env=kubectl.environment(),
    )
    try:
        assert watching.stdout is not None
        api.post(f"{core}/pods", pod()).ok(201)
        assert watching.stdout.readline().split() == ["EVENT", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        assert watching.stdout.readline().split()[:4] == ["ADDED", "p", "0/1", "Pending"]
        api.patch(f"{core}/pods/p/status", {"status": {"phase": "Running"}}).ok(200)
        assert watching.stdout.readline().split()[:4] == ["MODIFIED", "p", "0/1", "Running"]
        api.delete(f"{core}/pods/p").ok(200)
        assert watching.stdout.readline().split()[0] in ("MODIFIED", "DELETED")
    finally:
        watching.kill()
        watching.communicate()


@pytest.mark.usefixtures("platform")
@pytest.mark.parametrize("what", ["deployment/web", "service/web", "configmap/settings", "serviceaccount/default"])
def test_describe(kubectl: Kubectl, same: Any, what: str) -> None:
    # The real endpoints controller records an event when it has to retry.
    options = ["--show-events=false"] if what == "service/web" else []
    same(kubectl("describe", what, *options).ok(), what)


def test_describe_pod_with_events(kubectl: Kubectl, api: Api, core: str, same: Any, ns: str) -> None:
    created = api.post(f"{core}/pods", pod()).ok(201).json
    event: dict[str, Any] = {
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": ns, "uid": created["metadata"]["uid"]},
        "reason": "Pulled",
    }
    event |= {"type": "Normal", "message": "Image is there", "count": 1, "source": {"component": "kubelet"}}
    times = {"firstTimestamp": created["metadata"]["creationTimestamp"], "lastTimestamp": created["metadata"]["creationTimestamp"]}
    api.post(f"{core}/events", {"metadata": {"name": "e"}, **event, **times}).ok(201)
    same(kubectl("describe", "pod", "p").ok())
    same(kubectl("events").ok(), "events")
    same(kubectl("get", "events").ok(), "get events")
    same(kubectl("events", "--for", "pod/p", "--types=Warning").out, "no warnings")


def test_wait(kubectl: Kubectl, api: Api, core: str, same: Any) -> None:
    api.post(f"{core}/pods", pod()).ok(201)
    api.patch(f"{core}/pods/p/status", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}).ok(200)
    same(kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=90s").ok(), "ready")
    same(kubectl("wait", "--for=jsonpath={.status.phase}=Pending", "pod/p", "--timeout=90s").ok(), "jsonpath")
    output = kubectl("wait", "--for=condition=Other", "pod/p", "--timeout=1s")
    assert output.code == 1
    same(output.err, "timed out")
    api.delete(f"{core}/pods/p").ok(200)
    assert kubectl("wait", "--for=delete", "pod/p", "--timeout=90s").code == 0


@pytest.mark.parametrize(
    "what", ["pods", "deployment.spec.replicas", "pod.spec.containers.ports", "job.spec.completionMode", "cm.data"]
)
def test_explain(kubectl: Kubectl, what: str) -> None:
    text = kubectl("explain", what).ok()
    assert text.startswith(("KIND:", "GROUP:"))
    fields = re.findall(r"^  (\w+)\t(<.*)$", text, re.MULTILINE)
    path = what.split(".")
    assert len(path) > 2 or fields or "FIELD:" in text


def test_explain_fields(kubectl: Kubectl, same: Any) -> None:
    for what in ("pod.spec.containers", "deployment.spec", "job.spec"):
        text = kubectl("explain", what).ok()
        same("\n".join(sorted(re.findall(r"^  (\w+\t<.*)$", text, re.MULTILINE))), what)
    text = kubectl("explain", "configmap", "--recursive").ok()
    same("\n".join(re.findall(r"^ +\w+\t<.*$", text, re.MULTILINE)), "recursive")
    output = kubectl("explain", "pod.spec.nothing")
    assert output.code == 1
    same(output.err, "unknown")


NESTED = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "description": "What the widget should be.",
            "required": ["size"],
            "properties": {
                "size": {"type": "string", "description": "How large it is.", "enum": ["small", "large"]},
                "parts": {
                    "type": "array",
                    "description": "Its parts, in order.",
                    "items": {
                        "type": "object",
                        "description": "One part.",
                        "properties": {
                            "name": {"type": "string", "description": "The name of the part."},
                            "weights": {
                                "type": "object",
                                "description": "Weights by unit.",
                                "additionalProperties": {"type": "integer", "description": "One weight."},
                            },
                        },
                    },
                },
            },
        }
    },
}


def test_explain_shows_the_descriptions_of_a_custom_resource(kubectl: Kubectl, api: Api, ns: str, same: Any) -> None:
    group = f"{ns}.example.com"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": NESTED}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    definition = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    api.post(path, {"metadata": {"name": f"widgets.{group}"}, "spec": definition}).ok(201)
    eventually(lambda: kubectl("explain", f"widgets.{group}").code == 0, what="the kind is explained")
    for field in ("spec", "spec.size", "spec.parts", "spec.parts.name", "spec.parts.weights"):
        same(kubectl("explain", f"widgets.{group}.{field}").ok(), field)
    assert "The name of the part." in kubectl("explain", f"widgets.{group}.spec.parts").ok()
    api.delete(f"{path}/widgets.{group}").ok()


def test_api_resources(kubectl: Kubectl) -> None:
    rows = kubectl("api-resources", "--no-headers").ok().splitlines()
    assert any(re.match(r"pods +po +v1 +true +Pod$", row) for row in rows)
    assert any(re.match(r"deployments +deploy +apps/v1 +true +Deployment$", row) for row in rows)
    assert "namespaces" in kubectl("api-resources", "--namespaced=false", "-o", "name").ok().splitlines()
    assert {"v1", "apps/v1", "batch/v1", "autoscaling/v2"} <= set(kubectl("api-versions").ok().split())


def test_auth(kubectl: Kubectl, same: Any) -> None:
    assert kubectl("auth", "can-i", "create", "pods").ok() == "yes\n"
    output = kubectl("auth", "can-i", "list", "secrets", "--as=jane")
    assert (output.code, output.out) == (1, "no\n")
    assert kubectl("create", "rolebinding", "viewer", "--clusterrole=view", "--user=jane").code == 0
    eventually(lambda: kubectl("auth", "can-i", "list", "pods", "--as=jane").out == "yes\n")
    output = kubectl("get", "secrets", "--as=jane")
    assert output.code == 1
    same(output.err, "forbidden")
    listed = kubectl("auth", "can-i", "--list", "--as=jane").ok()
    assert re.search(r"^pods\s+\[\]\s+\[\]\s+\[get list watch\]$", listed, re.MULTILINE)
    assert "system:authenticated" in kubectl("auth", "whoami", "--as=jane", "--as-group=system:authenticated").ok()


def test_logs(kubectl: Kubectl, api: Api, core: str, same: Any) -> None:
    output = kubectl("logs", "absent")
    assert output.code == 1
    same(output.err, "absent")
    two = pod("two")
    two["spec"]["containers"].append({"name": "side", "image": "s"})
    api.post(f"{core}/pods", two).ok(201)
    output = kubectl("logs", "two", "-c", "nope")
    assert output.code == 1
    same(output.err, "container")


def test_top_level_listing_of_all(kubectl: Kubectl, api: Api, ns: str, same: Any) -> None:
    for plural in ("pods", "jobs", "statefulsets"):
        one = kind(plural)
        api.post(one.collection(ns), one.object("x", ns)).ok(201)
    same(kubectl("get", "all").ok())


def test_cluster_info_and_version(kubectl: Kubectl, cluster: Cluster) -> None:
    assert f"Kubernetes control plane is running at {cluster.url}" in kubectl("cluster-info").ok()
    version = orjson.loads(kubectl("version", "-o", "json").ok())
    assert version["serverVersion"]["minor"] == "35"
