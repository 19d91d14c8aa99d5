"""`models invoke`: send a prompt, an image or tensors to a model and stream its response."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base.errors import UsageError
from sliceworks.cli import options

if TYPE_CHECKING:
    from sliceworks.kube import Client
    from sliceworks.serving.record import Record
    from sliceworks.serving.service_endpoint import Connection

Object = dict[str, Any]
_WHAT = "What is in this picture?"


@click.command(short_help="Send a prompt, an image or tensors to a model.")
@click.argument("name")
@click.argument("prompt", required=False)
@click.option("--model", metavar="NAME", help="Model to use, if the service has several.")
@click.option(
    "--image", "images", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Image for a vision model. vLLM: repeatable, with a prompt.",
)  # fmt: skip
@click.option(
    "--data", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Triton: JSON file with the request body."
)
@click.option(
    "--scaling",
    type=click.Choice(["inception", "vgg", "none"]),
    default="inception",
    show_default=True,
    help="Scaling of pixel values.",
)
@click.option("--top", type=click.IntRange(1, 100), default=3, show_default=True, help="Number of classes to print for an image.")
@click.option(
    "--max-tokens", type=click.IntRange(1), default=128, show_default=True, help="Maximum number of tokens in the response."
)
@click.option("--temperature", type=click.FloatRange(0, 2), help="Sampling temperature.")
@click.option("--key", envvar="SLICEWORKS_GATEWAY_KEY", help="Gateway key.  [default: $SLICEWORKS_GATEWAY_KEY]")
@click.option("--url", metavar="URL", help="URL of the gateway.  [default: through the cluster]")
@options.namespace
@options.cluster
@options.quiet
def invoke(*, name: str, prompt: str | None, namespace: str, **flags: Any) -> int:
    """Send a prompt (- for stdin), an image or tensors to a model through its gateway."""
    from sliceworks.cli import connections

    has_prompt = prompt is not None or bool(flags["images"])
    if has_prompt == (flags["data"] is not None):
        raise UsageError(
            "--data cannot be combined with a prompt or --image" if has_prompt else "a prompt, --image or --data is required"
        )
    if flags["url"] and not flags["url"].startswith(("http://", "https://")):
        raise UsageError(f"--url: {flags['url']!r} is not a valid URL", hint="example: https://models.example.com")
    prompt = _read_prompt(prompt) if prompt is not None else None

    async def invoke_model(client: Client) -> None:
        from sliceworks.serving import cluster

        record = await cluster.get_record(client, name, client.namespace)
        connection = await _connect(client, record, flags["url"])
        await _ask(connection, record, prompt, flags)

    connections.run_on_cluster(invoke_model, flags, namespace)
    return 0


async def _connect(client: Client, record: Record, url: str | None) -> Connection:
    from sliceworks.serving import service_endpoint

    return (
        service_endpoint.DirectConnection(url)
        if url
        else await service_endpoint.connect(client, service_endpoint.find_endpoint(record))
    )


async def _ask(connection: Connection, record: Record, prompt: str | None, flags: Object) -> None:
    from sliceworks.serving import engine_protocol, image_input

    engine, model = record.service.spec.engine, _model(record, flags["model"])
    # A gateway speaks OpenAI's protocol for every engine.
    protocol = "vllm" if record.service.spec.gateway else engine
    key = {"x-api-key": flags["key"]} if flags["key"] else {}
    if flags["data"] or (flags["images"] and engine == "triton"):
        _check_tensors(record, prompt, flags)
        await (_infer if flags["data"] else _invoke_vision)(connection, model, key, flags)
        return
    if flags["images"] and engine != "vllm":
        raise UsageError(f"--image requires Triton or vLLM, {record.service.metadata.name} uses {engine}")
    options = engine_protocol.SamplingOptions(flags["max_tokens"], flags["temperature"])
    shown = [image_input.data_url(image) for image in flags["images"]]
    question = engine_protocol.text_request(protocol, model, prompt or _WHAT, options, shown)
    async for piece in question.read_text(connection.stream("POST", question.path, question.body, {**question.headers, **key})):
        click.echo(piece, nl=False)
    click.echo()


def _read_prompt(prompt: str) -> str:
    """Return the prompt, read from stdin if it is `-`."""
    raw = sys.stdin.buffer.read() if prompt == "-" else prompt.encode(errors="surrogateescape")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError("the prompt is not valid UTF-8", hint=f"invalid byte at offset {error.start}") from error
    if not text.strip():
        raise UsageError("the prompt is empty")
    return text


def _check_tensors(record: Record, prompt: str | None, flags: Object) -> None:
    """Raise if the options do not fit Triton or the service's engine."""
    if record.service.spec.engine != "triton":
        raise UsageError(f"--data requires Triton, {record.service.metadata.name} uses {record.service.spec.engine}")
    if prompt is not None or len(flags["images"]) > 1:
        raise UsageError("Triton accepts one --image and no prompt")


def _model(record: Record, requested: str | None) -> str:
    from sliceworks.serving import publication

    if requested:
        publication.require_model(record, requested)
        return requested
    served = [model.name for model in record.service.spec.models]
    if len(served) > 1:
        raise UsageError(f"{record.service.metadata.name} serves {', '.join(served)}", hint="choose one with --model")
    return served[0]


async def _invoke_vision(connection: Connection, model: str, key: dict[str, str], flags: Object) -> None:
    """Classify an image."""
    from urllib.parse import quote

    import orjson

    from sliceworks.base import tables
    from sliceworks.serving import engine_protocol, image_input, service_endpoint

    described = orjson.loads(await service_endpoint.read_all(connection, "GET", f"/v2/models/{quote(model, safe='')}", headers=key))
    question = engine_protocol.infer_request(
        model, image_input.infer_body(described, flags["images"][0], flags["scaling"], flags["top"])
    )
    answer = orjson.loads(
        await service_endpoint.read_all(connection, "POST", question.path, question.body, {**question.headers, **key})
    )
    rows = [(f"{score:.4f}", number, label) for score, number, label in image_input.read_classes(answer)]
    click.echo(tables.render(("score", "class", "label"), rows), nl=False)


async def _infer(connection: Connection, model: str, key: dict[str, str], flags: Object) -> None:
    import orjson

    from sliceworks.serving import engine_protocol, service_endpoint

    try:
        body = orjson.loads(flags["data"].read_bytes())
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{flags['data']} is not valid JSON: {error}") from error
    question = engine_protocol.infer_request(model, body)
    answer = orjson.loads(
        await service_endpoint.read_all(connection, "POST", question.path, question.body, {**question.headers, **key})
    )
    click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
