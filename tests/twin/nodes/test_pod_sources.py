"""Pods whose ConfigMaps, Secrets, accounts, claims or images are missing do not start, and say why in the kubelet's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.process_pods import running

from sliceworks.base import clock
from sliceworks.kube.client import Client
from sliceworks.kube.resources import CONFIG_MAP, EVENT, POD, SERVICE_ACCOUNT
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes
from sliceworks.twin.nodes.pod_sources import BOUND, CLAIM, SourceKey, missing_sources
from sliceworks.twin.nodes.pod_sources import CONFIG_MAP as CONFIG
from sliceworks.twin.nodes.pod_sources import SECRET as SECRETS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

Object = dict[str, Any]
DATA = {"model": "weights"}
TOKEN = {"token": "c2VjcmV0"}


@pytest.fixture(params=["simulated", "processes"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Callable[[Client], Awaitable[None]]], None]:
    """Run a coroutine on a twin with a node of either runtime."""

    def simulated(main: Callable[[Client], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with Cluster(ca="the authority") as cluster:
                client = Client(cluster.transport())
                await create_nodes(client, NodeShape(pool="pool"), 1)
                await clock.sleep(1)
                await main(client)

        clock.run(whole(), virtual=True, seed=1)

    def processes(main: Callable[[Client], Awaitable[None]]) -> None:
        running(main, tmp_path, speed=20)

    return simulated if request.param == "simulated" else processes


def pod(container: Object | None = None, *, init: Object | None = None, volume: Object | None = None, **spec: Any) -> Object:
    main = {"name": "main", "image": "example.com/app:1", "command": ["sleep", "600"], **(container or {})}
    if volume is not None:
        spec["volumes"] = [{"name": "data", **volume}]
        main["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    if init is not None:
        spec["initContainers"] = [{"name": "prepare", "image": "example.com/app:1", "command": ["true"], **init}]
    spec = {"nodeName": "gke-pool-0", "restartPolicy": "Never", "containers": [main], "terminationGracePeriodSeconds": 0, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}, "spec": spec}


def config_map(data: Object) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}, "data": data}


def secret(data: Object) -> Object:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": "default"}, "data": data}


async def waiting(client: Client, reason: str, *, name: str = "main") -> Object:
    """The waiting state of a container once it has this reason."""
    for _ in range(600):
        status = (await client.get(POD, "p"))["status"]
        statuses = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
        state: Object = next((item["state"].get("waiting") or {} for item in statuses if item["name"] == name), {})
        if state.get("reason") == reason:
            assert status["phase"] == "Pending"
            return state
        assert status["phase"] == "Pending", status
        await clock.sleep(0.5)
    raise AssertionError(f"the container is not waiting with {reason}: {status}")


async def event(client: Client, reason: str) -> str:
    """The message of the pod's first event with a reason."""
    for _ in range(600):
        for item in (await client.list(EVENT, "default")).items:
            if item["reason"] == reason and item["regarding"]["name"] == "p":
                return str(item["note"])
        await clock.sleep(0.5)
    raise AssertionError(f"no event {reason}")


async def runs(client: Client) -> None:
    for _ in range(600):
        status = (await client.get(POD, "p"))["status"]
        if status["phase"] == "Running":
            return
        await clock.sleep(0.5)
    raise AssertionError(f"the pod does not run: {status}")


VOLUMES = [
    ({"configMap": {"name": "settings"}}, config_map(DATA), 'configmap "settings" not found'),
    ({"secret": {"secretName": "token"}}, secret(TOKEN), 'secret "token" not found'),
    (
        {"projected": {"sources": [{"configMap": {"name": "settings"}}, {"secret": {"name": "token", "optional": True}}]}},
        config_map(DATA),
        'configmap "settings" not found',
    ),
]


@pytest.mark.parametrize(("volume", "source", "problem"), VOLUMES, ids=["configMap", "secret", "projected"])
def test_a_volume_waits_for_its_source(start: Any, volume: Object, source: Object, problem: str) -> None:
    async def main(client: Client) -> None:
        await client.create(pod(volume=volume))
        await waiting(client, "ContainerCreating")
        assert await event(client, "FailedMount") == f'MountVolume.SetUp failed for volume "data" : {problem}'
        await clock.sleep(30)
        await waiting(client, "ContainerCreating")
        await client.create(source)
        await runs(client)

    start(main)


VARIABLES = [
    (
        {"env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "token"}}}]},
        secret(TOKEN),
        'secret "token" not found',
    ),
    (
        {"env": [{"name": "MODEL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "model"}}}]},
        config_map(DATA),
        'configmap "settings" not found',
    ),
    ({"envFrom": [{"configMapRef": {"name": "settings"}}]}, config_map(DATA), 'configmap "settings" not found'),
    ({"envFrom": [{"secretRef": {"name": "token"}}]}, secret(TOKEN), 'secret "token" not found'),
]


@pytest.mark.parametrize(("container", "source", "problem"), VARIABLES)
def test_a_variable_waits_for_its_source(start: Any, container: Object, source: Object, problem: str) -> None:
    async def main(client: Client) -> None:
        await client.create(pod(container))
        assert (await waiting(client, "CreateContainerConfigError"))["message"] == problem
        assert await event(client, "Failed") == f"Error: {problem}"
        await client.create(source)
        await runs(client)

    start(main)


@pytest.mark.parametrize(
    ("image", "error"),
    [
        ("nope:::", "invalid reference format"),
        ("Example:1", "invalid reference format: repository name (library/Example) must be lowercase"),
        ("example.com/App:1", "invalid reference format: repository name (App) must be lowercase"),
    ],
)
def test_a_container_with_an_invalid_image_does_not_start(start: Any, image: str, error: str) -> None:
    async def main(client: Client) -> None:
        await client.create(pod({"image": image}))
        message = f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}": {error}'
        assert (await waiting(client, "InvalidImageName"))["message"] == message
        assert await event(client, "InspectFailed") == message
        assert await event(client, "Failed") == "Error: InvalidImageName"

    start(main)


def test_a_variable_waits_for_its_key(start: Any) -> None:
    async def main(client: Client) -> None:
        await client.create(config_map({"other": "value"}))
        await client.create(
            pod({"env": [{"name": "MODEL", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "model"}}}]})
        )
        state = await waiting(client, "CreateContainerConfigError")
        assert state["message"] == "couldn't find key model in ConfigMap default/settings"
        await client.patch(CONFIG_MAP, "settings", {"data": DATA}, "default")
        await runs(client)

    start(main)


def test_an_init_container_with_a_missing_secret_holds_the_others(start: Any) -> None:
    async def main(client: Client) -> None:
        await client.create(pod(init={"envFrom": [{"secretRef": {"name": "token"}}]}))
        assert (await waiting(client, "CreateContainerConfigError", name="prepare"))["message"] == 'secret "token" not found'
        await waiting(client, "PodInitializing")
        await client.create(secret(TOKEN))
        await runs(client)

    start(main)


def test_optional_and_unmounted_sources_are_not_needed(start: Any) -> None:
    async def main(client: Client) -> None:
        container = {"envFrom": [{"secretRef": {"name": "token", "optional": True}}]}
        unused = {"name": "unused", "secret": {"secretName": "token"}}
        expected = pod(container, volume={"configMap": {"name": "settings", "optional": True}})
        expected["spec"]["volumes"].append(unused)
        await client.create(expected)
        await runs(client)

    start(main)


def test_a_pod_of_a_deleted_account_gets_no_token(start: Any) -> None:
    async def main(client: Client) -> None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "trainer", "namespace": "default"}}
        await client.create(account)
        gated = pod(serviceAccountName="trainer", schedulingGates=[{"name": "example.com/wait"}])
        del gated["spec"]["nodeName"]
        await client.create(gated)
        await client.delete(SERVICE_ACCOUNT, "trainer", "default")
        await client.patch(POD, "p", {"spec": {"schedulingGates": []}}, "default")
        message = await event(client, "FailedMount")
        assert message.endswith('failed to fetch token: serviceaccounts "trainer" not found')
        await client.create(account)
        await runs(client)

    start(main)


def test_an_image_that_is_declared_absent_is_not_pulled(start: Any) -> None:
    async def main(client: Client) -> None:
        absent = pod()
        absent["metadata"]["annotations"] = {"sliceworks.dev/image-pull": "fail"}
        await client.create(absent)
        state = await waiting(client, "ImagePullBackOff")
        assert state["message"].startswith('Back-off pulling image "example.com/app:1": ErrImagePull')
        assert await event(client, "BackOff") == 'Back-off pulling image "example.com/app:1"'
        await client.patch(POD, "p", {"metadata": {"annotations": {"sliceworks.dev/image-pull": None}}}, "default")
        await runs(client)

    start(main)


def test_containers_without_a_missing_source_start() -> None:
    async def main() -> None:
        async with Cluster(ca="the authority") as cluster:
            client = Client(cluster.transport())
            await create_nodes(client, NodeShape(pool="pool"), 1)
            two = pod({"envFrom": [{"secretRef": {"name": "token"}}]})
            two["spec"]["containers"].append({"name": "second", "image": "example.com/app:1"})
            await client.create(two)
            await waiting(client, "CreateContainerConfigError")
            status = (await client.get(POD, "p"))["status"]
            assert "running" in status["containerStatuses"][1]["state"]
            assert status["podIP"]
            await client.create(secret(TOKEN))
            await runs(client)
            assert (await client.get(POD, "p"))["status"]["containerStatuses"][1]["restartCount"] == 0

    clock.run(main(), virtual=True, seed=1)


def test_several_problems_of_one_volume_are_listed() -> None:
    sources = [{"configMap": {"name": "a"}}, {"secret": {"name": "b", "items": [{"key": "k", "path": "k"}]}}]
    obj = pod(volume={"projected": {"sources": sources}})
    existing = {SourceKey(SECRETS, "default", "b"): frozenset({"other"})}
    missing = missing_sources(obj, existing.get)
    message = 'MountVolume.SetUp failed for volume "data" : [configmap "a" not found, references non-existent secret key: k]'
    assert missing == {"volumes": [{"name": "data", "message": message}]}
    existing |= {SourceKey(CONFIG, "default", "a"): frozenset(), SourceKey(SECRETS, "default", "b"): frozenset({"k"})}
    assert missing_sources(obj, existing.get) is None


def test_a_missing_claim_of_a_bound_pod_is_named() -> None:
    obj = pod(volume={"persistentVolumeClaim": {"claimName": "disk"}})
    message = missing_sources(obj, lambda _: None)
    assert message is not None
    assert message["volumes"][0]["message"].endswith(
        "failed to process volumes=[data]: error processing PVC default/disk: "
        'failed to fetch PVC from API server: persistentvolumeclaims "disk" not found'
    )
    message = missing_sources(obj, {SourceKey(CLAIM, "default", "disk"): frozenset[str]()}.get)
    assert message is not None
    assert message["volumes"][0]["message"].endswith("error processing PVC default/disk: PVC is not bound")
    assert missing_sources(obj, {SourceKey(CLAIM, "default", "disk"): frozenset({BOUND})}.get) is None
