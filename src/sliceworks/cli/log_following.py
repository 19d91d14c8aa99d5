"""Logs that go on: every pod that a job has or gets, through restarts and broken connections, until the job has ended."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from sliceworks.base import progress
from sliceworks.base.errors import BadRequest, NotFound, Unreachable
from sliceworks.cli.log_reading import Part, no_processes, split
from sliceworks.cli.train_follow import follow
from sliceworks.training import choosing
from sliceworks.training.states import state
from sliceworks.training.words import ENDED

if TYPE_CHECKING:
    from sliceworks.cli.log_printing import Printer
    from sliceworks.cli.train_follow import Picture
    from sliceworks.kube import Client
    from sliceworks.training.choosing import Choice, Source

Object = dict[str, Any]
_AGAIN = 0.5


class Following:
    """One job's logs."""

    def __init__(self, client: Client, jobset: Object, choice: Choice, part: Part, printer: Printer) -> None:
        self._client, self._jobset, self._choice, self._part, self._printer = client, jobset, choice, part, printer
        self._tails: dict[str, asyncio.Task[None]] = {}
        self._pods: dict[str, Source] = {}
        self._attempt = 0

    async def run(self) -> None:
        """Until the job has ended, and all that it wrote is shown."""
        try:
            async with asyncio.TaskGroup() as group:
                await self._run(group)
        except ExceptionGroup as several:
            raise several.exceptions[0] from None

    async def _run(self, group: asyncio.TaskGroup) -> None:
        async with follow(self._client, self._jobset) as follower, aclosing(follower.pictures()) as pictures:
            async for picture in pictures:
                self._take(picture, group)
                # One watch may be ahead of another: the end of the job may be seen before that of its pods.
                if (picture.gone or state(picture.jobset) in ENDED) and not self._goes_on():
                    break
            await asyncio.gather(*self._tails.values())

    def _take(self, picture: Picture, group: asyncio.TaskGroup) -> None:
        """Begin with every pod that has started since."""
        found = choosing.sources(picture.jobset, picture.pods, self._choice)
        self._pods = {each.uid: each for each in found}
        for source in found:
            if source.started and source.uid not in self._tails:
                if self._tails and source.host.attempt > self._attempt:
                    progress.say(f"{picture.jobset['metadata']['name']} begins again: attempt {source.host.attempt}")
                self._attempt = max(self._attempt, source.host.attempt)
                self._tails[source.uid] = group.create_task(_Tail(self, source).run())

    def _goes_on(self) -> bool:
        """Whether a pod whose log is shown may write more."""
        return any(uid in self._tails and not source.ended for uid, source in self._pods.items())

    def now(self, source: Source) -> Source | None:
        """The same pod as it is now; None when it is gone."""
        return self._pods.get(source.uid)


class _Tail:
    """One pod's log. After a break it goes on behind the last line that was shown."""

    def __init__(self, home: Following, source: Source) -> None:
        self._home, self._source = home, source
        self._last, self._same = "", 0

    async def run(self) -> None:
        """Until the container has ended for good."""
        while True:
            try:
                await self._stream()
            except NotFound as error:
                if not error.details:
                    raise no_processes() from error
                return
            except (Unreachable, BadRequest):
                pass  # a connection that broke, or a container between two runs
            now = self._home.now(self._source)
            if now is None or now.ended:
                return
            await asyncio.sleep(_AGAIN)

    async def _stream(self) -> None:
        options, metadata = self._home._part.options(self._source), self._source.pod["metadata"]
        if self._last:
            options = {"container": self._source.container, "timestamps": True, "since_time": self._last}
        skip, rest = (self._last, self._same), b""
        stream = self._home._client.follow_logs(metadata["name"], metadata["namespace"], **options)
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                *lines, rest = (rest + piece).split(b"\n")
                for each in lines:
                    skip = self._show(each.decode(errors="replace"), skip)
        if rest:
            self._show(rest.decode(errors="replace"), skip)

    def _show(self, text: str, skip: tuple[str, int]) -> tuple[str, int]:
        """Print a line unless it was shown before the break: `skip` is the last time seen, and how many lines had it."""
        line = split(text, self._source)
        before, count = skip
        if before and (line.at < before or (line.at == before and count > 0)):
            return before, count - (line.at == before)
        self._same = self._same + 1 if line.at == self._last else 1
        self._last = line.at
        self._home._printer.write(line)
        return skip
