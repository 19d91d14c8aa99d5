"""Metrics and OpenTelemetry spans of the gateway, under the metric names of OpenTelemetry and vLLM."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import imports
from sliceworks.base.errors import SliceworksError
from sliceworks.base.metrics import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from sliceworks.serving.gateway.load_balancer import Upstream
    from sliceworks.serving.gateway.state import ServedModel, State
    from sliceworks.specs.gateway import Tracing

OVERHEAD_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1.0)
# The buckets of OpenTelemetry's conventions for generative AI.
DURATION_BUCKETS = tuple(0.01 * 2**step for step in range(14))
TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
TPOT_BUCKETS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5)
TOKEN_BUCKETS = tuple(4**step for step in range(14))
# vLLM's buckets, and a few more for small models.
VLLM_TTFT_BUCKETS = (*TTFT_BUCKETS, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
VLLM_DURATION_BUCKETS = (
    0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0,
    120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip
VLLM_TPOT_BUCKETS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
PROVIDER = "sliceworks"
"""The value of `gen_ai_provider_name`."""


class GatewayMetrics:
    """The metrics of one gateway."""

    def __init__(self) -> None:
        self.registry = registry = Registry()
        labels = ("gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model")
        self.requests = registry.counter(
            "sliceworks_gateway_requests_total", "Total number of requests.", "model", "route", "key", "code"
        )
        self.rejected = registry.counter(
            "sliceworks_gateway_rejected_requests_total", "Total number of requests that the gateway rejected.", "code"
        )
        self.overhead = registry.histogram(
            "sliceworks_gateway_overhead_seconds",
            "Time that the gateway itself spent on a request.",
            "route",
            buckets=OVERHEAD_BUCKETS,
        )
        self.retries = registry.counter("sliceworks_gateway_retries_total", "Total number of retries.", "model", "reason")
        self.retry_budget_exhausted = registry.counter(
            "sliceworks_gateway_retry_budget_exhausted_total", "Total number of retries that the retry budget did not allow."
        )
        self.client_disconnects = registry.counter(
            "sliceworks_gateway_client_disconnects_total",
            "Total number of clients that disconnected before their response ended.",
            "model",
        )
        self.interrupted_streams = registry.counter(
            "sliceworks_gateway_interrupted_streams_total", "Total number of streams that an upstream interrupted.", "model"
        )
        self.reloads = registry.counter("sliceworks_gateway_reloads_total", "Total number of configuration reloads.", "result")
        self.tokens = registry.counter("sliceworks_gateway_tokens_total", "Total number of tokens.", "model", "key", "type")
        self.duration = registry.histogram(
            "gen_ai_server_request_duration_seconds", "Request duration.", *labels, "error_type", buckets=DURATION_BUCKETS
        )
        self.ttft = registry.histogram(
            "gen_ai_server_time_to_first_token_seconds", "Time to first token.", *labels, buckets=TTFT_BUCKETS
        )
        self.tpot = registry.histogram(
            "gen_ai_server_time_per_output_token_seconds", "Time per output token after the first.", *labels, buckets=TPOT_BUCKETS
        )
        self.usage = registry.histogram(
            "gen_ai_client_token_usage", "Tokens of a request.", *labels, "gen_ai_token_type", buckets=TOKEN_BUCKETS
        )
        self.vllm_ttft = registry.histogram(
            "vllm:time_to_first_token_seconds", "Time to first token, as vLLM reports it.", "model_name", buckets=VLLM_TTFT_BUCKETS
        )
        self.vllm_e2e_latency = registry.histogram(
            "vllm:e2e_request_latency_seconds", "Request duration, as vLLM reports it.", "model_name", buckets=VLLM_DURATION_BUCKETS
        )
        self.vllm_tpot = registry.histogram(
            "vllm:request_time_per_output_token_seconds",
            "Time per output token, as vLLM reports it.",
            "model_name",
            buckets=VLLM_TPOT_BUCKETS,
        )
        self.prompt_tokens = registry.counter("vllm:prompt_tokens_total", "Total number of prompt tokens.", "model_name")
        self.completion_tokens = registry.counter("vllm:generation_tokens_total", "Total number of generated tokens.", "model_name")
        self.success = registry.counter("vllm:request_success_total", "Total number of successful requests.", "model_name")

    def record_tokens(self, operation: str, model: str, key: str, prompt: int, completion: int) -> None:
        """Count the tokens of a request."""
        self.prompt_tokens.inc(model, by=prompt)
        self.completion_tokens.inc(model, by=completion)
        self.tokens.inc(model, key, "input", by=prompt)
        self.tokens.inc(model, key, "output", by=completion)
        self.usage.observe(prompt, operation, PROVIDER, model, "input")
        self.usage.observe(completion, operation, PROVIDER, model, "output")


def register_gauges(metrics: GatewayMetrics, read_state: Callable[[], State], count_in_flight: Callable[[], int]) -> None:
    """Add gauges of the current state to the metrics."""

    def per_backend(read: Callable[[Upstream], float], aggregate: Callable[[list[float]], float]) -> Callable[[], dict[str, float]]:
        def collect() -> dict[str, float]:
            """One value per URL: several models may share a backend."""
            values: dict[str, list[float]] = {}
            for upstream in read_state().upstreams:
                values.setdefault(upstream.name, []).append(read(upstream))
            return {name: aggregate(listed) for name, listed in values.items()}

        return collect

    def per_model(read: Callable[[ServedModel], float]) -> Callable[[], dict[str, float]]:
        return lambda: {name: read(served) for name, served in read_state().models.items()}

    def outstanding(served: ServedModel) -> float:
        return sum(upstream.outstanding for upstream in served.balancer.upstreams)

    add = metrics.registry.gauge_vec
    add("vllm:num_requests_running", "Requests that backends are processing.", "model_name", per_model(outstanding))
    add(
        "vllm:num_requests_waiting",
        "Requests that wait for an available backend.",
        "model_name",
        per_model(lambda served: served.balancer.waiting),
    )
    backend_gauges: tuple[tuple[str, str, Callable[[Upstream], float], Callable[[list[float]], float]], ...] = (
        ("up", "Whether the backend is healthy.", lambda upstream: upstream.healthy, min),
        ("circuit_open", "Whether the backend's circuit is open.", lambda upstream: upstream.circuit_open, max),
        ("outstanding", "Requests in flight to the backend.", lambda upstream: upstream.outstanding, sum),
        ("connections", "Open connections to the backend.", lambda upstream: upstream.pool.open_connections, sum),
    )
    for name, text, read, aggregate in backend_gauges:
        add(f"sliceworks_gateway_backend_{name}", text, "backend", per_backend(read, aggregate))
    metrics.registry.gauge("sliceworks_gateway_requests_in_flight", "Requests in flight.", count_in_flight)


_EXPORT_TIMEOUT = 3.0
"""Seconds for one export: an unreachable collector must not delay the gateway's exit."""


class Tracer:
    """Starts a span for each call, as a child of the client's span if it sent one."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("sliceworks.gateway")
        self._propagator = TraceContextTextMapPropagator()

    def start(self, headers: dict[str, str], operation: str, model: str, key: str, path: str) -> Span:
        """Start the span of a call. `headers` then carry it to the upstream, whose spans become its children."""
        from opentelemetry import trace

        context = self._propagator.extract(headers)
        attributes = {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": PROVIDER,
            "gen_ai.request.model": model,
            "url.path": path,
            "sliceworks.key": key,
        }
        span = self._tracer.start_span(f"{operation} {model}", context, trace.SpanKind.SERVER, attributes=attributes)
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, trace.set_span_in_context(span, context))
        headers.update(carrier)
        return Span(span)

    def close(self) -> None:
        """Export the remaining spans."""
        self._provider.shutdown()


class Span:
    """The span of one call."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def end(self, status: int, tokens: tuple[int, int] | None) -> None:
        """End the span with the outcome of the call."""
        from opentelemetry.trace import StatusCode

        self._span.set_attribute("http.response.status_code", status)
        if tokens is not None:
            self._span.set_attribute("gen_ai.usage.input_tokens", tokens[0])
            self._span.set_attribute("gen_ai.usage.output_tokens", tokens[1])
        if status >= 500:
            self._span.set_attribute("error.type", str(status))
            self._span.set_status(StatusCode.ERROR)
        self._span.end()


def open_tracer(settings: Tracing) -> Tracer:
    """A tracer that exports to the collector of the document."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError as error:
        raise SliceworksError("tracing requires OpenTelemetry", hint=imports.install_command("tracing")) from error
    resource = Resource.create({"service.name": "sliceworks-gateway"})
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(settings.sampling_ratio)), resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.endpoint, timeout=_EXPORT_TIMEOUT)))
    return Tracer(provider)
