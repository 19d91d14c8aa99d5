"""kubectl commands that write: their output on the twin equals the output recorded on the real server."""

from __future__ import annotations

import re
import stat
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support.clusters import real_enabled
from tests.support.kubectl import PLATFORM
from tests.support.polling import eventually

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.http import Api
    from tests.support.kubectl import Kubectl

pytestmark = [
    pytest.mark.long(30),
    pytest.mark.real,
    pytest.mark.skipif(not real_enabled(), reason="needs kubectl built from its Go module: SLICEWORKS_REAL=1"),
]


def test_create(kubectl: Kubectl, same: Any) -> None:
    same(kubectl("create", "-f", "-", text=PLATFORM).ok())
    again = kubectl("create", "-f", "-", text=PLATFORM)
    assert again.code == 1
    same(again.err, "again")
    same(kubectl("create", "configmap", "literal", "--from-literal=a=1", "-o", "yaml").ok(), "literal")


def test_create_refused(kubectl: Kubectl, same: Any) -> None:
    output = kubectl("create", "-f", "-", text=PLATFORM.replace("replicas: 2", "replicass: 2"))
    assert output.code == 1
    same(output.err)
    output = kubectl("create", "-f", "-", text=PLATFORM.replace("replicas: 2", "replicas: -2"))
    same(output.err, "invalid")


def test_apply(kubectl: Kubectl, same: Any) -> None:
    same(kubectl("apply", "-f", "-", text=PLATFORM).ok())
    same(kubectl("apply", "-f", "-", text=PLATFORM).ok(), "again")
    changed = PLATFORM.replace("replicas: 2", "replicas: 5").replace(', size: "3"', "").replace("web:1", "web:2")
    same(kubectl("apply", "-f", "-", text=changed).ok(), "changed")
    same(kubectl("get", "configmap", "settings", "-o", "jsonpath={.data}").ok(), "data")
    same(
        kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image}").ok(),
        "spec",
    )


def test_apply_prune(kubectl: Kubectl, same: Any) -> None:
    kubectl("apply", "-f", "-", text=PLATFORM).ok()
    rest = PLATFORM.split("---")[1]
    same(kubectl("apply", "--prune", "-l", "app=web", "-f", "-", text=rest).ok())


def test_server_side_apply(kubectl: Kubectl, same: Any) -> None:
    same(kubectl("apply", "--server-side", "-f", "-", text=PLATFORM).ok())
    other = PLATFORM.replace("colour: blue", "colour: red")
    output = kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", text=other)
    assert output.code == 1
    same(output.err, "conflict")
    same(kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", text=other).ok(), "forced")
    same(kubectl("get", "configmap", "settings", "-o", "yaml", "--show-managed-fields").ok(), "managed")


def test_apply_moves_from_client_to_server_side(kubectl: Kubectl, same: Any) -> None:
    kubectl("apply", "-f", "-", text=PLATFORM).ok()
    same(kubectl("apply", "--server-side", "-f", "-", text=PLATFORM.replace("blue", "green")).ok())
    same(kubectl("get", "configmap", "settings", "-o", "yaml", "--show-managed-fields").ok(), "managed")


@pytest.mark.usefixtures("platform")
def test_diff(kubectl: Kubectl, same: Any) -> None:
    assert kubectl("diff", "-f", "-", text=PLATFORM).code == 0
    output = kubectl("diff", "-f", "-", text=PLATFORM.replace("replicas: 2", "replicas: 9").replace("blue", "red"))
    assert output.code == 1
    same(re.sub(r"^(---|\+\+\+|diff).*$", r"\1", output.out, flags=re.MULTILINE))
    assert kubectl("diff", "--server-side", "-f", "-", text=PLATFORM.replace("replicas: 2", "replicas: 9")).code == 1


@pytest.mark.usefixtures("platform")
def test_edit(kubectl: Kubectl, tmp_path: Path, same: Any) -> None:
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i 's/colour: blue/colour: green/' \"$1\"\n")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    same(kubectl("edit", "configmap", "settings", env={"EDITOR": str(editor)}).ok())
    assert kubectl("get", "cm", "settings", "-o", "jsonpath={.data.colour}").ok() == "green"
    editor.write_text("#!/bin/sh\ntrue\n")
    same(kubectl("edit", "configmap", "settings", env={"EDITOR": str(editor)}).ok(), "unchanged")


@pytest.mark.usefixtures("platform")
def test_label_and_annotate(kubectl: Kubectl, same: Any) -> None:
    same(kubectl("label", "configmap", "settings", "tier=back").ok(), "label")
    output = kubectl("label", "configmap", "settings", "tier=front")
    assert output.code == 1
    same(output.err, "refused")
    same(kubectl("label", "configmap", "settings", "tier=front", "--overwrite").ok(), "overwrite")
    same(kubectl("label", "configmap", "settings", "tier-").ok(), "remove")
    same(kubectl("annotate", "deployment", "web", "note=hello", "other=x").ok(), "annotate")
    same(
        kubectl("annotate", "--all", "configmaps", "note=hi", "--dry-run=server").ok().replace("kube-root-ca.crt", "root"),
        "dry run",
    )


@pytest.mark.usefixtures("platform")
def test_patch(kubectl: Kubectl, same: Any) -> None:
    strategic = '{"spec":{"template":{"spec":{"containers":[{"name":"side","image":"s"}]}}}}'
    same(kubectl("patch", "deployment", "web", "-p", strategic).ok(), "strategic")
    same(kubectl("patch", "deployment", "web", "--type=merge", "-p", '{"spec":{"replicas":4}}').ok(), "merge")
    same(
        kubectl("patch", "deployment", "web", "--type=json", "-p", '[{"op":"replace","path":"/spec/replicas","value":6}]').ok(),
        "json",
    )
    same(kubectl("patch", "deployment", "web", "-p", "{}").ok(), "nothing")
    same(
        kubectl("patch", "deployment", "web", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":3}}').ok(),
        "status",
    )
    same(kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas} {.status.replicas} {..image}").ok(), "result")
    output = kubectl("patch", "deployment", "web", "--type=merge", "-p", '{"spec":{"replicas":"x"}}')
    assert output.code == 1


@pytest.mark.usefixtures("platform")
def test_scale(kubectl: Kubectl, same: Any) -> None:
    same(kubectl("scale", "deployment", "web", "--replicas=7").ok())
    assert kubectl("get", "deployment", "web", "-o", "jsonpath={.spec.replicas}").ok() == "7"
    output = kubectl("scale", "deployment", "web", "--current-replicas=1", "--replicas=2")
    assert output.code == 1
    same(output.err, "expected another")


@pytest.mark.usefixtures("platform")
def test_rollout(kubectl: Kubectl, api: Api, ns: str, same: Any) -> None:
    path = f"/apis/apps/v1/namespaces/{ns}/deployments/web/status"
    status = {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2, "readyReplicas": 2}
    api.patch(path, {"status": status}).ok(200)
    same(kubectl("rollout", "status", "deployment/web", "--timeout=90s").ok(), "status")
    same(kubectl("rollout", "restart", "deployment/web").ok(), "restart")
    same(kubectl("rollout", "pause", "deployment/web").ok(), "pause")
    same(kubectl("rollout", "resume", "deployment/web").ok(), "resume")
    output = kubectl("rollout", "status", "deployment/web", "--timeout=3s")
    assert output.code == 1
    same(output.out + output.err, "timed out")


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_delete(kubectl: Kubectl, api: Api, core: str, same: Any, cascade: str) -> None:
    owner = api.post(f"{core}/configmaps", {"metadata": {"name": "owner"}}).ok(201).json
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": True,
    }
    api.post(f"{core}/configmaps", {"metadata": {"name": "owned", "ownerReferences": [reference]}}).ok(201)
    same(kubectl("delete", "configmap", "owner", f"--cascade={cascade}", "--timeout=90s").ok(), cascade)
    api.get(f"{core}/configmaps/owner").refused(404, "NotFound")
    if cascade == "orphan":
        api.get(f"{core}/configmaps/owned").ok(200)
    else:
        eventually(lambda: api.get(f"{core}/configmaps/owned").status == 404)


@pytest.mark.usefixtures("platform")
def test_delete_many(kubectl: Kubectl, same: Any) -> None:
    same(kubectl("delete", "-f", "-", "--dry-run=server", text=PLATFORM).ok(), "dry run")
    same(kubectl("delete", "-f", "-", text=PLATFORM).ok())
    output = kubectl("delete", "-f", "-", text=PLATFORM)
    assert output.code == 1
    same(output.err, "again")
    same(kubectl("delete", "-f", "-", "--ignore-not-found", text=PLATFORM).ok(), "ignored")


def test_delete_namespace(kubectl: Kubectl, ns: str) -> None:
    assert kubectl("delete", "namespace", ns, "--timeout=120s").ok().strip() == f'namespace "{ns}" deleted'


def test_run_expose_autoscale_and_set(kubectl: Kubectl, same: Any) -> None:
    same(kubectl("run", "p", "--image=example.com/p", "--port=80", "--labels=app=p").ok(), "run")
    same(kubectl("expose", "pod", "p", "--port=80", "--name=p").ok(), "expose")
    same(kubectl("create", "deployment", "d", "--image=example.com/d").ok(), "deployment")
    same(kubectl("autoscale", "deployment", "d", "--max=3").ok(), "autoscale")
    same(kubectl("set", "image", "deployment/d", "d=example.com/d:2").ok(), "set image")
    same(kubectl("set", "env", "deployment/d", "A=b").ok(), "set env")
    same(kubectl("create", "job", "j", "--image=example.com/j").ok(), "job")
    same(kubectl("create", "token", "default").ok().split(".")[0][:4], "token")
    same(kubectl("get", "hpa,job,pod,deploy,svc").ok(), "get")


def test_replace(kubectl: Kubectl, same: Any) -> None:
    kubectl("create", "-f", "-", text=PLATFORM).ok()
    same(kubectl("replace", "-f", "-", text=PLATFORM.replace("blue", "red").split("---")[0]).ok())
    same(kubectl("replace", "--force", "-f", "-", text=PLATFORM.split("---", maxsplit=1)[0]).ok(), "forced")


def test_custom_resources(kubectl: Kubectl, same: Any, unique_name: str) -> None:
    group = f"{unique_name}.example.com"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [column],
    }
    names = {"plural": "boxes", "kind": "Box", "shortNames": [f"bx{unique_name.replace('-', '')}"]}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"boxes.{group}"},
        "spec": spec,
    }
    kubectl("apply", "-f", "-", text=orjson.dumps(crd).decode()).ok()
    kubectl("wait", "--for=condition=Established", f"crd/boxes.{group}", "--timeout=90s").ok()
    box = f"apiVersion: {group}/v1\nkind: Box\nmetadata: {{name: b}}\nspec: {{size: 4}}\n"
    eventually(lambda: kubectl("apply", "-f", "-", text=box).code == 0)
    bigger = box.replace("size: 4", "size: 5")
    eventually(lambda: kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", text=bigger).code == 0)
    same(kubectl("get", f"boxes.{group}").ok(), "get")
    output = eventually(lambda: kubectl("explain", names["shortNames"][0]).out)
    assert "spec\t<Object>" in output
    wrong = kubectl("apply", "-f", "-", text=box.replace("size", "sise").replace("name: b", "name: c"))
    assert wrong.code == 1
    same(wrong.err.replace(group, "GROUP"), "unknown field")
    kubectl("delete", "crd", f"boxes.{group}").ok()


def test_drain_and_taint(kubectl: Kubectl, api: Api, unique_name: str) -> None:
    api.post("/api/v1/nodes", {"metadata": {"name": unique_name}}).ok(201)
    kubectl("taint", "nodes", unique_name, "tpu=present:NoSchedule").ok()
    kubectl("cordon", unique_name).ok()
    node = api.get(f"/api/v1/nodes/{unique_name}").json
    assert node["spec"]["unschedulable"] is True
    kubectl("drain", unique_name, "--ignore-daemonsets", "--timeout=90s").ok()
    kubectl("uncordon", unique_name).ok()
    assert "unschedulable" not in api.get(f"/api/v1/nodes/{unique_name}").json["spec"]
