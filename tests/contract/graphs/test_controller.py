"""The graphs controller as a process on each cluster: a graph has the same outcome as with the real kro."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml
from tests.support import graph_lifecycle, graph_process, kro
from tests.support.chainsaw import apply, locate
from tests.support.clusters import real_enabled
from tests.support.deployments import DEPLOY, component, is_terminating
from tests.support.http import APPLY_PATCH
from tests.support.kro import GRAPHS
from tests.support.polling import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.real.processes import Process
    from tests.support.clusters import Cluster
    from tests.support.http import Api

# We write finalizer, labels and inventory at once, as the first of kro's two managers.
ONE_WRITE = frozenset({"kro.run/applyset-parent"})
BOX = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: box}
spec:
  schema: {apiVersion: v1alpha1, kind: Box, spec: {value: string | default=first}}
  resources:
  - id: settings
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {value: "${schema.spec.value}"}}
  - id: account
    lifecycle: {onDelete: restore}
    template: {apiVersion: v1, kind: ServiceAccount, metadata: {name: default, annotations: {box: "${settings.data.value}"}}}
"""


@pytest.fixture(scope="module")
def controller(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """The graphs controller, for all tests of this file."""
    with graph_process.running(cluster, tmp_path_factory.mktemp("graphs")) as process:
        yield process


@pytest.mark.usefixtures("controller")
def test_graph_matches_kro(api: Api, ns: str) -> None:
    graph_lifecycle.play(api, ns, owners=ONE_WRITE)


@pytest.mark.usefixtures("controller")
def test_default_service_account_is_restored(api: Api, ns: str) -> None:
    account = f"/api/v1/namespaces/{ns}/serviceaccounts/default"
    before = api.get(account).ok(200).json
    apply(api, yaml.load(BOX, yaml.CSafeLoader))
    graph_lifecycle.await_graph(api, "box")
    instance = {"apiVersion": "kro.run/v1alpha1", "kind": "Box", "metadata": {"name": "a", "namespace": ns}}
    apply(api, instance)
    eventually(lambda: api.get(account).json["metadata"].get("annotations", {}).get("box") == "first")
    api.delete(locate(api, instance)).ok()
    eventually(lambda: api.get(locate(api, instance)).status == 404, what="the box is deleted")
    after = api.get(account).ok(200).json
    for name in ("uid", "labels", "annotations"):
        assert after["metadata"].get(name) == before["metadata"].get(name)
    api.delete(f"{GRAPHS}/box").ok()


def test_restarted_controller_continues(cluster: Cluster, api: Api, ns: str, controller: Process, tmp_path: Path) -> None:
    graph = yaml.load(BOX.replace("box", "crate").replace("Box", "Crate"), yaml.CSafeLoader)
    apply(api, graph)
    graph_lifecycle.await_graph(api, "crate")
    controller.kill()
    crate = {"apiVersion": "kro.run/v1alpha1", "kind": "Crate", "metadata": {"name": "a", "namespace": ns}}
    apply(api, crate)
    with graph_process.running(cluster, tmp_path, "--leader-elect", f"--leader-election-namespace={ns}"):
        eventually(lambda: graph_lifecycle.active(api, locate(api, crate)), what="the crate is active")
        api.delete(locate(api, crate)).ok()
        eventually(lambda: api.get(locate(api, crate)).status == 404, what="the crate is deleted")
        api.get(f"/api/v1/namespaces/{ns}/configmaps/a").refused(404, "NotFound")
        lease = api.get(f"/apis/coordination.k8s.io/v1/namespaces/{ns}/leases/controller.kro.run").ok(200).json
        assert lease["spec"]["holderIdentity"]
        api.delete(f"{GRAPHS}/crate").ok()
        eventually(lambda: api.get(f"{GRAPHS}/crate").status == 404, what="the graph is deleted")
    controller.start()


def test_manifests_are_valid(api: Api) -> None:
    created = component(DEPLOY / "controllers", "graphs")
    assert {obj["kind"] for obj in created} >= {"Deployment", "ClusterRole", "Role", "Service", "ServiceAccount"}
    eventually(lambda: not is_terminating(api, "kro-system"), what="the namespace of another test is deleted")
    for obj in created:
        query = {"fieldManager": "contract", "fieldValidation": "Strict"}
        api.request("PATCH", locate(api, obj), obj, query=query, content_type=APPLY_PATCH).ok()
    for obj in created:
        if obj["kind"] in ("Namespace", "PriorityClass"):
            api.delete(locate(api, obj)).ok()


@pytest.mark.real
@pytest.mark.skipif(not real_enabled(), reason="needs kro built from its Go module: SLICEWORKS_REAL=1")
def test_instance_of_kro_is_taken_over(cluster: Cluster, api: Api, ns: str, controller: Process, tmp_path: Path) -> None:
    """We reconcile the objects that kro created without creating new ones, and kro can take them back."""
    controller.kill()
    plain = yaml.load(BOX.replace("box", "chest").replace("Box", "Chest"), yaml.CSafeLoader)
    del plain["spec"]["resources"][1]["lifecycle"]
    plain["spec"]["resources"][1]["template"]["metadata"]["name"] = "${schema.metadata.name}"
    chest = {"apiVersion": "kro.run/v1alpha1", "kind": "Chest", "metadata": {"name": "a", "namespace": ns}}
    settings = f"/api/v1/namespaces/{ns}/configmaps/a"
    with kro.running(cluster, tmp_path):
        apply(api, plain)
        graph_lifecycle.await_graph(api, "chest")
        apply(api, chest)
        eventually(lambda: graph_lifecycle.active(api, locate(api, chest)), what="kro's chest is active")
    created = api.get(settings).ok(200).json
    with graph_process.running(cluster, tmp_path):
        api.patch(locate(api, chest), {"spec": {"value": "second"}}).ok(200)
        eventually(lambda: api.get(settings).json["data"]["value"] == "second")
        assert api.get(settings).json["metadata"]["uid"] == created["metadata"]["uid"]
        assert len(api.get("/apis/internal.kro.run/v1alpha1/graphrevisions").json["items"]) >= 1
    with kro.running(cluster, tmp_path):
        api.patch(locate(api, chest), {"spec": {"value": "third"}}).ok(200)
        eventually(lambda: api.get(settings).json["data"]["value"] == "third")
        api.delete(locate(api, chest)).ok()
        eventually(lambda: api.get(settings).status == 404, what="kro deletes what we served")
        eventually(lambda: api.get(locate(api, chest)).status == 404)
        api.delete(f"{GRAPHS}/chest").ok()
    controller.start()
