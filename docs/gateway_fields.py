"""The reference of the gateway: its routes, its errors, its numbers, and the fields of its document."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from document_fields import page
from sliceworks.serving.gateway import gauges
from sliceworks.serving.gateway.measures import Measures
from sliceworks.specs import gateway as types
from sliceworks.specs import model
from sliceworks.specs.gateway import GatewaySpec

if TYPE_CHECKING:
    from collections.abc import Iterator

_OPENING = """\
# Gateway

One address in front of model servers. This page is made from the program by `make fix`; [run a gateway](../how-to/run-a-gateway.md)
shows it at work. A field that is not known is an error that names the closest one.

```yaml
apiVersion: sliceworks.dev/v1alpha1
kind: Gateway
metadata: {name: gateway}
spec: {}    # as below
```

## Routes

@ROUTES@
On the admin port, with the admin key: `GET /metrics`, `GET /admin/status`, `POST /admin/reload`, `POST /admin/drain`; and for Sax
`POST /publish`, `PUT /update`, `POST /unpublish?model_id=`. `/healthz` and `/readyz` need no key.

OpenAI's routes on servers of other kinds give one answer of text: `stop` is seen to by the gateway, `temperature` and the number of
tokens are passed on in the server's own words, and what those have no word for (`n`, `tools`, `logprobs`, `response_format`,
several prompts) is refused. Conversations become one text.

A key is sent as `Authorization: Bearer KEY`, or as `x-api-key` or `api-key`; over gRPC in the metadata of the same names. Keys,
cookies and headers between two machines are not passed on to servers. Every answer but a probe's has an `x-request-id`: the
client's, or a new one. Answers to a key with a `rate`, a 429 too, have `x-ratelimit-limit-requests`, `-remaining-` and `-reset-`,
and the same of `-tokens`, in OpenAI's words. What takes GET takes HEAD, unless a model's server answers it.

## Errors

An error has the shape of its protocol: `{"error": {"message", "type", "param", "code"}}` for OpenAI's routes and the admin port,
`{"error": "…"}` for the Open Inference Protocol, `{"detail": "…"}` for JetStream's and Sax's, a status for gRPC. Answers of
servers, good or bad, pass as they are. A stream that a server did not end says so in one more event (for JetStream one more
object), and ends.

@ERRORS@
Another server is asked when a connection fails, when a server hangs up before the first byte of its answer (amid an answer that
is no stream, too), and when it answers 429, 502, 503 or 504. A circuit opens after `health.failures` of these in a row, 429 left
out; a plain 500 counts neither way, since it may be the request's own fault. A server whose circuit is open is asked every second
how it is: when it says well, or when `health.open` has passed, one request is let through.

## Numbers

"""
_ROUTES = [
    (
        "`POST /v1/chat/completions`, `/v1/completions`",
        "OpenAI's; `stream: true` for events",
        "`openai`, `echo` as it is; `jetstream`, `triton` and `sax` for text",
    ),
    ("`POST /v1/embeddings`", "OpenAI's", "`openai`, `echo`"),
    ("`GET /v1/models`, `/v1/models/NAME`", "the models that the key may ask for", "the gateway itself"),
    ("`GET /v2`, `POST /v2/repository/index`", "what the gateway is, and its models of this protocol", "the gateway itself"),
    (
        "`/v2/models/NAME[/versions/N]` with `/ready`, `/config`, `/stats`, `/infer`, `/generate`, `/generate_stream`",
        "Open Inference Protocol v2, binary tensors and compression included",
        "`triton`; `echo` for most",
    ),
    (
        "gRPC `inference.GRPCInferenceService` at `listen.grpcPort`",
        "the same, streams included, and the list of models; methods that change the server are not passed",
        "`triton` with `grpc`",
    ),
    (
        "`POST /v1/generate`",
        "JetStream's: bare JSON objects. Of several models one is named by the field or query `model`, or by `x-sliceworks-model`",
        "`jetstream`, `echo`",
    ),
    (
        "gRPC `jetstream_proto.Orchestrator` at `listen.grpcPort`",
        "JetStream's; the metadata `x-sliceworks-model` names the model",
        "`jetstream` with `grpc`",
    ),
    (
        "`POST /generate`, `POST /score`, `GET /listcell?model_id=`",
        'the Sax proxy\'s: `{"model_id", "prompt", "model_options"}` gives `{"completions": [[text, score]]}`',
        "`sax`",
    ),
    ("`GET /health`, `/readyz`, `/healthz`, `/v2/health/live`, `/v2/health/ready`", "probes, without a key", "the gateway itself"),
]
_ERRORS = [
    ("400", "invalid_request", "no JSON, no UTF-8, no model named, not HTTP, more than one Host"),
    ("400", "too_many_tokens", "more tokens are asked for than the cap"),
    ("400", "wrong_protocol", "the model's servers do not speak this protocol"),
    ("401", "invalid_api_key", "no key, or one that nobody has; said before the body is read"),
    ("404", "model_not_found", "no such model, or not for this key"),
    ("404", "not_found", "no such route"),
    ("405", "method_not_allowed", "the route takes another method"),
    ("408", "request_timeout", "the request did not come to its end in time"),
    ("413", "request_too_large", "the body is over `caps.body`"),
    ("431", "head_too_large", "the head is over 64 KiB"),
    ("429", "rate_limit_exceeded", "a limit of the key or of the model is reached; `retry-after` says for how long"),
    ("501", "no_sax", "neither grpcio nor Sax's Python client is installed in the gateway"),
    ("501", "unknown_coding", "a `Transfer-Encoding` other than chunked"),
    (
        "502",
        "backend_failed",
        "all servers that were asked failed before their first byte; or one answered with a page, not with JSON",
    ),
    ("503", "no_backend", "no server of the model is well, nor became so within `timeouts.connect`"),
    ("504", "backend_timeout", "`firstToken`, `idle` or `total` has passed"),
    ("505", "unknown_version", "another HTTP than 1.1 and 1.0"),
]
_WORDS = [
    (types.Port, "port; 0 for any free one"),
    (types.Positive, "number, 1 or more"),
    (types.Natural, "number, 0 or more"),
    (types.Share, "share between 0 and 1"),
    (types.Bytes, "size, such as `64Mi`"),
    (types.Digest, "SHA-256"),
    (types.ModelName, "name"),
    (model.Name, "name"),
    (model.Seconds, "length of time, such as `90s`"),
]


def gateway() -> str:
    """The page."""
    routes = _table(("path", "what it is", "served by backends of kind"), _ROUTES)
    errors = _table(("status", "code", "when"), [(status, f"`{code}`", when) for status, code, when in _ERRORS])
    opening = _OPENING.replace("@ROUTES@\n", routes).replace("@ERRORS@\n", errors)
    return page(opening + _table(("name", "kind", "what it counts"), list(_numbers())), GatewaySpec, _WORDS)


def _numbers() -> Iterator[tuple[str, str, str]]:
    measures = Measures()
    gauges.watch(cast("Any", SimpleNamespace(measures=measures)))
    for metric in measures.registry._metrics:
        lines = metric.lines()
        _, _, name, about = next(lines).split(" ", 3)
        yield f"`{name}`", next(lines).rpartition(" ")[2], about


def _table(head: tuple[str, ...], rows: list[tuple[str, str, str]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"
