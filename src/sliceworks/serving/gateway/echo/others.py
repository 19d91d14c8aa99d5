"""The routes of the Open Inference Protocol, of JetStream and of Sax that the echo model has."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import orjson

from sliceworks.base.http.messages import EVENTS, JSON
from sliceworks.base.http.refusals import Refusal, malformed
from sliceworks.serving.gateway.peek import parse
from sliceworks.serving.gateway.refusals import no_route, unknown_model

if TYPE_CHECKING:
    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.reply import Reply
    from sliceworks.serving.gateway.echo.engine import Engine, Record
    from sliceworks.serving.gateway.echo.openai import Route

_PATH = re.compile(r"/v2/models/(?P<model>[^/]+)(?P<version>/versions/[0-9]+)?(?P<rest>/[a-z_]+)?")
_LOADING = re.compile(r"/v2/repository/models/(?P<model>[^/]+)/(?P<verb>load|unload)")


async def live(engine: Engine, request: Request, reply: Reply) -> None:
    """It is well."""
    reply.send(200, [])


async def about(engine: Engine, request: Request, reply: Reply) -> None:
    """What it is."""
    reply.send(200, [JSON], orjson.dumps({"name": "echo", "version": "1", "extensions": ["generate"]}))


async def model(engine: Engine, request: Request, reply: Reply) -> None:
    """A route of one model."""
    match = _PATH.fullmatch(request.path)
    rest = (match["rest"] or "") if match else "?"
    if (
        match is None
        or (request.method == "POST") != (rest in _POSTS)
        or (rest not in _POSTS and rest not in {"", "/ready", "/config"})
    ):
        raise no_route(request.method, request.path)
    name = unquote(match["model"])
    if not engine.serves(name):
        raise unknown_model(name)
    if rest in _POSTS:
        await _POSTS[rest](engine, request, reply, name)
    elif rest == "/ready":
        reply.send(200, [])
    else:
        shape = {"name": "text_input", "datatype": "BYTES", "shape": [1]}
        told = {
            "name": name,
            "versions": ["1"],
            "platform": "echo",
            "inputs": [shape],
            "outputs": [{**shape, "name": "text_output"}],
        }
        reply.send(200, [JSON], orjson.dumps(told))


async def index(engine: Engine, request: Request, reply: Reply) -> None:
    """The models that are loaded, as Triton's repository lists them."""
    listed = [{"name": name, "version": "1", "state": "READY"} for name in engine.models]
    reply.send(200, [JSON], orjson.dumps(listed))


async def repository(engine: Engine, request: Request, reply: Reply) -> None:
    """A model is loaded or unloaded: one of any name is in this repository."""
    match = _LOADING.fullmatch(request.path)
    if match is None or request.method != "POST":
        raise no_route(request.method, request.path)
    name = unquote(match["model"])
    if match["verb"] == "load":
        engine.models[name] = None
    else:
        engine.models.pop(name, None)
    reply.send(200, [])


async def _infer(engine: Engine, request: Request, reply: Reply, name: str) -> None:
    """Tensors come back as they were sent."""
    if "inference-header-content-length" in request.headers:
        raise malformed("the echo model takes tensors as JSON only")
    data = _parsed(request)
    inputs = data.get("inputs")
    if not isinstance(inputs, list) or not inputs or not all(isinstance(each, dict) and "name" in each for each in inputs):
        raise malformed("inputs must be a list of tensors")
    record = engine.arrive("infer", name, "", len(request.body))
    await engine.think(record, 1)
    outputs = [{**tensor, "name": str(tensor["name"]).replace("INPUT", "OUTPUT")} for tensor in inputs]
    told = {"model_name": name, "model_version": "1", "outputs": outputs}
    reply.send(200, [JSON], orjson.dumps({**told, **({"id": data["id"]} if "id" in data else {})}))


async def _generate(engine: Engine, request: Request, reply: Reply, name: str) -> None:
    words, record = _prompt(engine, request, name)
    await engine.think(record, len(words))
    reply.send(200, [JSON], orjson.dumps({"model_name": name, "model_version": "1", "text_output": "".join(words)}))


async def _generate_stream(engine: Engine, request: Request, reply: Reply, name: str) -> None:
    words, record = _prompt(engine, request, name)
    reply.begin(200, [EVENTS])
    told = {"model_name": name, "model_version": "1"}
    await engine.say(record, reply, words, lambda word: b"data: " + orjson.dumps({**told, "text_output": word}) + b"\n\n")


def _parsed(request: Request) -> dict[str, Any]:
    """The body. Triton blames itself for one that is no JSON, and so does what stands in for it."""
    try:
        return parse(request.body)
    except Refusal as refusal:
        raise Refusal(500, refusal.code, f"failed to parse the request JSON buffer: {refusal.message}") from refusal


def _prompt(engine: Engine, request: Request, name: str) -> tuple[list[str], Record]:
    data = _parsed(request)
    prompt = data.get("text_input")
    if not isinstance(prompt, str):
        raise malformed("text_input is missing")
    parameters = data.get("parameters") if isinstance(data.get("parameters"), dict) else data
    assert isinstance(parameters, dict)
    record = engine.arrive(request.path.rpartition("/")[2], name, prompt, len(request.body))
    return engine.words(prompt, parameters.get("max_tokens")), record


_POSTS = {"/infer": _infer, "/generate": _generate, "/generate_stream": _generate_stream}


async def jetstream(engine: Engine, request: Request, reply: Reply) -> None:
    """JetStream's stream: objects one after another, with nothing between them, called events all the same."""
    data = parse(request.body)
    content = data.get("text_content")
    if not isinstance(content, dict) or not isinstance(content.get("text"), str):
        raise malformed("text_content.text is missing")
    record = engine.arrive(request.path, engine.settings.models[0], content["text"], len(request.body))
    words = engine.words(content["text"], data.get("max_tokens"))
    reply.begin(200, [EVENTS])
    await engine.say(record, reply, words, _sample)


def _sample(word: str) -> bytes:
    return orjson.dumps({"streamContent": {"samples": [{"text": word, "tokenIds": [len(word)]}]}}, option=orjson.OPT_INDENT_2)


async def jetstream_health(engine: Engine, request: Request, reply: Reply) -> None:
    """JetStream answers with a text, always."""
    reply.send(200, [JSON], orjson.dumps({"is_live": "True"}))


async def sax(engine: Engine, request: Request, reply: Reply) -> None:
    """What the gateway answers for a Sax model: texts with their scores."""
    data = parse(request.body)
    prompt, options = data.get("prompt"), data.get("model_options") or {}
    if not isinstance(prompt, str) or not isinstance(options, dict):
        raise malformed("prompt must be a text and model_options an object")
    record = engine.arrive(request.path, str(data.get("model_id", "")), prompt, len(request.body))
    words = engine.words(prompt, options.get("per_example_max_decode_steps"))
    await engine.think(record, len(words))
    reply.send(200, [JSON], orjson.dumps({"completions": [["".join(words), 0.0]]}))


ROUTES: dict[tuple[str, str], Route] = {
    ("GET", "/v2"): about,
    ("POST", "/v2/repository/index"): index,
    ("GET", "/v2/health/live"): live,
    ("GET", "/v2/health/ready"): live,
    ("POST", "/generate"): sax,
    ("POST", "/v1/generate"): jetstream,
    ("GET", "/v1/health"): jetstream_health,
}
