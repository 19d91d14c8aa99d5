"""The release files of JobSet and Kueue as their projects build them: installed into a real cluster, settled, and removed again."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.real.build import module_folder
from tests.real.programs import PROGRAMS
from tests.support import environments, kubectl
from tests.support.clusters import real_wanted
from tests.support.environments import silent, small

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.base.yamls import load_all
from sliceworks.infra.cluster import comparing, inventory, waiting
from sliceworks.infra.cluster.applying import Applier
from sliceworks.infra.cluster.compose import steps
from sliceworks.infra.cluster.pruning import is_gone
from sliceworks.infra.cluster.releases import releases
from sliceworks.infra.cluster.removing import Remover
from sliceworks.infra.cluster.shelves import Files, OfTheTwin
from sliceworks.infra.cluster.steps import Answers
from sliceworks.kube import open_client
from sliceworks.kube.well_known import CONFIG_MAP, DEPLOYMENT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters import Cluster

    from sliceworks.infra.cluster.outcomes import Outcome
    from sliceworks.kube import Client


def build(name: str, folder: Path) -> None:
    """What the project publishes as `manifests.yaml`, but for the images' names."""
    source = module_folder(PROGRAMS[name], f"sigs.k8s.io/{name}") / "config" / "default"
    done = subprocess.run([str(kubectl.program()), "kustomize", str(source)], capture_output=True, check=True)
    (folder / f"{name}.yaml").write_bytes(done.stdout)


@pytest.mark.real
@pytest.mark.skipif(not real_wanted(), reason="needs kubectl built from its Go module: SLICEWORKS_REAL=1")
def test_releases_are_installed_with_our_settings_and_removed(cluster: Cluster, tmp_path: Path) -> None:
    if cluster.name == "twin":
        refused_by_a_twin(cluster)
        return
    for name in ("jobset", "kueue"):
        build(name, tmp_path)

    async def main() -> None:
        async with open_client(cluster.kubeconfig) as client:
            await installed(client, tmp_path)

    clock.run(main())


def refused_by_a_twin(cluster: Cluster) -> None:
    """A twin has both in it, or none: this one was started without workloads."""

    async def main() -> None:
        async with open_client(cluster.kubeconfig) as client:
            for release in releases(small().spec):
                assert await waiting.served(client, *release.sign) is None
                with pytest.raises(SliceworksError, match="this twin has no"):
                    OfTheTwin().objects(release, {})

    clock.run(main())


async def installed(client: Client, folder: Path) -> None:
    environment = small("  queues: {readyWithin: 7m}\n")
    shelf = Files(folder / "kept", folder)
    found = {each.name: shelf.objects(each, {})[0] for each in releases(environment.spec)}
    wanted = [each for each in steps(environment, environments.given(environment, releases=found)) if each.name in found]
    asked = [wait for step in wanted for wait in step.waits if isinstance(wait, Answers)]
    # Nobody runs pods here, so the webhooks that come with a release are the ones that must be waited for.
    quick = [replace(step, waits=()) for step in wanted]
    first = await Applier(client, "small").apply(quick, await inventory.read(client, "small"), silent)
    assert {each.action for each in first} == {"create"}
    assert len(first) > 90
    assert (await waiting.lacking(client, asked[0])).startswith("JobSet's webhooks do not answer: ")

    config = await client.get(CONFIG_MAP, "kueue-manager-config", "kueue-system")
    [settings] = load_all(config["data"]["controller_manager_config.yaml"], "config")
    assert settings.data["waitForPodsReady"]["timeout"] == "7m"
    assert "jobset.x-k8s.io/jobset" in settings.data["integrations"]["frameworks"]
    manager = await client.get(DEPLOYMENT, "kueue-controller-manager", "kueue-system")
    assert manager["spec"]["template"]["metadata"]["annotations"]["sliceworks.dev/configuration"]

    known = await inventory.read(client, "small")
    assert known.installed("jobset")
    assert known.installed("kueue")
    # Kueue's webhook looks at Deployments everywhere but in its own namespace, and nobody is there to answer.
    changed: list[Outcome] = []
    async with asyncio.timeout(90):
        while not changed:  # the server hears of a webhook a moment after it was made
            changed = [each for each in await comparing.compare(client, quick, known) if each.action != "noop"]
    assert [(str(each.who), each.action) for each in changed] == [("Deployment jobset-system/jobset-controller-manager", "refused")]
    assert "failed calling webhook" in changed[0].reason
    await Remover(client, await inventory.read(client, "small"), patience=60).remove(silent)
    assert [str(each.who) for each in first if not await is_gone(client, each.who)] == []
