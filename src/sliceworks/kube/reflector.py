"""A reflector: lists a collection, watches it, and lists it again when the watch cannot continue."""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from sliceworks.base import clock
from sliceworks.base.errors import Expired, Gone, InternalError, ServerTimeout, SliceworksError, TooManyRequests, Unreachable
from sliceworks.base.retry import NEVER, Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from sliceworks.kube.client import Client
    from sliceworks.kube.requests import ListOptions
    from sliceworks.kube.resources import Object, Resource

log = logging.getLogger(__name__)

_MIN_WATCH_SECONDS = 300  # up to twice that, so that many watches do not end together
_GRACE_SECONDS = 30.0
_RECOVERY_SECONDS = 5.0  # a watch of this duration resets the backoff
_ANY_VERSION = "0"
_LATEST_VERSION = ""


@dataclass(frozen=True, slots=True)
class Selection:
    """A resource with namespace and selectors; an empty namespace selects all namespaces."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def __str__(self) -> str:
        parts = (self.namespace, self.labels, self.fields)
        return " ".join([self.resource.qualified, *(part for part in parts if part)])


class Sink(Protocol):
    """Receives the state that the reflector reads."""

    def replaced(self, items: Sequence[Object]) -> None:
        """The collection consists of exactly these objects."""
        ...

    def changed(self, kind: str, obj: Object) -> None:
        """One object was ADDED, MODIFIED or DELETED."""
        ...


class Reflector:
    """Runs until it is cancelled. `error` is the last failure; it is cleared by the next success."""

    def __init__(self, client: Client, selection: Selection, sink: Sink, *, backoff: Backoff | None = None) -> None:
        self.error: SliceworksError | None = None
        self.resource_version = ""
        # No retries in the client: the reflector has its own backoff and reports errors meanwhile.
        self._client = client.using(retry=NEVER)
        self._selection = selection
        self._sink = sink
        self._backoff = backoff or Backoff()
        self._failures = 0
        self._needs_list = True
        # A list from kube-apiserver's watch cache is cheap. It is never older than the last seen version; a consistent read is the
        # fallback.
        self._list_version = _ANY_VERSION

    async def run(self) -> None:
        """List and watch in a loop, until cancelled."""
        while True:
            start = clock.loop_time()
            try:
                await self._list_and_watch()
                self.error = None
            except SliceworksError as error:
                self._handle_error(error)
            except Exception as error:
                log.exception("%s: unexpected error; listing again", self._selection)
                self._handle_error(SliceworksError(f"{type(error).__name__}: {error}"))
            await self._back_off(clock.loop_time() - start)

    async def _list_and_watch(self) -> None:
        if self._needs_list:
            await self._list()
        await self._watch()

    async def _list(self) -> None:
        selection = self._selection
        result = await self._client.list(
            selection.resource, selection.namespace or None, **self._options({"resource_version": self._list_version})
        )
        self.error = None
        self.resource_version = result.resource_version
        self._sink.replaced(result.items)
        self._needs_list = False

    async def _watch(self) -> None:
        selection, changed = self._selection, self._sink.changed
        seconds = int(_MIN_WATCH_SECONDS * (1 + clock.rng().random()))
        options = self._options(
            {"resource_version": self.resource_version, "timeout_seconds": seconds, "allow_watch_bookmarks": True}
        )
        watch = self._client.watch_batches(selection.resource, selection.namespace or None, **options)
        # A server that disappeared without closing the connection never ends the watch.
        async with _watch_timeout(seconds + clock.scale_real_seconds(_GRACE_SECONDS)), aclosing(watch) as batches:
            async for batch in batches:
                self.error = None
                for kind, obj in batch:
                    if kind != "BOOKMARK":
                        changed(kind, obj)
                    self.resource_version = obj["metadata"]["resourceVersion"]

    def _handle_error(self, error: SliceworksError) -> None:
        if self._needs_list:
            # The server has neither its cached version nor the last seen one: request the latest.
            if isinstance(error, Expired | Gone) or _is_version_too_large(error):
                self._list_version = _LATEST_VERSION
        elif not isinstance(error, Unreachable | TooManyRequests | InternalError):
            self._needs_list = True
            self._list_version = self.resource_version
        if self.error is None or str(self.error) != str(error):
            log.log(logging.INFO if isinstance(error, Expired | Gone) else logging.WARNING, "%s: %s", self._selection, error)
        self.error = error

    async def _back_off(self, duration: float) -> None:
        if duration >= _RECOVERY_SECONDS:
            self._failures = 0
        if self.error is None and duration >= 1.0:
            return
        self._failures += 1
        # After the first expired version, list again at once.
        if self._failures == 1 and isinstance(self.error, Expired | Gone):
            return
        await clock.sleep(self._backoff.delay(self._failures))

    def _options(self, options: ListOptions) -> ListOptions:
        return {"labels": self._selection.labels, "fields": self._selection.fields, **options}


@asynccontextmanager
async def _watch_timeout(seconds: float) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise Unreachable("watch did not end after its timeout") from error


def _is_version_too_large(error: SliceworksError) -> bool:
    causes = (error.details or {}).get("causes") if isinstance(error, ServerTimeout) else None
    return any(cause.get("reason") == "ResourceVersionTooLarge" for cause in causes or ())
