"""gRPC through the gateway: messages pass as bytes, and only the model's name in them is looked at.

Every method is served as a stream both ways, which on the wire is what the others are too.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import grpc
import grpc.aio

import sliceworks
from sliceworks.base.http.refusals import Refusal, malformed
from sliceworks.schemas import wire_writer
from sliceworks.serving.gateway import usage, wire
from sliceworks.serving.gateway.faces.inference import entry
from sliceworks.serving.gateway.refusals import no_backend, slow_backend, too_many_tokens, unknown_model
from sliceworks.serving.gateway.resending import Messages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from sliceworks.serving.gateway.app import Application
    from sliceworks.serving.gateway.calls import Served
    from sliceworks.serving.gateway.keys import Caller
    from sliceworks.serving.gateway.servers import Server

INFERENCE, JETSTREAM = "/inference.GRPCInferenceService/", "/jetstream_proto.Orchestrator/"
_KINDS = {INFERENCE: frozenset({"triton"}), JETSTREAM: frozenset({"jetstream"})}
_DECODE, _MAX_TOKENS = f"{JETSTREAM}Decode", 4
_YES = b"\x08\x01"
_OWN = {
    f"{INFERENCE}ServerLive": _YES,
    f"{INFERENCE}ServerReady": _YES,
    f"{INFERENCE}ServerMetadata": wire_writer.text(1, "sliceworks") + wire_writer.text(2, sliceworks.__version__),
}
_INDEX = f"{INFERENCE}RepositoryIndex"
_METHODS = {
    INFERENCE: {"ModelReady", "ModelMetadata", "ModelConfig", "ModelStatistics", "ModelInfer", "ModelStreamInfer"},
    JETSTREAM: {"Decode", "HealthCheck"},
}
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    404: grpc.StatusCode.NOT_FOUND,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
}
_FAULTS = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
"""What tells of a server. Others may be the request's own fault, as a plain 500 is over HTTP: they must not shut others out."""
_WORTH_A_TRY = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})
_RECONNECT = [(f"grpc.{name}_reconnect_backoff_ms", most) for name, most in (("initial", 100), ("min", 100), ("max", 1000))]
"""A server that comes back is asked soon: unasked, the library lets it wait for up to two minutes."""
_NOT_ON = frozenset({"authorization", "x-api-key", "api-key", "user-agent", "te", "content-type", "x-sliceworks-model"})
_TRACE = ("traceparent", "tracestate")
"""What the server gets to know of our span, in place of what the client said."""

_BROKE_OFF = "Internal error from Core"
"""What the library says, and no server, when a call ends while messages are still being sent: it then does not know why."""


class _Failed(Exception):
    """What a server said no with: its client hears the same."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        super().__init__(error.code().name)
        self.code, self.details, self.trailing = error.code(), error.details() or "", tuple(error.trailing_metadata() or ())
        if self.code == grpc.StatusCode.INTERNAL and self.details == _BROKE_OFF:
            self.code, self.details = grpc.StatusCode.UNAVAILABLE, "the model's server ended the call while it was being asked"
        self.status = next((status for status, code in _CODES.items() if code == self.code), 500)


class Passage(grpc.GenericRpcHandler):
    """All methods that the gateway lets through."""

    def __init__(self, application: Application) -> None:
        self._application = application
        # A channel goes with its server, when no call is under way there any more.
        self._channels: WeakKeyDictionary[Server, grpc.aio.Channel] = WeakKeyDictionary()

    def service(self, handler_call_details: Any) -> Any:
        """How a method is served; None where it is not."""
        method = str(handler_call_details.method)
        service = next((each for each in _KINDS if method.startswith(each)), None)
        if method not in {*_OWN, _INDEX} and (service is None or method.removeprefix(service) not in _METHODS[service]):
            return None
        metadata = _headers(handler_call_details.invocation_metadata)

        async def serve(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            try:
                async for message in self._serve(method, service or INFERENCE, metadata, messages, context):
                    yield message
            except Refusal as refusal:
                self._application.measures.refused.add(refusal.code)
                await context.abort(_CODES.get(refusal.status, grpc.StatusCode.INTERNAL), refusal.message)
            except _Failed as failed:
                await context.abort(failed.code, failed.details, failed.trailing)
            except wire.NotProtobuf as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

        return grpc.stream_stream_rpc_method_handler(serve)

    async def _serve(
        self, method: str, service: str, metadata: dict[str, str], messages: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[bytes]:
        caller = self._application.state.keys.find(metadata)
        if method in _OWN:
            yield _OWN[method]
            return
        if method == _INDEX:
            yield _index(self._application.state.visible(caller))
            return
        first = await anext(aiter(messages), None)
        if first is None:
            raise malformed("there is no message")
        served = self._model(service, metadata, first, caller)
        if method == _DECODE and served.max_tokens is not None:
            first = _limited(first, served.max_tokens)
        guess = usage.guess(first)
        for quota in (caller.quota, served.quota):
            quota.check(guess)
        for quota in (caller.quota, served.quota):
            quota.enter(guess)
        operation, status, began = method.rpartition("/")[2], 500, asyncio.get_running_loop().time()
        heard = 0
        span = self._application.span(metadata, operation, served, caller, method)
        sent = Messages(first, messages, self._application.state.spec.caps.body)
        try:
            async for message in self._carry(method, served, metadata, sent, context):
                heard += 1
                yield message
            status = 200
        except (Refusal, _Failed) as error:
            status = error.status
            raise
        except wire.NotProtobuf:
            status = 400
            raise
        except (asyncio.CancelledError, GeneratorExit):
            status = 499
            raise
        finally:
            sent.close()
            tokens = (guess, heard) if method == _DECODE else None
            for quota in (caller.quota, served.quota):
                quota.leave(guess, sum(tokens) if tokens else None)
            name = self._application.id_of(metadata)
            self._application.over(served, operation, caller, status, name=name, began=began, tokens=tokens)
            if status == 200 and tokens is not None:
                self._application.measures.used(operation, served.name, caller.name, *tokens)
            if span is not None:
                span.end(status, tokens)

    def _model(self, service: str, metadata: dict[str, str], first: bytes, caller: Caller) -> Served:
        state = self._application.state
        if service == INFERENCE:
            served = self._application.model(wire.name_of(first), caller)
        else:
            name = metadata.get("x-sliceworks-model")
            fitting = [each for each in state.visible(caller) if each.model.kind in _KINDS[service] and name in {None, each.name}]
            if len(fitting) != 1:
                raise malformed("say which model in the metadata x-sliceworks-model")
            served = fitting[0]
        if served.model.kind not in _KINDS[service]:
            raise unknown_model(served.name)
        return served

    async def _carry(
        self, method: str, served: Served, metadata: dict[str, str], sent: Messages, context: Any
    ) -> AsyncIterator[bytes]:
        """The answer of a server. Until its first message another one can be asked, within the same budget as over HTTP."""
        self._application.state.budget.request()
        given = [pair for pair in context.invocation_metadata() or () if pair[0] not in _TRACE]
        given += [(name, metadata[name]) for name in _TRACE if name in metadata]
        until = asyncio.get_running_loop().time() + served.timeouts.total
        tried: list[Server] = []
        while True:
            left = until - asyncio.get_running_loop().time()
            server = await served.group.another(tried, min(served.timeouts.connect, left))
            if not server.backend.grpc:
                raise no_backend(served.name)
            if (left := until - asyncio.get_running_loop().time()) <= 0:
                raise slow_backend(f"more than {served.timeouts.total:g} s in all")
            failed, judged = False, True
            call = self._call(method, server, served, given, sent, left=left)
            server.began(call)
            try:
                async for message in call:
                    sent.settle()
                    yield message
                context.set_trailing_metadata(tuple(await call.trailing_metadata() or ()))
                return
            except grpc.aio.AioRpcError as error:
                said_no = _Failed(error)
                failed = said_no.code in _FAULTS
                judged = failed or said_no.status != 500
                if not self._may_retry(said_no, sent, len(tried)):
                    raise said_no from error
                self._application.measures.retries.add(served.name, said_no.code.name.lower())
            except asyncio.CancelledError:
                judged = False
                if sent.fault is not None:
                    raise sent.fault from None
                raise
            except GeneratorExit:
                judged = False
                raise
            finally:
                call.cancel()
                server.ended(call, failed=failed, judged=judged)
            tried.append(server)

    def _may_retry(self, error: _Failed, sent: Messages, tries: int) -> bool:
        state = self._application.state
        if error.code not in _WORTH_A_TRY or not sent.repeatable or tries >= state.spec.retries.attempts:
            return False
        if state.budget.take():
            return True
        self._application.measures.exhausted.add()
        return False

    def _call(
        self, method: str, server: Server, served: Served, metadata: list[tuple[str, str | bytes]], sent: Messages, *, left: float
    ) -> Any:
        passed = [pair for pair in metadata if pair[0] not in _NOT_ON and not pair[0].startswith("grpc-")]
        if server.authorization:
            passed.append(("authorization", server.authorization.decode().strip().removeprefix("authorization: ")))
        named = method.startswith(INFERENCE)
        messages = _named(sent, served, server.backend.model or served.name) if named else sent.sent()
        begin: Any = self._channel(server).stream_stream(method)
        return begin(messages, metadata=tuple(passed), timeout=left)

    def _channel(self, server: Server) -> grpc.aio.Channel:
        """A channel to a server's gRPC side, with TLS where its url says so."""
        known, backend = self._channels.get(server), server.backend
        if known is not None:
            return known
        most = self._application.state.spec.caps.body
        options = [("grpc.max_receive_message_length", most), ("grpc.max_send_message_length", most), *_RECONNECT]
        if backend.secure:
            made = grpc.aio.secure_channel(backend.grpc, grpc.ssl_channel_credentials(server.trusted), options)
        else:
            made = grpc.aio.insecure_channel(backend.grpc, options)
        self._channels[server] = made
        return made

    async def close(self) -> None:
        """Let go of the servers."""
        for channel in list(self._channels.values()):
            await channel.close()


def _headers(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Metadata as headers over HTTP are kept: of a name that comes several times the values are one, with commas between."""
    found: dict[str, str] = {}
    for name, value in metadata:
        if isinstance(value, str):
            found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def _index(visible: list[Served]) -> bytes:
    """The models that a caller may ask for over gRPC, as a repository lists them."""
    entries = [entry(served) for served in visible if served.model.kind in _KINDS[INFERENCE]]
    fields = ("name", "version", "state")
    written = [b"".join(wire_writer.text(at, each[name]) for at, name in enumerate(fields, 1)) for each in entries]
    return b"".join(wire_writer.part(1, each) for each in written)


def _limited(message: bytes, most: int) -> bytes:
    """A question to JetStream within a cap of tokens. One that names no number gets the cap."""
    asked = wire.number_of(message, _MAX_TOKENS)
    if asked and asked > most:
        raise too_many_tokens(asked, most)
    return message if asked else message + wire_writer.number(_MAX_TOKENS, most)


async def _named(sent: Messages, served: Served, name: str) -> AsyncIterator[bytes]:
    """All messages, with the name that the server knows. A stream is for one model: it ends where another is named."""
    names = {served.name, *served.model.aliases}
    async for message in sent.sent():
        try:
            found = wire.name_of(message)
        except wire.NotProtobuf as error:
            sent.fault = error
            raise
        if found not in names:
            return
        yield message if found == name else wire.renamed(message, name)
