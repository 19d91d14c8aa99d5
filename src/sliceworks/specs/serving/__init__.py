"""ModelService: an engine that serves models on an accelerator, and the gateway that leads to it."""

from sliceworks.specs.serving.document import ModelService, ModelServiceSpec
from sliceworks.specs.serving.engines import ENGINES, JetStream, Model, Saxml, SaxModel, Triton, TritonModel, Vllm
from sliceworks.specs.serving.parts import Accelerator, Autoscaling, Canary, Front, Identity, Pool, Route

__all__ = [
    "ENGINES",
    "Accelerator",
    "Autoscaling",
    "Canary",
    "Front",
    "Identity",
    "JetStream",
    "Model",
    "ModelService",
    "ModelServiceSpec",
    "Pool",
    "Route",
    "SaxModel",
    "Saxml",
    "Triton",
    "TritonModel",
    "Vllm",
]
