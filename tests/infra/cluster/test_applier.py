"""Steps applied to a twin: created, unchanged on a second run, repaired, resumed after any interruption, and deleted."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from tests.support import environments
from tests.support.environments import on_twin, play, silent, small

from sliceworks.base import clock
from sliceworks.base.errors import NotFound, SliceworksError, TimedOut
from sliceworks.controllers.graphs import GraphController
from sliceworks.infra.cluster import applier, inventory
from sliceworks.infra.cluster.applier import Applier, find_object
from sliceworks.infra.cluster.destroyer import Destroyer
from sliceworks.infra.cluster.inventory import OWNER, SYSTEM, Step, WebhookReady, build_namespace, reference_to
from sliceworks.kube.client import Client
from sliceworks.kube.resources import CONFIG_MAP, NAMESPACE, SECRET, SERVICE_ACCOUNT, Resource
from sliceworks.twin.cloud.google.container.managed_addons import mesh_definitions

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from sliceworks.base.transport import Request, Response
    from sliceworks.infra.cluster.inventory import ApplyResult
    from sliceworks.specs.environment import Environment

QUEUE = Resource("kueue.x-k8s.io", "v1beta2", "ClusterQueue", "clusterqueues", namespaced=False)
JOBSET = Resource("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets")
TEAMS = "  teams: {research: {members: ['group:a@example.com'], maxJobs: 3}, training: {}}\n"


async def apply(client: Client, environment: Environment, steps: Iterable[Step] | None = None) -> list[ApplyResult]:
    name = environment.metadata.name
    known = await inventory.read(client, name)
    return await Applier(client, name).apply(steps or on_twin(environment), known, silent)


def count(outcomes: Iterable[ApplyResult]) -> dict[str, int]:
    result: dict[str, int] = {}
    for outcome in outcomes:
        result[outcome.action] = result.get(outcome.action, 0) + 1
    return result


@asynccontextmanager
async def graphs(client: Client) -> AsyncIterator[None]:
    """The graphs controller, as its Deployment runs it."""
    running = asyncio.create_task(GraphController(client).run())
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


@pytest.mark.parametrize("name", environments.NAMES)
def test_example_is_created_unchanged_and_deleted(name: str) -> None:
    environment = environments.example(name)

    async def main(client: Client) -> None:
        for definition in mesh_definitions() if environment.spec.addons.mesh else ():
            await client.create(definition)  # the fleet installs them before
        async with graphs(client):
            first = await apply(client, environment)
            assert set(count(first)) == {"create"}
            assert set(count(await apply(client, environment))) == {"noop"}
            known = await inventory.read(client, name)
            assert set(count(await applier.compare(client, on_twin(environment), known))) == {"noop"}
            before = {item["metadata"]["name"] for item in (await client.list_all(NAMESPACE)).items}
            assert SYSTEM in before
            assert await Destroyer(client, known).remove(silent) == len(first)
            left = {item["metadata"]["name"] for item in (await client.list_all(NAMESPACE)).items}
            assert left == {"default", "kube-node-lease", "kube-public", "kube-system"}
            assert [str(item.reference) for item in first if await find_object(client, item.reference)] == []

    play(main)


def test_drift_is_detected_and_repaired() -> None:
    environment = small(TEAMS)

    async def main(client: Client) -> None:
        await apply(client, environment)
        known = await inventory.read(client, "small")
        await client.patch(QUEUE, "slices", {"spec": {"queueingStrategy": "StrictFIFO"}}, field_manager="kubectl")
        await client.delete(SERVICE_ACCOUNT, "trainer", "research")
        seen = [item for item in await applier.compare(client, on_twin(environment), known) if item.action != "noop"]
        assert {(str(item.reference), item.action) for item in seen} == {
            ("ClusterQueue slices", "update"),
            ("ServiceAccount research/trainer", "create"),
        }
        assert count(await apply(client, environment))["update"] == 1
        assert (await client.get(QUEUE, "slices"))["spec"]["queueingStrategy"] == "BestEffortFIFO"

    play(main)


def test_removed_team_is_deleted_with_its_namespace() -> None:
    async def main(client: Client) -> None:
        await apply(client, small(TEAMS))
        deleted = [item for item in await apply(client, small("  teams: {training: {}}\n")) if item.action == "delete"]
        assert {str(item.reference) for item in deleted} == {
            "ClusterRole sliceworks-queue-readers",
            "ClusterRoleBinding sliceworks-queue-readers",
            "LocalQueue research/queue",
            "Namespace research",
            "ResourceQuota research/jobs",
            "Role research/trainers",
            "RoleBinding research/members",
            "RoleBinding research/trainers",
            "ServiceAccount research/trainer",
        }
        await clock.sleep(30)
        with pytest.raises(NotFound):
            await client.get(NAMESPACE, "research")
        assert not [who for who in (await inventory.read(client, "small")).entries if "research" in (who.namespace, who.name)]

    play(main)


def test_namespace_in_use_is_kept_with_a_reason() -> None:
    async def main(client: Client) -> None:
        await apply(client, small(TEAMS))
        await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "notes", "namespace": "research"}})
        kept = [item for item in await apply(client, small("  teams: {training: {}}\n")) if item.action == "keep"]
        assert [(str(item.reference), item.reason) for item in kept] == [("Namespace research", "it contains ConfigMap notes")]
        assert (await client.get(NAMESPACE, "research"))["status"]["phase"] == "Active"
        await client.delete(CONFIG_MAP, "notes", "research")
        assert count(await apply(client, small("  teams: {training: {}}\n")))["delete"] == 1

    play(main)


def test_existing_objects_are_restored() -> None:
    async def main(client: Client) -> None:
        await client.create(build_namespace("research", labels={"theirs": "yes"}))
        await apply(client, small(TEAMS))
        taken = (await client.get(NAMESPACE, "research"))["metadata"]["labels"]
        assert taken["sliceworks.dev/team"] == "research"
        await apply(client, small())
        labels = (await client.get(NAMESPACE, "research"))["metadata"]["labels"]
        assert labels["theirs"] == "yes"
        assert OWNER not in labels
        assert "sliceworks.dev/team" not in labels

    play(main)


def test_objects_of_other_managers_are_kept() -> None:
    async def main(client: Client) -> None:
        await apply(client, small(TEAMS))
        await client.patch(SERVICE_ACCOUNT, "trainer", {"metadata": {"labels": {OWNER: "another"}}}, "research")
        await apply(client, small("  teams: {training: {}}\n"))
        assert (await client.get(SERVICE_ACCOUNT, "trainer", "research"))["metadata"]["labels"] == {OWNER: "another"}

    play(main)


def test_ready_within_is_set_and_removed_in_kueue() -> None:
    async def main(client: Client) -> None:
        await apply(client, small("  queues: {readyWithin: 7m}\n"))
        result = await client.get(CONFIG_MAP, "kueue-manager-config", "kueue-system")
        assert "timeout: 7m" in result["data"]["controller_manager_config.yaml"]
        await apply(client, small())
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "kueue-manager-config", "kueue-system")

    play(main)


THING = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.acme.example"},
    "spec": {
        "group": "acme.example",
        "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
    },
}


def test_release_is_kept_while_its_kinds_are_used() -> None:
    place = build_namespace("thing-system")
    released = on_twin(small(), releases={"jobset": [place, THING]})

    async def main(client: Client) -> None:
        await apply(client, small(), released)
        await clock.sleep(5)
        await client.create({"apiVersion": "acme.example/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "default"}})
        kept = [item for item in await apply(client, small()) if item.action == "keep"]
        assert {(str(item.reference), item.reason) for item in kept} == {
            ("CustomResourceDefinition things.acme.example", "things created by others exist"),
            ("Namespace thing-system", "things created by others exist"),
        }
        assert (await inventory.read(client, "small")).installed("jobset")
        await client.delete(await client.discovery.find("things.acme.example"), "a", "default")
        assert count(await apply(client, small()))["delete"] == 2
        assert not (await inventory.read(client, "small")).installed("jobset")

    play(main)


class Stopped(Exception):
    """Ctrl-C was pressed."""


class Fragile:
    """A transport that fails after this many writes; the last write may or may not have arrived."""

    def __init__(self, real: Any, writes: int) -> None:
        self.real, self.left = real, writes

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        if request.method != "GET":
            self.left -= 1
            if self.left < 0:
                raise Stopped
        response: Response = await self.real.send(request, stream=stream)
        if self.left == 0 and request.method != "GET":
            raise Stopped
        return response

    async def close(self) -> None:
        await self.real.close()


async def everything(client: Client) -> bytes:
    """Our objects in the cluster, without what differs between runs."""
    known = await inventory.read(client, "small")
    result = []
    for who in sorted(known.entries):
        resource = await client.resource_of({"apiVersion": who.api_version, "kind": who.kind})
        obj = await client.get(resource, who.name, who.namespace or None)
        changing = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation")
        metadata = {key: value for key, value in obj["metadata"].items() if key not in changing}
        result.append({**obj, "metadata": metadata, "status": None})
    return orjson.dumps(result, option=orjson.OPT_SORT_KEYS | orjson.OPT_INDENT_2)


INTERRUPTED = TEAMS + "  queues: {readyWithin: 7m}\n  identities: {workloads: {trainer: {namespace: jobs}}}\n"


def test_interrupted_apply_is_resumed() -> None:
    ends: list[tuple[bool, bytes]] = []

    async def one(writes: int) -> None:
        async with environments.twin() as client:
            stopped = False
            try:
                await apply(Client(Fragile(client.transport, writes)), small(INTERRUPTED))
            except Stopped:
                stopped = True
            await apply(client, small(INTERRUPTED))
            assert set(count(await apply(client, small(INTERRUPTED)))) == {"noop"}
            ends.append((stopped, await everything(client)))

    writes = 1
    while not ends or ends[-1][0]:
        clock.run(one(writes), virtual=True, seed=1)
        writes += 7
    assert len(ends) > 4
    assert {end for _stopped, end in ends} == {ends[-1][1]}


def test_interrupted_destroy_is_resumed() -> None:
    async def one(writes: int) -> bool:
        async with environments.twin() as client:
            await apply(client, small(INTERRUPTED))
            broken = Client(Fragile(client.transport, writes))
            stopped = False
            try:
                await Destroyer(broken, await inventory.read(broken, "small")).remove(silent)
            except Stopped:
                stopped = True
            await Destroyer(client, await inventory.read(client, "small")).remove(silent)
            left = {item["metadata"]["name"] for item in (await client.list_all(NAMESPACE)).items}
            assert left <= {"default", "kube-node-lease", "kube-public", "kube-system", SYSTEM}
            assert not (await inventory.read(client, "small")).entries
            assert not (await client.list_all(QUEUE)).items
            return stopped

    assert all(clock.run(one(writes), virtual=True, seed=1) for writes in (1, 9, 17))


def test_jobs_are_deleted_first() -> None:
    async def main(client: Client) -> None:
        environment = small(TEAMS)
        await apply(client, environment)
        job = next(item.probe for step in on_twin(environment) for item in step.waits if isinstance(item, WebhookReady))
        labels = {"kueue.x-k8s.io/queue-name": "queue"}
        await client.create({**job, "metadata": {"name": "busy", "namespace": "research", "labels": labels}})
        await clock.sleep(5)
        await Destroyer(client, await inventory.read(client, "small")).remove(silent)
        assert not (await client.list_all(QUEUE)).items
        assert not (await client.list_all(JOBSET)).items

    play(main)


def test_stuck_deletion_is_reported_with_a_hint() -> None:
    async def main(client: Client) -> None:
        await apply(client, small(TEAMS))
        held = {"name": "held", "namespace": "research", "finalizers": ["example.com/never"]}
        await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": held})
        remover = Destroyer(client, await inventory.read(client, "small"), timeout=30)
        with pytest.raises(TimedOut, match="Namespace research is not deleted after 30 s") as caught:
            await remover.remove(silent)
        assert "--abandon" in caught.value.hint
        await client.patch(CONFIG_MAP, "held", {"metadata": {"finalizers": None}}, "research")
        await Destroyer(client, await inventory.read(client, "small")).remove(silent)
        with pytest.raises(NotFound):
            await client.get(NAMESPACE, "research")

    play(main)


def test_two_environments_in_one_cluster_are_independent() -> None:
    async def main(client: Client) -> None:
        one, other = small("  teams: {research: {}}\n"), small("  addons: {kueue: false}\n  teams: {serving: {}}\n")
        other = other.model_copy(update={"metadata": other.metadata.model_copy(update={"name": "other"})})
        await apply(client, one)
        await apply(client, other)
        await Destroyer(client, await inventory.read(client, "small")).remove(silent)
        assert (await client.get(NAMESPACE, "serving"))["metadata"]["labels"][OWNER] == "other"
        assert (await client.get(CONFIG_MAP, "environment-other", SYSTEM))["data"]

    play(main)


def test_objects_of_another_environment_are_not_adopted() -> None:
    async def main(client: Client) -> None:
        other = small().model_copy(update={"metadata": small().metadata.model_copy(update={"name": "other"})})
        await apply(client, small())
        with pytest.raises(SliceworksError, match="WorkloadPriorityClass very-low belongs to environment small"):
            await apply(client, other)

    play(main)


def test_service_account_that_a_model_service_created_is_not_deleted_with_it() -> None:
    environment = small("  identities: {workloads: {server: {namespace: serving}}}\n  addons: {kueue: false}\n")

    async def main(client: Client) -> None:
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "serving"}}, resource=NAMESPACE)
        record = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "service", "namespace": "serving"}}
        uid = (await client.create(record))["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "service", "uid": uid}
        metadata = {"name": "server", "namespace": "serving", "ownerReferences": [owner]}
        await client.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})
        await apply(client, environment)
        await client.delete(CONFIG_MAP, "service", "serving")
        await clock.sleep(60)
        account = await client.get(SERVICE_ACCOUNT, "server", "serving")
        assert "iam.gke.io/gcp-service-account" in account["metadata"]["annotations"]

    play(main)


def test_credentials_are_only_in_their_secret() -> None:
    environment = environments.example("self-service")

    async def main(client: Client) -> None:
        async with graphs(client):
            output: list[str] = []
            known = await inventory.read(client, "self-service")
            await Applier(client, "self-service").apply(on_twin(environment), known, lambda _step: output.append)
            secret = await client.get(SECRET, "kaggle-secret", "config-connector")
            assert secret["data"] == {"username": "YW5u", "key": "cmVnaXN0cnktdG9rZW4="}
            written = await client.get(CONFIG_MAP, "environment-self-service", SYSTEM)
            for text in (*output, orjson.dumps(written).decode()):
                assert "registry-token" not in text
                assert "cmVnaXN0cnktdG9rZW4=" not in text

    play(main)


def test_progress_names_objects_and_missing_conditions() -> None:
    async def main(client: Client) -> None:
        environment = small("  addons: {slices: true, image: a/b:c}\n")
        output: list[str] = []
        known = await inventory.read(client, "small")
        applier = Applier(client, "small", timeout=20)
        with pytest.raises(
            TimedOut, match=r"slices: timed out after 20 s: Deployment tpu-provisioner-system/.* has 0 of 2 pods ready"
        ):
            await applier.apply(on_twin(environment), known, lambda _step: output.append)
        assert "ServiceAccount tpu-provisioner-system/tpu-provisioner-controller-manager" in output
        assert any("is unschedulable: " in item for item in output)

    play(main, nodes=0)


def test_identities_are_unique() -> None:
    assert str(reference_to({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "namespace": "b"}})) == "Secret b/a"
