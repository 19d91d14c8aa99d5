"""`python -m sliceworks.loadtest.cluster.agent`: runs in each worker pod, starts the worker and serves its request log.

The worker is the same program as on a laptop. During the test the agent serves its output and its request log to clients with the
token, so a lost pod loses little. It stops the test when the coordinator no longer polls.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import hmac
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import orjson

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.base.http.messages import HttpError
from sliceworks.base.http.server import Application, Server
from sliceworks.loadtest import run_folder, runner
from sliceworks.loadtest.cluster.collector import FILE_KINDS, TOKEN_HEADER, AgentReport
from sliceworks.loadtest.load_target import AGENT_TOKEN_VARIABLE, CLOUD_VARIABLE, KEY_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.response_writer import ResponseWriter

_MAX_PART_SIZE = 8 * 1024 * 1024
"""Maximum bytes of one file per response."""
_COLLECTOR_TIMEOUT = 90.0
"""Seconds without a request after which the collector is considered lost."""
_DRAIN_TIMEOUT = 45.0


class WorkerAgent(Application):
    """The worker of one pod, and the server of its files."""

    def __init__(self, options: argparse.Namespace, token: str) -> None:
        self._options, self._token = options, token
        self._data: Path = options.data
        self._lines: list[dict[str, Any]] = []
        self._acknowledged = 0
        self._ended = False
        self._problem = ""
        self._digests: dict[str, str] = {}
        self._exit = asyncio.Event()
        self._worker: asyncio.subprocess.Process | None = None
        self._stop_requested = False
        self._deadline = clock.loop_time() + options.patience + _COLLECTOR_TIMEOUT

    async def run(self, index: int, key: str) -> int:
        """Run until the collector has fetched everything."""
        server = Server(self)
        await server.start(self._options.host, self._options.port)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._terminate)
        watchdog = asyncio.create_task(self._watch())
        try:
            await self._run_worker(index, key)
            await self._exit.wait()
        finally:
            watchdog.cancel()
            await server.stop()
        return 1 if self._problem else 0

    async def _run_worker(self, index: int, key: str) -> None:
        """Run the worker and keep its progress lines."""
        try:
            config = await self._prepare()
            self._worker = worker = await runner.start_process(self._data, *_role(self._options, index, config["workers"]), key=key)
            if self._stop_requested:
                self._stop_worker()
            assert worker.stdout is not None
            while line := await worker.stdout.readline():
                self._lines.append(orjson.loads(line))
            if code := await worker.wait():
                self._problem = f"the worker exited with code {code}"
        except (SliceworksError, OSError) as error:
            self._problem = str(error)
        self._digests = {kind: _digest(file) for kind in FILE_KINDS if (file := self._file(kind)) is not None}
        self._ended = True

    async def _prepare(self) -> dict[str, Any]:
        """The test file of the worker, with paths inside the pod."""
        config: Path = self._options.config
        test_config: dict[str, Any] = orjson.loads((config / "test.json").read_bytes())
        if bucket_url := test_config.pop("bucket", ""):
            cloud = orjson.loads(os.environ.pop(CLOUD_VARIABLE, "") or b"{}")
            test_config["prompts"] = str(await run_folder.download(bucket_url, self._data / "prompts.jsonl", cloud))
        elif (config / "prompts.jsonl").exists():
            test_config["prompts"] = str(config / "prompts.jsonl")
        if (config / "authority.pem").exists():
            test_config["spec"]["target"]["authority"] = str(config / "authority.pem")
        (self._data / "test.json").write_bytes(orjson.dumps({**test_config, "files": str(config)}))
        return test_config

    def _file(self, kind: str) -> Path | None:
        return next(self._data.glob(f"worker-*.{kind}"), None)

    async def _watch(self) -> None:
        """Stop the test when the collector no longer polls."""
        while clock.loop_time() < self._deadline:
            await clock.sleep(1)
        self._problem = self._problem or "the collector stopped fetching the request log"
        self._stop_worker()
        self._exit.set()

    def _terminate(self) -> None:
        """On SIGTERM: stops sending, and serves the rest of the log until the drain timeout."""
        self._stop_worker()
        asyncio.get_running_loop().call_later(_DRAIN_TIMEOUT, self._exit.set)

    def _stop_worker(self) -> None:
        """Stop the worker; one that has not started yet stops at once."""
        self._stop_requested = True
        if self._worker is not None:
            runner.request_stop(self._worker)

    def authenticate(self, method: str, path: str, headers: Mapping[str, str], peer: object = None) -> object:
        """Accept only requests with the token."""
        if not hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self._token.encode()):
            raise HttpError(401, "unauthorized", f"header {TOKEN_HEADER} does not have the token of this load test")
        return None

    async def handle(self, request: Request, response: ResponseWriter) -> None:
        """Respond to the collector."""
        self._deadline = clock.loop_time() + _COLLECTOR_TIMEOUT
        body = b""
        match request.method, request.path:
            case "GET", "/report":
                body = self._report(dict(parse_qsl(request.query))).encode()
            case "POST", "/stop":
                self._stop_worker()
            case "POST", "/finish":  # the collector has everything
                self._stop_worker()
                self._exit.set()
            case _:
                raise HttpError(404, "not_found", f"{request.path} not found")
        response.send(200, [(b"content-type", b"application/octet-stream")], body)

    def write_error(self, path: str, error: HttpError, response: ResponseWriter) -> None:
        """Respond with an error as plain text."""
        response.send(error.status, [(b"content-type", b"text/plain"), *error.headers], error.message.encode())

    def _report(self, offsets: Mapping[str, str]) -> AgentReport:
        """Everything after the offsets; earlier progress lines are dropped."""
        line_count = int(offsets.get("lines", 0))
        del self._lines[: max(line_count - self._acknowledged, 0)]
        self._acknowledged = max(self._acknowledged, line_count)
        ended = self._ended  # read before the files: a log that is reported complete is read completely
        parts, is_last = {}, True
        for kind in FILE_KINDS:
            part, has_more = _part(self._file(kind), int(offsets.get(kind, 0)))
            parts[kind], is_last = part, is_last and not has_more
        name = next((file.stem for kind in FILE_KINDS if (file := self._file(kind)) is not None), "")
        done = ended and is_last
        return AgentReport(list(self._lines), parts, name, done, self._problem, self._digests if done else {})


def _role(options: argparse.Namespace, index: int, workers: int) -> tuple[str, ...]:
    if workers == 1:
        return ("--role", "local")
    if index == 0:
        return ("--role", "master", "--host", options.host, "--port", str(options.master_port))
    return ("--role", "worker", "--host", options.master, "--port", str(options.master_port))


def _part(file: Path | None, first: int) -> tuple[bytes, bool]:
    """Bytes of a file from an offset on, and whether more follow."""
    if file is None:
        return b"", False
    with file.open("rb") as source:
        source.seek(first)
        part = source.read(_MAX_PART_SIZE)
    return part, len(part) == _MAX_PART_SIZE


def _digest(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the agent of one worker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--master", default="127.0.0.1")
    parser.add_argument("--master-port", type=int, required=True)
    parser.add_argument("--patience", type=float, default=0.0, help="seconds until all pods have started and the collector polls")
    options = parser.parse_args(arguments)
    token, key = os.environ.pop(AGENT_TOKEN_VARIABLE), os.environ.pop(KEY_VARIABLE, "")
    index = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))

    async def keep() -> int:
        return await WorkerAgent(options, token).run(index, key)

    return clock.run(keep())


if __name__ == "__main__":
    sys.exit(main())
