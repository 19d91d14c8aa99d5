"""Runs one container as a process: start, probe, restart, stop."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock
from sliceworks.base.errors import BadRequest
from sliceworks.twin.nodes import container_status
from sliceworks.twin.nodes.container_status import crash_loop_backoff, render_message
from sliceworks.twin.nodes.runtime import lifecycle_hook, pod_volumes, probe, resolv_conf
from sliceworks.twin.nodes.runtime.container_log import LogOptions, LogWriter, read_log
from sliceworks.twin.nodes.runtime.container_session import AttachSession, ExecSession
from sliceworks.twin.nodes.runtime.envvars import add_variables, build_command
from sliceworks.twin.nodes.runtime.image import MACHINE, find_image
from sliceworks.twin.nodes.runtime.lifecycle_hook import POST_START, PRE_STOP
from sliceworks.twin.nodes.runtime.process import MountView, Process, build_view, pid_file
from sliceworks.twin.nodes.runtime.security_context import SecurityContext, read_security_context
from sliceworks.twin.nodes.runtime.value_sources import read_sources

if TYPE_CHECKING:
    from sliceworks.twin.apiserver.streaming.remote_command import OpenSession, StreamOptions
    from sliceworks.twin.nodes.runtime.envvars import Command
    from sliceworks.twin.nodes.runtime.image import Image
    from sliceworks.twin.nodes.runtime.pod_worker import PodWorker
    from sliceworks.twin.nodes.runtime.value_sources import Sources

Obj = dict[str, Any]
_START_ERROR = 128
_BACKOFF_RESET = 600.0
_SOURCE_RETRY = 5.0
_IMAGE_PULL = "sliceworks.dev/image-pull"
_MESSAGE_LINES, _MESSAGE_BYTES = 80, 2048  # limits of the kubelet
_MAX_MESSAGE_BYTES = 4096
MIN_GRACE = 2.0  # seconds that a process gets after its preStop hook, and a sidecar after the main containers
_TEMPORARY = "/tmp"
_TERMINATION_PATH = "/dev/termination-log"


class InvalidContainer(Exception):
    """A container cannot be created; the message is the one of the kubelet."""


class ContainerRunner:
    """Runs one container of a pod, with restarts."""

    def __init__(self, pod: PodWorker, container: Obj, folder: Path) -> None:
        self._pod = pod
        self.container = container
        self.folder = folder
        self.ended = asyncio.Event()
        self._process: Process | None = None
        self._command: Command | None = None
        self._finishing: asyncio.Task[None] | None = None
        self._security = SecurityContext()

    @property
    def is_running(self) -> bool:
        """Whether the container has a process."""
        return self._process is not None

    @property
    def name(self) -> str:
        """The name of the container."""
        return str(self.container["name"])

    def log_file(self, count: int) -> Path:
        """The log file of one run."""
        return self.folder / "logs" / f"{count}.log"

    async def run(self, *, once: bool = False) -> int:
        """Run the container until it is not restarted; with `once` only failures restart it. Returns the last exit code."""
        restarted = self._status is not None
        while True:
            started = clock.loop_time()
            code = await self._run_process(restarted=restarted, once=once)
            policy = {**self.container, "restartPolicy": _init_restart_policy(self._pod.pod["spec"])} if once else self.container
            if self._is_finishing() or not container_status.should_restart(policy, self._pod.pod["spec"], code):
                return code
            restarted = True
            await self._back_off(clock.loop_time() - started)
            if self._is_finishing():
                return code

    def _is_finishing(self) -> bool:
        return self._pod.is_stopping or self._finishing is not None

    @property
    def _status(self) -> Obj | None:
        return self._pod.statuses.get(self.name)

    async def _run_process(self, *, restarted: bool, once: bool) -> int:
        command = await self._wait_for_command()
        self._set_status(
            container_status.running_status(
                self._pod.uid, self.container, self._status, clock.timestamp(), ready=False, restarted=restarted
            )
        )
        count = self._pod.statuses[self.name]["restartCount"]
        self.ended.clear()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        log = LogWriter(self.log_file(count))
        try:
            self._process, self._command = await Process.start(command, log, pid_file(self.folder)), command
        except (OSError, ValueError) as error:
            log.close()
            await self._finish(_START_ERROR, "StartError", f"failed to start the process: {error}")
            return _START_ERROR
        await self._run_hook(POST_START)
        probes = [asyncio.create_task(work) for work in self._probes(command.inside(self._process.pid))]
        try:
            if not (once or any(self.container.get(kind) for kind in ("readinessProbe", "startupProbe"))):
                self._set_status({**self._pod.statuses[self.name], "ready": True})
            await self._pod.publish()
            code = await self._process.wait()
        finally:
            for task in probes:
                task.cancel()
            await asyncio.gather(*probes, return_exceptions=True)
        await self._finish(code, message=self._termination_message(self.log_file(count), code))
        return code

    def _termination_message(self, log: Path, code: int) -> str:
        """The content of the termination message file, else the end of the log if terminationMessagePolicy requests it."""
        if message := _read_start(self._termination_file, _MAX_MESSAGE_BYTES):
            return message
        if not code or self.container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return ""
        return read_log(log, LogOptions(tail=_MESSAGE_LINES))[-_MESSAGE_BYTES:].decode(errors="replace")

    async def _wait_for_command(self) -> Command:
        """Return the command once the image and everything that the pod refers to exist."""
        pod = self._pod
        while True:
            sources = await read_sources(pod.client, pod.pod)
            missing = sources.missing()
            messages = {item["name"]: item["message"] for item in missing.get("containers") or ()}
            invalid = {item["name"]: item["message"] for item in missing.get("images") or ()}
            if volumes := missing.get("volumes"):
                await self._set_waiting("PodInitializing" if pod.pod["spec"].get("initContainers") else "ContainerCreating")
                for volume in volumes:
                    pod.record_event("FailedMount", volume["message"], warning=True)
                await clock.sleep(_SOURCE_RETRY)
            elif self._is_image_missing():
                await self._fail_to_pull()
            elif message := invalid.get(self.name):
                await self._set_waiting("InvalidImageName", message)
                pod.record_event("InspectFailed", message, warning=True)
                pod.record_event("Failed", "Error: InvalidImageName", warning=True)
                await clock.sleep(_SOURCE_RETRY)
            elif message := messages.get(self.name):
                await self._set_waiting("CreateContainerConfigError", message)
                pod.record_event("Failed", f"Error: {message}", warning=True)
                await clock.sleep(_SOURCE_RETRY)
            else:
                try:
                    return await self._build_command(sources)
                except (InvalidContainer, OSError) as error:
                    is_invalid = isinstance(error, InvalidContainer)
                    await self._set_waiting("CreateContainerConfigError" if is_invalid else "CreateContainerError", str(error))
                    pod.record_event("Failed", f"Error: {error}", warning=True)
                    await clock.sleep(_SOURCE_RETRY)

    def _is_image_missing(self) -> bool:
        annotations = self._pod.pod["metadata"].get("annotations") or {}
        return annotations.get(_IMAGE_PULL) == "fail" or find_image(self._pod.images, self.container).missing

    async def _set_waiting(self, reason: str, message: str = "") -> None:
        self._set_status(container_status.waiting_status(self.container, self._status, reason, message))
        await self._pod.publish()

    async def _fail_to_pull(self) -> None:
        """Report an image that cannot be pulled, as the stages of simulated pods do, and wait for the next attempt."""
        image = self.container["image"]
        problem = f'failed to pull and unpack image "{image}": not found'
        if ((self._status or {}).get("state", {}).get("waiting") or {}).get("reason") != "ImagePullBackOff":
            self._pod.record_event("Pulling", f'Pulling image "{image}"')
            self._pod.record_event("Failed", f'Failed to pull image "{image}": {problem}', warning=True)
            self._pod.record_event("Failed", "Error: ErrImagePull", warning=True)
        await self._set_waiting("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {problem}')
        self._pod.record_event("BackOff", f'Back-off pulling image "{image}"', warning=True)
        self._pod.record_event("Failed", "Error: ImagePullBackOff", warning=True)
        await clock.sleep(_SOURCE_RETRY)

    async def _build_command(self, sources: Sources) -> Command:
        pod = self._pod
        pod.tokens = await pod.access.tokens(pod.client, pod.pod)
        image = find_image(pod.images, self.container)
        security = self._read_security_context()
        try:
            mounts = self._mount_folders(sources, await pod.populate_volumes(sources))
        except pod_volumes.InvalidVolume as error:
            raise InvalidContainer(str(error)) from error
        files = await asyncio.to_thread(self._files, image)  # deletes the previous /tmp
        self._security = security
        api_variables = self.write_kubeconfig()
        has_namespaces = not await pod.namespaces.unavailable_reason()
        variables = pod.services.variables(pod.pod, api=has_namespaces)
        folder, host_folder = self._working_folders(mounts, str(self.container.get("workingDir") or image.working_dir), security)
        if has_namespaces:
            volumes = pod.pod["spec"].get("volumes") or ()
            names, hidden = pod.host_files(), pod.namespaces.hidden
            if (resolver := pod.resolver_file()) is not None:
                files.append(("rw", str(resolver), resolv_conf.PATH))
            view = build_view(
                self.container,
                volumes,
                mounts,
                pod.folder,
                str(folder),
                names=names,
                files=files,
                hidden=hidden,
                cgroup=pod.cgroup,
                security=security,
                home=self._home(),
            )
            # Programs of an image run unchanged: they find names in the hosts file, as soon as the pods exist.
            replace = pod.replace_names if image is MACHINE else pod.replace_all_addresses
        else:
            view = MountView(str(host_folder))

            def replace(value: str) -> str:
                paths = {path: source for _, source, path in files} | mounts
                return pod.replace_names(pod_volumes.replace_mount_paths(value, paths))

        return build_command(
            self.container,
            sources,
            pod.addresses,
            self._home(),
            replace,
            image=image,
            view=view,
            api_variables=api_variables,
            service_variables=variables,
        )

    def write_kubeconfig(self) -> dict[str, str]:
        """Give the container access to the API with the pod's token; returns the environment variables for it."""
        pod = self._pod
        return pod.access.variables(pod.tokens.get("", ""), pod.pod["metadata"]["namespace"], self.folder, self._security)

    def _mount_folders(self, sources: Sources, volumes: dict[str, Path]) -> dict[str, str]:
        variables: dict[str, str] = {}
        add_variables(variables, self.container, sources, self._pod.addresses)
        mounts = pod_volumes.mount_folders(self.container, volumes, variables)
        pod_volumes.create_sub_paths(self.container, volumes, mounts)
        return mounts

    def _read_security_context(self) -> SecurityContext:
        pod = self._pod.pod
        security = read_security_context(pod["spec"], self.container)
        if security.is_forbidden_root:
            metadata = pod["metadata"]
            where = f'pod: "{metadata["name"]}_{metadata["namespace"]}({self._pod.uid})", container: {self.name}'
            raise InvalidContainer(f"container has runAsNonRoot and image will run as root ({where})")
        security.own(self._home())
        for folder in (self._pod.folder, self.folder) if security.has_other_user else ():
            folder.chmod(0o711)  # folders above them stay private outside the container
        return security

    def _home(self) -> Path:
        home = self.folder / "home"
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        return home

    @property
    def _termination_file(self) -> Path:
        return self.folder / "termination-log"

    def _files(self, image: Image) -> list[tuple[str, str, str]]:
        """Mounts of the image's files and of an empty termination message file."""
        self._termination_file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._termination_file.write_bytes(b"")
        path = str(self.container.get("terminationMessagePath") or _TERMINATION_PATH)
        self._termination_file.chmod(0o666)  # for any user of the container
        files = [("image", str(source), target) for target, source in image.files.items()]
        if image is not MACHINE:
            files.append(("rw", str(self._create_temporary_folder()), _TEMPORARY))
        return [*files, ("rw", str(self._termination_file), path)]

    def _create_temporary_folder(self) -> Path:
        """An empty /tmp: an image has its own."""
        folder = self.folder / "tmp"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        folder.chmod(0o1777)
        return folder

    def _working_folders(self, mounts: dict[str, str], working_dir: str, security: SecurityContext) -> tuple[Path, Path]:
        """The working directory in the container and on this machine: in a volume, else in the home folder of the user."""
        folder = Path(working_dir)
        host_folder = Path(pod_volumes.replace_mount_paths(str(folder), mounts))
        if host_folder == folder:
            folder = host_folder = self._home() / str(folder).strip("/")
        allowed = (*mounts.values(), str(self._home()))
        if not any(host_folder.resolve().is_relative_to(Path(root).resolve()) for root in allowed):
            folder = host_folder = self._home()
        missing = [path for path in (host_folder, *host_folder.parents) if not path.exists()]
        for path in reversed(missing):
            path.mkdir(mode=0o700, exist_ok=True)
            security.own(path)
        return folder, host_folder

    def _set_status(self, status: Obj) -> None:
        self._pod.statuses[self.name] = status

    async def _finish(self, code: int, reason: str = "", message: str = "") -> None:
        self._process = None
        now = clock.timestamp()
        old = self._status
        self._set_status(
            container_status.terminated_status(self._pod.uid, self.container, old, now, code, reason=reason, message=message)
        )
        self.ended.set()
        await self._pod.publish()

    async def _back_off(self, run_time: float) -> None:
        status = self._pod.statuses[self.name]
        if not status["restartCount"] or run_time > _BACKOFF_RESET:
            return
        message = "back-off $backoff restarting failed container=$container pod=$pod"
        pod = {**self._pod.pod, "status": {"containerStatuses": [status]}}
        self._set_status(
            container_status.waiting_status(
                self.container, status, "CrashLoopBackOff", render_message(message, pod, self.container)
            )
        )
        await self._pod.publish()
        self._pod.record_event(
            "BackOff",
            render_message("Back-off restarting failed container $container in pod $pod", pod, self.container),
            warning=True,
        )
        await clock.sleep(crash_loop_backoff(status["restartCount"]))

    # Probes.

    def _probes(self, command: Command) -> list[Any]:
        started = asyncio.Event()
        probes = []
        if rule := self.container.get("startupProbe"):
            probes.append(probe.run_probe(rule, self._check(rule, command), lambda success: self._on_startup(started, success)))
        else:
            started.set()
        if rule := self.container.get("livenessProbe"):
            probes.append(self._probe_after(started, rule, command, self._on_liveness))
        if rule := self.container.get("readinessProbe"):
            probes.append(self._probe_after(started, rule, command, self._on_readiness))
        return probes

    async def _probe_after(self, started: asyncio.Event, rule: Obj, command: Command, report: Any) -> None:
        await started.wait()
        await probe.run_probe(rule, self._check(rule, command), report)

    def _check(self, rule: Obj, command: Command) -> Any:
        return probe.checker(rule, self.container, self._pod.addresses[1], command)

    async def _on_startup(self, started: asyncio.Event, success: bool) -> None:
        started.set()
        if not success:
            await self._kill_for_probe("startup")
        elif not self.container.get("readinessProbe"):
            await self._on_readiness(True)

    async def _on_liveness(self, success: bool) -> None:
        if not success:
            await self._kill_for_probe("liveness")

    async def _kill_for_probe(self, kind: str) -> None:
        self._pod.record_event("Killing", f"Container {self.name} failed {kind} probe, will be restarted")
        await self.stop(float(self._pod.pod["spec"].get("terminationGracePeriodSeconds", 30)))

    async def _on_readiness(self, success: bool) -> None:
        status = self._status
        if status is not None and "running" in status["state"] and status["ready"] is not success:
            self._set_status({**status, "ready": success})
            await self._pod.publish()

    # Sessions.

    def _require_running(self) -> tuple[Process, Command]:
        if self._process is None or self._command is None or self._process.ended.is_set():
            raise BadRequest(f'container not found ("{self.name}")')
        return self._process, self._command

    def exec(self, words: list[str], options: StreamOptions) -> OpenSession:
        """How to run a command beside the process; raises BadRequest if that does not run."""
        process, command = self._require_running()
        command = command.inside(process.pid).with_arguments(words)
        return lambda: ExecSession.start(command, options)

    def attach(self) -> OpenSession:
        """How to attach to the process; raises BadRequest if it does not run."""
        process, _ = self._require_running()

        async def open_session() -> AttachSession:
            return AttachSession(process)

        return open_session

    # Termination.

    async def finish(self, grace: float) -> None:
        """Stop the container, which is not restarted; a second call waits for the first one."""
        self._finishing = self._finishing or asyncio.create_task(self.stop(grace), name=f"stop of container {self.name}")
        await asyncio.wait({self._finishing})

    async def stop(self, grace: float) -> None:
        """Run the preStop hook and stop the process, with a grace period for both."""
        if self._process is None:
            return
        started = clock.loop_time()
        try:
            async with asyncio.timeout(grace):
                await self._run_hook(PRE_STOP)
        except TimeoutError:
            self._report_hook(PRE_STOP)
        if self._process is not None:
            await self._process.stop(max(grace - (clock.loop_time() - started), min(grace, MIN_GRACE)))

    async def _run_hook(self, kind: str) -> None:
        """Run a hook; if the one after the start fails, the container is killed."""
        hook = lifecycle_hook.find_hook(self.container, kind)
        if hook is None or self._command is None or self._process is None or self._process.ended.is_set():
            return
        command = self._command.inside(self._process.pid)
        if not await lifecycle_hook.run_hook(hook, self.container, self._pod.addresses[1], command):
            self._report_hook(kind)
            if kind == POST_START:
                self.kill()

    def _report_hook(self, kind: str) -> None:
        self._pod.record_event(lifecycle_hook.failure_reason(kind), f"{kind[:1].upper()}{kind[1:]}Hook failed", warning=True)

    def kill(self) -> None:
        """Kill the process."""
        if self._process is not None:
            self._process.send(SIGKILL)

    async def kill_and_wait(self) -> None:
        """Kill the process and wait for its end."""
        if self._process is not None:
            self.kill()
            await self._process.wait()


def _read_start(file: Path, size: int) -> str:
    """The first bytes of a file; empty if it does not exist."""
    try:
        with file.open("rb") as stream:
            return stream.read(size).decode(errors="replace")
    except OSError:
        return ""


def _init_restart_policy(spec: Obj) -> str:
    """The restart policy of init containers, which are never restarted after success."""
    return "Never" if spec.get("restartPolicy") == "Never" else "OnFailure"
