"""The protocols that the gateway speaks to its clients, one module each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sliceworks.serving.gateway.app import Application, Face


def all_faces(application: Application) -> list[Face]:
    """All of them."""
    from sliceworks.serving.gateway.faces.inference import Inference
    from sliceworks.serving.gateway.faces.jetstream import JetStream
    from sliceworks.serving.gateway.faces.openai import OpenAi
    from sliceworks.serving.gateway.faces.probes import Probes
    from sliceworks.serving.gateway.faces.sax import Sax

    return [Probes(application), OpenAi(application), Inference(application), JetStream(application), Sax(application)]
