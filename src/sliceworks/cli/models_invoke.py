"""`sliceworks models invoke`: ask a model, and see its answer as it comes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from sliceworks.base.errors import UsageError
from sliceworks.cli import options

if TYPE_CHECKING:
    from sliceworks.kube import Client
    from sliceworks.serving.reaching import Way
    from sliceworks.serving.record import Record

Object = dict[str, Any]
_WHAT = "What is in this picture?"


@click.command(short_help="Ask a model: a prompt, a picture, or tensors.")
@click.argument("name")
@click.argument("prompt", required=False)
@click.option("--model", metavar="NAME", help="Which of its models, where it serves several.")
@click.option(
    "--image", "images", multiple=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A picture for a vision model; vLLM: beside a prompt, and several of them.",
)  # fmt: skip
@click.option("--data", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Triton: a request's body as JSON.")
@click.option(
    "--scaling", type=click.Choice(["inception", "vgg", "none"]), default="inception", show_default=True, help="Of colours."
)
@click.option("--top", type=click.IntRange(1, 100), default=3, show_default=True, help="How many classes of a picture.")
@click.option("--max-tokens", type=click.IntRange(1), default=128, show_default=True, help="The longest answer.")
@click.option("--temperature", type=click.FloatRange(0, 2), help="How free the answer is.")
@click.option("--key", envvar="SLICEWORKS_GATEWAY_KEY", help="The gateway's key.  [default: $SLICEWORKS_GATEWAY_KEY]")
@click.option("--url", metavar="URL", help="Where the gateway is.  [default: through the cluster]")
@options.namespace
@options.cluster
@options.quiet
def invoke(*, name: str, prompt: str | None, namespace: str, **given: Any) -> int:
    """Ask a model through its gateway: with a prompt (- for what is piped in), a picture, or tensors."""
    from sliceworks.cli import connections

    asked = prompt is not None or bool(given["images"])
    if asked == (given["data"] is not None):
        raise UsageError("give a prompt or --image, or --data alone" if asked else "give a prompt, --image or --data")
    if given["url"] and not given["url"].startswith(("http://", "https://")):
        raise UsageError(f"{given['url']!r} is no address", hint="such as https://models.example.com")
    prompt = _said(prompt) if prompt is not None else None

    async def ask(client: Client) -> None:
        from sliceworks.serving import cluster

        record = await cluster.one_record(client, name, client.namespace)
        way = await _way(client, record, given["url"])
        await _ask(way, record, prompt, given)

    connections.on_cluster(ask, given, namespace)
    return 0


async def _way(client: Client, record: Record, url: str | None) -> Way:
    from sliceworks.serving import doors, reaching

    return reaching.Direct(url) if url else await reaching.way_to(client, doors.door(record))


async def _ask(way: Way, record: Record, prompt: str | None, given: Object) -> None:
    from sliceworks.serving import asking, pictures

    engine, model = record.service.spec.engine, _model(record, given["model"])
    # A gateway speaks OpenAI's protocol for every engine.
    protocol = "vllm" if record.service.spec.gateway else engine
    key = {"x-api-key": given["key"]} if given["key"] else {}
    if given["data"] or (given["images"] and engine == "triton"):
        _check_tensors(record, prompt, given)
        await (_infer if given["data"] else _see)(way, model, key, given)
        return
    if given["images"] and engine != "vllm":
        raise UsageError(f"--image is for Triton and vLLM, {record.service.metadata.name} runs on {engine}")
    wishes = asking.Wishes(given["max_tokens"], given["temperature"])
    shown = [pictures.as_url(each) for each in given["images"]]
    question = asking.text(protocol, model, prompt or _WHAT, wishes, shown)
    async for piece in question.read(way.pieces("POST", question.path, question.body, {**question.headers, **key})):
        click.echo(piece, nl=False)
    click.echo()


def _said(prompt: str) -> str:
    """The prompt itself, or what is piped in."""
    raw = sys.stdin.buffer.read() if prompt == "-" else prompt.encode(errors="surrogateescape")
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise UsageError("the prompt is no text", hint=f"it must be UTF-8; byte {error.start} is not") from error
    if not text.strip():
        raise UsageError("the prompt is empty")
    return text


def _check_tensors(record: Record, prompt: str | None, given: Object) -> None:
    """What a model of tensors can be asked."""
    if record.service.spec.engine != "triton":
        raise UsageError(f"--data is for Triton, {record.service.metadata.name} runs on {record.service.spec.engine}")
    if prompt is not None or len(given["images"]) > 1:
        raise UsageError("Triton is asked about one picture, without a prompt")


def _model(record: Record, wanted: str | None) -> str:
    from sliceworks.serving import editing

    if wanted:
        editing.known(record, wanted)
        return wanted
    served = [each.name for each in record.service.spec.models]
    if len(served) > 1:
        raise UsageError(f"{record.service.metadata.name} serves {', '.join(served)}", hint="say which with --model")
    return served[0]


async def _see(way: Way, model: str, key: dict[str, str], given: Object) -> None:
    """What is in a picture."""
    from urllib.parse import quote

    import orjson

    from sliceworks.base import tables
    from sliceworks.serving import asking, pictures, reaching

    described = orjson.loads(await reaching.whole(way, "GET", f"/v2/models/{quote(model, safe='')}", headers=key))
    question = asking.tensors(model, pictures.question(described, given["images"][0], given["scaling"], given["top"]))
    answer = orjson.loads(await reaching.whole(way, "POST", question.path, question.body, {**question.headers, **key}))
    rows = [(f"{score:.4f}", number, label) for score, number, label in pictures.classes(answer)]
    click.echo(tables.render(("score", "class", "label"), rows), nl=False)


async def _infer(way: Way, model: str, key: dict[str, str], given: Object) -> None:
    import orjson

    from sliceworks.serving import asking, reaching

    try:
        body = orjson.loads(given["data"].read_bytes())
    except orjson.JSONDecodeError as error:
        raise UsageError(f"{given['data']} is no JSON: {error}") from error
    question = asking.tensors(model, body)
    answer = orjson.loads(await reaching.whole(way, "POST", question.path, question.body, {**question.headers, **key}))
    click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2))
