"""Runs `train why` on jobs of a cluster until it reports the causes that a test expects."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import yaml
from tests.support.jobsets import GROUP, replicated
from tests.support.polling import eventually

from sliceworks.cli.train_show import diagnose
from sliceworks.kube.https import open_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.clusters import Cluster
    from tests.support.http import Api
    from tests.support.slice_thread import SliceThread

    from sliceworks.cloud.container import Container
    from sliceworks.kube.client import Client
    from sliceworks.training.diagnosis.model import Cause, Diagnosis

Obj = dict[str, Any]


class DiagnosisClient:
    """A client of `train why` with the event loop to run it on; with a cloud, the loop of the cloud's thread."""

    def __init__(self, run: Callable[[Any], Any], client: Client, container: Container | None = None) -> None:
        self._run, self._client, self._container = run, client, container

    def diagnose_job(self, namespace: str, name: str) -> Diagnosis:
        diagnosis: Diagnosis = self._run(diagnose(self._client.using(namespace=namespace), name, self._container))
        return diagnosis

    def until(self, namespace: str, name: str, *causes: str) -> Diagnosis:
        """The diagnosis, once it reports all of these causes, the first one at the top."""
        last: list[Diagnosis] = []

        def find() -> Diagnosis | None:
            diagnosis = self.diagnose_job(namespace, name)
            last[:] = [diagnosis]
            kinds = [cause.kind.name for cause in diagnosis.causes]
            return diagnosis if kinds[:1] == [causes[0]] and set(causes) <= set(kinds) else None

        try:
            return eventually(find, what=f"{name}: {causes}")
        except AssertionError as error:
            reported = [(cause.kind.name, cause.message, cause.reported) for cause in last[0].causes] if last else "nothing"
            raise AssertionError(f"{name}: expected {causes}, got {reported}") from error


@contextmanager
def diagnosis_client(cluster: Cluster, slices: SliceThread | None = None, *, token: str = "") -> Iterator[DiagnosisClient]:
    """Open a client as the cluster's administrator, or with this token."""

    async def opened() -> Client:
        return open_client(_kubeconfig(cluster, token) if token else cluster.kubeconfig)

    with ExitStack() as stack:
        run = slices.do if slices else stack.enter_context(asyncio.Runner()).run
        client = run(opened())
        try:
            yield DiagnosisClient(run, client, slices.container if slices else None)
        finally:
            run(client.close())


def _kubeconfig(cluster: Cluster, token: str) -> Path:
    config = yaml.load(cluster.kubeconfig.read_text(), yaml.CSafeLoader)
    config["users"][0]["user"] = {"token": token}
    path = cluster.kubeconfig.with_name("kubeconfig-of-a-member")
    path.write_text(yaml.dump(config))
    path.chmod(0o600)
    return path


def cause(answer: Diagnosis, name: str) -> Cause:
    """The cause of this name in a diagnosis."""
    return next(cause for cause in answer.causes if cause.kind.name == name)


def create(api: Api, ns: str, name: str, *parts: Obj, queue: str = "", priority: str = "", **spec: Any) -> None:
    """Create a JobSet; with a queue, Kueue manages it."""
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


def replicated_job(
    requests: Obj, name: str = "slice", replicas: int = 1, *, pods: int = 1, pod: Obj | None = None, **more: Any
) -> Obj:
    """A replicated Job whose pods request these resources; no scheduler places them unless `pod` names one."""
    container: Obj = {"name": "trainer", "image": "example.com/train:1", "resources": {"requests": requests}}
    container |= (pod or {}).pop("container", {})
    return replicated(name, replicas, pods=pods, pod={"restartPolicy": "Never", "containers": [container], **(pod or {})}, **more)


def scheduled_job(
    selector: Obj, name: str = "slice", replicas: int = 1, *, requests: Obj | None = None, notes: Obj | None = None, **more: Any
) -> Obj:
    """A replicated Job whose pods the default scheduler places by a node selector; `notes` are annotations for simulated nodes."""
    pod = {"schedulerName": "default-scheduler", "nodeSelector": selector, **more.pop("pod", {})}
    metadata = {"annotations": {f"sliceworks.dev/{key}": value for key, value in (notes or {}).items()}}
    return replicated_job(requests or {"cpu": "1"}, name, replicas, pod=pod, pod_metadata=metadata, **more)
