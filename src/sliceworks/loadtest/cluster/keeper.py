"""`python -m sliceworks.loadtest.cluster.keeper`: what runs in each pod of a test. It starts the sender and gives out its rows.

The sender is the same program as on a laptop. The keeper hands on what it says and what it writes to whoever knows the token, while
the test runs: a pod that is lost takes little with it. When nobody asks any more, it ends the test.
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

import orjson
from aiohttp import web

from sliceworks.base import clock
from sliceworks.base.errors import SliceworksError
from sliceworks.loadtest import buckets, running
from sliceworks.loadtest.cluster.news import KINDS, TOKEN, News
from sliceworks.loadtest.generator.keys import CLOUD, KEEPER, KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST = 8 * 1024 * 1024
"""Bytes of one file in one answer."""
_ALONE = 90.0
"""Seconds without a question after which nobody follows the test any more."""
_LAST = 45.0


class Keeper:
    """One pod's sender and its files."""

    def __init__(self, asked: argparse.Namespace, token: str) -> None:
        self._asked, self._token = asked, token
        self._data: Path = asked.data
        self._lines: list[dict[str, Any]] = []
        self._given = 0
        self._ended = False
        self._problem = ""
        self._whole: dict[str, str] = {}
        self._leave = asyncio.Event()
        self._sender: asyncio.subprocess.Process | None = None
        self._told_to_end = False
        self._ends = clock.loop_time() + asked.patience + _ALONE

    async def run(self, index: int, key: str) -> int:
        """From the start until whoever collects has everything."""
        served = await self._serve()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._going)
        watching = asyncio.create_task(self._watch())
        try:
            await self._send(index, key)
            await self._leave.wait()
        finally:
            watching.cancel()
            await served.cleanup()
        return 1 if self._problem else 0

    async def _serve(self) -> web.AppRunner:
        application = web.Application()
        application.add_routes([web.get("/news", self._news), web.post("/stop", self._stop), web.post("/leave", self._left)])
        served = web.AppRunner(application, access_log=None)
        await served.setup()
        await web.TCPSite(served, self._asked.host, self._asked.port).start()
        return served

    async def _send(self, index: int, key: str) -> None:
        """Let the sender do its part, and keep what it says."""
        try:
            told = await self._prepare()
            self._sender = sender = await running.start(self._data, *_role(self._asked, index, told["workers"]), key=key)
            if self._told_to_end:
                self._end()
            assert sender.stdout is not None
            while line := await sender.stdout.readline():
                self._lines.append(orjson.loads(line))
            if code := await sender.wait():
                self._problem = f"the sender ended with code {code}"
        except (SliceworksError, OSError) as error:
            self._problem = str(error)
        self._whole = {kind: _digest(file) for kind in KINDS if (file := self._file(kind)) is not None}
        self._ended = True

    async def _prepare(self) -> dict[str, Any]:
        """The test as the sender reads it: with the paths that are good here."""
        config: Path = self._asked.config
        told: dict[str, Any] = orjson.loads((config / "test.json").read_bytes())
        if place := told.pop("bucket", ""):
            cloud = orjson.loads(os.environ.pop(CLOUD, "") or b"{}")
            told["prompts"] = str(await buckets.fetch(place, self._data / "prompts.jsonl", cloud))
        elif (config / "prompts.jsonl").exists():
            told["prompts"] = str(config / "prompts.jsonl")
        if (config / "authority.pem").exists():
            told["spec"]["target"]["authority"] = str(config / "authority.pem")
        (self._data / "test.json").write_bytes(orjson.dumps({**told, "files": str(config)}))
        return told

    def _file(self, kind: str) -> Path | None:
        return next(self._data.glob(f"worker-*.{kind}"), None)

    async def _watch(self) -> None:
        """A test that nobody follows any more is ended."""
        while clock.loop_time() < self._ends:
            await clock.sleep(1)
        self._problem = self._problem or "nobody asked for the rows any more"
        self._end()
        self._leave.set()

    def _going(self) -> None:
        """The pod is to go: send nothing more, and give the rest out while there is time."""
        self._end()
        asyncio.get_running_loop().call_later(_LAST, self._leave.set)

    def _end(self) -> None:
        """Let the sender end; one that is not there yet ends as soon as it is."""
        self._told_to_end = True
        if self._sender is not None:
            running.tell_stop(self._sender)

    def _known(self, request: web.Request) -> None:
        if not hmac.compare_digest(request.headers.get(TOKEN, "").encode(), self._token.encode()):
            raise web.HTTPUnauthorized
        self._ends = clock.loop_time() + _ALONE

    async def _news(self, request: web.Request) -> web.Response:
        """What is new since the numbers that are given; lines before them are forgotten."""
        self._known(request)
        seen = int(request.query.get("lines", 0))
        del self._lines[: max(seen - self._given, 0)]
        self._given = max(self._given, seen)
        ended = self._ended  # looked at before the files: what is said to be whole is read after that
        parts, last = {}, True
        for kind in KINDS:
            part, more = _part(self._file(kind), int(request.query.get(kind, 0)))
            parts[kind], last = part, last and not more
        name = next((file.stem for kind in KINDS if (file := self._file(kind)) is not None), "")
        done = ended and last
        news = News(list(self._lines), parts, name, done, self._problem, self._whole if done else {})
        return web.Response(body=news.packed(), content_type="application/octet-stream")

    async def _stop(self, request: web.Request) -> web.Response:
        self._known(request)
        self._end()
        return web.Response()

    async def _left(self, request: web.Request) -> web.Response:
        """Everything has been collected."""
        self._known(request)
        self._end()
        asyncio.get_running_loop().call_later(0.2, self._leave.set)  # after this answer
        return web.Response()


def _role(asked: argparse.Namespace, index: int, workers: int) -> tuple[str, ...]:
    if workers == 1:
        return ("--role", "local")
    if index == 0:
        return ("--role", "master", "--host", asked.host, "--port", str(asked.master_port))
    return ("--role", "worker", "--host", asked.master, "--port", str(asked.master_port))


def _part(file: Path | None, first: int) -> tuple[bytes, bool]:
    """The bytes of a file from one on, and whether there are more."""
    if file is None:
        return b"", False
    with file.open("rb") as source:
        source.seek(first)
        part = source.read(_MOST)
    return part, len(part) == _MOST


def _digest(file: Path) -> str:
    with file.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def main(arguments: Sequence[str] | None = None) -> int:
    """Keep one sender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--master", default="127.0.0.1")
    parser.add_argument("--master-port", type=int, required=True)
    parser.add_argument("--patience", type=float, default=0.0, help="seconds until all pods have started, and the first question")
    asked = parser.parse_args(arguments)
    token, key = os.environ.pop(KEEPER), os.environ.pop(KEY, "")
    index = int(os.environ.get("JOB_COMPLETION_INDEX", "0"))

    async def keep() -> int:
        return await Keeper(asked, token).run(index, key)

    return clock.run(keep())


if __name__ == "__main__":
    sys.exit(main())
