"""The release files of JobSet and Kueue as their projects build them: installed into a real cluster, ready, and deleted again."""

from __future__ import annotations

import asyncio
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.real.build import module_folder
from tests.real.programs import PROGRAMS
from tests.support import environments, kubectl
from tests.support.clusters import real_enabled
from tests.support.environments import silent, small

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.base.yaml_documents import load_all
from sliceworks.infra.cluster import applier, inventory
from sliceworks.infra.cluster.addon import ReleaseFiles, TwinReleases, required_releases
from sliceworks.infra.cluster.applier import Applier, find_object
from sliceworks.infra.cluster.composition import compose_steps
from sliceworks.infra.cluster.destroyer import Destroyer
from sliceworks.infra.cluster.inventory import WebhookReady
from sliceworks.kube import open_client
from sliceworks.kube.resources import CONFIG_MAP, DEPLOYMENT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.clusters import Cluster

    from sliceworks.infra.cluster.inventory import ApplyResult
    from sliceworks.kube import Client


def build(name: str, folder: Path) -> None:
    """The project's `manifests.yaml`, without the names of images."""
    source = module_folder(PROGRAMS[name], f"sigs.k8s.io/{name}") / "config" / "default"
    done = subprocess.run([str(kubectl.program()), "kustomize", str(source)], capture_output=True, check=True)
    (folder / f"{name}.yaml").write_bytes(done.stdout)


@pytest.mark.real
@pytest.mark.skipif(not real_enabled(), reason="needs kubectl built from its Go module: SLICEWORKS_REAL=1")
def test_releases_are_installed_with_our_settings_and_removed(cluster: Cluster, tmp_path: Path) -> None:
    if cluster.name == "twin":
        check_twin_rejects_releases(cluster)
        return
    for name in ("jobset", "kueue"):
        build(name, tmp_path)

    async def main() -> None:
        async with open_client(cluster.kubeconfig) as client:
            await installed(client, tmp_path)

    clock.run(main())


def check_twin_rejects_releases(cluster: Cluster) -> None:
    """A twin either includes both or neither; this one was started without workloads."""

    async def main() -> None:
        async with open_client(cluster.kubeconfig) as client:
            for release in required_releases(small().spec):
                assert await applier.find_resource(client, *release.sign) is None
                with pytest.raises(SliceworksError, match="this twin has no"):
                    TwinReleases().objects(release, {})

    clock.run(main())


async def installed(client: Client, folder: Path) -> None:
    environment = small("  queues: {readyWithin: 7m}\n")
    shelf = ReleaseFiles(folder / "kept", folder)
    result = {release.name: shelf.objects(release, {})[0] for release in required_releases(environment.spec)}
    expected = [
        item
        for item in compose_steps(environment, environments.cluster_inputs(environment, releases=result))
        if item.name in result
    ]
    waits = [wait for step in expected for wait in step.waits if isinstance(wait, WebhookReady)]
    # No pods run here, so the tests wait only for the webhooks that come with a release.
    quick = [replace(step, waits=()) for step in expected]
    first = await Applier(client, "small").apply(quick, await inventory.read(client, "small"), silent)
    assert {item.action for item in first} == {"create"}
    assert len(first) > 90
    assert (await applier.describe_missing(client, waits[0])).startswith("JobSet's webhooks are not ready: ")

    config = await client.get(CONFIG_MAP, "kueue-manager-config", "kueue-system")
    [settings] = load_all(config["data"]["controller_manager_config.yaml"], "config")
    assert settings.data["waitForPodsReady"]["timeout"] == "7m"
    assert "jobset.x-k8s.io/jobset" in settings.data["integrations"]["frameworks"]
    manager = await client.get(DEPLOYMENT, "kueue-controller-manager", "kueue-system")
    assert manager["spec"]["template"]["metadata"]["annotations"]["sliceworks.dev/configuration"]

    known = await inventory.read(client, "small")
    assert known.installed("jobset")
    assert known.installed("kueue")
    # Kueue's webhook covers Deployments in all namespaces except its own, and no server answers it.
    changed: list[ApplyResult] = []
    async with asyncio.timeout(90):
        while not changed:  # the API server's webhook configuration lags
            changed = [item for item in await applier.compare(client, quick, known) if item.action != "noop"]
    assert [(str(item.reference), item.action) for item in changed] == [
        ("Deployment jobset-system/jobset-controller-manager", "refused")
    ]
    assert "failed calling webhook" in changed[0].reason
    await Destroyer(client, await inventory.read(client, "small"), timeout=90).remove(silent)
    assert [str(item.reference) for item in first if await find_object(client, item.reference)] == []
