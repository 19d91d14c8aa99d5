"""A command is killed after every write of it, and run again; others run between any two of its writes.

However that goes: the cluster ends up as if nothing had happened, and what others have stays as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tests.support.graphs import WRITES, Watched
from tests.support.model_services import read

from sliceworks.base import clock, yamls
from sliceworks.base.errors import SliceworksError
from sliceworks.kube.client import Client
from sliceworks.kube.transport import Request
from sliceworks.kube.well_known import CONFIG_MAP, DEPLOYMENT, NAMESPACE, SERVICE, SERVICE_ACCOUNT
from sliceworks.serving import cluster, editing, publishing, removing
from sliceworks.serving.checks import checked
from sliceworks.serving.deploying import Rollout
from sliceworks.serving.keeping import ChangedMeanwhile
from sliceworks.serving.naming import GATEWAY
from sliceworks.serving.naming import SERVICE as NAMED
from sliceworks.twin.cluster import Cluster
from sliceworks.twin.nodes.shapes import Shape, create_nodes

if TYPE_CHECKING:
    from sliceworks.kube.transport import Response, Transport
    from sliceworks.serving.record import Record
    from sliceworks.specs.serving import ModelService

Object = dict[str, Any]
NS = "models"
Act = Callable[[Client], Coroutine[Any, Any, None]]


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
    found = [each for each in await cluster.all_records(client, NS) if each.service.metadata.name == name]
    for each in found:
        await removing.delete(client, each, NS, 600)


class World:
    """A small cluster with a service in it that has nothing to do with what happens, but shares a gateway."""

    def __init__(self, twin: Cluster) -> None:
        self.twin, self.client = twin, Client(twin.transport())

    async def build(self, *acts: Act) -> None:
        await self.client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NS}}, resource=NAMESPACE)
        await create_nodes(self.client, Shape("default", "n2-standard-32", "32", "256Gi"), 2)
        for act in (deploying(OTHER), *acts):
            await act(self.client)

    async def document(self) -> Object | None:
        """What is recorded of the one that things happen to."""
        found = [each for each in await cluster.all_records(self.client, NS) if each.service.metadata.name == "one"]
        return found[0].document if found else None

    async def seen(self, name: str) -> cluster.Seen:
        return await cluster.look(self.client, await cluster.one_record(self.client, name, NS), NS)

    async def gateway(self, name: str) -> tuple[set[str], set[str]]:
        """Whose models a gateway has, and who owns it."""
        found = await self.client.get(CONFIG_MAP, name, NS)
        served = {each["name"].removesuffix("-model") for each in yaml.safe_load(found["data"]["gateway.yaml"])["spec"]["models"]}
        running = await self.client.get(DEPLOYMENT, name, NS)
        return served, {each["name"].removesuffix("-model-service") for each in running["metadata"]["ownerReferences"]}

    async def picture(self) -> Object:
        """All that is in the namespace, without what differs from run to run."""
        await clock.sleep(120)
        found: Object = {}
        kinds = ("configmaps", "services", "serviceaccounts"), ("deployments",), ("networkpolicies",), ("roles", "rolebindings")
        groups = "/api/v1", "/apis/apps/v1", "/apis/networking.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1"
        more = [("/apis/autoscaling/v2", ("horizontalpodautoscalers",)), ("/apis/policy/v1", ("poddisruptionbudgets",))]
        for group, names in [*zip(groups, kinds, strict=True), *more]:
            for kind in names:
                listed = await self.client.send(Request("GET", f"{group}/namespaces/{NS}/{kind}"))
                found |= {f"{kind}/{each['metadata']['name']}": _settled(each) for each in listed["items"]}
        return found


def _settled(obj: Object) -> Object:
    owners = sorted(each["name"] for each in obj["metadata"].get("ownerReferences") or ())
    spec = {name: value for name, value in (obj.get("spec") or {}).items() if not name.startswith(("clusterIP", "ipF"))}
    return {"labels": obj["metadata"].get("labels"), "owners": owners, "spec": spec, "data": obj.get("data")}


def played(play: Callable[[World], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with Cluster() as twin:
            return await play(World(twin))

    return clock.run(main(), virtual=True, seed=1)


async def until_it_dies(act: Act, transport: Watched) -> None:
    """Let a command run until its transport dies, and end it there."""
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


def writes(watched: Watched) -> list[int]:
    """The calls that changed something, from the first one of the record on: those before are asked for in a dry run."""
    changing = [number for number, (method, _) in enumerate(watched.sent) if method in WRITES]
    own = [number for number in changing if watched.sent[number][1].endswith(("/configmaps", "/one-model-service"))]
    return [number for number in changing if number >= own[0]] if own else changing


@pytest.mark.timeout(300)
@pytest.mark.parametrize("story", STORIES)
def test_a_command_that_was_killed_is_finished_by_the_same_command(story: str) -> None:
    earlier, act = STORIES[story]

    async def undisturbed(world: World) -> tuple[Object, list[int]]:
        await world.build(*earlier)
        watched = Watched(world.twin.transport())
        await act(Client(watched))
        return await world.picture(), writes(watched)

    expected, numbers = played(undisturbed)
    assert numbers

    async def disturbed(world: World, number: int) -> None:
        await world.build(*earlier)
        known = await world.document()
        transport = Watched(world.twin.transport())
        transport.die_at, transport.die_before = number, False
        await until_it_dies(act, transport)
        if await world.picture() != expected and await world.document() != known:
            assert (await cluster.one_record(world.client, "one", NS)).left, transport.sent[number]
        await act(world.client)
        assert await world.picture() == expected, transport.sent[number]

    for number in numbers:
        played(partial(disturbed, number=number))


class Interrupted(Watched):
    """A transport in whose way somebody else comes before one call."""

    def __init__(self, transport: Transport, at: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__(transport)
        self._at, self._meanwhile = at, meanwhile

    async def send(self, request: Request, *, stream: bool = False) -> Response:
        if len(self.sent) == self._at:
            self._at = -1
            await self._meanwhile()
        return await super().send(request, stream=stream)


def between(earlier: tuple[Act, ...], act: Act, other: Act, then: Callable[[World, str], Awaitable[None]]) -> None:
    """Have somebody else act before every write of a command, and look what has become of both. Who is told to run a command again
    does so."""

    async def undisturbed(world: World) -> tuple[list[int], list[tuple[str, str]]]:
        await world.build(*earlier)
        watched = Watched(world.twin.transport())
        await act(Client(watched))
        return writes(watched), watched.sent

    numbers, sent = played(undisturbed)

    async def disturbed(world: World, number: int) -> None:
        await world.build(*earlier)
        try:
            await act(Client(Interrupted(world.twin.transport(), number, lambda: other(world.client))))
        except ChangedMeanwhile:
            await act(world.client)
        await clock.sleep(120)
        await then(world, f"{number} {sent[number]}")

    for number in numbers:
        played(partial(disturbed, number=number))


THIRD, FOURTH = model("third"), model("fourth", "gateway: {image: 'g:1', name: second}")


@pytest.mark.timeout(300)
def test_two_who_come_to_a_gateway_at_once_are_both_behind_it() -> None:
    async def then(world: World, at: str) -> None:
        assert await world.gateway("gateway") == ({"one", "other", "third"}, {"one", "other", "third"}), at
        for name in ("one", "third"):
            assert (await world.seen(name)).standing.state == "ready", at

    between((), deploying(ONE), deploying(THIRD), then)


@pytest.mark.timeout(300)
def test_who_comes_to_a_gateway_while_another_leaves_or_goes_keeps_it() -> None:
    async def stays(world: World, at: str) -> None:
        assert await world.gateway("second") == ({"fourth"}, {"fourth"}), at
        assert (await world.seen("fourth")).standing.state == "ready", at

    async def goes(world: World, at: str) -> None:
        assert await world.gateway("gateway") == ({"other", "third"}, {"other", "third"}), at
        assert (await world.seen("third")).standing.state == "ready", at

    between((deploying(CHANGED),), deploying(BARE), deploying(FOURTH), stays)
    between((deploying(CHANGED),), delete, deploying(FOURTH), stays)
    between((deploying(ONE),), delete, deploying(THIRD), goes)


@pytest.mark.timeout(300)
def test_of_two_who_deploy_a_service_at_once_one_is_told_and_nothing_is_left_behind() -> None:
    async def alone(world: World) -> Object:
        await world.build(deploying(BARE))
        return await world.picture()

    expected = played(alone)

    async def then(world: World, at: str) -> None:
        await deploy(world.client, BARE)
        assert await world.picture() == expected, at

    between((), deploying(CHANGED), deploying(BARE), then)
    between((), deploying(BARE), deploying(CHANGED), then)


@pytest.mark.timeout(300)
def test_a_service_that_is_deleted_while_it_is_deployed_leaves_nothing() -> None:
    async def alone(world: World) -> Object:
        await world.build()
        return await world.picture()

    expected = played(alone)

    async def then(world: World, at: str) -> None:
        await delete(world.client)
        assert await world.picture() == expected, at

    between((deploying(ONE),), deploying(CHANGED), delete, then)


def test_a_service_that_goes_away_is_not_deployed_into() -> None:
    async def play(world: World) -> None:
        await world.build(deploying(ONE))
        await world.client.patch(CONFIG_MAP, "one-model-service", {"metadata": {"finalizers": ["example.com/hold"]}}, NS)
        await world.client.delete(CONFIG_MAP, "one-model-service", NS)
        with pytest.raises(SliceworksError, match="one is being deleted"):
            await deploy(world.client, ONE)
        await deploy(world.client, THIRD)
        assert await world.gateway("gateway") == ({"other", "third"}, {"other", "third"})

    played(play)


@pytest.mark.parametrize("name", ["one", "one-canary", "second"])
def test_what_somebody_else_has_under_the_same_name_is_not_taken_over(name: str) -> None:
    async def play(world: World) -> None:
        template = {"metadata": {"labels": {"app": "mine"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        spec = {"selector": {"matchLabels": {"app": "mine"}}, "template": template}
        await world.build()
        await world.client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}, NS)
        before = await world.picture()
        with pytest.raises(SliceworksError, match=f"deployment/{name} is there already, and is not of a model service"):
            await deploy(world.client, CHANGED)
        assert await world.picture() == before

    played(play)


def test_a_service_is_not_deployed_over_the_canary_of_another() -> None:
    async def play(world: World) -> None:
        await world.build(deploying(CHANGED))
        with pytest.raises(SliceworksError, match="one-canary is there already, and is part of one"):
            await deploy(world.client, model("one-canary"))

    played(play)


def test_a_service_account_that_was_there_stays_when_its_users_go() -> None:
    identity = "identity: {serviceAccount: mine, googleServiceAccount: a@b.iam.gserviceaccount.com}"
    front = f"gateway: {{image: 'g:1', name: fronts, {identity}}}"

    async def play(world: World) -> None:
        await world.build()
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mine", "namespace": NS}}
        await world.client.create(account, resource=SERVICE_ACCOUNT)
        for name in ("one", "third"):
            await deploy(world.client, model(name, f"{identity}, {front}"))
        found = await world.client.get(SERVICE_ACCOUNT, "mine", NS)
        assert found["metadata"]["annotations"]["iam.gke.io/gcp-service-account"] == "a@b.iam.gserviceaccount.com"
        await deploy(world.client, model("one", "replicas: 1"))
        for name in ("one", "third"):
            await delete(world.client, name)
        await clock.sleep(60)
        assert (await world.client.get(SERVICE_ACCOUNT, "mine", NS))["metadata"]["uid"] == found["metadata"]["uid"]

    played(play)


def test_what_two_services_had_in_common_is_no_strangers_when_one_has_left() -> None:
    async def play(world: World) -> None:
        await world.build(deploying(ONE), deploying(model("one", "replicas: 1")))
        await world.client.patch(SERVICE, "gateway", {"metadata": {"labels": {GATEWAY: "gone", NAMED: "one"}}}, NS)
        await deploy(world.client, THIRD)
        assert await world.gateway("gateway") == ({"other", "third"}, {"other", "third"})

    played(play)


async def change(world: World, record: Record, document: Object, verb: str, name: str) -> None:
    wanted = checked(yamls.Document(document, "record", 1, {})), document
    await publishing.publish(world.client, record, wanted, (verb, name), tell=lambda _: None, timeout=600)


def test_of_two_who_publish_at_once_the_second_undoes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def take(*_: Any) -> None:
        """The servers do as they are told."""

    monkeypatch.setattr(publishing, "tell_triton", take)

    async def play(world: World) -> None:
        await world.build(deploying(ONE))
        record = await cluster.one_record(world.client, "one", NS)
        await change(world, record, editing.with_model(record, {"name": "first"}), "load", "first")
        with pytest.raises(ChangedMeanwhile, match="somebody else has changed one meanwhile"):
            await change(world, record, editing.with_model(record, {"name": "second"}), "load", "second")
        after = (await cluster.one_record(world.client, "one", NS)).service.spec
        assert [each.name for each in after.models] == ["one-model", "first"]

    played(play)


class Killed(BaseException):
    """The process is no more."""


def test_servers_that_were_not_told_are_told_by_the_same_command(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []

    async def kill(*_: Any) -> None:
        raise Killed

    async def take(_client: Client, _record: Record, verb: str, name: str) -> None:
        told.append((verb, name))

    async def play(world: World) -> None:
        await world.build(deploying(ONE))
        edits: dict[str, Callable[[Record], Object]] = {
            "load": lambda record: editing.with_model(record, {"name": "new"}),
            "unload": lambda record: editing.without_model(record, "new"),
        }
        for verb, edit in edits.items():
            for act in (kill, take):
                monkeypatch.setattr(publishing, "tell_triton", act)
                record = await cluster.one_record(world.client, "one", NS)
                if act is kill:
                    with pytest.raises(Killed):
                        await change(world, record, edit(record), verb, "new")
                    seen = await world.seen("one")
                    assert (seen.standing.state, seen.record.left) == ("unfinished", (f"{verb} new on every server",))
                else:
                    await change(world, record, edit(record), verb, "new")
            assert (await world.seen("one")).standing.state == "ready"
        assert told == [("load", "new"), ("unload", "new")]

    played(play)


def test_what_a_deployment_left_of_servers_is_not_forgotten_by_who_publishes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def take(*_: Any) -> None:
        """The servers do as they are told."""

    monkeypatch.setattr(publishing, "tell_triton", take)

    async def play(world: World) -> None:
        await world.build(deploying(ONE))
        transport = Watched(world.twin.transport())
        await deploy(Client(transport), model("one", "image: 'new:1', gateway: {image: 'g:1'}"))
        first = writes(transport)[0]
        transport = Watched(world.twin.transport())
        transport.die_at, transport.die_before = first, False
        await until_it_dies(deploying(model("one", "image: 'newer:1', gateway: {image: 'g:1'}")), transport)
        record = await cluster.one_record(world.client, "one", NS)
        await change(world, record, editing.with_model(record, {"name": "more"}), "load", "more")
        seen = await world.seen("one")
        assert (seen.standing.state, seen.record.left) == ("unfinished", ("apply deployment/one",))

    played(play)
