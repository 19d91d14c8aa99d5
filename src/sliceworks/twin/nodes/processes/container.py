"""One container as a process: started, probed, started again as its policy says, and stopped."""

from __future__ import annotations

import asyncio
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.twin.nodes import containers as made
from sliceworks.twin.nodes.processes import probes, volumes
from sliceworks.twin.nodes.processes.environment import command_of
from sliceworks.twin.nodes.processes.logs import LogOptions, LogWriter, read_log
from sliceworks.twin.nodes.processes.process import Process, mark_in
from sliceworks.twin.nodes.processes.sources import Missing, NotMounted, read_sources
from sliceworks.twin.nodes.processes.views import View, view_of
from sliceworks.twin.nodes.words import backoff, spoken

if TYPE_CHECKING:
    from sliceworks.twin.nodes.processes.environment import Command
    from sliceworks.twin.nodes.processes.pod import PodRun

Obj = dict[str, Any]
_CANNOT_START = 128
_STEADY = 600.0
_MISSING_AGAIN = 5.0
_LAST_LINES, _LAST_BYTES = 80, 2048  # as a kubelet has it


class ContainerRun:
    """Keeps one container of a pod running as long as it should."""

    def __init__(self, pod: PodRun, container: Obj, folder: Path) -> None:
        self._pod = pod
        self.container = container
        self.folder = folder
        self.ended = asyncio.Event()
        self._process: Process | None = None

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.container["name"])

    def log_file(self, count: int) -> Path:
        """Where one run's output is."""
        return self.folder / "logs" / f"{count}.log"

    async def keep(self, *, once: bool = False) -> int:
        """Run it until it has ended for good; with `once` only failures start it again. Returns its last exit code."""
        restarted = self._status is not None
        while True:
            began = clock.loop_time()
            code = await self._run(restarted=restarted)
            policy = {**self.container, "restartPolicy": _once(self._pod.pod["spec"])} if once else self.container
            if self._pod.stopping or not made.restarts(policy, self._pod.pod["spec"], code):
                return code
            restarted = True
            await self._back_off(clock.loop_time() - began)

    @property
    def _status(self) -> Obj | None:
        return self._pod.statuses.get(self.name)

    async def _run(self, *, restarted: bool) -> int:
        command = await self._prepare()
        self._set(made.running(self._pod.uid, self.container, self._status, clock.timestamp(), ready=False, restarted=restarted))
        count = self._pod.statuses[self.name]["restartCount"]
        self.ended.clear()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = LogWriter(self.log_file(count))
        try:
            self._process = await Process.start(command, log, mark_in(self.folder))
        except (OSError, ValueError) as error:
            log.close()
            await self._finish(_CANNOT_START, "StartError", f"failed to start the process: {error}")
            return _CANNOT_START
        watching = [asyncio.create_task(work) for work in self._probes(command)]
        try:
            if not any(self.container.get(kind) for kind in ("readinessProbe", "startupProbe")):
                self._set({**self._pod.statuses[self.name], "ready": True})
            await self._pod.publish()
            code = await self._process.wait()
        finally:
            for task in watching:
                task.cancel()
        await self._finish(code, message=self._last_words(self.log_file(count)) if code else "")
        return code

    def _last_words(self, log: Path) -> str:
        """The end of what it wrote, where the container wants that to be told of a failure."""
        if self.container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return ""
        return read_log(log, LogOptions(tail=_LAST_LINES))[-_LAST_BYTES:].decode(errors="replace")

    async def _prepare(self) -> Command:
        """What to run; waits until everything that it needs is there."""
        while True:
            try:
                return await self._command()
            except NotMounted as missing:
                self._set(made.waiting(self.container, self._status, "ContainerCreating"))
                await self._pod.publish()
                self._pod.tell("FailedMount", str(missing), warning=True)
                await clock.sleep(_MISSING_AGAIN)
            except Missing as missing:
                self._set(made.waiting(self.container, self._status, "CreateContainerConfigError", str(missing)))
                await self._pod.publish()
                self._pod.tell("Failed", f"Error: {missing}", warning=True)
                await clock.sleep(_MISSING_AGAIN)

    async def _command(self) -> Command:
        pod = self._pod
        sources = await read_sources(pod.client, pod.pod)
        pod.token = await pod.access.token(pod.client, pod.pod)
        mounts = volumes.mapping(self.container, await pod.fill(sources))
        beside = pod.access.variables(pod.token, pod.pod["metadata"]["namespace"], pod.folder)
        refused = bool(await pod.namespaces.refusal())
        told = pod.services.variables(pod.pod, api=not refused)
        folder, place = self._folders(mounts)
        if refused:

            def named(text: str) -> str:
                return pod.named(volumes.mapped(text, mounts))

            return command_of(
                self.container, sources, pod.addresses, self._home(), named, view=View(str(place)), beside=beside, told=told
            )
        view = view_of(self.container, pod.pod["spec"].get("volumes") or (), mounts, pod.folder, str(folder), names=pod.names())
        return command_of(self.container, sources, pod.addresses, self._home(), pod.named, view=view, beside=beside, told=told)

    def _home(self) -> Path:
        home = self.folder / "home"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return home

    def _folders(self, mounts: dict[str, str]) -> tuple[Path, Path]:
        """The folder the process starts in, as it is named there and on the machine: in a volume, else one of its own."""
        asked = Path(str(self.container.get("workingDir") or ""))
        place = Path(volumes.mapped(str(asked), mounts))
        if place == asked:
            asked = place = self._home() / str(asked).strip("/")
        if not any(place.resolve().is_relative_to(Path(each).resolve()) for each in (*mounts.values(), str(self._home()))):
            asked = place = self._home()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return asked, place

    def _set(self, status: Obj) -> None:
        self._pod.statuses[self.name] = status

    async def _finish(self, code: int, reason: str = "", message: str = "") -> None:
        self._process = None
        now = clock.timestamp()
        old = self._status
        self._set(made.terminated(self._pod.uid, self.container, old, now, code, reason=reason, message=message))
        self.ended.set()
        await self._pod.publish()

    async def _back_off(self, held: float) -> None:
        status = self._pod.statuses[self.name]
        if not status["restartCount"] or held > _STEADY:
            return
        message = "back-off $backoff restarting failed container=$container pod=$pod"
        pod = {**self._pod.pod, "status": {"containerStatuses": [status]}}
        self._set(made.waiting(self.container, status, "CrashLoopBackOff", spoken(message, pod, self.container)))
        await self._pod.publish()
        self._pod.tell(
            "BackOff", spoken("Back-off restarting failed container $container in pod $pod", pod, self.container), warning=True
        )
        await clock.sleep(backoff(status["restartCount"]))

    # Probes.

    def _probes(self, command: Command) -> list[Any]:
        started = asyncio.Event()
        found = []
        if rule := self.container.get("startupProbe"):
            found.append(probes.probe(rule, self._check(rule, command), lambda good: self._started(started, good)))
        else:
            started.set()
        if rule := self.container.get("livenessProbe"):
            found.append(self._after(started, rule, command, self._alive))
        if rule := self.container.get("readinessProbe"):
            found.append(self._after(started, rule, command, self._answers))
        return found

    async def _after(self, started: asyncio.Event, rule: Obj, command: Command, tell: Any) -> None:
        await started.wait()
        await probes.probe(rule, self._check(rule, command), tell)

    def _check(self, rule: Obj, command: Command) -> Any:
        return probes.checker(rule, self.container, self._pod.addresses[1], command)

    async def _started(self, started: asyncio.Event, good: bool) -> None:
        started.set()
        if not good:
            await self._kill("startup")
        elif not self.container.get("readinessProbe"):
            await self._answers(True)

    async def _alive(self, good: bool) -> None:
        if not good:
            await self._kill("liveness")

    async def _kill(self, which: str) -> None:
        self._pod.tell("Killing", f"Container {self.name} failed {which} probe, will be restarted")
        await self.stop(float(self._pod.pod["spec"].get("terminationGracePeriodSeconds", 30)))

    async def _answers(self, good: bool) -> None:
        status = self._status
        if status is not None and "running" in status["state"] and status["ready"] is not good:
            self._set({**status, "ready": good})
            await self._pod.publish()

    # The end.

    async def stop(self, grace: float) -> None:
        """End the process, if one runs."""
        if self._process is not None:
            await self._process.stop(grace)

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None:
            self._process.send(SIGKILL)

    async def clear(self) -> None:
        """End the process at once and wait until nothing of it is left."""
        if self._process is not None:
            self.kill()
            await self._process.wait()


def _once(spec: Obj) -> str:
    """Init containers that ended well are done, whatever the pod's policy."""
    return "Never" if spec.get("restartPolicy") == "Never" else "OnFailure"
