"""The gRPC listener: proxies inference calls as bytes and reads only the model name in them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import grpc
import grpc.aio

import sliceworks
from sliceworks.base import protobuf_wire
from sliceworks.base.errors import SliceworksError
from sliceworks.base.http.messages import HttpError, bad_request
from sliceworks.serving.gateway import grpc_message, payload
from sliceworks.serving.gateway.adapters.open_inference import repository_entry
from sliceworks.serving.gateway.errors import backend_timeout, model_not_found, no_healthy_backend
from sliceworks.serving.gateway.grpc_message import ReplayableMessages
from sliceworks.serving.gateway.router import RetryState
from sliceworks.serving.gateway.token_limit import check_tensors, too_many_tokens

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable

    from sliceworks.serving.gateway.load_balancer import Upstream
    from sliceworks.serving.gateway.router import Router
    from sliceworks.serving.gateway.state import Caller, RateLimit, ServedModel
    from sliceworks.specs.gateway import Tls

INFERENCE, JETSTREAM = "/inference.GRPCInferenceService/", "/jetstream_proto.Orchestrator/"
_BACKEND_KINDS = {INFERENCE: frozenset({"triton"}), JETSTREAM: frozenset({"jetstream"})}
_DECODE, _MAX_TOKENS_FIELD = f"{JETSTREAM}Decode", 4
_INFERENCES = (f"{INFERENCE}ModelInfer", f"{INFERENCE}ModelStreamInfer")
_TRUE = b"\x08\x01"
_OWN_RESPONSES = {
    f"{INFERENCE}ServerLive": _TRUE,
    f"{INFERENCE}ServerReady": _TRUE,
    f"{INFERENCE}ServerMetadata": protobuf_wire.string(1, "sliceworks") + protobuf_wire.string(2, sliceworks.__version__),
}
_REPOSITORY_INDEX = f"{INFERENCE}RepositoryIndex"
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
_UNHEALTHY_CODES = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED})
"""Codes that count against an upstream. Others may be the request's fault, as a plain 500 over HTTP."""
_RETRYABLE_CODES = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED})
_RECONNECT = [(f"grpc.{name}_reconnect_backoff_ms", value) for name, value in (("initial", 100), ("min", 100), ("max", 1000))]
"""By default, grpcio waits for up to two minutes before it reconnects to a server that was down."""
_NOT_FORWARDED = frozenset({"authorization", "x-api-key", "api-key", "user-agent", "te", "content-type", "x-sliceworks-model"})
_TRACE_HEADERS = ("traceparent", "tracestate")
_UNKNOWN_ERROR = "Internal error from Core"
"""What grpcio itself reports when a call ends while messages are still being sent: it does not know the server's status."""


class _UpstreamError(Exception):
    """The error status of an upstream, which is passed on to the client."""

    def __init__(self, error: grpc.aio.AioRpcError) -> None:
        super().__init__(error.code().name)
        self.code, self.details, self.trailing = error.code(), error.details() or "", tuple(error.trailing_metadata() or ())
        if self.code == grpc.StatusCode.INTERNAL and self.details == _UNKNOWN_ERROR:
            self.code, self.details = grpc.StatusCode.UNAVAILABLE, "the backend ended the call before it received all messages"
        self.status = next((status for status, code in _CODES.items() if code == self.code), 500)


class GrpcProxy(grpc.GenericRpcHandler):
    """Handles all methods that the gateway proxies."""

    def __init__(self, router: Router) -> None:
        self._router = router
        # A channel is freed with its upstream, when the last call to it has ended.
        self._channels: WeakKeyDictionary[Upstream, grpc.aio.Channel] = WeakKeyDictionary()

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a method; None if the method is unknown."""
        method = str(handler_call_details.method)
        service = next((prefix for prefix in _METHODS if method.startswith(prefix)), None)
        is_proxied = service is not None and method.removeprefix(service) in _METHODS[service]
        if not is_proxied and method not in {*_OWN_RESPONSES, _REPOSITORY_INDEX}:
            return None
        metadata = _join_metadata(handler_call_details.invocation_metadata)

        async def serve(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
            try:
                async for message in self._serve(method, service or INFERENCE, metadata, messages, context):
                    yield message
            except HttpError as error:
                self._router.metrics.rejected.inc(error.code)
                await context.abort(_CODES.get(error.status, grpc.StatusCode.INTERNAL), error.message)
            except _UpstreamError as error:
                await context.abort(error.code, error.details, error.trailing)
            except protobuf_wire.DecodeError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

        return grpc.stream_stream_rpc_method_handler(serve)

    async def _serve(
        self, method: str, service: str, metadata: dict[str, str], messages: AsyncIterator[bytes], context: Any
    ) -> AsyncIterator[bytes]:
        router = self._router
        caller = router.state.keys.authenticate(metadata)
        if method in _OWN_RESPONSES:
            yield _OWN_RESPONSES[method]
            return
        if method == _REPOSITORY_INDEX:
            yield _repository_index(router.state.models_for(caller))
            return
        first = await anext(aiter(messages), None)
        if first is None:
            raise bad_request("the request contains no message")
        served = self._find_model(service, metadata, first, caller)
        if method == _DECODE and served.max_tokens is not None:
            first = _limit_tokens(first, served.max_tokens)
        estimate = payload.estimate_tokens(first)
        reserved = estimate + _requested_tokens(method, served, first)
        rate_limits = (caller.rate_limit, served.rate_limit)
        for rate_limit in rate_limits:
            rate_limit.check(reserved)
        for rate_limit in rate_limits:
            rate_limit.acquire(reserved)
        operation, status, started_at = method.rpartition("/")[2], 500, asyncio.get_running_loop().time()
        received = 0
        span = router.start_span(metadata, operation, served, caller, method)
        counted = _count_requests(messages, rate_limits, partial(_requested_tokens, method, served))
        requests = ReplayableMessages(first, counted, router.state.spec.limits.max_body_size)
        try:
            async for message in self._forward(method, served, metadata, requests, context):
                received += 1
                yield message
            status = 200
        except (HttpError, _UpstreamError) as error:
            status = error.status
            raise
        except protobuf_wire.DecodeError:
            status = 400
            raise
        except (asyncio.CancelledError, GeneratorExit):
            status = 499
            raise
        finally:
            requests.close()
            tokens = (estimate, received) if method == _DECODE else None
            for rate_limit in rate_limits:
                rate_limit.release(reserved, sum(tokens) if tokens else None)
            request_id = router.request_id(metadata)
            router.record_request(served, operation, caller, status, request_id=request_id, started_at=started_at, tokens=tokens)
            if status == 200 and tokens is not None:
                router.metrics.record_tokens(operation, served.name, caller.name, *tokens)
            if span is not None:
                span.end(status, tokens)

    def _find_model(self, service: str, metadata: dict[str, str], first: bytes, caller: Caller) -> ServedModel:
        kinds = _BACKEND_KINDS[service]
        if service == INFERENCE:
            served = self._router.find_model(grpc_message.read_model_name(first), caller)
            if served.model.kind not in kinds:
                raise model_not_found(served.name)
            return served
        name = metadata.get("x-sliceworks-model")
        models = self._router.state.models_for(caller)
        candidates = [served for served in models if served.model.kind in kinds and name in {None, served.name}]
        if len(candidates) != 1:
            raise bad_request("model: required in the metadata x-sliceworks-model")
        return candidates[0]

    async def _forward(
        self, method: str, served: ServedModel, metadata: dict[str, str], requests: ReplayableMessages, context: Any
    ) -> AsyncIterator[bytes]:
        """The response messages of an upstream. The call can be retried until the first one, as over HTTP."""
        retry = RetryState(self._router.state, self._router.metrics, served.name)
        # The upstream's parent span is the gateway's, not the client's.
        forwarded = [pair for pair in context.invocation_metadata() or () if pair[0] not in _TRACE_HEADERS]
        forwarded += [(name, metadata[name]) for name in _TRACE_HEADERS if name in metadata]
        loop = asyncio.get_running_loop()
        deadline = loop.time() + served.timeouts.total
        while True:
            upstream = await served.balancer.next_upstream(retry.tried, min(served.timeouts.connect, deadline - loop.time()))
            if not upstream.backend.grpc:
                raise no_healthy_backend(served.name)
            if (time_left := deadline - loop.time()) <= 0:
                raise backend_timeout(f"no response within {served.timeouts.total:g} s in total")
            failed, counts = False, True
            call = self._start_call(method, upstream, served, forwarded, requests, timeout=time_left)
            upstream.request_started(call)
            try:
                async for message in call:
                    requests.settle()
                    yield message
                context.set_trailing_metadata(tuple(await call.trailing_metadata() or ()))
                return
            except grpc.aio.AioRpcError as error:
                upstream_error = _UpstreamError(error)
                code = upstream_error.code
                failed = code in _UNHEALTHY_CODES
                counts = failed or upstream_error.status != 500
                is_retryable = code in _RETRYABLE_CODES and requests.replayable
                if not is_retryable or not retry.may_retry(code.name.lower()):
                    raise upstream_error from error
            except asyncio.CancelledError:
                counts = False
                if requests.error is not None:
                    raise requests.error from None
                raise
            except GeneratorExit:
                counts = False
                raise
            finally:
                call.cancel()
                upstream.request_finished(call, failed=failed, counts=counts)
            retry.tried.append(upstream)

    def _start_call(
        self,
        method: str,
        upstream: Upstream,
        served: ServedModel,
        metadata: list[tuple[str, str | bytes]],
        requests: ReplayableMessages,
        *,
        timeout: float,
    ) -> Any:
        forwarded = [pair for pair in metadata if pair[0] not in _NOT_FORWARDED and not pair[0].startswith("grpc-")]
        if upstream.authorization:
            forwarded.append(("authorization", upstream.authorization.decode().strip().removeprefix("authorization: ")))
        if method.startswith(INFERENCE):
            messages = _rename_model(requests, served, upstream.backend.model or served.name)
        else:
            messages = requests.replay()
        start: Any = self._channel(upstream).stream_stream(method)
        return start(messages, metadata=tuple(forwarded), timeout=timeout)

    def _channel(self, upstream: Upstream) -> grpc.aio.Channel:
        """The channel to an upstream, with TLS if its URL is https."""
        channel, backend = self._channels.get(upstream), upstream.backend
        if channel is not None:
            return channel
        options = [*_message_size_options(self._router), *_RECONNECT]
        if backend.uses_tls:
            channel = grpc.aio.secure_channel(backend.grpc, grpc.ssl_channel_credentials(upstream.ca_bundle), options)
        else:
            channel = grpc.aio.insecure_channel(backend.grpc, options)
        self._channels[upstream] = channel
        return channel

    async def close(self) -> None:
        """Close the channels to all upstreams."""
        for channel in list(self._channels.values()):
            await channel.close()


def _message_size_options(router: Router) -> list[tuple[str, int]]:
    size = router.state.spec.limits.max_body_size
    return [("grpc.max_receive_message_length", size), ("grpc.max_send_message_length", size)]


def _join_metadata(metadata: Iterable[tuple[str, str | bytes]]) -> dict[str, str]:
    """Metadata as HTTP headers: repeated names are joined with commas."""
    headers: dict[str, str] = {}
    for name, value in metadata:
        if isinstance(value, str):
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _repository_index(models: list[ServedModel]) -> bytes:
    """The repository index of the models that support gRPC."""
    entries = [repository_entry(served) for served in models if served.model.kind in _BACKEND_KINDS[INFERENCE]]
    encoded = [
        b"".join(protobuf_wire.string(number, entry[name]) for number, name in enumerate(("name", "version", "state"), 1))
        for entry in entries
    ]
    return b"".join(protobuf_wire.length_delimited(1, entry) for entry in encoded)


def _limit_tokens(message: bytes, limit: int) -> bytes:
    """JetStream's request with a token limit, set if absent; raises if it asks for more."""
    requested = grpc_message.read_number(message, _MAX_TOKENS_FIELD)
    if requested and requested > limit:
        raise too_many_tokens(requested, limit)
    # Appended even if present: the last occurrence counts, and one of another wire type is ignored.
    return message + protobuf_wire.varint(_MAX_TOKENS_FIELD, requested or limit)


def _requested_tokens(method: str, served: ServedModel, message: bytes) -> int:
    """The completion tokens that a request names; those of tensors are read only for a model with a token limit."""
    if method == _DECODE:
        return grpc_message.read_number(message, _MAX_TOKENS_FIELD) or 0
    if served.max_tokens is None or method not in _INFERENCES:
        return 0
    return check_tensors(grpc_message.read_tensors(message), served.max_tokens)


async def _count_requests(
    messages: AsyncIterator[bytes], rate_limits: Iterable[RateLimit], requested_tokens: Callable[[bytes], int]
) -> AsyncIterator[bytes]:
    """The further messages of a stream: each is a request of its own. Raises HttpError at one that is over a limit."""
    async for message in messages:
        tokens = payload.estimate_tokens(message) + requested_tokens(message)
        for rate_limit in rate_limits:
            rate_limit.check_rates(tokens)
        for rate_limit in rate_limits:
            rate_limit.take(tokens)
        yield message


async def _rename_model(requests: ReplayableMessages, served: ServedModel, name: str) -> AsyncIterator[bytes]:
    """All messages, with the model name that the upstream knows. The stream ends at a message for another model."""
    names = {served.name, *served.model.aliases}
    async for message in requests.replay():
        try:
            model = grpc_message.read_model_name(message)
            if served.max_tokens is not None:
                check_tensors(grpc_message.read_tensors(message), served.max_tokens)
        except (protobuf_wire.DecodeError, HttpError) as error:
            requests.error = error
            raise
        if model not in names:
            return
        yield message if model == name else grpc_message.replace_model_name(message, name)


class GrpcCredentials:
    """TLS credentials of the gRPC port, which follow changes of the certificate files."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self.reload()

    def reload(self) -> None:
        """Read the certificate files again."""
        tls = self._tls
        pair = (Path(tls.key_file).read_bytes(), Path(tls.cert_file).read_bytes())
        client_ca = Path(tls.client_ca_file).read_bytes() if tls.client_ca_file else None
        self._configuration = grpc.ssl_server_certificate_configuration([pair], client_ca)

    def server_credentials(self) -> Any:
        """Credentials for a port; each new connection uses the files as last read."""
        requires_client = bool(self._tls.client_ca_file)
        return grpc.dynamic_ssl_server_credentials(
            self._configuration, lambda: self._configuration, require_client_authentication=requires_client
        )


@dataclass(frozen=True, slots=True)
class GrpcListener:
    """The gRPC port."""

    server: grpc.aio.Server
    proxy: GrpcProxy
    port: int
    credentials: GrpcCredentials | None

    async def stop(self, grace: float) -> None:
        """Wait for calls in flight, then close the channels."""
        await self.server.stop(grace)
        await self.proxy.close()


async def start(router: Router, host: str, port: int, tls: Tls | None) -> GrpcListener:
    """Start listening."""
    # grpcio stops its threads when Python collects the last server or channel, and then waits for all calls to end, forever if a
    # server was not stopped. This reference keeps its threads for the life of the process.
    grpc.aio.init_grpc_aio()
    proxy, credentials = GrpcProxy(router), GrpcCredentials(tls) if tls is not None else None
    server = grpc.aio.server(handlers=[proxy], options=[*_message_size_options(router), ("grpc.so_reuseport", 0)])
    address = f"{host}:{port}"
    try:
        if credentials is not None:
            bound = server.add_secure_port(address, credentials.server_credentials())
        else:
            bound = server.add_insecure_port(address)
    except RuntimeError as error:
        # grpcio writes the reason only to its log.
        hint = "choose another listen.grpcPort, or stop the process that uses the port"
        raise SliceworksError(f"cannot listen on {address} for gRPC; the port may be in use", hint=hint) from error
    await server.start()
    return GrpcListener(server, proxy, bound, credentials)
