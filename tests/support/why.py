"""Asks `train why` about jobs of a cluster, until it gives the answer that a case waits for."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import yaml
from tests.support.jobsets import GROUP, replicated
from tests.support.waiting import eventually

from sliceworks.cli.train_why import answer_for
from sliceworks.kube.connect import open_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.clusters import Cluster
    from tests.support.http import Api
    from tests.support.slice_thread import SliceThread

    from sliceworks.cloud.container import Container
    from sliceworks.kube.client import Client
    from sliceworks.training.why.answer import Answer, Cause

Obj = dict[str, Any]


class Asker:
    """A client, and a loop to ask on: where there is a cloud, that of its thread."""

    def __init__(self, run: Callable[[Any], Any], client: Client, container: Container | None = None) -> None:
        self._run, self._client, self._container = run, client, container

    def ask(self, namespace: str, name: str) -> Answer:
        found: Answer = self._run(answer_for(self._client.using(namespace=namespace), name, self._container))
        return found

    def until(self, namespace: str, name: str, *causes: str) -> Answer:
        """The answer, once it names all of these causes, the first of them first."""
        last: list[Answer] = []

        def look() -> Answer | None:
            found = self.ask(namespace, name)
            last[:] = [found]
            kinds = [each.kind.name for each in found.causes]
            return found if kinds[:1] == [causes[0]] and set(causes) <= set(kinds) else None

        try:
            return eventually(look, what=f"{name}: {causes}")
        except AssertionError as error:
            told = [(each.kind.name, each.words, each.said) for each in last[0].causes] if last else "nothing"
            raise AssertionError(f"{name}: wanted {causes}, told {told}") from error


@contextmanager
def asker(cluster: Cluster, slices: SliceThread | None = None, *, token: str = "") -> Iterator[Asker]:
    """One that asks a cluster: its administrator, or whoever has this token."""

    async def opened() -> Client:
        return open_client(_kubeconfig(cluster, token) if token else cluster.kubeconfig)

    with ExitStack() as stack:
        run = slices.do if slices else stack.enter_context(asyncio.Runner()).run
        client = run(opened())
        try:
            yield Asker(run, client, slices.container if slices else None)
        finally:
            run(client.close())


def _kubeconfig(cluster: Cluster, token: str) -> Path:
    config = yaml.load(cluster.kubeconfig.read_text(), yaml.CSafeLoader)
    config["users"][0]["user"] = {"token": token}
    path = cluster.kubeconfig.with_name("kubeconfig-of-a-member")
    path.write_text(yaml.dump(config))
    path.chmod(0o600)
    return path


def cause(answer: Answer, name: str) -> Cause:
    """One cause of an answer."""
    return next(each for each in answer.causes if each.kind.name == name)


def create(api: Api, ns: str, name: str, *parts: Obj, queue: str = "", priority: str = "", **spec: Any) -> None:
    """A JobSet; with a queue it is Kueue's."""
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    metadata = {"name": name, "labels": labels, **spec.pop("metadata", {})}
    body = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {**spec, "replicatedJobs": list(parts)},
    }
    api.post(f"{GROUP}/namespaces/{ns}/jobsets", body).ok(201)


def asking(requests: Obj, name: str = "slice", replicas: int = 1, *, pods: int = 1, pod: Obj | None = None, **more: Any) -> Obj:
    """A part of a JobSet whose pods ask for this much. Nobody schedules them unless `pod` says who."""
    container: Obj = {"name": "trainer", "image": "example.com/train:1", "resources": {"requests": requests}}
    container |= (pod or {}).pop("container", {})
    return replicated(name, replicas, pods=pods, pod={"restartPolicy": "Never", "containers": [container], **(pod or {})}, **more)


def placed(
    selector: Obj, name: str = "slice", replicas: int = 1, *, requests: Obj | None = None, notes: Obj | None = None, **more: Any
) -> Obj:
    """A part whose pods the cluster's scheduler places by a selector; `notes` say how they fare on our nodes."""
    pod = {"schedulerName": "default-scheduler", "nodeSelector": selector, **more.pop("pod", {})}
    metadata = {"annotations": {f"sliceworks.dev/{key}": value for key, value in (notes or {}).items()}}
    return asking(requests or {"cpu": "1"}, name, replicas, pod=pod, pod_metadata=metadata, **more)
