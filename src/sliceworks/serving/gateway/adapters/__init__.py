"""API adapters, one module for each API that clients speak to the gateway.

openai          chat, completions, embeddings and models, translated for backends that do not speak OpenAI's API
open_inference  the Open Inference Protocol, version 2, as Triton speaks it
jetstream       JetStream's generate route
sax             the routes of the Sax proxy
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from sliceworks.serving.gateway.adapters.jetstream import JetStreamAdapter
from sliceworks.serving.gateway.adapters.open_inference import OpenInferenceAdapter
from sliceworks.serving.gateway.adapters.openai import OpenAIAdapter
from sliceworks.serving.gateway.adapters.sax import SaxAdapter

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.base.http.messages import Request
    from sliceworks.base.http.response_writer import ResponseWriter
    from sliceworks.serving.gateway.router import Router
    from sliceworks.serving.gateway.state import Caller


class Adapter(Protocol):
    """The routes of one API."""

    def routes(self) -> Mapping[str, str]:
        """Allowed methods by path. A path that ends in / matches all paths with that prefix."""
        ...

    async def handle(self, request: Request, response: ResponseWriter, caller: Caller) -> None:
        """Respond to a request for one of the routes."""
        ...


def create_adapters(router: Router) -> list[Adapter]:
    """The adapters of all APIs."""
    return [OpenAIAdapter(router), OpenInferenceAdapter(router), JetStreamAdapter(router), SaxAdapter(router)]
