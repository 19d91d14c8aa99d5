"""Spans for OpenTelemetry, where it is installed and asked for: who asked which model, how long it took, never what was said."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sliceworks.base import extras
from sliceworks.base.errors import SliceworksError
from sliceworks.serving.gateway.measures import PROVIDER

if TYPE_CHECKING:
    from sliceworks.specs.gateway import Tracing

_PATIENCE = 3.0
"""How long one sending may take: a collector that is gone does not keep a gateway that ends."""


class Tracer:
    """Begins a span for each call, as a part of the client's trace where it has one."""

    def __init__(self, provider: Any) -> None:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        self._provider = provider
        self._tracer = provider.get_tracer("sliceworks.gateway")
        self._propagator = TraceContextTextMapPropagator()

    def begin(self, headers: dict[str, str], operation: str, model: str, key: str, path: str) -> Span:
        """A call begins. The server gets to know the span by `headers`, so that its own are a part of it."""
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
        """Send what is left."""
        self._provider.shutdown()


class Span:
    """One call's span."""

    def __init__(self, span: Any) -> None:
        self._span = span

    def end(self, status: int, tokens: tuple[int, int] | None) -> None:
        """The call is over."""
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
    """A tracer that sends to the collector of the document."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError as error:
        raise SliceworksError("tracing needs OpenTelemetry", hint=extras.remedy("tracing")) from error
    resource = Resource.create({"service.name": "sliceworks-gateway"})
    provider = TracerProvider(sampler=ParentBased(TraceIdRatioBased(settings.sample)), resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=settings.endpoint, timeout=_PATIENCE)))
    return Tracer(provider)
