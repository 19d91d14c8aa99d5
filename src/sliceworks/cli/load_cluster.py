"""A load test whose senders are pods: what they need to know, and the way to them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from sliceworks.cli.load_runs import Test
    from sliceworks.kube import Client
    from sliceworks.loadtest.cluster.objects import Launch
    from sliceworks.loadtest.listening import Progress
    from sliceworks.loadtest.plans import Plan
    from sliceworks.loadtest.running import Outcome

Object = dict[str, Any]
_LONGEST = 40


async def run(
    plan: Plan,
    folder: Path,
    test: Test,
    told: Callable[[Progress], None],
    interruptible: Callable[[Any], Awaitable[Outcome]],
) -> Outcome:
    """Make the pods, follow them to their end, and remove them."""
    from sliceworks.loadtest.cluster.running import ClusterRun

    async with test.where.open() as client:
        token = secrets.token_urlsafe(24)
        launch = _launch(plan, test, test.where.namespace or client.namespace, token)
        ask = _asking(client, token)
        return await interruptible(ClusterRun(client, launch, folder, ask, rule=plan.spec.stop, told=told))


def _launch(plan: Plan, test: Test, namespace: str, token: str) -> Launch:
    import orjson

    from sliceworks.loadtest import buckets, running
    from sliceworks.loadtest.cluster import objects
    from sliceworks.loadtest.generator.keys import CLOUD, KEEPER, KEY

    source = test.spec.prompts.source if test.spec.prompts else ""
    told = {**running.test_of(plan), "csv": False, "web": 0, "bucket": source if buckets.is_place(source) else ""}
    files = {running.TEST: orjson.dumps(told), **_beside(test)}
    objects.check(files)
    given = {KEEPER: token, **({KEY: plan.key} if plan.key else {})}
    if told["bucket"] and test.where.twin:
        given[CLOUD] = orjson.dumps(test.where.cloud()).decode()
    name = f"load-{test.name[:_LONGEST].strip('-.').replace('.', '-')}-{secrets.token_hex(3)}"
    return objects.Launch(name, namespace, plan.spec.workers, plan.schedule.lasts, files, given)


def _beside(test: Test) -> dict[str, bytes]:
    """Files that the document names, which the pods need too; what is in a bucket they fetch themselves."""
    from sliceworks.loadtest import buckets

    prompts, found = test.spec.prompts, {}
    named = {"prompts.jsonl": prompts.source if prompts else "", "authority.pem": test.spec.target.authority}
    for name, file in named.items():
        if file and not buckets.is_place(file):
            try:
                found[name] = (test.files / file).read_bytes()
            except OSError as error:
                raise InvalidDocument(f"cannot be read: {error.strerror}", place=file) from error
    return found


def _asking(client: Client, token: str) -> Callable[[Object, str, str], Awaitable[bytes]]:
    """Directly where pods are processes of this machine, else through the API server."""
    from sliceworks.loadtest.cluster.news import TOKEN
    from sliceworks.loadtest.cluster.objects import KEEPER_PORT
    from sliceworks.serving import reaching

    async def ask(pod: Object, method: str, path: str) -> bytes:
        metadata, address = pod["metadata"], pod["status"]["podIP"]
        way = reaching.to_pod(client, metadata["namespace"], metadata["name"], KEEPER_PORT, address)
        return await reaching.whole(way, method, path, headers={TOKEN: token})

    return ask
