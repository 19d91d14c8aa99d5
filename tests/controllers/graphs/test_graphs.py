"""Definitions on a twin: refused, revised, waited for, and what they look at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.support.embedded import Embedded, on_twin
from tests.support.graphs import A_BOX, BOX, BOXES, GRAPHS, REVISIONS, Stage, controller_on, on_stage

from sliceworks.controllers.graphs import Options
from sliceworks.controllers.graphs.cluster_kinds import ClusterKinds

if TYPE_CHECKING:
    import pytest

Object = dict[str, Any]
CORE = "/api/v1/namespaces/default"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
BROKEN = BOX.replace("${schema.spec.value}", "${nobody.spec.value}")


async def data(stage: Stage, name: str = "a") -> Any:
    return (await stage.get(f"{CORE}/configmaps/{name}")).get("data")


def test_definition_that_cannot_be_is_refused() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(BROKEN)
        found = await stage.get(f"{GRAPHS}/box")
        assert found["status"]["state"] == "Inactive"
        accepted = await stage.condition(f"{GRAPHS}/box", "GraphAccepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "InvalidResourceGraph")
        assert "nobody" in accepted["message"]
        assert await stage.twin.gone(f"{CRDS}/boxes.kro.run")
        events = await stage.twin.do("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        assert [item["reason"] for item in events["items"]] == ["InvalidResourceGraph"]

    on_stage(main)


def test_last_good_revision_goes_on_serving() -> None:
    async def main(twin: Embedded) -> None:
        async with controller_on(twin) as stage:
            await stage.apply(BOX)
            await stage.apply(A_BOX)
            await stage.apply(BROKEN)
            assert (await stage.get(f"{GRAPHS}/box"))["status"]["state"] == "Inactive"
            await stage.twin.do("PATCH", f"{BOXES}/a", {"spec": {"value": "second"}})
            await stage.settle()
            assert await data(stage) == {"value": "second"}
        # A controller that starts with the broken one in front of it serves by the last good one, too.
        async with controller_on(twin) as stage:
            await stage.settle()
            await stage.twin.do("PATCH", f"{BOXES}/a", {"spec": {"value": "third"}})
            await stage.settle()
            assert await data(stage) == {"value": "third"}
            await stage.apply(BOX)
            assert (await stage.get(f"{GRAPHS}/box"))["status"]["state"] == "Active"

    on_twin(main)


def test_newest_revisions_are_kept() -> None:
    async def main(stage: Stage) -> None:
        for number in range(7):
            await stage.apply(BOX.replace(" data: {", f" data: {{version: '{number}', "))
        assert await stage.names(REVISIONS) == [f"box-r{number:05d}" for number in range(3, 8)]
        newest = await stage.get(f"{REVISIONS}/box-r00007")
        assert newest["status"]["topologicalOrder"] == ["child"]
        assert [item["status"] for item in newest["status"]["conditions"]] == ["True", "True"]
        assert newest["metadata"]["finalizers"] == ["kro.run/finalizer"]
        assert (await stage.get(f"{GRAPHS}/box"))["status"]["lastIssuedRevision"] == 7
        # Order and comments are no new version.
        await stage.apply(BOX.replace(" data: {", " data: {version: '6', ") + "\n# the same")
        assert len(await stage.names(REVISIONS)) == 5

    on_stage(main)


def test_revisions_go_with_their_definition() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(BOX)
        await stage.twin.do("DELETE", f"{GRAPHS}/box")
        await stage.settle(60)
        assert await stage.names(REVISIONS) == []
        assert not await stage.twin.gone(f"{CRDS}/boxes.kro.run")

    on_stage(main)


def test_breaking_change_is_refused_unless_it_is_allowed() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(BOX)
        await stage.apply(A_BOX)
        narrower = BOX.replace("value: string | default=first", "value: integer | default=1").replace(
            '"${schema.spec.value}"}}', '"${string(schema.spec.value)}"}}'
        )
        await stage.apply(narrower)
        ready = await stage.condition(f"{GRAPHS}/box", "KindReady")
        assert ready["status"] == "False"
        assert "breaking changes detected: Type changed from string to integer" in ready["message"]
        await stage.twin.do("PATCH", f"{BOXES}/a", {"spec": {"value": "second"}})
        await stage.settle()
        assert await data(stage) == {"value": "second"}
        allow = {"metadata": {"annotations": {"kro.run/allow-breaking-changes": "true"}}}
        await stage.twin.do("PATCH", f"{GRAPHS}/box", allow)
        await stage.settle()
        assert (await stage.condition(f"{GRAPHS}/box", "Ready"))["status"] == "True"

    on_stage(main)


def test_definition_of_somebody_else_is_not_touched() -> None:
    async def main(stage: Stage) -> None:
        names = {"kind": "Box", "plural": "boxes", "listKind": "BoxList", "singular": "box"}
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
        spec = {"group": "kro.run", "names": names, "scope": "Namespaced", "versions": [version]}
        typed = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        await stage.twin.do("POST", CRDS, {**typed, "metadata": {"name": "boxes.kro.run"}, "spec": spec})
        await stage.apply(BOX)
        assert "not owned by KRO" in (await stage.condition(f"{GRAPHS}/box", "KindReady"))["message"]

    on_stage(main)


def test_graph_waits_for_a_kind_that_is_not_there_yet() -> None:
    async def main(stage: Stage) -> None:
        outer = BOX.replace("{name: box}", "{name: crate}").replace("kind: Box", "kind: Crate")
        outer = outer.replace("apiVersion: v1, kind: ConfigMap", "apiVersion: kro.run/v1alpha1, kind: Box").replace(
            'data: {value: "${schema.spec.value}"}', 'spec: {value: "${schema.spec.value}"}'
        )
        await stage.apply(outer)
        message = (await stage.condition(f"{GRAPHS}/crate", "GraphAccepted"))["message"]
        assert "looked at again when the cluster has Box of kro.run/v1alpha1" in message
        await stage.apply(BOX)
        assert (await stage.condition(f"{GRAPHS}/crate", "Ready"))["status"] == "True"
        # A graph of a graph: the inner instance is an object like others.
        await stage.apply("{apiVersion: kro.run/v1alpha1, kind: Crate, metadata: {name: a}, spec: {value: deep}}")
        assert await data(stage) == {"value": "deep"}
        await stage.twin.do("DELETE", "/apis/kro.run/v1alpha1/namespaces/default/crates/a")
        await stage.settle()
        assert await stage.twin.gone(f"{CORE}/configmaps/a")
        assert await stage.twin.gone(f"{BOXES}/a")

    on_stage(main)


def test_kind_that_is_listed_later_than_it_is_established(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real API server establishes a definition before its discovery lists it, and nothing is heard of it afterwards."""
    asked, find = list[str](), ClusterKinds._find

    async def late(kinds: ClusterKinds, api_version: str, kind: str) -> object:
        asked.append(kind)
        return None if asked.count("Thing") < 4 and kind == "Thing" else await find(kinds, api_version, kind)

    monkeypatch.setattr(ClusterKinds, "_find", late)

    async def main(stage: Stage) -> None:
        await stage.apply(
            "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.example.com}, spec: {"
            "group: example.com, scope: Namespaced, names: {kind: Thing, plural: things, singular: thing, listKind: ThingList}, "
            "versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}}"
        )
        thing = BOX.replace("apiVersion: v1, kind: ConfigMap", "apiVersion: example.com/v1, kind: Thing")
        await stage.apply(thing.replace(', data: {value: "${schema.spec.value}"}', ""))
        await stage.settle(10)
        assert asked.count("Thing") >= 4
        assert (await stage.condition(f"{GRAPHS}/box", "Ready"))["status"] == "True"

    on_stage(main)


def test_generated_definition_that_somebody_deleted_comes_back() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(BOX)
        await stage.twin.do("DELETE", f"{CRDS}/boxes.kro.run")
        await stage.settle(10)
        assert not await stage.twin.gone(f"{CRDS}/boxes.kro.run")

    on_stage(main)


def test_definition_goes_with_its_graph_where_that_is_allowed() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(BOX)
        await stage.twin.do("DELETE", f"{GRAPHS}/box")
        await stage.settle()
        assert await stage.twin.gone(f"{CRDS}/boxes.kro.run")

    on_stage(main, Options(allow_crd_deletion=True))


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


def test_what_others_have_is_looked_at_and_followed() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(EXTERNAL)
        await stage.apply(A_BOX)
        assert (await stage.get(f"{BOXES}/a"))["status"]["state"] == "IN_PROGRESS"
        assert await stage.twin.gone(f"{CORE}/configmaps/a")
        await stage.apply_one(config("settings", value="x"))
        assert await data(stage) == {"one": "x", "many": "0"}
        await stage.apply_one({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
        await stage.apply_one(config("red-1", "other", "red"))
        await stage.apply_one(config("red-2", "default", "red"))
        await stage.apply_one(config("blue", "default", "blue"))
        assert await data(stage) == {"one": "x", "many": "2"}
        await stage.apply_one(config("settings", value="y"))
        await stage.twin.do("DELETE", "/api/v1/namespaces/other/configmaps/red-1")
        await stage.settle()
        assert await data(stage) == {"one": "y", "many": "1"}
        await stage.twin.do("DELETE", f"{BOXES}/a")
        await stage.settle()
        assert not await stage.twin.gone(f"{CORE}/configmaps/settings")

    on_stage(main)


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


def test_collection_in_other_namespaces_is_watched() -> None:
    async def main(stage: Stage) -> None:
        for name in ("one", "two"):
            await stage.apply_one({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        await stage.apply(SPREAD)
        await stage.apply("{apiVersion: kro.run/v1alpha1, kind: Box, metadata: {name: a}, spec: {places: [one, two]}}")
        box = "/apis/kro.run/v1alpha1/boxes/a"
        assert (await stage.get(box))["metadata"]["annotations"]["applyset.kubernetes.io/additional-namespaces"] == "one,two"
        for name in ("one", "two"):
            assert (await stage.get(box))["status"]["state"] == "IN_PROGRESS"
            await stage.twin.do("PATCH", f"/api/v1/namespaces/{name}/configmaps/a", {"data": {"done": "yes"}})
            await stage.settle()
        assert (await stage.get(box))["status"]["state"] == "ACTIVE"
        await stage.twin.do("PATCH", box, {"spec": {"places": ["two"]}})
        await stage.settle()
        assert await stage.twin.gone("/api/v1/namespaces/one/configmaps/a")
        await stage.twin.do("DELETE", box)
        await stage.settle()
        assert await stage.twin.gone(box)
        assert await stage.twin.gone("/api/v1/namespaces/two/configmaps/a")

    on_stage(main)


def test_restart_writes_nothing() -> None:
    async def main(twin: Embedded) -> None:
        async with controller_on(twin) as stage:
            await stage.apply(BOX)
            await stage.apply(A_BOX)
        async with controller_on(twin) as stage:
            await stage.settle(60)
            known = {path for _, path in stage.transport.writes}
            assert {path for path in known if "customresourcedefinitions" not in path} == set()

    on_twin(main)


def test_object_without_its_label_is_taken_back() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(BOX)
        await stage.apply(A_BOX)
        nothing = dict.fromkeys(("kro.run/owned", "applyset.kubernetes.io/part-of"))
        await stage.twin.do("PATCH", f"{CORE}/configmaps/a", {"metadata": {"labels": nothing}})
        await stage.settle()
        labels = (await stage.get(f"{CORE}/configmaps/a"))["metadata"]["labels"]
        assert labels["kro.run/owned"] == "true"
        assert labels["applyset.kubernetes.io/part-of"].startswith("applyset-")

    on_stage(main)


def test_tampered_inventory_blocks_deletion() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(BOX)
        await stage.apply(A_BOX)
        await stage.twin.do("PATCH", f"{BOXES}/a", {"metadata": {"annotations": {"kro.run/reconcile": "suspended"}}})
        await stage.settle()
        tampered = {"metadata": {"annotations": {"applyset.kubernetes.io/contains-group-kinds": "Secret"}}}
        await stage.twin.do("PATCH", f"{BOXES}/a", tampered)
        await stage.twin.do("DELETE", f"{BOXES}/a")
        await stage.settle()
        found = await stage.get(f"{BOXES}/a")
        assert found["status"]["state"] == "DELETING"
        assert "deletion blocked" in (await stage.condition(f"{BOXES}/a", "ResourcesReady"))["message"]
        mended = {"metadata": {"annotations": {"applyset.kubernetes.io/contains-group-kinds": "ConfigMap"}}}
        await stage.twin.do("PATCH", f"{BOXES}/a", mended)
        await stage.settle(60)
        assert await stage.twin.gone(f"{BOXES}/a")
        assert await stage.twin.gone(f"{CORE}/configmaps/a")

    on_stage(main)


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


def test_objects_go_in_waves_the_last_made_first() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(WAVES)
        await stage.apply(A_BOX)
        assert (await stage.get(f"{BOXES}/a"))["status"]["state"] == "ACTIVE"
        await stage.twin.do("DELETE", f"{BOXES}/a")
        await stage.settle(60)
        # The third is held by somebody: nothing before it goes.
        assert (await stage.get(f"{BOXES}/a"))["status"]["state"] == "DELETING"
        assert not await stage.twin.gone(f"{CORE}/secrets/first-second")
        await stage.twin.do("PATCH", f"{CORE}/configmaps/third", {"metadata": {"finalizers": []}})
        await stage.settle()
        assert await stage.twin.gone(f"{CORE}/secrets/first-second")
        assert await stage.twin.gone(f"{CORE}/configmaps/first")
        assert await stage.twin.gone(f"{BOXES}/a")

    on_stage(main)


def test_instance_can_go_though_its_definition_is_no_good() -> None:
    async def main(twin: Embedded) -> None:
        async with controller_on(twin) as stage:
            await stage.apply(BOX)
            await stage.apply(A_BOX)
        async with controller_on(twin, Options(install_definitions=False)) as stage:
            for name in await stage.names(REVISIONS):
                await stage.twin.do("DELETE", f"{REVISIONS}/{name}")
            await stage.apply(BROKEN)
        async with controller_on(twin) as stage:
            await stage.settle()
            await stage.twin.do("DELETE", f"{BOXES}/a")
            await stage.settle()
            assert await stage.twin.gone(f"{BOXES}/a")
            assert await stage.twin.gone(f"{CORE}/configmaps/a")

    on_twin(main)


def test_old_forms_are_told() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(BOX.replace("apiVersion: v1alpha1", "apiVersion: kro.run/v1alpha1"))
        assert (await stage.get(f"{GRAPHS}/box"))["status"]["state"] == "Active"
        events = await stage.twin.do("GET", "/apis/events.k8s.io/v1/namespaces/default/events")
        assert ["old form" in item["note"] for item in events["items"] if item["reason"] == "OldForm"] == [True]

    on_stage(main)


def test_mistake_is_told_once_and_not_tried_again() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(BOX.replace('"${schema.spec.value}"}}', '"${string(10 / int(schema.spec.value))}"}}'))
        await stage.apply("{apiVersion: kro.run/v1alpha1, kind: Box, metadata: {name: a}, spec: {value: '0'}}")
        assert (await stage.get(f"{BOXES}/a"))["status"]["state"] == "ERROR"
        assert "10 / int(schema.spec.value)" in (await stage.condition(f"{BOXES}/a", "Ready"))["message"]
        before = len(stage.transport.sent)
        await stage.settle(200)
        assert stage.transport.sent[before:] == []
        await stage.twin.do("PATCH", f"{BOXES}/a", {"spec": {"value": "5"}})
        await stage.settle()
        assert await data(stage) == {"value": "2"}

    on_stage(main)


def test_kind_that_a_graph_no_longer_has_is_taken_away() -> None:
    async def main(stage: Stage) -> None:
        other = """
  - id: secret
    template: {apiVersion: v1, kind: Secret, metadata: {name: "${schema.metadata.name}"}}
"""
        await stage.apply(BOX.rstrip() + other)
        await stage.apply(A_BOX)
        assert not await stage.twin.gone(f"{CORE}/secrets/a")
        await stage.apply(BOX)
        assert await stage.twin.gone(f"{CORE}/secrets/a")
        kinds = (await stage.get(f"{BOXES}/a"))["metadata"]["annotations"]["applyset.kubernetes.io/contains-group-kinds"]
        assert kinds == "ConfigMap"
        assert await data(stage) == {"value": "first"}

    on_stage(main)


def test_instance_in_a_group_of_its_own() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(BOX.replace("    kind: Box", "    kind: Box\n    group: example.com"))
        await stage.apply("{apiVersion: example.com/v1alpha1, kind: Box, metadata: {name: a}}")
        found = await stage.get("/apis/example.com/v1alpha1/namespaces/default/boxes/a")
        assert found["status"]["state"] == "ACTIVE"
        labels = (await stage.get(f"{CORE}/configmaps/a"))["metadata"]["labels"]
        assert labels["kro.run/instance-group"] == "example.com"

    on_stage(main)


CONDITIONS = BOX.replace(
    "    spec: {value: string | default=first}",
    """    spec: {value: string | default=first}
    status:
      conditions:
      - "${runtime.newCondition({type: 'Filled', status: 'True', reason: 'Content', message: child.data.value})}"
""",
)


def test_conditions_of_the_author_stand_alone() -> None:
    async def main(stage: Stage) -> None:
        await stage.apply(CONDITIONS)
        accepted = await stage.condition(f"{GRAPHS}/box", "GraphAccepted")
        assert accepted["status"] == "True", accepted["message"]
        await stage.apply(A_BOX)
        found = await stage.get(f"{BOXES}/a")
        assert [item["type"] for item in found["status"]["conditions"]] == ["Filled"]
        assert found["status"]["conditions"][0]["message"] == "first"
        assert found["status"]["state"] == "ACTIVE"
        before = len(stage.transport.writes)
        await stage.settle(60)
        assert stage.transport.writes[before:] == []

    on_stage(main)
