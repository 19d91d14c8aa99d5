"""The inference gateway: one HTTP API (and gRPC) in front of model servers of every engine.

program        the process: listeners, certificates, background tasks, config reload and graceful shutdown
app            the HTTP application: authentication and route matching
adapters       the APIs that clients speak: OpenAI, Open Inference Protocol, JetStream, Sax
router         forwards a call to an upstream: rate limits, retries, hedging, timeouts and accounting
call           one call, and the deadlines of all calls in flight
state          the resolved Gateway document: models, callers, rate limits
load_balancer  the upstreams of a model: health, circuit breaker, slow start
http_client    HTTP/1.1 client with a connection pool
payload        request and response bodies: model, duplicate fields, usage, completions, stop sequences
token_limit    completion tokens that a request asks for, in all its completions
sax_client     Sax calls on a limited number of threads
sax_cell       a Sax client over gRPC
sax_messages   the protobuf messages of Sax
grpc_proxy     the gRPC listener
grpc_message   gRPC messages: the model name, and replay for retries
health_check   active health checks
discovery      backends from ready pods of the cluster
admin          the admin listener: metrics, status, reload, drain, publication of Sax models
telemetry      metrics and OpenTelemetry spans
errors         error responses in the format of each API
echo           an echo model server for rehearsals and load tests
"""
