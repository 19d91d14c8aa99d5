"""Sax clients behind the gateway: blocking calls on a bounded number of threads.

    SaxClient             the interface
    ├── LibraryClient     Sax's own client, if it is installed
    └── CellClient        the same over gRPC (sax_cell), given only the root of the cells

An item of a stream may revise the text before it: only text that stays is passed on.
"""

from __future__ import annotations

import asyncio
import codecs
import threading
from concurrent.futures import Future
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.base.http.messages import HttpError
from sliceworks.serving.gateway.errors import backend_timeout

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from sliceworks.serving.gateway.sax_cell import StreamCallback, StreamItem

THREADS = 64
MAX_DECODE_STEPS = "per_example_max_decode_steps"
_OPTIONS = {"temperature": "temperature", "top_k": "per_example_top_k", "top_p": "per_example_top_p"}


def sax_options(data: Mapping[str, Any], max_tokens: int | None) -> dict[str, float]:
    """Sampling options under Sax's names."""
    options = {name: float(data[key]) for key, name in _OPTIONS.items() if isinstance(data.get(key), int | float)}
    return {**options, **({MAX_DECODE_STEPS: float(max_tokens)} if max_tokens else {})}


class SaxClient(Protocol):
    """A client of Sax. Calls block and raise Sax's own errors."""

    def generate(self, model: str, prompt: str, options: Mapping[str, float], timeout: float) -> list[tuple[str, float]]:
        """Generated texts with their scores, best first."""
        ...

    def generate_stream(
        self, model: str, prompt: str, options: Mapping[str, float], timeout: float, on_items: StreamCallback
    ) -> None:
        """Stream a text: `on_items` receives text, the length of the earlier text that stays, and scores; then a last call."""
        ...

    def score(self, model: str, prefix: str, suffixes: list[str], timeout: float) -> list[float]:
        """The score of each suffix after the prefix."""
        ...

    def details(self, model: str) -> dict[str, Any]:
        """The publication of a model."""
        ...

    def publish(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        """Publish a model, so that model servers load it."""
        ...

    def update(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        """Change the publication of a model."""
        ...

    def unpublish(self, model: str) -> None:
        """Unpublish a model."""
        ...


def open_sax_client() -> SaxClient:
    """Sax's own client if it is installed, else CellClient."""
    if find_spec("sax") is not None:
        return LibraryClient()
    try:
        from sliceworks.serving.gateway.sax_cell import CellClient
    except ImportError as error:
        raise HttpError(501, "no_sax", "Sax backends require Sax's Python client or grpcio, and neither is installed") from error
    return CellClient()


class LibraryClient:
    """Sax's own client. Each model is opened once."""

    def __init__(self) -> None:
        import sax  # type: ignore[import-not-found]

        self._sax: Any = sax
        self._models: dict[str, Any] = {}
        self._opening = threading.Lock()

    def _lm(self, model: str) -> Any:
        with self._opening:
            if model not in self._models:
                self._models[model] = self._sax.Model(model).LM()
            return self._models[model]

    def _options(self, options: Mapping[str, float], timeout: float) -> Any:
        model_options = self._sax.ModelOptions()
        model_options.SetTimeout(timeout)
        for name, value in options.items():
            model_options.SetExtraInput(name, float(value))
        return model_options

    def generate(self, model: str, prompt: str, options: Mapping[str, float], timeout: float) -> list[tuple[str, float]]:
        return list(self._lm(model).Generate(prompt, self._options(options, timeout)))

    def generate_stream(
        self, model: str, prompt: str, options: Mapping[str, float], timeout: float, on_items: StreamCallback
    ) -> None:
        self._lm(model).GenerateStream(prompt, on_items, self._options(options, timeout))

    def score(self, model: str, prefix: str, suffixes: list[str], timeout: float) -> list[float]:
        return list(self._lm(model).Score(prefix, suffixes, self._options({}, timeout)))

    def details(self, model: str) -> dict[str, Any]:
        detail = self._sax.ListDetail(model)
        counts = {"max_replicas": detail.max_replicas, "active_replicas": detail.active_replicas}
        return {"model": model, "model_path": detail.model, "checkpoint": detail.ckpt, **counts}

    def publish(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        self._sax.Publish(model, path, checkpoint, replicas)

    def update(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        self._sax.Update(model, path, checkpoint, replicas)

    def unpublish(self, model: str) -> None:
        """Unpublish a model and close it; it is opened again if it is published again."""
        with self._opening:
            self._models.pop(model, None)
        self._sax.Unpublish(model)


class RevisableText:
    """A text assembled from items that may revise earlier ones. Lengths are in bytes, as in Sax."""

    def __init__(self) -> None:
        self._whole = b""
        self._sent = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, text: str, prefix_length: int) -> str:
        """Replace everything after the prefix by `text`; returns the text to pass on, if what was passed on stays."""
        self._whole = self._whole[:prefix_length] + text.encode()
        if not self._whole.startswith(self._sent):
            return ""
        added, self._sent = self._whole[len(self._sent) :], self._whole
        return self._decoder.decode(added)

    def end(self) -> str:
        """The remaining text; raises HttpError if the model revised text that was passed on."""
        if not self._whole.startswith(self._sent):
            raise HttpError(502, "backend_failed", "the model revised text that was already sent")
        return self._decoder.decode(self._whole[len(self._sent) :], final=True)


class SaxExecutor:
    """Runs blocking calls of one Sax client on a limited number of threads."""

    def __init__(self, open_client: Callable[[], SaxClient] = open_sax_client, threads: int = THREADS) -> None:
        self._open_client, self._threads = open_client, threads
        self._client: SaxClient | None = None
        self._busy = 0

    def client(self) -> SaxClient:
        """The client, opened on first use."""
        if self._client is None:
            self._client = self._open_client()
        return self._client

    async def call(self, function: Callable[[SaxClient], Any], timeout: float | None = None) -> Any:
        """Run a function with the client on a thread. Sax's errors become HttpErrors; after a timeout the thread keeps running."""
        try:
            async with asyncio.timeout(timeout):
                return await self._call(function)
        except TimeoutError:
            raise backend_timeout("Sax did not respond before the request's deadline") from None

    async def _call(self, function: Callable[[SaxClient], Any]) -> Any:
        client = self.client()
        if self._busy >= self._threads:
            raise HttpError(503, "no_backend", f"all {self._threads} Sax threads are in use", retry_after=1)
        self._busy += 1
        future = _run_on_thread(lambda: function(client))
        future.add_done_callback(self._release_callback(asyncio.get_running_loop()))
        try:
            return await asyncio.wrap_future(future)
        except HttpError:
            raise
        except Exception as error:
            raise HttpError(500, "backend_failed", f"Exception in Saxml client: {error}") from error

    def _release_callback(self, loop: asyncio.AbstractEventLoop) -> Callable[[object], None]:
        def release() -> None:
            self._busy -= 1

        def on_done(_: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(release)

        return on_done

    async def stream(self, model: str, prompt: str, options: Mapping[str, float], timeout: float) -> AsyncIterator[str]:
        """Stream a generated text; text that may still be revised is withheld."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[list[StreamItem] | None] = asyncio.Queue()

        def on_items(last: bool, items: list[StreamItem]) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, None if last else items)

        task = asyncio.ensure_future(
            self.call(lambda client: client.generate_stream(model, prompt, options, timeout, on_items), timeout)
        )
        task.add_done_callback(lambda _: queue.put_nowait(None))
        text = RevisableText()
        try:
            while (items := await queue.get()) is not None:
                if items and (passed := text.add(items[0][0], items[0][1])):
                    yield passed
            await task
        finally:
            task.cancel()
        if passed := text.end():
            yield passed


def _run_on_thread(function: Callable[[], Any]) -> Future[Any]:
    """Run a function on a daemon thread: unlike a thread of a pool, it does not delay the exit of the process."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=_set_result, args=(future, function), name="sax", daemon=True).start()
    return future


def _set_result(future: Future[Any], function: Callable[[], Any]) -> None:
    try:
        future.set_result(function())
    except BaseException as error:
        future.set_exception(error)
        del future  # Its exception refers to this frame; avoid a reference cycle.
