"""ResourceGraphDefinitions on a twin: validation, revisions, missing kinds, external references."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.graph_controller import A_BOX, BOX, BOXES, GRAPHS, REVISIONS, GraphHarness, controller_on, run_with_controller

from sliceworks.controllers.graphs import Options
from sliceworks.controllers.graphs.compiler import ClusterKinds

if TYPE_CHECKING:
    import pytest

Object = dict[str, Any]
CORE = "/api/v1/namespaces/default"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BROKEN = BOX.replace("${schema.spec.value}", "${missing.spec.value}")


async def data(harness: GraphHarness, name: str = "a") -> Any:
    return (await harness.get(f"{CORE}/configmaps/{name}")).get("data")


def test_invalid_definition_is_rejected() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(BROKEN)
        result = await harness.get(f"{GRAPHS}/box")
        assert result["status"]["state"] == "Inactive"
        accepted = await harness.condition(f"{GRAPHS}/box", "GraphAccepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "InvalidResourceGraph")
        assert "missing" in accepted["message"]
        assert await harness.twin.gone(f"{CRDS}/boxes.kro.run")
        events = await harness.twin.do("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        assert [item["reason"] for item in events["items"]] == ["InvalidResourceGraph"]

    run_with_controller(main)


def test_last_valid_revision_keeps_serving() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        async with controller_on(twin) as harness:
            await harness.apply(BOX)
            await harness.apply(A_BOX)
            await harness.apply(BROKEN)
            assert (await harness.get(f"{GRAPHS}/box"))["status"]["state"] == "Inactive"
            await harness.twin.do("PATCH", f"{BOXES}/a", {"spec": {"value": "second"}})
            await harness.settle()
            assert await data(harness) == {"value": "second"}
        # A controller that starts with the invalid one also serves the last valid one.
        async with controller_on(twin) as harness:
            await harness.settle()
            await harness.twin.do("PATCH", f"{BOXES}/a", {"spec": {"value": "third"}})
            await harness.settle()
            assert await data(harness) == {"value": "third"}
            await harness.apply(BOX)
            assert (await harness.get(f"{GRAPHS}/box"))["status"]["state"] == "Active"

    run_on_twin(main)


def test_revision_history_limit() -> None:
    async def main(harness: GraphHarness) -> None:
        for number in range(7):
            await harness.apply(BOX.replace(" data: {", f" data: {{version: '{number}', "))
        assert await harness.names(REVISIONS) == [f"box-r{number:05d}" for number in range(3, 8)]
        newest = await harness.get(f"{REVISIONS}/box-r00007")
        assert newest["status"]["topologicalOrder"] == ["child"]
        assert [condition["status"] for condition in newest["status"]["conditions"]] == ["True", "True"]
        assert newest["metadata"]["finalizers"] == ["kro.run/finalizer"]
        assert (await harness.get(f"{GRAPHS}/box"))["status"]["lastIssuedRevision"] == 7
        # Order and comments do not make a new revision.
        await harness.apply(BOX.replace(" data: {", " data: {version: '6', ") + "\n# the same")
        assert len(await harness.names(REVISIONS)) == 5

    run_with_controller(main)


def test_revisions_are_deleted_with_definition() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX)
        await harness.twin.do("DELETE", f"{GRAPHS}/box")
        await harness.settle(60)
        assert await harness.names(REVISIONS) == []
        assert not await harness.twin.gone(f"{CRDS}/boxes.kro.run")

    run_with_controller(main)


def test_breaking_change_needs_annotation() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX)
        await harness.apply(A_BOX)
        narrower = BOX.replace("value: string | default=first", "value: integer | default=1").replace(
            '"${schema.spec.value}"}}', '"${string(schema.spec.value)}"}}'
        )
        await harness.apply(narrower)
        ready = await harness.condition(f"{GRAPHS}/box", "KindReady")
        assert ready["status"] == "False"
        assert "breaking changes detected: Type changed from string to integer" in ready["message"]
        await harness.twin.do("PATCH", f"{BOXES}/a", {"spec": {"value": "second"}})
        await harness.settle()
        assert await data(harness) == {"value": "second"}
        allow = {"metadata": {"annotations": {"kro.run/allow-breaking-changes": "true"}}}
        await harness.twin.do("PATCH", f"{GRAPHS}/box", allow)
        await harness.settle()
        assert (await harness.condition(f"{GRAPHS}/box", "Ready"))["status"] == "True"

    run_with_controller(main)


def test_foreign_crd_is_not_changed() -> None:
    async def main(harness: GraphHarness) -> None:
        names = {"kind": "Box", "plural": "boxes", "listKind": "BoxList", "singular": "box"}
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
        spec = {"group": "kro.run", "names": names, "scope": "Namespaced", "versions": [version]}
        typed = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        await harness.twin.do("POST", CRDS, {**typed, "metadata": {"name": "boxes.kro.run"}, "spec": spec})
        await harness.apply(BOX)
        assert "not owned by KRO" in (await harness.condition(f"{GRAPHS}/box", "KindReady"))["message"]

    run_with_controller(main)


def test_definition_waits_for_missing_kind() -> None:
    async def main(harness: GraphHarness) -> None:
        outer = BOX.replace("{name: box}", "{name: crate}").replace("kind: Box", "kind: Crate")
        outer = outer.replace("apiVersion: v1, kind: ConfigMap", "apiVersion: kro.run/v1alpha1, kind: Box").replace(
            'data: {value: "${schema.spec.value}"}', 'spec: {value: "${schema.spec.value}"}'
        )
        await harness.apply(outer)
        message = (await harness.condition(f"{GRAPHS}/crate", "GraphAccepted"))["message"]
        assert "retried when the cluster serves Box in kro.run/v1alpha1" in message
        await harness.apply(BOX)
        assert (await harness.condition(f"{GRAPHS}/crate", "Ready"))["status"] == "True"
        # Nested graphs: the inner instance is an ordinary object.
        await harness.apply("{apiVersion: kro.run/v1alpha1, kind: Crate, metadata: {name: a}, spec: {value: deep}}")
        assert await data(harness) == {"value": "deep"}
        await harness.twin.do("DELETE", "/apis/kro.run/v1alpha1/namespaces/default/crates/a")
        await harness.settle()
        assert await harness.twin.gone(f"{CORE}/configmaps/a")
        assert await harness.twin.gone(f"{BOXES}/a")

    run_with_controller(main)


def test_late_discovery_of_established_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real API server establishes a definition before its discovery lists it, and sends no event afterwards."""
    requests, find = list[str](), ClusterKinds._find

    async def late(kinds: ClusterKinds, api_version: str, kind: str) -> object:
        requests.append(kind)
        return None if requests.count("Thing") < 4 and kind == "Thing" else await find(kinds, api_version, kind)

    monkeypatch.setattr(ClusterKinds, "_find", late)

    async def main(harness: GraphHarness) -> None:
        await harness.apply(
            "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {"
            "group: example.com, scope: Namespaced, names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}, "
            "versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}"
        )
        obj = BOX.replace("apiVersion: v1, kind: ConfigMap", "apiVersion: example.com/v1, kind: Thing")
        await harness.apply(obj.replace(', data: {value: "${schema.spec.value}"}', ""))
        await harness.settle(10)
        assert requests.count("Thing") >= 4
        assert (await harness.condition(f"{GRAPHS}/box", "Ready"))["status"] == "True"

    run_with_controller(main)


def test_deleted_crd_is_recreated() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX)
        await harness.twin.do("DELETE", f"{CRDS}/boxes.kro.run")
        await harness.settle(10)
        assert not await harness.twin.gone(f"{CRDS}/boxes.kro.run")

    run_with_controller(main)


def test_crd_deletion_needs_option() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX)
        await harness.twin.do("DELETE", f"{GRAPHS}/box")
        await harness.settle()
        assert await harness.twin.gone(f"{CRDS}/boxes.kro.run")

    run_with_controller(main, Options(allow_crd_deletion=True))


EXTERNAL = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: box}
spec:
  schema: {apiVersion: v1alpha1, kind: Box, spec: {label: string | default=red}}
  resources:
  - id: one
    externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}
  - id: many
    externalRef:
      apiVersion: v1
      kind: ConfigMap
      metadata: {selector: {matchLabels: {colour: "${schema.spec.label}"}}}
  - id: child
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}"}
      data: {one: "${one.data.value}", many: "${string(size(many))}"}
"""


def config(name: str, namespace: str = "default", colour: str = "", **values: str) -> Object:
    metadata: Object = {"name": name, "namespace": namespace, "labels": {"colour": colour} if colour else {}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": values}


def test_external_references_are_watched() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(EXTERNAL)
        await harness.apply(A_BOX)
        assert (await harness.get(f"{BOXES}/a"))["status"]["state"] == "IN_PROGRESS"
        assert await harness.twin.gone(f"{CORE}/configmaps/a")
        await harness.apply_one(config("settings", value="x"))
        assert await data(harness) == {"one": "x", "many": "0"}
        await harness.apply_one({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        await harness.apply_one(config("red-1", "other", "red"))
        await harness.apply_one(config("red-2", "default", "red"))
        await harness.apply_one(config("blue", "default", "blue"))
        assert await data(harness) == {"one": "x", "many": "2"}
        await harness.apply_one(config("settings", value="y"))
        await harness.twin.do("DELETE", "/api/v1/namespaces/other/configmaps/red-1")
        await harness.settle()
        assert await data(harness) == {"one": "y", "many": "1"}
        await harness.twin.do("DELETE", f"{BOXES}/a")
        await harness.settle()
        assert not await harness.twin.gone(f"{CORE}/configmaps/settings")

    run_with_controller(main)


SPREAD = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: box}
spec:
  schema: {apiVersion: v1alpha1, kind: Box, scope: Cluster, spec: {places: "[]string"}}
  resources:
  - id: children
    forEach: [{place: "${schema.spec.places}"}]
    readyWhen: ["${each.data.done == 'yes'}"]
    template:
      apiVersion: v1
      kind: ConfigMap
      metadata: {name: "${schema.metadata.name}", namespace: "${place}"}
"""


def test_collection_in_other_namespaces() -> None:
    async def main(harness: GraphHarness) -> None:
        for name in ("one", "two"):
            await harness.apply_one({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await harness.apply(SPREAD)
        await harness.apply("{apiVersion: kro.run/v1alpha1, kind: Box, metadata: {name: a}, spec: {places: [one, two]}}")
        box = "/apis/kro.run/v1alpha1/boxes/a"
        assert (await harness.get(box))["metadata"]["annotations"]["applyset.kubernetes.io/additional-namespaces"] == "one,two"
        for name in ("one", "two"):
            assert (await harness.get(box))["status"]["state"] == "IN_PROGRESS"
            await harness.twin.do("PATCH", f"/api/v1/namespaces/{name}/configmaps/a", {"data": {"done": "yes"}})
            await harness.settle()
        assert (await harness.get(box))["status"]["state"] == "ACTIVE"
        await harness.twin.do("PATCH", box, {"spec": {"places": ["two"]}})
        await harness.settle()
        assert await harness.twin.gone("/api/v1/namespaces/one/configmaps/a")
        await harness.twin.do("DELETE", box)
        await harness.settle()
        assert await harness.twin.gone(box)
        assert await harness.twin.gone("/api/v1/namespaces/two/configmaps/a")

    run_with_controller(main)


def test_restart_does_not_write() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        async with controller_on(twin) as harness:
            await harness.apply(BOX)
            await harness.apply(A_BOX)
        async with controller_on(twin) as harness:
            await harness.settle(60)
            known = {path for _, path in harness.transport.writes}
            assert {path for path in known if "customresourcedefinitions" not in path} == set()

    run_on_twin(main)


def test_removed_label_is_restored() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX)
        await harness.apply(A_BOX)
        nothing = dict.fromkeys(("kro.run/owned", "applyset.kubernetes.io/part-of"))
        await harness.twin.do("PATCH", f"{CORE}/configmaps/a", {"metadata": {"labels": nothing}})
        await harness.settle()
        labels = (await harness.get(f"{CORE}/configmaps/a"))["metadata"]["labels"]
        assert labels["kro.run/owned"] == "true"
        assert labels["applyset.kubernetes.io/part-of"].startswith("applyset-")

    run_with_controller(main)


def test_tampered_inventory_blocks_deletion() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX)
        await harness.apply(A_BOX)
        await harness.twin.do("PATCH", f"{BOXES}/a", {"metadata": {"annotations": {"kro.run/reconcile": "suspended"}}})
        await harness.settle()
        tampered = {"metadata": {"annotations": {"applyset.kubernetes.io/contains-group-kinds": "Secret"}}}
        await harness.twin.do("PATCH", f"{BOXES}/a", tampered)
        await harness.twin.do("DELETE", f"{BOXES}/a")
        await harness.settle()
        result = await harness.get(f"{BOXES}/a")
        assert result["status"]["state"] == "DELETING"
        assert "deletion blocked" in (await harness.condition(f"{BOXES}/a", "ResourcesReady"))["message"]
        mended = {"metadata": {"annotations": {"applyset.kubernetes.io/contains-group-kinds": "ConfigMap"}}}
        await harness.twin.do("PATCH", f"{BOXES}/a", mended)
        await harness.settle(60)
        assert await harness.twin.gone(f"{BOXES}/a")
        assert await harness.twin.gone(f"{CORE}/configmaps/a")

    run_with_controller(main)


WAVES = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: box}
spec:
  schema: {apiVersion: v1alpha1, kind: Box}
  resources:
  - id: first
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: first}}
  - id: second
    template: {apiVersion: v1, kind: Secret, metadata: {name: "${first.metadata.name}-second"}}
  - id: third
    dependsOn: [second]
    template: {apiVersion: v1, kind: ConfigMap, metadata: {name: third, finalizers: [example.com/hold]}}
"""


def test_deletion_is_in_reverse_apply_order() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(WAVES)
        await harness.apply(A_BOX)
        assert (await harness.get(f"{BOXES}/a"))["status"]["state"] == "ACTIVE"
        await harness.twin.do("DELETE", f"{BOXES}/a")
        await harness.settle(60)
        # The third has a foreign finalizer: the earlier ones are not deleted.
        assert (await harness.get(f"{BOXES}/a"))["status"]["state"] == "DELETING"
        assert not await harness.twin.gone(f"{CORE}/secrets/first-second")
        await harness.twin.do("PATCH", f"{CORE}/configmaps/third", {"metadata": {"finalizers": []}})
        await harness.settle()
        assert await harness.twin.gone(f"{CORE}/secrets/first-second")
        assert await harness.twin.gone(f"{CORE}/configmaps/first")
        assert await harness.twin.gone(f"{BOXES}/a")

    run_with_controller(main)


def test_instance_deletion_with_invalid_definition() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        async with controller_on(twin) as harness:
            await harness.apply(BOX)
            await harness.apply(A_BOX)
        async with controller_on(twin, Options(install_definitions=False)) as harness:
            for name in await harness.names(REVISIONS):
                await harness.twin.do("DELETE", f"{REVISIONS}/{name}")
            await harness.apply(BROKEN)
        async with controller_on(twin) as harness:
            await harness.settle()
            await harness.twin.do("DELETE", f"{BOXES}/a")
            await harness.settle()
            assert await harness.twin.gone(f"{BOXES}/a")
            assert await harness.twin.gone(f"{CORE}/configmaps/a")

    run_on_twin(main)


def test_deprecated_form_gets_event() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX.replace("apiVersion: v1alpha1", "apiVersion: kro.run/v1alpha1"))
        assert (await harness.get(f"{GRAPHS}/box"))["status"]["state"] == "Active"
        events = await harness.twin.do("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        assert ["is deprecated" in item["note"] for item in events["items"] if item["reason"] == "DeprecatedForm"] == [True]

    run_with_controller(main)


def test_permanent_failure_is_reported_once() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX.replace('"${schema.spec.value}"}}', '"${string(10 / int(schema.spec.value))}"}}'))
        await harness.apply("{apiVersion: kro.run/v1alpha1, kind: Box, metadata: {name: a}, spec: {value: '0'}}")
        assert (await harness.get(f"{BOXES}/a"))["status"]["state"] == "ERROR"
        assert "10 / int(schema.spec.value)" in (await harness.condition(f"{BOXES}/a", "Ready"))["message"]
        before = len(harness.transport.sent)
        await harness.settle(200)
        assert harness.transport.sent[before:] == []
        await harness.twin.do("PATCH", f"{BOXES}/a", {"spec": {"value": "5"}})
        await harness.settle()
        assert await data(harness) == {"value": "2"}

    run_with_controller(main)


def test_removed_resource_is_pruned() -> None:
    async def main(harness: GraphHarness) -> None:
        other = """
  - id: secret
    template: {apiVersion: v1, kind: Secret, metadata: {name: "${schema.metadata.name}"}}
"""
        await harness.apply(BOX.rstrip() + other)
        await harness.apply(A_BOX)
        assert not await harness.twin.gone(f"{CORE}/secrets/a")
        await harness.apply(BOX)
        assert await harness.twin.gone(f"{CORE}/secrets/a")
        kinds = (await harness.get(f"{BOXES}/a"))["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"]
        assert kinds == "ConfigMap"
        assert await data(harness) == {"value": "first"}

    run_with_controller(main)


def test_custom_group() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(BOX.replace("    kind: Box", "    kind: Box\n    group: example.com"))
        await harness.apply("{apiVersion: example.com/v1alpha1, kind: Box, metadata: {name: a}}")
        result = await harness.get("/apis/example.com/v1alpha1/namespaces/default/boxes/a")
        assert result["status"]["state"] == "ACTIVE"
        labels = (await harness.get(f"{CORE}/configmaps/a"))["metadata"]["labels"]
        assert labels["kro.run/instance-group"] == "example.com"

    run_with_controller(main)


CONDITIONS = BOX.replace(
    "    spec: {value: string | default=first}",
    """    spec: {value: string | default=first}
    status:
      conditions:
      - "${runtime.newCondition({type: 'Filled', status: 'True', reason: 'Content', message: child.data.value})}"
""",
)


def test_author_conditions_replace_builtin() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.apply(CONDITIONS)
        accepted = await harness.condition(f"{GRAPHS}/box", "GraphAccepted")
        assert accepted["status"] == "True", accepted["message"]
        await harness.apply(A_BOX)
        result = await harness.get(f"{BOXES}/a")
        assert [condition["type"] for condition in result["status"]["conditions"]] == ["Filled"]
        assert result["status"]["conditions"][0]["message"] == "first"
        assert result["status"]["state"] == "ACTIVE"
        before = len(harness.transport.writes)
        await harness.settle(60)
        assert harness.transport.writes[before:] == []

    run_with_controller(main)
