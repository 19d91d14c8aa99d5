"""Sax behind the gateway: a client that blocks, on a bounded number of threads.

    Client            the seam: what the gateway asks of Sax
    ├── Library       Sax's own client, where it is installed
    └── Cells         the same over gRPC, in sax_cells: all that is needed is where the cells are

A piece of a stream may take back some of what came before it: text is passed on only as far as it stands.
"""

from __future__ import annotations

import asyncio
import codecs
import threading
from concurrent.futures import Future
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

from sliceworks.base.http.refusals import Refusal
from sliceworks.serving.gateway.refusals import slow_backend

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    Item = tuple[str, int, list[float]]
    Heard = Callable[[bool, list[Item]], None]

THREADS = 64
OPTIONS = {"temperature": "temperature", "top_k": "per_example_top_k", "top_p": "per_example_top_p"}
"""What people call options, and what Sax does."""
STEPS = "per_example_max_decode_steps"


class Client(Protocol):
    """What the gateway asks of Sax. Calls block; any error is Sax's own."""

    def generate(self, model: str, prompt: str, options: Mapping[str, float], timeout: float) -> list[tuple[str, float]]:
        """Texts with their scores, best first."""
        ...

    def generate_stream(self, model: str, prompt: str, options: Mapping[str, float], timeout: float, heard: Heard) -> None:
        """The same as it comes: `heard` gets text, how much of the text before stands, and scores; then a last call."""
        ...

    def score(self, model: str, prefix: str, suffixes: list[str], timeout: float) -> list[float]:
        """How likely each suffix is after the prefix."""
        ...

    def details(self, model: str) -> dict[str, Any]:
        """How a model is published."""
        ...

    def publish(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        """Have model servers load a model."""
        ...

    def update(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        """Change how a model is published."""
        ...

    def unpublish(self, model: str) -> None:
        """Have it no more."""
        ...


def open_client() -> Client:
    """Sax's own client where it is installed, else ours."""
    if find_spec("sax") is not None:
        return Library()
    try:
        from sliceworks.serving.gateway.sax_cells import Cells
    except ImportError as error:
        raise Refusal(501, "no_sax", "neither Sax's Python client nor grpcio is installed in this gateway") from error
    return Cells()


class Library:
    """Sax's own client. A model is opened once and used by all."""

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
        made = self._sax.ModelOptions()
        made.SetTimeout(timeout)
        for name, value in options.items():
            made.SetExtraInput(name, float(value))
        return made

    def generate(self, model: str, prompt: str, options: Mapping[str, float], timeout: float) -> list[tuple[str, float]]:
        """Texts with their scores."""
        return list(self._lm(model).Generate(prompt, self._options(options, timeout)))

    def generate_stream(self, model: str, prompt: str, options: Mapping[str, float], timeout: float, heard: Heard) -> None:
        """The same as it comes."""
        self._lm(model).GenerateStream(prompt, heard, self._options(options, timeout))

    def score(self, model: str, prefix: str, suffixes: list[str], timeout: float) -> list[float]:
        """How likely each suffix is."""
        return list(self._lm(model).Score(prefix, suffixes, self._options({}, timeout)))

    def details(self, model: str) -> dict[str, Any]:
        """How a model is published."""
        found = self._sax.ListDetail(model)
        counts = {"max_replicas": found.max_replicas, "active_replicas": found.active_replicas}
        return {"model": model, "model_path": found.model, "checkpoint": found.ckpt, **counts}

    def publish(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        """Have model servers load a model."""
        self._sax.Publish(model, path, checkpoint, replicas)

    def update(self, model: str, path: str, checkpoint: str, replicas: int) -> None:
        """Change how a model is published."""
        self._sax.Update(model, path, checkpoint, replicas)

    def unpublish(self, model: str) -> None:
        """Have it no more, and open it anew if it comes back."""
        with self._opening:
            self._models.pop(model, None)
        self._sax.Unpublish(model)


class Standing:
    """Makes one text of pieces that may take back others. Bytes are counted, as Sax does."""

    def __init__(self) -> None:
        self._whole = b""
        self._sent = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, text: str, stands: int) -> str:
        """A piece, after so much of what came before; returns what can be passed on. What was passed on must stand."""
        self._whole = self._whole[:stands] + text.encode()
        if not self._whole.startswith(self._sent):
            return ""
        fresh, self._sent = self._whole[len(self._sent) :], self._whole
        return self._decoder.decode(fresh)

    def end(self) -> str:
        """What is left when no more comes; raises the Refusal where what was passed on did not stand."""
        if not self._whole.startswith(self._sent):
            raise Refusal(502, "backend_failed", "the model took back what it had said")
        return self._decoder.decode(self._whole[len(self._sent) :], final=True)


class Saxes:
    """Sax's client for all requests of a gateway, on so many threads."""

    def __init__(self, make: Callable[[], Client] = open_client, threads: int = THREADS) -> None:
        self._make, self._threads = make, threads
        self._client: Client | None = None
        self._busy = 0

    def client(self) -> Client:
        """The client, which is opened when it is needed first."""
        if self._client is None:
            self._client = self._make()
        return self._client

    async def call(self, act: Callable[[Client], Any], patience: float | None = None) -> Any:
        """Ask something and wait for its end. Sax's errors become refusals; a thread that nobody waits for any more goes on."""
        try:
            async with asyncio.timeout(patience):
                return await self._call(act)
        except TimeoutError:
            raise slow_backend("the time of the request is up") from None

    async def _call(self, act: Callable[[Client], Any]) -> Any:
        client = self.client()
        if self._busy >= self._threads:
            raise Refusal(503, "no_backend", f"{self._threads} requests are at Sax already", retry_after=1)
        self._busy += 1
        future = _on_a_thread(lambda: act(client))
        future.add_done_callback(self._freed(asyncio.get_running_loop()))
        try:
            return await asyncio.wrap_future(future)
        except Refusal:
            raise
        except Exception as error:
            raise Refusal(500, "backend_failed", f"Exception in Saxml client: {error}") from error

    def _freed(self, loop: asyncio.AbstractEventLoop) -> Callable[[object], None]:
        def free() -> None:
            self._busy -= 1

        def freed(_: object) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(free)

        return freed

    async def stream(self, model: str, prompt: str, options: Mapping[str, float], timeout: float) -> AsyncIterator[str]:
        """A text as it comes, as far as it stands."""
        loop = asyncio.get_running_loop()
        heard: asyncio.Queue[list[Item] | None] = asyncio.Queue()

        def hear(last: bool, items: list[Item]) -> None:
            loop.call_soon_threadsafe(heard.put_nowait, None if last else items)

        asked = self.call(lambda client: client.generate_stream(model, prompt, options, timeout, hear), timeout)
        asking = asyncio.ensure_future(asked)
        asking.add_done_callback(lambda _: heard.put_nowait(None))
        standing = Standing()
        try:
            while (items := await heard.get()) is not None:
                if items and (fresh := standing.add(items[0][0], items[0][1])):
                    yield fresh
            await asking
        finally:
            asking.cancel()
        if fresh := standing.end():
            yield fresh


def _on_a_thread(act: Callable[[], Any]) -> Future[Any]:
    """What an act comes to. A process that ends does not wait for the thread, as it would for one of a pool."""
    future: Future[Any] = Future()
    future.set_running_or_notify_cancel()
    threading.Thread(target=_work, args=(future, act), name="sax", daemon=True).start()
    return future


def _work(future: Future[Any], act: Callable[[], Any]) -> None:
    try:
        future.set_result(act())
    except BaseException as error:
        future.set_exception(error)
        del future  # Its error knows this frame: the frame must not know it in return.
