"""`slices list`, `show` and `drain` beside the controller and a twin's cloud, in virtual time."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import golden_text
from tests.support.slices_controller import Rig, jobset, run_with_rig

from sliceworks.base import clock, tables
from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.cli import connections, main, slices
from sliceworks.cli.slice_inventory import SliceInventory
from sliceworks.cli.slice_view import describe
from sliceworks.controllers.slices.settings import Settings
from sliceworks.kube.resources import Key

if TYPE_CHECKING:
    from pathlib import Path


async def listed(sources: SliceInventory, namespace: str | None = "default") -> str:
    result = slices._visible(await sources.slices(), namespace)
    return tables.render(slices._WIDE, [slices._row(view, "wide") for view in result])


def test_list_follows_jobset_to_deletion() -> None:
    async def scenario(rig: Rig) -> None:
        sources = SliceInventory(rig.client, rig.container)
        await rig.client.create(jobset("train", 2, seconds=600))
        reported = []
        for seconds in (5, 100):
            await clock.sleep(seconds)
            reported += [await listed(sources), describe(await sources.named("train"))]
        name = (await sources.slices())[0].name
        reported.append(describe(await sources.named(name)))
        text = "\n\n".join(text.rstrip("\n") for text in reported) + "\n"
        # Random names of nodes depend on the order of all that happens in the twin.
        golden_text.check("slices", re.sub(r"-[0-9a-f]{8}-[a-z0-9]{4}\b", "-12345678-abcd", text))
        assert (await sources.named(name)).data()["ownerConditions"]
        await clock.sleep(900)
        assert await sources.slices() == []
        assert "The JobSet has no slices." in describe(await sources.named("train"))

    run_with_rig(scenario)


def test_drained_jobset_releases_its_slices() -> None:
    async def scenario(rig: Rig) -> None:
        sources = SliceInventory(rig.client, rig.container)
        await rig.client.create(jobset("train", 2, seconds=6000, failurePolicy={"maxRestarts": 9}))
        await rig.client.create(jobset("other", 1, seconds=6000, failurePolicy={"maxRestarts": 9}))
        await clock.sleep(120)
        owners = await sources.owners((await sources.slices())[-1].name)
        assert dict(owners) == {("default", "train"): 2}
        assert await sources.owners("train") == owners
        assert sum((await sources.owners(None)).values()) == 3
        for owner in owners:
            await sources.drain(owner, undo=False)
        await clock.sleep(300)
        # The two may have taken each other's slices: the remaining one is occupied by the other JobSet.
        assert len(await sources.slices()) == 1
        running = {pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"] for pod in await rig.pods("Running")}
        assert running == {"other"}
        for owner in owners:
            await sources.drain(owner, undo=True)
        await rig.until(lambda: _ready(sources, 3), 600)

    run_with_rig(scenario)


def test_drained_cluster_holds_later_jobsets() -> None:
    async def scenario(rig: Rig) -> None:
        sources = SliceInventory(rig.client, rig.container)
        await rig.client.create(jobset("early", 1, seconds=6000))
        await clock.sleep(120)
        assert len(await sources.slices()) == 1
        await sources.drain(Key("default", "early"), undo=False)
        await sources.drain_everything(undo=False)
        await clock.sleep(300)
        await rig.client.create(jobset("later", 1, seconds=6000))
        await clock.sleep(300)
        assert await sources.slices() == []
        assert await sources.drained() == [("default", "early")]
        assert "Draining: 0 of 1 slices are ready" in describe(await sources.named("later"))
        await sources.drain_everything(undo=True)
        for owner in await sources.drained():
            await sources.drain(owner, undo=True)
        assert await sources.drained() == []
        await rig.until(lambda: _ready(sources, 1), 600)

    run_with_rig(scenario)


async def _ready(sources: SliceInventory, count: int) -> bool:
    return [view.state for view in await sources.slices()] == ["ready"] * count


def test_slice_failure_reason_is_shown() -> None:
    async def scenario(rig: Rig) -> None:
        sources = SliceInventory(rig.client, rig.container)
        rig.cluster.cloud.faults.add({"fault": "Stockout"})
        await rig.client.create(jobset("train", 1))

        async def told() -> bool:
            return "does not have enough resources available" in describe(await sources.named("train"))

        await rig.until(told, 3600)

    run_with_rig(scenario)


def test_foreign_pools_are_listed_only() -> None:
    async def scenario(rig: Rig) -> None:
        sources = SliceInventory(rig.client, rig.container)
        gpu = {"name": "gpus", "initialNodeCount": 1, "locations": ["us-central2-b"], "config": {"machineType": "a3-highgpu-8g"}}
        cpu = {"name": "cpus", "initialNodeCount": 1, "config": {"machineType": "n2-standard-4"}}
        await rig.container.create_node_pool(gpu)
        await rig.container.create_node_pool(cpu)
        await clock.sleep(120)
        assert "gpus" in await listed(sources, None)
        assert "cpus" not in await listed(sources, None)
        assert "gpus" not in await listed(sources)
        with pytest.raises(SliceworksError, match="node pool gpus does not belong to a JobSet"):
            await sources.owners("gpus")
        with pytest.raises(SliceworksError, match="slice or JobSet 'nothing' not found in namespace default"):
            await sources.named("nothing")

    run_with_rig(scenario)


def test_cluster_name_is_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GCP_PROJECT_ID", "GCP_CLUSTER", "GCP_CLUSTER_LOCATION"):
        monkeypatch.delenv(name, raising=False)
    config = tmp_path / "config"
    config.write_text("current-context: gke_p_us-central1_c\n")
    monkeypatch.setenv("KUBECONFIG", str(config))

    def names(**flags: str) -> tuple[str, ...]:
        result = connections.resolve_settings(flags, twin=False)
        return result.project, result.location, result.cluster

    assert names() == ("p", "us-central1", "c")
    assert names(cluster="mine") == ("p", "us-central1", "mine")
    monkeypatch.setenv("GCP_PROJECT_ID", "from-the-environment")
    assert names() == ("from-the-environment", "us-central1", "c")
    assert names(project="a", location="b", cluster="d") == ("a", "b", "d")
    config.write_text("current-context: kind-kind\n")
    assert names(project="a") == ("a", "", "")
    config.unlink()  # as in a pod, where the metadata server has the rest
    assert names(project="a") == ("a", "", "")


def test_missing_cluster_name_is_an_error() -> None:
    async def scenario() -> None:
        async with connections.open_container(Settings(project="p", token="t")):
            raise AssertionError("unreachable")

    with pytest.raises(UsageError, match="location is required"):
        clock.run(scenario())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["drain"], "error: a slice, a JobSet or --all is required\n"),
        (["drain", "x", "--all"], "error: a slice, a JobSet or --all is required\n"),
        (["list", "--twin", "--context", "c"], "error: --twin cannot be combined with --kubeconfig or --context\n"),
        (["list", "--twin"], "error: twin 'default' is not running\nhint: sliceworks twin start --name default\n"),
    ],
)
def test_usage_errors(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLICEWORKS_HOME", str(tmp_path))
    assert main.run(["slices", *arguments]) in (1, 2)
    assert capsys.readouterr().err.startswith(message)


def test_container_of_a_twin_is_its_only_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(endpoint="http://127.0.0.1:1", token="t", project="twin", location="us-central1", cluster="twin")
    monkeypatch.setattr(connections, "resolve_settings", lambda *_args, **_options: settings)
    where = {"twin": "default", "kubeconfig": None, "context": None}

    async def find(*clusters: dict[str, str]) -> str | None:
        class Client:
            async def send(self, _request: object) -> dict[str, Any]:
                return {"clusters": list(clusters)}

        async with AsyncExitStack() as stack:
            container = await connections.try_open_container(stack, Client(), where)  # type: ignore[arg-type]
            return f"{container.project}/{container.location}/{container.cluster}" if container else None

    async def main() -> None:
        other = {"project": "p", "location": "us-west4", "name": "platform"}
        assert await find() is None
        assert await find(other) == "p/us-west4/platform"

    clock.run(main())
