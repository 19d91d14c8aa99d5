"""Keeps a picture of a collection: lists it, follows its changes, and lists it anew when the thread is lost."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sliceworks.base import clock
from sliceworks.base.errors import Expired, Gone, InternalError, ServerTimeout, SliceworksError, TooManyRequests, Unreachable
from sliceworks.kube.backoff import NEVER, Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from sliceworks.kube.client import Client
    from sliceworks.kube.options import ListOptions
    from sliceworks.kube.resources import Object, Resource

log = logging.getLogger(__name__)

_WATCH_SECONDS = 300  # at least; up to twice that, so that many watches do not end together
_GRACE = 30.0
_STEADY = 5.0  # a watch that held for so many seconds has recovered
_FROM_CACHE = "0"
_CURRENT = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of which collection. An empty namespace means all of them."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def __str__(self) -> str:
        parts = (self.namespace, self.labels, self.fields)
        return " ".join([self.resource.qualified, *(part for part in parts if part)])


class Sink(Protocol):
    """Who is told what the reflector sees."""

    def replaced(self, items: Sequence[Object]) -> None:
        """The collection is exactly this."""
        ...

    def changed(self, kind: str, obj: Object) -> None:
        """One object is ADDED, MODIFIED or DELETED."""
        ...


class Reflector:
    """Runs until it is cancelled. `error` says what last went wrong, until something goes right."""

    def __init__(self, client: Client, selection: Selection, sink: Sink, *, backoff: Backoff | None = None) -> None:
        self.error: SliceworksError | None = None
        self.resource_version = ""
        # The reflector has a back-off of its own, and says what goes wrong meanwhile.
        self._client = client.using(retry=NEVER)
        self._selection = selection
        self._sink = sink
        self._backoff = backoff or Backoff()
        self._failures = 0
        self._unlisted = True
        # A list from the server's cache is cheap, and never older than what was seen already; a current one is the last resort.
        self._list_at = _FROM_CACHE

    async def run(self) -> None:
        """List, watch, and begin again, until cancelled."""
        while True:
            began = clock.loop_time()
            try:
                await self._follow()
                self.error = None
            except SliceworksError as error:
                self._lost(error)
            except Exception as error:
                log.exception("%s: listing anew", self._selection)
                self._lost(SliceworksError(f"{type(error).__name__}: {error}"))
            await self._pause(clock.loop_time() - began)

    async def _follow(self) -> None:
        if self._unlisted:
            await self._list()
        await self._watch()

    async def _list(self) -> None:
        where = self._selection
        found = await self._client.list(
            where.resource, where.namespace or None, **self._options({"resource_version": self._list_at})
        )
        self.error = None
        self.resource_version = found.resource_version
        self._sink.replaced(found.items)
        self._unlisted = False

    async def _watch(self) -> None:
        where, changed = self._selection, self._sink.changed
        seconds = int(_WATCH_SECONDS * (1 + clock.randomness().random()))
        options = self._options(
            {"resource_version": self.resource_version, "timeout_seconds": seconds, "allow_watch_bookmarks": True}
        )
        watch = self._client.watch_batches(where.resource, where.namespace or None, **options)
        # A peer that vanished without a word never ends the watch: it has had its time by then.
        async with _no_longer_than(seconds + _GRACE), aclosing(watch) as arriving:
            async for batch in arriving:
                self.error = None
                for kind, obj in batch:
                    if kind != "BOOKMARK":
                        changed(kind, obj)
                    self.resource_version = obj["metadata"]["resourceVersion"]

    def _lost(self, error: SliceworksError) -> None:
        if self._unlisted:
            # Neither the cache's version nor the one seen last is to be had: ask for whatever is current.
            if isinstance(error, Expired | Gone) or _is_from_the_future(error):
                self._list_at = _CURRENT
        elif not isinstance(error, Unreachable | TooManyRequests | InternalError):
            self._unlisted = True
            self._list_at = self.resource_version
        if self.error is None or str(self.error) != str(error):
            log.log(logging.INFO if isinstance(error, Expired | Gone) else logging.WARNING, "%s: %s", self._selection, error)
        self.error = error

    async def _pause(self, held: float) -> None:
        if held >= _STEADY:
            self._failures = 0
        if self.error is None and held >= 1.0:
            return
        self._failures += 1
        # The first time a version is too old there is nothing to wait for: the list is there to be had.
        if self._failures == 1 and isinstance(self.error, Expired | Gone):
            return
        await clock.sleep(self._backoff.delay(self._failures))

    def _options(self, more: ListOptions) -> ListOptions:
        return {"labels": self._selection.labels, "fields": self._selection.fields, **more}


@asynccontextmanager
async def _no_longer_than(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unreachable("the watch did not end when its time was over") from error


def _is_from_the_future(error: SliceworksError) -> bool:
    causes = (error.details or {}).get("causes") if isinstance(error, ServerTimeout) else None
    return any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes or ())
