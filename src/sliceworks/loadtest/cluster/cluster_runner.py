"""Runs a load test with worker pods: creates them, follows them, collects their logs and deletes everything."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, progress
from sliceworks.base.conditions import find_condition
from sliceworks.base.errors import NotFound, SliceworksError, TimedOut
from sliceworks.kube.resources import POD
from sliceworks.loadtest.cluster import worker_job
from sliceworks.loadtest.cluster.collector import Collector
from sliceworks.loadtest.runner import Listener, Outcome, not_started_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from sliceworks.kube import Client
    from sliceworks.loadtest.cluster.worker_job import WorkerJob
    from sliceworks.loadtest.runner import Progress
    from sliceworks.specs.load_test import StopRule

    SendRequest = Callable[[dict[str, Any], str, str], Awaitable[bytes]]
    """Sends a request to a pod: pod, method and path."""

Object = dict[str, Any]
_INTERVAL = 1.0
_MAX_LOG_SIZE = 64 * 1024
_INDEX = "batch.kubernetes.io/job-completion-index"
_UNRECOVERABLE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerError", "RunContainerError"})


def pod_index(pod: Object) -> int:
    """The completion index of the pod."""
    return int((pod["metadata"].get("annotations") or {}).get(_INDEX, 0))


def is_running(pod: Object) -> bool:
    """Whether the agent can be reached."""
    status = pod.get("status") or {}
    return status.get("phase") == "Running" and bool(status.get("podIP"))


def termination_reason(pod: Object) -> str:
    """Why the pod has terminated, or an empty string while it may still respond."""
    status = pod.get("status") or {}
    phase, name = status.get("phase"), pod["metadata"]["name"]
    if phase not in ("Failed", "Succeeded"):
        return ""
    if message := status.get("message") or status.get("reason"):
        return f"pod/{name}: {message}"
    terminated: Object = next(
        (container["state"]["terminated"] for container in _containers(pod) if "terminated" in container["state"]), {}
    )
    reason, code = terminated.get("reason") or phase, terminated.get("exitCode", "unknown")
    return f"pod/{name} has ended: {reason}, exit code {code}"


def pending_reason(pod: Object) -> str:
    """Why the pod is pending."""
    condition = find_condition(pod, "PodScheduled")
    if condition.get("status") == "False":
        return f"pod/{pod['metadata']['name']}: {condition.get('message') or condition.get('reason', '')}"
    for container in _containers(pod):
        if waiting := container["state"].get("waiting"):
            reason = f"{waiting.get('reason', '')} {waiting.get('message', '')}".strip()
            return f"pod/{pod['metadata']['name']}: {reason}"
    return f"pod/{pod['metadata']['name']} has not started"


def is_unrecoverable(pod: Object) -> bool:
    """Whether the pod cannot start."""
    return any((container["state"].get("waiting") or {}).get("reason") in _UNRECOVERABLE for container in _containers(pod))


def _containers(pod: Object) -> list[Object]:
    return [status for status in (pod.get("status") or {}).get("containerStatuses") or () if status.get("state")]


class ClusterRunner:
    """One load test on a cluster. `send` sends a request to a pod."""

    def __init__(
        self,
        client: Client,
        job: WorkerJob,
        folder: Path,
        send: SendRequest,
        *,
        rule: StopRule,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._client, self._job, self._folder, self._send = client, job, folder, send
        self._listener = Listener(rule, on_progress)
        self._pods: dict[int, Object] = {}

    def stop(self, reason: str) -> None:
        """Stop the test early; what was measured is kept."""
        self._listener.stop(reason)

    async def run(self) -> Outcome:
        """Create the workers, collect their logs and delete all objects again."""
        try:
            await worker_job.create(self._client, self._job)
            await self._wait_for_pods()
            collectors = await self._collect()
        finally:
            await worker_job.delete(self._client, self._job)
        listener = self._listener
        if not listener.started:
            raise not_started_error(listener.why, self._folder)
        return _outcome(listener, collectors)

    async def _wait_for_pods(self) -> None:
        deadline = clock.loop_time() + self._job.workers.start_within
        with progress.task(f"Starting {self._job.pods} pods") as step:
            while True:
                pods = await self._list_pods()
                running = {pod_index(pod): pod for pod in pods if is_running(pod)}
                if len(running) == self._job.pods:
                    self._pods = running
                    return
                if reason := self._listener.why:
                    raise not_started_error(reason, self._folder)
                if terminated := next((reason for pod in pods if (reason := termination_reason(pod))), ""):
                    await self._save_logs(pods)
                    raise SliceworksError(f"the workers did not start: {terminated}", hint=f"see {self._folder / 'workers.log'}")
                is_late = clock.loop_time() >= deadline
                for pod in pods:
                    if not is_running(pod) and (is_late or is_unrecoverable(pod)):
                        raise TimedOut(f"the workers did not start: {pending_reason(pod)}")
                if is_late:
                    raise TimedOut(
                        "the workers did not start: the Job has created no pods", hint=f"kubectl describe job {self._job.name}"
                    )
                step(f"{len(running)} run")
                await clock.sleep(_INTERVAL / 2)

    async def _list_pods(self) -> list[Object]:
        return (await self._client.list_all(POD, self._job.namespace, labels=f"{worker_job.LABEL}={self._job.name}")).items

    async def _collect(self) -> list[Collector]:
        """Follow all workers until they finish; stop them when the test is stopped."""
        senders = self._senders()
        interval = max(_INTERVAL, len(senders) / 50)
        collectors = [
            Collector(number, self._sender_of(index), self._termination_of(index), self._folder, interval)
            for number, index in enumerate(senders)
        ]
        watchers = [asyncio.create_task(self._stop_workers()), asyncio.create_task(self._watch_master())]
        try:
            await asyncio.gather(*(self._follow(item) for item in collectors))
            lost = [self._pods[senders[collector.index]] for collector in collectors if collector.lost]
            await self._save_logs(lost)
        finally:
            for task in watchers:
                task.cancel()
            await self._post_to_all(list(self._pods.values()), "/finish")
        return collectors

    async def _follow(self, collector: Collector) -> None:
        await collector.collect(self._listener)
        if collector.lost and not self._listener.started:
            self.stop(f"worker {collector.index} did not start: {collector.lost}")

    def _sender_of(self, index: int) -> Callable[[str, str], Awaitable[bytes]]:
        return lambda method, path: self._send(self._pods[index], method, path)

    def _termination_of(self, index: int) -> Callable[[], Awaitable[str]]:
        name = self._pods[index]["metadata"]["name"]

        async def find_reason() -> str:
            try:
                return termination_reason(await self._client.get(POD, name, self._job.namespace))
            except NotFound:
                return f"pod/{name} was deleted"
            except SliceworksError:
                return ""  # the API server is unreachable as well; both may recover

        return find_reason

    async def _watch_master(self) -> None:
        """Report a lost master; without it the workers stop by themselves after a minute."""
        find_reason = self._termination_of(0)
        while self._job.pods > 1:
            await clock.sleep(2 * _INTERVAL)
            if reason := await find_reason():
                self.stop(f"the workers lost their master: {reason}")
                return

    async def _stop_workers(self) -> None:
        """Stop the workers, not the master: without the master they would drop requests in flight."""
        await self._listener.stopping.wait()
        await asyncio.gather(*(self._post_until_acknowledged(self._pods[index], "/stop") for index in self._senders()))

    def _senders(self) -> list[int]:
        return [index for index in sorted(self._pods) if index or self._job.pods == 1]

    async def _post_until_acknowledged(self, pod: Object, path: str) -> None:
        """Repeat the stop request until the pod has acknowledged it."""
        while True:
            try:
                await self._send(pod, "POST", path)
            except SliceworksError:
                await clock.sleep(_INTERVAL)
            else:
                return

    async def _post_to_all(self, pods: list[Object], path: str) -> None:
        async def post(pod: Object) -> None:
            with suppress(SliceworksError):
                await self._send(pod, "POST", path)

        await asyncio.gather(*map(post, pods))

    async def _save_logs(self, pods: list[Object]) -> None:
        """Save the logs of lost pods as far as they are available."""
        for pod in pods:
            with suppress(SliceworksError, OSError):
                output = await self._client.logs(pod["metadata"]["name"], self._job.namespace, limit_bytes=_MAX_LOG_SIZE)
                with (self._folder / "workers.log").open("a") as log:
                    log.write(f"pod/{pod['metadata']['name']}\n{output}\n")


def _outcome(listener: Listener, collectors: list[Collector]) -> Outcome:
    lost = tuple(collector.index for collector in collectors if collector.lost or not listener.is_complete(collector.index))
    notes = tuple(f"worker {item.index}: {item.lost}" for item in collectors if item.lost)
    return Outcome(listener.started, listener.why, lost, notes, listener.clocks)
