"""Runs a load test with local processes or pods, shows progress, and stores the results."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import signal
import tempfile
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sliceworks.base import clock, progress
from sliceworks.base.errors import InvalidDocument
from sliceworks.cli.terminal import LiveDisplay
from sliceworks.loadtest.report import formatter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from sliceworks.cli.load_test import ResolvedTest
    from sliceworks.kube import Client
    from sliceworks.loadtest.cluster.worker_job import WorkerJob
    from sliceworks.loadtest.load_plan import Plan
    from sliceworks.loadtest.runner import LocustOptions, Outcome, Progress

_BARS = "▁▂▃▄▅▆▇█"
_LINE_EVERY = 5.0


class LoadDisplay(LiveDisplay):
    """Shows progress: live on a terminal, a line now and then elsewhere, nothing with --quiet."""

    def __init__(self, name: str, plan: Plan) -> None:
        super().__init__()
        self._name, self._duration = name, plan.schedule.duration
        self._medians: deque[float] = deque(maxlen=60)
        self._latest: deque[tuple[float, int, int]] = deque(maxlen=11)
        self._started: float | None = None
        self._printed: float | None = None

    def show(self, now: Progress) -> None:
        """Show the current progress."""
        now_seconds = clock.loop_time()
        self._started = now_seconds if self._started is None else self._started
        self._latest.append((now_seconds, now.due, now.sent))
        if now.times:
            self._medians.append(sorted(now.times)[len(now.times) // 2])
        text = self._text(now, now_seconds)
        if self.display is not None:
            from rich.text import Text

            self.display.update(Text(text), refresh=True)
        elif self._printed is None or now_seconds - self._printed >= _LINE_EVERY:
            self._printed = now_seconds
            progress.say(text.replace("\n", "; "))

    def _text(self, now: Progress, moment: float) -> str:
        before, due, sent = self._latest[0]
        seconds = max(moment - before, 0.001)
        rates = (
            f"scheduled {(now.due - due) / seconds:,.0f}/s, sent {(now.sent - sent) / seconds:,.0f}/s"
            if len(self._latest) > 1
            else "begins"
        )
        lines = [
            f"{self._name}: {moment - (moment if self._started is None else self._started):.0f} of {self._duration:.0f} s",
            f"{rates}, {now.sent - now.ended:,} in flight, {now.ended:,} completed",
        ]
        if self._medians:
            lines.append(f"latency {sparkline(list(self._medians))} {formatter.format_seconds(self._medians[-1])}")
        if now.failed:
            worst = ", ".join(f"{count:,} × {kind}" for kind, count in now.failures.most_common(3))
            lines.append(f"{now.failed:,} failed: {worst}")
        return "\n".join(lines)


def sparkline(values: list[float]) -> str:
    """Render values as a line of small bars, scaled to the highest."""
    maximum = max(values) or 1.0
    return "".join(_BARS[min(int(item / maximum * (len(_BARS) - 1) + 0.5), len(_BARS) - 1)] for item in values)


Object = dict[str, Any]
_LONGEST = 40


async def run_in_cluster(
    plan: Plan,
    folder: Path,
    test: ResolvedTest,
    on_progress: Callable[[Progress], None],
    interruptible: Callable[[Any], Awaitable[Outcome]],
) -> Outcome:
    """Create the worker pods, follow them until they finish, and delete them."""
    from sliceworks.loadtest.cluster.cluster_runner import ClusterRunner

    async with test.where.open() as client:
        token = secrets.token_urlsafe(24)
        job = _build_job(plan, test, test.where.namespace or client.namespace, token)
        send = _worker_client(client, token)
        return await interruptible(ClusterRunner(client, job, folder, send, rule=plan.spec.stop, on_progress=on_progress))


def _build_job(plan: Plan, test: ResolvedTest, namespace: str, token: str) -> WorkerJob:
    import orjson

    from sliceworks.cloud import storage
    from sliceworks.loadtest import runner
    from sliceworks.loadtest.cluster import worker_job
    from sliceworks.loadtest.load_target import AGENT_TOKEN_VARIABLE, CLOUD_VARIABLE, KEY_VARIABLE

    source = test.spec.prompts.source if test.spec.prompts else ""
    config = {**runner.test_config(plan), "csv": False, "web": 0, "bucket": source if storage.is_object_url(source) else ""}
    files = {runner.TEST_FILE: orjson.dumps(config), **_referenced_files(test)}
    worker_job.check_files(files)
    variables = {AGENT_TOKEN_VARIABLE: token, **({KEY_VARIABLE: plan.key} if plan.key else {})}
    if config["bucket"] and test.where.twin:
        variables[CLOUD_VARIABLE] = orjson.dumps(test.where.cloud()).decode()
    name = f"load-{test.name[:_LONGEST].strip('-.').replace('.', '-')}-{secrets.token_hex(3)}"
    return worker_job.WorkerJob(name, namespace, plan.spec.workers, plan.schedule.duration, files, variables)


def _referenced_files(test: ResolvedTest) -> dict[str, bytes]:
    """Return the local files of the document, which the pods need; pods download files in buckets themselves."""
    from sliceworks.cloud import storage

    prompts, contents = test.spec.prompts, {}
    named = {"prompts.jsonl": prompts.source if prompts else "", "authority.pem": test.spec.target.authority}
    for name, file in named.items():
        if file and not storage.is_object_url(file):
            try:
                contents[name] = (test.files / file).read_bytes()
            except OSError as error:
                raise InvalidDocument(f"cannot be read: {error.strerror}", place=file) from error
    return contents


def _worker_client(client: Client, token: str) -> Callable[[Object, str, str], Awaitable[bytes]]:
    """Return a client of a worker: direct if pods are local processes, else through the API server."""
    from sliceworks.loadtest.cluster.collector import TOKEN_HEADER
    from sliceworks.loadtest.cluster.worker_job import AGENT_PORT
    from sliceworks.serving import service_endpoint

    async def send(pod: Object, method: str, path: str) -> bytes:
        metadata, address = pod["metadata"], pod["status"]["podIP"]
        connection = service_endpoint.connect_pod(client, metadata["namespace"], metadata["name"], AGENT_PORT, address)
        return await service_endpoint.read_all(connection, method, path, headers={TOKEN_HEADER: token})

    return send


RunResult = tuple[dict[str, Any], Path]


def run_test(test: ResolvedTest, *, tags: dict[str, str] | None = None, locust: LocustOptions | None = None) -> RunResult:
    """Run the test and store its results; measurements are kept even if it fails."""
    from sliceworks.loadtest import check_installed

    check_installed()
    from sliceworks.loadtest import run_folder

    with tempfile.TemporaryDirectory() as aside:
        # 1. Validate everything before creating anything.
        plan, fetched = _build_plan(test, Path(aside))
        place = _create_run_folder(test)
        what = run_folder.RunManifest(test.name, tags or {}, str(test.files), plan.url, test.spec.model_dump(by_alias=True))
        # 2. Store the metadata first, so that `load recover` can merge the results of a failed run.
        with run_folder.open_run(place, what):
            for item in fetched:
                shutil.move(item, place)
            outcome = clock.run(_run(plan, place, test, locust))
            # 3. Merge the results.
            with progress.task("Merging results"):
                results = run_folder.finalize(place, plan, outcome)
    return results, place


def _build_plan(test: ResolvedTest, aside: Path) -> tuple[Plan, list[Path]]:
    """Build the plan; return it with the files downloaded for it."""
    from sliceworks.cloud import storage
    from sliceworks.loadtest import load_plan, run_folder, token_count

    spec, downloaded = test.spec, []
    named = {
        run_folder.PROMPTS_FILE: spec.prompts.source if spec.prompts else "",
        run_folder.TOKENIZER_FILE: spec.tokens.tokenizer if spec.tokens else "",
    }
    urls = {name: place for name, place in named.items() if storage.is_object_url(place)}
    cloud = test.where.cloud() if urls or spec.results.bucket else {}
    for name, url in urls.items():
        downloaded.append(clock.run(run_folder.download(url, aside / name, cloud)))
    prompts = (aside / run_folder.PROMPTS_FILE).read_bytes() if run_folder.PROMPTS_FILE in urls else None
    plan = load_plan.create(spec, test.files, url=test.url, key=test.key, downloaded=prompts)
    if spec.tokens:
        token_count.load_tokenizer(run_folder.tokenizer_file(aside, spec.tokens, test.files))
    if spec.results.bucket:
        clock.run(run_folder.check_writable(spec.results.bucket, cloud))
    return plan, downloaded


async def _run(plan: Plan, place: Path, test: ResolvedTest, locust: LocustOptions | None) -> Outcome:

    from sliceworks.loadtest.run_folder import PROMPTS_FILE
    from sliceworks.loadtest.runner import LocalRunner

    with LoadDisplay(test.name, plan) as live:
        if test.spec.workers.where == "cluster":
            return await run_in_cluster(plan, place, test, live.show, interruptible)
        prompts = place / PROMPTS_FILE
        run = LocalRunner(plan, place, test.files, live.show, locust, prompts=prompts if prompts.exists() else None)
        return await interruptible(run)


async def interruptible(run: Any) -> Outcome:
    """Run the test; Ctrl-C stops it gracefully."""
    from sliceworks.loadtest.runner import INTERRUPTED

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, run.stop, INTERRUPTED)
    outcome: Outcome = await run.run()
    return outcome


def upload_results(place: Path, test: ResolvedTest) -> None:
    """Upload a run to the bucket of the document, if any. The local copy is always kept."""
    if test.spec.results.bucket is None:
        return
    from sliceworks.base.errors import SliceworksError
    from sliceworks.loadtest import run_folder

    target = f"{str(test.spec.results.bucket).rstrip('/')}/{place.name}"
    try:
        with progress.task(f"Uploading to {target}"):
            count = clock.run(run_folder.upload(run_folder.result_files(place), target, test.where.cloud()))
    except SliceworksError as error:
        raise SliceworksError(
            f"uploading the run to {target} failed: {error}; the local copy is in {place}", hint=error.hint
        ) from error
    progress.say(f"uploaded {count} files to {target}")


def _create_run_folder(test: ResolvedTest) -> Path:
    """Create the folder of a run, named after the test and its start time."""
    preferred = Path(test.spec.results.folder) / f"{test.name}-{clock.now():%Y%m%d-%H%M%S}"
    number, folder = 1, preferred
    while folder.exists():
        number += 1
        folder = preferred.with_name(f"{preferred.name}-{number}")
    return folder
