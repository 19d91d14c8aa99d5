"""Defaults that a model service gives a load test, and the variables that pass secrets to workers. Imports nothing heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base.errors import InvalidDocument

if TYPE_CHECKING:
    from sliceworks.specs.load_test import LoadTestSpec
    from sliceworks.specs.model_service import ModelService

GATEWAY_PROTOCOL = "vllm"
"""The API of a gateway, for every engine."""

_CHAT = "openai-chat"
_APIS = {GATEWAY_PROTOCOL: _CHAT, "jetstream": "jetstream", "triton": "oip-generate"}


def default_api(spec: LoadTestSpec, protocol: str) -> str:
    """The document's API, or the engine's default."""
    if "api" in spec.model_fields_set:
        return spec.api
    return "oip-infer" if spec.infer is not None else _APIS.get(protocol, _CHAT)


def default_model(spec: LoadTestSpec, service: ModelService, place: str) -> str:
    """The document's model, or the only one served; `place` is the field for the error."""
    served = [model.name for model in service.spec.models]
    if not spec.model and len(served) != 1:
        raise InvalidDocument(f"{service.metadata.name} serves {', '.join(served)}", place=place, hint="set spec.model")
    return spec.model or served[0]


KEY_VARIABLE = "SLICEWORKS_LOAD_KEY"
"""Variable with the key for the target."""

PASSWORD_VARIABLE = "SLICEWORKS_LOAD_PASSWORD"
"""Variable with the password of Locust's web UI."""

AGENT_TOKEN_VARIABLE = "SLICEWORKS_LOAD_TOKEN"
"""Variable with the token of the agents."""

CLOUD_VARIABLE = "SLICEWORKS_LOAD_CLOUD"
"""Variable with the endpoint and token of another cloud, as JSON."""
