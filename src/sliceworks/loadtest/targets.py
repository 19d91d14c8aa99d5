"""What a load test may leave out because the model service that it names tells it: the API, and the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from sliceworks.specs.load_test import LoadTestSpec
    from sliceworks.specs.serving import ModelService

GATEWAY = "vllm"
"""The protocol that a gateway speaks, whatever engine is behind it."""
_CHAT = "openai-chat"
_APIS = {GATEWAY: _CHAT, "jetstream": "jetstream", "triton": "oip-generate"}


def api(spec: LoadTestSpec, protocol: str) -> str:
    """The document's own, else the one that fits what the server speaks."""
    if "api" in spec.model_fields_set:
        return spec.api
    return "oip-infer" if spec.infer is not None else _APIS.get(protocol, _CHAT)


def model(spec: LoadTestSpec, service: ModelService, place: str) -> str:
    """The document's own, else the only one that is served; `place` is where it should have been said."""
    served = [each.name for each in service.spec.models]
    if not spec.model and len(served) != 1:
        raise InvalidDocument(f"{service.metadata.name} serves {', '.join(served)}", place=place, hint="say which: spec.model")
    return spec.model or served[0]
