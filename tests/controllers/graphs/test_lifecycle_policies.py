"""Lifecycle policies: retain, restore, keep, adopt; ownership conflicts; suspension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.embedded_twin import EmbeddedTwin, run_on_twin
from tests.support.graph_controller import GRAPHS, GraphHarness, controller_on, run_with_controller

from sliceworks.base import clock
from sliceworks.controllers.graphs import inspection, well_known
from sliceworks.graph import definition_parser
from sliceworks.graph.builder import build_graph
from sliceworks.graph.kinds import BuiltinKinds
from sliceworks.kube.client import Client

if TYPE_CHECKING:
    from sliceworks.graph.model import Graph

CORE, BATCH = "/api/v1/namespaces/default", "/apis/batch/v1/namespaces/default"
THINGS = "/apis/kro.run/v1alpha1/namespaces/default/things"


def graph(lifecycle: str, template: str) -> str:
    return f"""
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {{name: thing}}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Thing
    spec: {{value: string | default=first, wanted: boolean | default=true}}
  resources:
  - id: child
    lifecycle: {lifecycle}
    includeWhen: ["${{schema.spec.wanted}}"]
    template: {template}
"""


CONFIG = """{apiVersion: v1, kind: ConfigMap, metadata: {name: child, annotations: {note: "${schema.spec.value}"}},
      data: {value: "${schema.spec.value}"}}"""
THING = "{apiVersion: kro.run/v1alpha1, kind: Thing, metadata: {name: a}}"
MINE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "child", "annotations": {"theirs": "yes"}},
    "data": {"own": "1"},
}


async def make(harness: GraphHarness, lifecycle: str, template: str = CONFIG) -> None:
    await harness.apply(graph(lifecycle, template))
    await harness.apply(THING)


async def delete(harness: GraphHarness) -> None:
    await harness.twin.do("DELETE", f"{THINGS}/a")
    await harness.settle()
    assert await harness.twin.gone(f"{THINGS}/a")


def test_retained_object_loses_labels() -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{onDelete: retain}")
        await delete(harness)
        result = await harness.get(f"{CORE}/configmaps/child")
        assert result["data"] == {"value": "first"}
        assert result["metadata"].get("labels") is None
        assert result["metadata"]["annotations"] == {"note": "first"}

    run_with_controller(main)


def test_retained_object_survives_pruning() -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{onDelete: retain}")
        await harness.twin.do("PATCH", f"{THINGS}/a", {"spec": {"wanted": False}})
        await harness.settle()
        result = await harness.get(f"{CORE}/configmaps/child")
        assert result["metadata"].get("labels") is None
        assert (await harness.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"

    run_with_controller(main)


def test_restore_returns_previous_state() -> None:
    async def main(harness: GraphHarness) -> None:
        before = await harness.twin.do("POST", f"{CORE}/configmaps", MINE)
        await make(harness, "{onDelete: restore}")
        result = await harness.get(f"{CORE}/configmaps/child")
        assert result["data"] == {"own": "1", "value": "first"}
        assert result["metadata"]["annotations"]["theirs"] == "yes"
        await delete(harness)
        after = await harness.get(f"{CORE}/configmaps/child")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["data"] == before["data"]
        assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
        assert not after["metadata"].get("labels")

    run_with_controller(main)


def test_restore_returns_overwritten_values() -> None:
    async def main(harness: GraphHarness) -> None:
        mine = {**MINE, "data": {"value": "theirs", "own": "1"}}
        await harness.twin.do("POST", f"{CORE}/configmaps", mine)
        await make(harness, "{onDelete: restore}")
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"] == {"own": "1", "value": "first"}
        await harness.twin.do("PATCH", f"{THINGS}/a", {"spec": {"value": "second"}})
        await harness.settle()
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"] == {"own": "1", "value": "second"}
        await delete(harness)
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"] == {"own": "1", "value": "theirs"}

    run_with_controller(main)


def test_restore_deletes_new_object() -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{onDelete: restore}")
        await delete(harness)
        assert await harness.twin.gone(f"{CORE}/configmaps/child")

    run_with_controller(main)


JOB = """{apiVersion: batch/v1, kind: Job, metadata: {name: child}, spec: {template: {spec: {restartPolicy: Never,
      containers: [{name: main, image: example.com/x, args: ["${schema.spec.value}"]}]}}}}"""


async def finish(harness: GraphHarness) -> None:
    moment = "2026-01-05T09:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": moment, "lastProbeTime": moment}
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    status = {"conditions": conditions, "startTime": moment, "completionTime": moment, "succeeded": 1}
    await harness.twin.do("PATCH", f"{BATCH}/jobs/child/status", {"status": status})
    await harness.settle()
    await harness.twin.do("DELETE", f"{BATCH}/jobs/child?propagationPolicy=Background")
    await harness.settle()


def test_deleted_completed_job_counts_as_complete() -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{onComplete: keep}", JOB)
        await finish(harness)
        assert await harness.twin.gone(f"{BATCH}/jobs/child")
        assert (await harness.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"
        # The desired Job changed: the new one has not completed.
        await harness.twin.do("PATCH", f"{THINGS}/a", {"spec": {"value": "second"}})
        await harness.settle()
        assert not await harness.twin.gone(f"{BATCH}/jobs/child")

    run_with_controller(main)


def test_job_completed_while_controller_was_down() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        async with controller_on(twin) as harness:
            await make(harness, "{onComplete: keep}", JOB)
        await finish(harness)
        async with controller_on(twin) as harness:
            await harness.settle()
            assert await twin.gone(f"{BATCH}/jobs/child")
            assert (await harness.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"

    run_on_twin(main)


def test_other_job_completed_while_controller_was_down() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        async with controller_on(twin) as harness:
            await make(harness, "{onComplete: keep}", JOB)
        await finish(harness)
        await twin.do("PATCH", f"{THINGS}/a", {"spec": {"value": "second"}})
        async with controller_on(twin) as harness:
            await harness.settle()
            assert "deletionTimestamp" not in (await harness.get(f"{BATCH}/jobs/child"))["metadata"]

    run_on_twin(main)


@pytest.mark.parametrize("away", [False, True])
def test_incomplete_job_is_recreated(away: bool) -> None:
    async def main(twin: EmbeddedTwin) -> None:
        async with controller_on(twin) as harness:
            await make(harness, "{onComplete: keep}", JOB)
            before = await harness.get(f"{BATCH}/jobs/child")
            if not away:
                await twin.do("DELETE", f"{BATCH}/jobs/child?propagationPolicy=Background")
                await harness.settle()
        if away:
            await twin.do("DELETE", f"{BATCH}/jobs/child?propagationPolicy=Background")
        async with controller_on(twin) as harness:
            await harness.settle()
            after = await harness.get(f"{BATCH}/jobs/child")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert "deletionTimestamp" not in after["metadata"]

    run_on_twin(main)


@pytest.mark.parametrize("how", ["instance", "orphan", "cascade"])
def test_kept_job_does_not_block_deletion(how: str) -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{onComplete: keep}", JOB)
        assert (await harness.get(f"{BATCH}/jobs/child"))["metadata"]["finalizers"] == ["kro.run/completion"]
        if how == "instance":
            await delete(harness)
        else:
            await harness.twin.do("PATCH", f"{GRAPHS}/thing", {"spec": {"lifecycle": {"onDelete": how}}})
            await harness.settle()
            await harness.twin.do("DELETE", f"{GRAPHS}/thing")
            await harness.settle()
        if how == "orphan":
            assert "finalizers" not in (await harness.get(f"{BATCH}/jobs/child"))["metadata"]
            await harness.twin.do("DELETE", f"{BATCH}/jobs/child?propagationPolicy=Background")
        assert await harness.twin.gone(f"{BATCH}/jobs/child")

    run_with_controller(main)


def test_completed_job_is_recreated_by_default() -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{}", JOB)
        await finish(harness)
        assert not await harness.twin.gone(f"{BATCH}/jobs/child")

    run_with_controller(main)


def test_field_of_other_manager_is_a_conflict() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.twin.do("POST", f"{CORE}/configmaps?fieldManager=helm", {**MINE, "data": {"value": "theirs"}})
        await harness.apply(definition := graph("{}", CONFIG))
        compiled = build_graph(definition_parser.parse(yaml.safe_load(definition)), BuiltinKinds())
        thing = yaml.safe_load(THING) | {"spec": {"value": "first", "wanted": True}}
        predicted = (await differences(harness, compiled, thing))["child"]
        assert predicted.startswith('refuse: Apply failed with 1 conflict: conflict with "helm"')
        await harness.apply(THING)
        result = await harness.get(f"{THINGS}/a")
        assert result["status"]["state"] == "ERROR"
        message = (await harness.condition(f"{THINGS}/a", "Ready"))["message"]
        assert "ConfigMap default/child already exists" in message
        assert '.data.value (conflict with "helm"' in message
        assert "kro.run/adopt=true" in message
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"] == {"value": "theirs"}
        # With force, it takes the field over.
        adopted = {**thing, "metadata": {"name": "a", "annotations": {"kro.run/adopt": "true"}}}
        assert await differences(harness, compiled, adopted) == {"child": "change"}
        await harness.twin.do("PATCH", f"{THINGS}/a", {"metadata": {"annotations": {"kro.run/adopt": "true"}}})
        await harness.settle()
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"] == {"value": "first"}
        assert (await harness.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"

    run_with_controller(main)


def test_existing_object_without_conflict_is_adopted() -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.twin.do("POST", f"{CORE}/configmaps", MINE)
        await make(harness, "{}")
        result = await harness.get(f"{CORE}/configmaps/child")
        assert result["data"] == {"own": "1", "value": "first"}
        assert (await harness.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"

    run_with_controller(main)


def test_object_of_other_instance_is_not_changed() -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{}")
        compiled = build_graph(definition_parser.parse(await harness.get(f"{GRAPHS}/thing")), BuiltinKinds())
        second = yaml.safe_load(THING) | {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"value": "second", "wanted": True},
        }
        assert await differences(harness, compiled, second) == {"child": "refuse: it belongs to Thing default/a"}
        await harness.apply_one(second)
        assert "belongs to a different ApplySet" in (await harness.condition(f"{THINGS}/b", "Ready"))["message"]
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"] == {"value": "first"}
        await harness.twin.do("DELETE", f"{THINGS}/b")
        await harness.settle()
        assert await harness.twin.gone(f"{THINGS}/b")
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"] == {"value": "first"}

    run_with_controller(main)


def test_copied_labels_are_not_pruned() -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{}")
        labels = (await harness.get(f"{CORE}/configmaps/child"))["metadata"]["labels"]
        copied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copy", "labels": labels}}
        await harness.twin.do("POST", f"{CORE}/configmaps", copied)
        await harness.settle()
        assert not await harness.twin.gone(f"{CORE}/configmaps/copy")
        await delete(harness)
        assert await harness.twin.gone(f"{CORE}/configmaps/child")
        assert not await harness.twin.gone(f"{CORE}/configmaps/copy")

    run_with_controller(main)


@pytest.mark.parametrize("value", ["suspended", "disabled"])
def test_suspended_instance_is_not_reconciled(value: str) -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{}")
        annotate = {"metadata": {"annotations": {"kro.run/reconcile": value}}, "spec": {"value": "second"}}
        await harness.twin.do("PATCH", f"{THINGS}/a", annotate)
        await harness.settle()
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"] == {"value": "first"}
        assert (await harness.condition(f"{THINGS}/a", "ResourcesReady"))["reason"] == "ReconciliationSuspended"
        await harness.twin.do("PATCH", f"{THINGS}/a", {"metadata": {"annotations": {"kro.run/reconcile": None}}})
        await harness.settle()
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"] == {"value": "second"}

    run_with_controller(main)


@pytest.mark.parametrize("how", ["refuse", "orphan", "cascade", ""])
def test_definition_deletion_policy(how: str) -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{}")
        if how:
            await harness.twin.do("PATCH", f"{GRAPHS}/thing", {"spec": {"lifecycle": {"onDelete": how}}})
            await harness.settle()
        await harness.twin.do("DELETE", f"{GRAPHS}/thing")
        await harness.settle()
        assert await harness.twin.gone(f"{GRAPHS}/thing") is (how != "refuse")
        assert await harness.twin.gone(f"{THINGS}/a") is (how == "cascade")
        assert await harness.twin.gone(f"{CORE}/configmaps/child") is (how == "cascade")
        # With any policy, no instance is stranded.
        if how != "cascade":
            await harness.twin.do("DELETE", f"{THINGS}/a")
            await harness.settle()
            assert await harness.twin.gone(f"{THINGS}/a")
            assert await harness.twin.gone(f"{CORE}/configmaps/child") is (how == "refuse")
        await harness.settle()
        assert await harness.twin.gone(f"{GRAPHS}/thing")

    run_with_controller(main)


def test_new_definition_adopts_orphans() -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{}")
        await harness.twin.do("DELETE", f"{GRAPHS}/thing")
        await harness.settle()
        await harness.apply(graph("{}", CONFIG))
        await harness.twin.do("PATCH", f"{THINGS}/a", {"spec": {"value": "second"}})
        await harness.settle()
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"] == {"value": "second"}
        await delete(harness)
        assert await harness.twin.gone(f"{CORE}/configmaps/child")

    run_with_controller(main)


def test_repeated_drift_is_reported_and_slows_down() -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{}")
        before = len(harness.transport.writes)
        for _ in range(100):
            await harness.twin.do("PATCH", f"{CORE}/configmaps/child", {"data": {"value": "theirs"}})
            await clock.sleep(0.5)
        assert "another client keeps changing applied fields" in (await harness.condition(f"{THINGS}/a", "Ready"))["message"]
        assert len(harness.transport.writes) - before < 60
        await harness.settle(120)
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"] == {"value": "first"}
        assert (await harness.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"

    run_with_controller(main)


def test_terminating_object_is_waited_for() -> None:
    async def main(harness: GraphHarness) -> None:
        held = {**MINE, "metadata": {"name": "child", "finalizers": ["example.com/hold"]}}
        await harness.twin.do("POST", f"{CORE}/configmaps", held)
        await harness.twin.do("DELETE", f"{CORE}/configmaps/child")
        await make(harness, "{}")
        assert (await harness.condition(f"{THINGS}/a", "ResourcesReady"))["reason"] == "ResourceDeleting"
        await harness.twin.do("PATCH", f"{CORE}/configmaps/child", {"metadata": {"finalizers": []}})
        await harness.settle()
        assert (await harness.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"] == {"value": "first"}

    run_with_controller(main)


IMAGE_JOB = """{apiVersion: batch/v1, kind: Job, metadata: {name: child}, spec: {template: {spec: {restartPolicy: Never,
      containers: [{name: a, image: "example.com/${schema.spec.value}", resources: {requests: {cpu: 1000m}}}]}}}}"""
CLAIM = """{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: child}, spec: {storageClassName: "${schema.spec.value}",
      accessModes: [ReadWriteOnce], resources: {requests: {storage: 1024Mi}}}}"""


async def change(harness: GraphHarness, value: str) -> dict[str, str]:
    """Edit the instance; returns the differences that `graph diff` prints before, by resource."""
    definition = await harness.get(f"{GRAPHS}/thing")
    compiled = build_graph(definition_parser.parse(definition), BuiltinKinds())
    expected = {**await harness.get(f"{THINGS}/a"), "spec": {"value": value, "wanted": True}}
    output = await differences(harness, compiled, expected)
    await harness.apply(f"{{apiVersion: kro.run/v1alpha1, kind: Thing, metadata: {{name: a}}, spec: {{value: {value}}}}}")
    return output


async def differences(harness: GraphHarness, graph: Graph, expected: dict[str, Any]) -> dict[str, str]:
    client = Client(harness.twin.cluster.transport(), namespace="default")
    result = await inspection.compare(client, graph, expected)
    return {item.node: f"{item.action}: {item.reason}" if item.reason else item.action for item in result}


def test_job_with_changed_template_is_recreated_as_diff_says() -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{onComplete: keep}", IMAGE_JOB)
        before = await harness.get(f"{BATCH}/jobs/child")
        assert await change(harness, "first") == {"child": "keep"}  # 1000m is stored as 1
        assert (await harness.get(f"{BATCH}/jobs/child"))["metadata"]["uid"] == before["metadata"]["uid"]
        assert await change(harness, "second") == {"child": "replace: spec.template is immutable"}
        after = await harness.get(f"{BATCH}/jobs/child")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert after["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/second"
        assert (await harness.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"

    run_with_controller(main)


def test_restarted_controller_does_not_recreate_unchanged_jobs() -> None:
    async def main(twin: EmbeddedTwin) -> None:
        async with controller_on(twin) as harness:
            await make(harness, "{}", IMAGE_JOB)
            before = await harness.get(f"{BATCH}/jobs/child")
        async with controller_on(twin) as harness:
            await harness.settle()
            assert (await harness.get(f"{BATCH}/jobs/child"))["metadata"]["uid"] == before["metadata"]["uid"]

    run_on_twin(main)


@pytest.mark.parametrize(
    ("template", "path", "lifecycle", "field"),
    [
        (IMAGE_JOB, f"{BATCH}/jobs", "{onImmutableChange: refuse}", "spec.template"),
        (IMAGE_JOB, f"{BATCH}/jobs", "{onDelete: retain}", "spec.template"),
        (CLAIM, f"{CORE}/persistentvolumeclaims", "{}", "spec.storageClassName"),
    ],
)
def test_refused_change_is_refused_in_diff_too(template: str, path: str, lifecycle: str, field: str) -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, lifecycle, template)
        before = await harness.get(f"{path}/child")
        output = await change(harness, "second")
        assert output == {"child": f"refuse: {field} is immutable; lifecycle.onImmutableChange is not recreate"}
        assert (await harness.get(f"{path}/child"))["metadata"]["uid"] == before["metadata"]["uid"]
        condition = await harness.condition(f"{THINGS}/a", "ResourcesReady")
        assert f"{field} is immutable" in condition["message"]
        assert "set lifecycle.onImmutableChange: recreate" in condition["message"]
        await change(harness, "first")
        assert (await harness.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"

    run_with_controller(main)


def test_claim_is_recreated_if_its_lifecycle_says_so() -> None:
    async def main(harness: GraphHarness) -> None:
        await make(harness, "{onImmutableChange: recreate}", CLAIM)
        assert await change(harness, "second") == {"child": "replace: spec.storageClassName is immutable"}
        await harness.settle()
        assert (await harness.get(f"{CORE}/persistentvolumeclaims/child"))["spec"]["storageClassName"] == "second"

    run_with_controller(main)


def test_object_from_before_is_not_recreated() -> None:
    async def main(harness: GraphHarness) -> None:
        job = yaml.safe_load(IMAGE_JOB.replace("${schema.spec.value}", "theirs"))
        theirs = await harness.apply_one(job)
        await make(harness, "{}", IMAGE_JOB)
        assert (await harness.get(f"{BATCH}/jobs/child"))["metadata"]["uid"] == theirs["metadata"]["uid"]
        assert "already exists" in (await harness.condition(f"{THINGS}/a", "ResourcesReady"))["message"]

    run_with_controller(main)


@pytest.mark.parametrize(
    ("lifecycle", "expected"),
    [("{}", "delete"), ("{onDelete: retain}", "release: onDelete: retain"), ("{onDelete: restore}", "release")],
)
def test_obsolete_object_is_deleted_as_diff_says(lifecycle: str, expected: str) -> None:
    async def main(harness: GraphHarness) -> None:
        await harness.twin.do("POST", f"{CORE}/configmaps", MINE) if "restore" in lifecycle else None
        await make(harness, lifecycle)
        compiled = build_graph(definition_parser.parse(await harness.get(f"{GRAPHS}/thing")), BuiltinKinds())
        instance = await harness.get(f"{THINGS}/a")
        result = await differences(harness, compiled, {**instance, "spec": {"value": "first", "wanted": False}})
        assert result["child"].startswith(expected)
        await harness.apply("{apiVersion: kro.run/v1alpha1, kind: Thing, metadata: {name: a}, spec: {wanted: false}}")
        assert await harness.twin.gone(f"{CORE}/configmaps/child") == (expected == "delete")

    run_with_controller(main)


MALFORMED = ["{", "[]", "null", '{"metadata":[]}', '{"data":5}', "9" * 5000]


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_annotations_do_not_block_deletion(text: str) -> None:
    """Users can edit the annotations in which the controller records previous values, completed objects and their order."""

    async def main(harness: GraphHarness) -> None:
        await harness.twin.do("POST", f"{CORE}/configmaps", MINE)
        await make(harness, "{onDelete: restore}")
        names = (well_known.BEFORE, well_known.APPLY_ORDER)
        patch = {"metadata": {"annotations": dict.fromkeys(names, text)}}
        await harness.twin.do("PATCH", f"{CORE}/configmaps/child", patch)
        await harness.twin.do("PATCH", f"{THINGS}/a", {"metadata": {"annotations": {well_known.COMPLETED: text}}})
        await harness.settle()
        await harness.twin.do("PATCH", f"{THINGS}/a", {"spec": {"value": "second"}})
        await harness.settle()
        assert (await harness.get(f"{CORE}/configmaps/child"))["data"]["value"] == "second"
        await delete(harness)
        assert await harness.twin.gone(f"{THINGS}/a")

    run_with_controller(main)
