"""The routes of the Sax proxy: text and scores for whoever has a key. What changes models is on the admin port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import orjson

from sliceworks.base.http.messages import JSON
from sliceworks.base.http.refusals import Refusal, malformed
from sliceworks.serving.gateway.calls import Call
from sliceworks.serving.gateway.peek import parse
from sliceworks.serving.gateway.talking import sax_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.reply import Reply
    from sliceworks.serving.gateway.app import Application
    from sliceworks.serving.gateway.calls import Served
    from sliceworks.serving.gateway.keys import Caller
    from sliceworks.serving.gateway.sax import Client

    Act = Callable[[Client, str, float], dict[str, Any]]


class Sax:
    """`/generate`, `/score` and `/listcell`. A model goes by its name here or by its path in the cell."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def routes(self) -> Mapping[str, str]:
        """What asks and changes nothing."""
        return {"/generate": "POST", "/score": "POST", "/listcell": "GET"}

    async def answer(self, request: Request, reply: Reply, caller: Caller) -> None:
        """Answer by Sax's client."""
        data = parse(request.body) if request.method == "POST" else {}
        name = data.get("model_id") or parse_qs(request.query).get("model_id", [None])[0]
        served = self._model(name, caller)
        call = Call(request, reply, caller, served, request.path[1:], request.path, request.body)
        act = {"/generate": self._generate, "/score": self._score, "/listcell": self._list}[request.path](served, data)
        await self._application.carry(call, lambda: self._answer(call, act))

    def _model(self, name: Any, caller: Caller) -> Served:
        if not isinstance(name, str) or not name:
            raise malformed("say which model: model_id is missing", param="model_id")
        for served in self._application.state.visible(caller):
            if served.model.kind == "sax" and name in {each.backend.url for each in served.group.servers}:
                return served
        served = self._application.model(name, caller)
        if served.model.kind != "sax":
            raise malformed(f"the model {served.name!r} is not served by Sax")
        return served

    async def _answer(self, call: Call, act: Act) -> None:
        server = await call.another([])
        server.began(call)
        failed, judged = True, False
        try:
            left = call.left
            told = await self._application.saxes.call(lambda client: act(client, server.backend.url, left), left)
            failed, judged = False, True
        except Refusal as refusal:
            judged = refusal.status in {500, 504}
            raise
        finally:
            server.ended(call, failed=failed, judged=judged)
        call.reply.send(200, [JSON, *call.told_back()], orjson.dumps(told))

    def _generate(self, served: Served, data: dict[str, Any]) -> Act:
        prompt, given = data.get("prompt"), data.get("model_options") or {}
        if not isinstance(prompt, str) or not isinstance(given, dict):
            raise malformed("prompt must be a text and model_options an object")
        steps: Any = given.get("per_example_max_decode_steps") or served.max_tokens
        if not isinstance(steps, int | None):
            raise malformed("per_example_max_decode_steps must be a whole number")
        if served.max_tokens is not None and (steps or 0) > served.max_tokens:
            raise Refusal(400, "too_many_tokens", f"per_example_max_decode_steps is at most {served.max_tokens} here")
        options = sax_options(given, steps)
        return lambda client, path, left: {"completions": client.generate(path, prompt, options, left)}

    def _score(self, served: Served, data: dict[str, Any]) -> Act:
        prefix, suffixes = data.get("prefix", data.get("prompt")), data.get("suffix", data.get("suffixes"))
        suffixes = [suffixes] if isinstance(suffixes, str) else suffixes
        if not isinstance(prefix, str) or not isinstance(suffixes, list) or not all(isinstance(each, str) for each in suffixes):
            raise malformed("prefix must be a text and suffix a text or a list of texts")
        return lambda client, path, left: {"scores": client.score(path, prefix, suffixes, left)}

    def _list(self, served: Served, data: dict[str, Any]) -> Act:
        return lambda client, path, _: client.details(path)
