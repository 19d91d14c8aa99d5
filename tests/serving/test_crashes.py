"""A command is killed after one of its writes and run again, and other commands run between two of its writes.

The cluster always ends in the undisturbed state, and unrelated objects do not change. `make test` tries a part of the writes, and
`make test-heavy` each of them.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.graph_controller import WRITES, RecordingTransport
from tests.support.model_services import read

from sliceworks.base import clock, yaml_documents
from sliceworks.base.errors import SliceworksError
from sliceworks.base.transport import Request
from sliceworks.kube.client import Client
from sliceworks.kube.resources import CONFIG_MAP, DEPLOYMENT, NAMESPACE, SERVICE, SERVICE_ACCOUNT
from sliceworks.serving import cluster, ownership, publication
from sliceworks.serving.objects import GATEWAY_LABEL
from sliceworks.serving.objects import SERVICE_LABEL as NAMED
from sliceworks.serving.record import RecordConflict
from sliceworks.serving.rollout import Rollout
from sliceworks.serving.validation import parse_valid
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.node_shape import NodeShape, create_nodes

if TYPE_CHECKING:
    from sliceworks.base.transport import Response, Transport
    from sliceworks.serving.record import Record
    from sliceworks.specs.model_service import ModelService

Object = dict[str, Any]
pytestmark = [pytest.mark.long(60), pytest.mark.timeout(900)]
NS = "models"
Act = Callable[[Client], Coroutine[Any, Any, None]]
_TRIES_ALL = "SLICEWORKS_FUZZ" in os.environ


def model(name: str, more: str = "gateway: {image: 'g:1'}") -> ModelService:
    triton = f"triton: {{repository: /models, models: [{{name: {name}-model}}]}}"
    head = f"apiVersion: sliceworks.dev/v1alpha1\nkind: ModelService\nmetadata: {{name: {name}, namespace: {NS}}}\n"
    return read(f"{head}spec: {{engine: triton, {triton}, {more}}}")


CANARY = "canary: {weight: 10, image: 'new:1'}"
ONE, OTHER = model("one"), model("other")
CHANGED = model("one", f"{CANARY}, gateway: {{image: 'g:1', name: second}}")
BARE = model("one", "replicas: 2")


async def deploy(client: Client, service: ModelService) -> None:
    rollout = Rollout(client, service, service.model_dump(by_alias=True, exclude_unset=True, mode="json"), NS)
    await rollout.prepare()
    await rollout.follow(await rollout.apply(lambda _: None, 600), lambda _: None, 600)


def deploying(service: ModelService) -> Act:
    return lambda client: deploy(client, service)


async def delete(client: Client, name: str = "one") -> None:
    result = [record for record in await cluster.list_records(client, NS) if record.service.metadata.name == name]
    for item in result:
        await ownership.delete_service(client, item, NS, 600)


class ServiceHarness:
    """A small cluster with an unrelated service that shares a gateway."""

    def __init__(self, twin: Cluster) -> None:
        self.twin, self.client = twin, Client(twin.transport())

    async def build(self, *acts: Act) -> None:
        await self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}}, resource=NAMESPACE)
        await create_nodes(self.client, NodeShape("default", "n2-standard-32", "32", "256Gi"), 2)
        for act in (deploying(OTHER), *acts):
            await act(self.client)

    async def document(self) -> Object | None:
        """The recorded document of the service under test."""
        result = [record for record in await cluster.list_records(self.client, NS) if record.service.metadata.name == "one"]
        return result[0].document if result else None

    async def seen(self, name: str) -> cluster.ServiceDetails:
        return await cluster.describe(self.client, await cluster.get_record(self.client, name, NS), NS)

    async def gateway(self, name: str) -> tuple[set[str], set[str]]:
        """The models of a gateway and its owners."""
        result = await self.client.get(CONFIG_MAP, name, NS)
        served = {
            model["name"].removesuffix("-model") for model in yaml.safe_load(result["data"]["gateway.yaml"])["spec"]["models"]
        }
        running = await self.client.get(DEPLOYMENT, name, NS)
        return served, {owner["name"].removesuffix("-model-service") for owner in running["metadata"]["ownerReferences"]}

    async def picture(self) -> Object:
        """All objects of the namespace, without what differs between runs."""
        await clock.sleep(120)
        result: Object = {}
        kinds = ("configmaps", "services", "serviceaccounts"), ("deployments",), ("networkpolicies",), ("roles", "rolebindings")
        groups = "/api/v1", "/apis/apps/v1", "/apis/networking.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1"
        more = [("/apis/autoscaling/v2", ("horizontalpodautoscalers",)), ("/apis/policy/v1", ("poddisruptionbudgets",))]
        for group, names in [*zip(groups, kinds, strict=True), *more]:
            for kind in names:
                listed = await self.client.send(Request("GET", f"{group}/namespaces/{NS}/{kind}"))
                result |= {f"{kind}/{item['metadata']['name']}": _settled(item) for item in listed["items"]}
        return result


def _settled(obj: Object) -> Object:
    owners = sorted(owner["name"] for owner in obj["metadata"].get("ownerReferences") or ())
    spec = {name: value for name, value in (obj.get("spec") or {}).items() if not name.startswith(("clusterIP", "ipF"))}
    return {"labels": obj["metadata"].get("labels"), "owners": owners, "spec": spec, "data": obj.get("data")}


def run_scenario(scenario: Callable[[ServiceHarness], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with Cluster() as twin:
            return await scenario(ServiceHarness(twin))

    return clock.run(main(), virtual=True, seed=1)


async def until_it_dies(act: Act, transport: RecordingTransport) -> None:
    """Run a command until its transport fails."""
    work, death = asyncio.create_task(act(Client(transport))), asyncio.create_task(transport.died.wait())
    await asyncio.wait((work, death), return_when=asyncio.FIRST_COMPLETED)
    for task in (work, death):
        task.cancel()
    await asyncio.gather(work, death, return_exceptions=True)
    assert transport.died.is_set()


STORIES: dict[str, tuple[tuple[Act, ...], Act]] = {
    "deployed": ((), deploying(ONE)),
    "moved to another gateway, with a canary": ((deploying(ONE),), deploying(CHANGED)),
    "without its canary and gateway": ((deploying(CHANGED),), deploying(BARE)),
    "deleted": ((deploying(ONE),), delete),
}


def some(numbers: list[int], step: int, first: int) -> list[int]:
    """Every `step`-th write from the `first` on, and the last one."""
    return numbers if _TRIES_ALL else sorted({*numbers[first % step :: step], numbers[-1]})


def writes(watched: RecordingTransport) -> list[int]:
    """The writes from the first one of the record on; earlier ones are dry runs."""
    changing = [number for number, (method, _) in enumerate(watched.sent) if method in WRITES]
    own = [number for number in changing if watched.sent[number][1].endswith(("/configmaps", "/one-model-service"))]
    return [number for number in changing if number >= own[0]] if own else changing


@pytest.mark.parametrize("story", STORIES)
def test_killed_command_is_completed_by_a_repeat(story: str) -> None:
    earlier, act = STORIES[story]

    async def undisturbed(harness: ServiceHarness) -> tuple[Object, list[int]]:
        await harness.build(*earlier)
        watched = RecordingTransport(harness.twin.transport())
        await act(Client(watched))
        return await harness.picture(), writes(watched)

    expected, numbers = run_scenario(undisturbed)
    assert numbers

    async def disturbed(harness: ServiceHarness, number: int) -> None:
        await harness.build(*earlier)
        known = await harness.document()
        transport = RecordingTransport(harness.twin.transport())
        transport.die_at, transport.die_before = number, False
        await until_it_dies(act, transport)
        if await harness.picture() != expected and await harness.document() != known:
            assert (await cluster.get_record(harness.client, "one", NS)).pending_steps, transport.sent[number]
        await act(harness.client)
        assert await harness.picture() == expected, transport.sent[number]

    for number in some(numbers, 2, list(STORIES).index(story)):
        run_scenario(partial(disturbed, number=number))


class Interrupted(RecordingTransport):
    """A transport that runs another command before one call."""

    def __init__(self, transport: Transport, at: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__(transport)
        self._at, self._meanwhile = at, meanwhile

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        if len(self.sent) == self._at:
            self._at = -1
            await self._meanwhile()
        return await super().send(request, stream=stream)


def between(
    earlier: tuple[Act, ...],
    act: Act,
    other: Act,
    then: Callable[[ServiceHarness, str], Awaitable[None]],
    *,
    first: int = 0,
    step: int = 3,
) -> None:
    """Run another command before a write of a command and check both outcomes; a command that asks to be repeated is repeated.

    Every `step`-th write is tried, from the `first` on.
    """

    async def undisturbed(harness: ServiceHarness) -> tuple[list[int], list[tuple[str, str]]]:
        await harness.build(*earlier)
        watched = RecordingTransport(harness.twin.transport())
        await act(Client(watched))
        return writes(watched), watched.sent

    numbers, sent = run_scenario(undisturbed)

    async def disturbed(harness: ServiceHarness, number: int) -> None:
        await harness.build(*earlier)
        try:
            await act(Client(Interrupted(harness.twin.transport(), number, lambda: other(harness.client))))
        except RecordConflict:
            await act(harness.client)
        await clock.sleep(120)
        await then(harness, f"{number} {sent[number]}")

    for number in some(numbers, step, first):
        run_scenario(partial(disturbed, number=number))


THIRD, FOURTH = model("third"), model("fourth", "gateway: {image: 'g:1', name: second}")


def test_concurrent_services_share_the_gateway() -> None:
    async def then(harness: ServiceHarness, at: str) -> None:
        assert await harness.gateway("gateway") == ({"one", "other", "third"}, {"one", "other", "third"}), at
        for name in ("one", "third"):
            assert (await harness.seen(name)).status.state == "ready", at

    between((), deploying(ONE), deploying(THIRD), then)


def test_service_keeps_the_gateway_while_another_leaves() -> None:
    async def stays(harness: ServiceHarness, at: str) -> None:
        assert await harness.gateway("second") == ({"fourth"}, {"fourth"}), at
        assert (await harness.seen("fourth")).status.state == "ready", at

    async def is_deleted(harness: ServiceHarness, at: str) -> None:
        assert await harness.gateway("gateway") == ({"other", "third"}, {"other", "third"}), at
        assert (await harness.seen("third")).status.state == "ready", at

    between((deploying(CHANGED),), deploying(BARE), deploying(FOURTH), stays, step=1)
    between((deploying(CHANGED),), delete, deploying(FOURTH), stays, step=1)
    between((deploying(ONE),), delete, deploying(THIRD), is_deleted, step=1)


def test_concurrent_deployments_of_one_service_conflict() -> None:
    async def alone(harness: ServiceHarness) -> Object:
        await harness.build(deploying(BARE))
        return await harness.picture()

    expected = run_scenario(alone)

    async def then(harness: ServiceHarness, at: str) -> None:
        await deploy(harness.client, BARE)
        assert await harness.picture() == expected, at

    between((), deploying(CHANGED), deploying(BARE), then)
    between((), deploying(BARE), deploying(CHANGED), then, first=1)


def test_deletion_during_deployment_leaves_nothing() -> None:
    async def alone(harness: ServiceHarness) -> Object:
        await harness.build()
        return await harness.picture()

    expected = run_scenario(alone)

    async def then(harness: ServiceHarness, at: str) -> None:
        await delete(harness.client)
        assert await harness.picture() == expected, at

    between((deploying(ONE),), deploying(CHANGED), delete, then, first=2)


def test_terminating_service_cannot_be_deployed() -> None:
    async def scenario(harness: ServiceHarness) -> None:
        await harness.build(deploying(ONE))
        await harness.client.patch(CONFIG_MAP, "one-model-service", {"metadata": {"finalizers": ["example.com/hold"]}}, NS)
        await harness.client.delete(CONFIG_MAP, "one-model-service", NS)
        with pytest.raises(SliceworksError, match="one is being deleted"):
            await deploy(harness.client, ONE)
        await deploy(harness.client, THIRD)
        assert await harness.gateway("gateway") == ({"other", "third"}, {"other", "third"})

    run_scenario(scenario)


@pytest.mark.parametrize("name", ["one", "one-canary", "second"])
def test_foreign_objects_are_not_adopted(name: str) -> None:
    async def scenario(harness: ServiceHarness) -> None:
        template = {"metadata": {"labels": {"app": "mine"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        spec = {"selector": {"matchLabels": {"app": "mine"}}, "template": template}
        await harness.build()
        await harness.client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}, NS)
        before = await harness.picture()
        with pytest.raises(SliceworksError, match=f"deployment/{name} already exists and does not belong to a model service"):
            await deploy(harness.client, CHANGED)
        assert await harness.picture() == before

    run_scenario(scenario)


def test_canary_of_another_service_is_not_replaced() -> None:
    async def scenario(harness: ServiceHarness) -> None:
        await harness.build(deploying(CHANGED))
        with pytest.raises(SliceworksError, match="one-canary already exists and belongs to one"):
            await deploy(harness.client, model("one-canary"))

    run_scenario(scenario)


def test_existing_service_account_is_kept() -> None:
    identity = "identity: {serviceAccount: mine, googleServiceAccount: a@b.iam.gserviceaccount.com}"
    front = f"gateway: {{image: 'g:1', name: fronts, {identity}}}"

    async def scenario(harness: ServiceHarness) -> None:
        await harness.build()
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mine", "namespace": NS}}
        await harness.client.create(account, resource=SERVICE_ACCOUNT)
        for name in ("one", "third"):
            await deploy(harness.client, model(name, f"{identity}, {front}"))
        result = await harness.client.get(SERVICE_ACCOUNT, "mine", NS)
        assert result["metadata"]["annotations"]["iam.gke.io/gcp-service-account"] == "a@b.iam.gserviceaccount.com"
        await deploy(harness.client, model("one", "replicas: 1"))
        for name in ("one", "third"):
            await delete(harness.client, name)
        await clock.sleep(60)
        assert (await harness.client.get(SERVICE_ACCOUNT, "mine", NS))["metadata"]["uid"] == result["metadata"]["uid"]

    run_scenario(scenario)


def test_shared_objects_are_still_owned_after_one_service_leaves() -> None:
    async def scenario(harness: ServiceHarness) -> None:
        await harness.build(deploying(ONE), deploying(model("one", "replicas: 1")))
        await harness.client.patch(SERVICE, "gateway", {"metadata": {"labels": {GATEWAY_LABEL: "gone", NAMED: "one"}}}, NS)
        await deploy(harness.client, THIRD)
        assert await harness.gateway("gateway") == ({"other", "third"}, {"other", "third"})

    run_scenario(scenario)


async def change(harness: ServiceHarness, record: Record, document: Object, verb: str, name: str) -> None:
    expected = parse_valid(yaml_documents.Document(document, "record", 1, {})), document
    await publication.publish(harness.client, record, expected, (verb, name), report=lambda _: None, timeout=600)


def test_concurrent_publications_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    async def take(*_: Any) -> None:
        """The servers accept every change."""

    monkeypatch.setattr(publication, "load_on_triton", take)

    async def scenario(harness: ServiceHarness) -> None:
        await harness.build(deploying(ONE))
        record = await cluster.get_record(harness.client, "one", NS)
        await change(harness, record, publication.add_model(record, {"name": "first"}), "load", "first")
        with pytest.raises(RecordConflict, match="model service one was changed by another client in the meantime"):
            await change(harness, record, publication.add_model(record, {"name": "second"}), "load", "second")
        after = (await cluster.get_record(harness.client, "one", NS)).service.spec
        assert [model.name for model in after.models] == ["one-model", "first"]

    run_scenario(scenario)


class Killed(BaseException):
    """The process was killed."""


def test_repeat_completes_a_killed_publication(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[tuple[str, str]] = []

    async def kill(*_: Any) -> None:
        raise Killed

    async def take(_client: Client, _record: Record, verb: str, name: str) -> None:
        reported.append((verb, name))

    async def scenario(harness: ServiceHarness) -> None:
        await harness.build(deploying(ONE))
        edits: dict[str, Callable[[Record], Object]] = {
            "load": lambda record: publication.add_model(record, {"name": "new"}),
            "unload": lambda record: publication.remove_model(record, "new"),
        }
        for verb, edit in edits.items():
            for act in (kill, take):
                monkeypatch.setattr(publication, "load_on_triton", act)
                record = await cluster.get_record(harness.client, "one", NS)
                if act is kill:
                    with pytest.raises(Killed):
                        await change(harness, record, edit(record), verb, "new")
                    seen = await harness.seen("one")
                    assert (seen.status.state, seen.record.pending_steps) == ("unfinished", (f"{verb} new on every server",))
                else:
                    await change(harness, record, edit(record), verb, "new")
            assert (await harness.seen("one")).status.state == "ready"
        assert reported == [("load", "new"), ("unload", "new")]

    run_scenario(scenario)


def test_publication_keeps_pending_deployment_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    async def take(*_: Any) -> None:
        """The servers accept every change."""

    monkeypatch.setattr(publication, "load_on_triton", take)

    async def scenario(harness: ServiceHarness) -> None:
        await harness.build(deploying(ONE))
        transport = RecordingTransport(harness.twin.transport())
        await deploy(Client(transport), model("one", "image: 'new:1', gateway: {image: 'g:1'}"))
        first = writes(transport)[0]
        transport = RecordingTransport(harness.twin.transport())
        transport.die_at, transport.die_before = first, False
        await until_it_dies(deploying(model("one", "image: 'newer:1', gateway: {image: 'g:1'}")), transport)
        record = await cluster.get_record(harness.client, "one", NS)
        await change(harness, record, publication.add_model(record, {"name": "more"}), "load", "more")
        seen = await harness.seen("one")
        assert (seen.status.state, seen.record.pending_steps) == ("unfinished", ("apply deployment/one",))

    run_scenario(scenario)
