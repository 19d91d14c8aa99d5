"""What happens to objects beyond being made and deleted: retained, restored, finished, adopted, refused."""

from __future__ import annotations

import pytest
from tests.support.embedded import Embedded, on_twin
from tests.support.graphs import GRAPHS, Stage, controller_on, on_stage

from sliceworks.base import clock

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


async def make(stage: Stage, lifecycle: str, template: str = CONFIG) -> None:
    await stage.apply(graph(lifecycle, template))
    await stage.apply(THING)


async def delete(stage: Stage) -> None:
    await stage.twin.do("DELETE", f"{THINGS}/a")
    await stage.settle()
    assert await stage.twin.gone(f"{THINGS}/a")


def test_retained_object_stays_and_is_nobodys() -> None:
    async def main(stage: Stage) -> None:
        await make(stage, "{onDelete: retain}")
        await delete(stage)
        found = await stage.get(f"{CORE}/configmaps/child")
        assert found["data"] == {"value": "first"}
        assert found["metadata"].get("labels") is None
        assert found["metadata"]["annotations"] == {"note": "first"}

    on_stage(main)


def test_retained_object_stays_when_it_is_no_longer_wanted() -> None:
    async def main(stage: Stage) -> None:
        await make(stage, "{onDelete: retain}")
        await stage.twin.do("PATCH", f"{THINGS}/a", {"spec": {"wanted": False}})
        await stage.settle()
        found = await stage.get(f"{CORE}/configmaps/child")
        assert found["metadata"].get("labels") is None
        assert (await stage.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"

    on_stage(main)


def test_restored_object_is_as_it_was_before() -> None:
    async def main(stage: Stage) -> None:
        before = await stage.twin.do("POST", f"{CORE}/configmaps", MINE)
        await make(stage, "{onDelete: restore}")
        found = await stage.get(f"{CORE}/configmaps/child")
        assert found["data"] == {"own": "1", "value": "first"}
        assert found["metadata"]["annotations"]["theirs"] == "yes"
        await delete(stage)
        after = await stage.get(f"{CORE}/configmaps/child")
        assert after["metadata"]["uid"] == before["metadata"]["uid"]
        assert after["data"] == before["data"]
        assert after["metadata"]["annotations"] == before["metadata"]["annotations"]
        assert not after["metadata"].get("labels")

    on_stage(main)


def test_restored_object_gets_its_old_values_back() -> None:
    async def main(stage: Stage) -> None:
        mine = {**MINE, "data": {"value": "theirs", "own": "1"}}
        await stage.twin.do("POST", f"{CORE}/configmaps", mine)
        await make(stage, "{onDelete: restore}")
        assert (await stage.get(f"{CORE}/configmaps/child"))["data"] == {"own": "1", "value": "first"}
        await stage.twin.do("PATCH", f"{THINGS}/a", {"spec": {"value": "second"}})
        await stage.settle()
        assert (await stage.get(f"{CORE}/configmaps/child"))["data"] == {"own": "1", "value": "second"}
        await delete(stage)
        assert (await stage.get(f"{CORE}/configmaps/child"))["data"] == {"own": "1", "value": "theirs"}

    on_stage(main)


def test_restored_object_that_was_not_there_goes() -> None:
    async def main(stage: Stage) -> None:
        await make(stage, "{onDelete: restore}")
        await delete(stage)
        assert await stage.twin.gone(f"{CORE}/configmaps/child")

    on_stage(main)


JOB = """{apiVersion: batch/v1, kind: Job, metadata: {name: child}, spec: {template: {spec: {restartPolicy: Never,
      containers: [{name: main, image: example.com/x, args: ["${schema.spec.value}"]}]}}}}"""


async def finish(stage: Stage) -> None:
    moment = "2026-01-05T09:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": moment, "lastProbeTime": moment}
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    status = {"conditions": conditions, "startTime": moment, "completionTime": moment, "succeeded": 1}
    await stage.twin.do("PATCH", f"{BATCH}/jobs/child/status", {"status": status})
    await stage.settle()
    await stage.twin.do("DELETE", f"{BATCH}/jobs/child?propagationPolicy=Background")
    await stage.settle()


def test_finished_job_that_was_cleaned_up_counts_as_done() -> None:
    async def main(stage: Stage) -> None:
        await make(stage, "{onComplete: keep}", JOB)
        await finish(stage)
        assert await stage.twin.gone(f"{BATCH}/jobs/child")
        assert (await stage.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"
        # What is wanted is another one now: that has not finished.
        await stage.twin.do("PATCH", f"{THINGS}/a", {"spec": {"value": "second"}})
        await stage.settle()
        assert not await stage.twin.gone(f"{BATCH}/jobs/child")

    on_stage(main)


def test_job_that_finished_and_went_while_nobody_looked_counts_as_done() -> None:
    async def main(twin: Embedded) -> None:
        async with controller_on(twin) as stage:
            await make(stage, "{onComplete: keep}", JOB)
        await finish(stage)
        async with controller_on(twin) as stage:
            await stage.settle()
            assert await twin.gone(f"{BATCH}/jobs/child")
            assert (await stage.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"

    on_twin(main)


def test_another_job_that_finished_while_nobody_looked_does_not_count() -> None:
    async def main(twin: Embedded) -> None:
        async with controller_on(twin) as stage:
            await make(stage, "{onComplete: keep}", JOB)
        await finish(stage)
        await twin.do("PATCH", f"{THINGS}/a", {"spec": {"value": "second"}})
        async with controller_on(twin) as stage:
            await stage.settle()
            assert "deletionTimestamp" not in (await stage.get(f"{BATCH}/jobs/child"))["metadata"]

    on_twin(main)


@pytest.mark.parametrize("away", [False, True])
def test_job_that_was_deleted_before_it_finished_is_made_again(away: bool) -> None:
    async def main(twin: Embedded) -> None:
        async with controller_on(twin) as stage:
            await make(stage, "{onComplete: keep}", JOB)
            before = await stage.get(f"{BATCH}/jobs/child")
            if not away:
                await twin.do("DELETE", f"{BATCH}/jobs/child?propagationPolicy=Background")
                await stage.settle()
        if away:
            await twin.do("DELETE", f"{BATCH}/jobs/child?propagationPolicy=Background")
        async with controller_on(twin) as stage:
            await stage.settle()
            after = await stage.get(f"{BATCH}/jobs/child")
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert "deletionTimestamp" not in after["metadata"]

    on_twin(main)


@pytest.mark.parametrize("how", ["instance", "orphan", "cascade"])
def test_job_that_is_kept_does_not_stand_in_the_way(how: str) -> None:
    async def main(stage: Stage) -> None:
        await make(stage, "{onComplete: keep}", JOB)
        assert (await stage.get(f"{BATCH}/jobs/child"))["metadata"]["finalizers"] == ["kro.run/completion"]
        if how == "instance":
            await delete(stage)
        else:
            await stage.twin.do("PATCH", f"{GRAPHS}/thing", {"spec": {"lifecycle": {"onDelete": how}}})
            await stage.settle()
            await stage.twin.do("DELETE", f"{GRAPHS}/thing")
            await stage.settle()
        if how == "orphan":
            assert "finalizers" not in (await stage.get(f"{BATCH}/jobs/child"))["metadata"]
            await stage.twin.do("DELETE", f"{BATCH}/jobs/child?propagationPolicy=Background")
        assert await stage.twin.gone(f"{BATCH}/jobs/child")

    on_stage(main)


def test_finished_job_is_made_again_where_nothing_is_said() -> None:
    async def main(stage: Stage) -> None:
        await make(stage, "{}", JOB)
        await finish(stage)
        assert not await stage.twin.gone(f"{BATCH}/jobs/child")

    on_stage(main)


def test_field_of_somebody_else_is_a_conflict() -> None:
    async def main(stage: Stage) -> None:
        await stage.twin.do("POST", f"{CORE}/configmaps?fieldManager=helm", {**MINE, "data": {"value": "theirs"}})
        await make(stage, "{}")
        found = await stage.get(f"{THINGS}/a")
        assert found["status"]["state"] == "ERROR"
        message = (await stage.condition(f"{THINGS}/a", "Ready"))["message"]
        assert "ConfigMap default/child was there before" in message
        assert '.data.value (conflict with "helm"' in message
        assert "kro.run/adopt=true" in message
        assert (await stage.get(f"{CORE}/configmaps/child"))["data"] == {"value": "theirs"}
        # Asked to, it takes the field over.
        await stage.twin.do("PATCH", f"{THINGS}/a", {"metadata": {"annotations": {"kro.run/adopt": "true"}}})
        await stage.settle()
        assert (await stage.get(f"{CORE}/configmaps/child"))["data"] == {"value": "first"}
        assert (await stage.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"

    on_stage(main)


def test_existing_object_without_a_conflict_is_joined() -> None:
    async def main(stage: Stage) -> None:
        await stage.twin.do("POST", f"{CORE}/configmaps", MINE)
        await make(stage, "{}")
        found = await stage.get(f"{CORE}/configmaps/child")
        assert found["data"] == {"own": "1", "value": "first"}
        assert (await stage.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"

    on_stage(main)


def test_object_of_another_instance_is_left_alone() -> None:
    async def main(stage: Stage) -> None:
        await make(stage, "{}")
        await stage.apply("{apiVersion: kro.run/v1alpha1, kind: Thing, metadata: {name: b}, spec: {value: second}}")
        assert "belongs to a different ApplySet" in (await stage.condition(f"{THINGS}/b", "Ready"))["message"]
        assert (await stage.get(f"{CORE}/configmaps/child"))["data"] == {"value": "first"}
        await stage.twin.do("DELETE", f"{THINGS}/b")
        await stage.settle()
        assert await stage.twin.gone(f"{THINGS}/b")
        assert (await stage.get(f"{CORE}/configmaps/child"))["data"] == {"value": "first"}

    on_stage(main)


def test_copied_labels_take_nothing_along() -> None:
    async def main(stage: Stage) -> None:
        await make(stage, "{}")
        labels = (await stage.get(f"{CORE}/configmaps/child"))["metadata"]["labels"]
        copied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "copy", "labels": labels}}
        await stage.twin.do("POST", f"{CORE}/configmaps", copied)
        await stage.settle()
        assert not await stage.twin.gone(f"{CORE}/configmaps/copy")
        await delete(stage)
        assert await stage.twin.gone(f"{CORE}/configmaps/child")
        assert not await stage.twin.gone(f"{CORE}/configmaps/copy")

    on_stage(main)


@pytest.mark.parametrize("value", ["suspended", "disabled"])
def test_suspended_instance_is_left_alone(value: str) -> None:
    async def main(stage: Stage) -> None:
        await make(stage, "{}")
        annotate = {"metadata": {"annotations": {"kro.run/reconcile": value}}, "spec": {"value": "second"}}
        await stage.twin.do("PATCH", f"{THINGS}/a", annotate)
        await stage.settle()
        assert (await stage.get(f"{CORE}/configmaps/child"))["data"] == {"value": "first"}
        assert (await stage.condition(f"{THINGS}/a", "ResourcesReady"))["reason"] == "ReconciliationSuspended"
        await stage.twin.do("PATCH", f"{THINGS}/a", {"metadata": {"annotations": {"kro.run/reconcile": None}}})
        await stage.settle()
        assert (await stage.get(f"{CORE}/configmaps/child"))["data"] == {"value": "second"}

    on_stage(main)


@pytest.mark.parametrize("how", ["refuse", "orphan", "cascade", ""])
def test_end_of_a_definition(how: str) -> None:
    async def main(stage: Stage) -> None:
        await make(stage, "{}")
        if how:
            await stage.twin.do("PATCH", f"{GRAPHS}/thing", {"spec": {"lifecycle": {"onDelete": how}}})
            await stage.settle()
        await stage.twin.do("DELETE", f"{GRAPHS}/thing")
        await stage.settle()
        assert await stage.twin.gone(f"{GRAPHS}/thing") is (how != "refuse")
        assert await stage.twin.gone(f"{THINGS}/a") is (how == "cascade")
        assert await stage.twin.gone(f"{CORE}/configmaps/child") is (how == "cascade")
        # Whatever was chosen, no instance is stranded.
        if how != "cascade":
            await stage.twin.do("DELETE", f"{THINGS}/a")
            await stage.settle()
            assert await stage.twin.gone(f"{THINGS}/a")
            assert await stage.twin.gone(f"{CORE}/configmaps/child") is (how == "refuse")
        await stage.settle()
        assert await stage.twin.gone(f"{GRAPHS}/thing")

    on_stage(main)


def test_orphans_are_found_again_by_a_new_definition() -> None:
    async def main(stage: Stage) -> None:
        await make(stage, "{}")
        await stage.twin.do("DELETE", f"{GRAPHS}/thing")
        await stage.settle()
        await stage.apply(graph("{}", CONFIG))
        await stage.twin.do("PATCH", f"{THINGS}/a", {"spec": {"value": "second"}})
        await stage.settle()
        assert (await stage.get(f"{CORE}/configmaps/child"))["data"] == {"value": "second"}
        await delete(stage)
        assert await stage.twin.gone(f"{CORE}/configmaps/child")

    on_stage(main)


def test_quarrel_over_a_field_is_told_and_slows_down() -> None:
    async def main(stage: Stage) -> None:
        await make(stage, "{}")
        before = len(stage.transport.writes)
        for _ in range(100):
            await stage.twin.do("PATCH", f"{CORE}/configmaps/child", {"data": {"value": "theirs"}})
            await clock.sleep(0.5)
        assert "changed by somebody else each time" in (await stage.condition(f"{THINGS}/a", "Ready"))["message"]
        assert len(stage.transport.writes) - before < 60
        await stage.settle(120)
        assert (await stage.get(f"{CORE}/configmaps/child"))["data"] == {"value": "first"}
        assert (await stage.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"

    on_stage(main)


def test_object_on_its_way_out_is_waited_for() -> None:
    async def main(stage: Stage) -> None:
        held = {**MINE, "metadata": {"name": "child", "finalizers": ["example.com/hold"]}}
        await stage.twin.do("POST", f"{CORE}/configmaps", held)
        await stage.twin.do("DELETE", f"{CORE}/configmaps/child")
        await make(stage, "{}")
        assert (await stage.condition(f"{THINGS}/a", "ResourcesReady"))["reason"] == "ResourceDeleting"
        await stage.twin.do("PATCH", f"{CORE}/configmaps/child", {"metadata": {"finalizers": []}})
        await stage.settle()
        assert (await stage.get(f"{THINGS}/a"))["status"]["state"] == "ACTIVE"
        assert (await stage.get(f"{CORE}/configmaps/child"))["data"] == {"value": "first"}

    on_stage(main)
