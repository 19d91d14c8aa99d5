"""ModelService: an engine that serves models on an accelerator, and its gateway.

document    the document
engines     the settings and models of each engine
components  what services of all engines share: accelerator, autoscaling, identity, gateway, route, canary
"""

from sliceworks.specs.model_service.components import Accelerator, Autoscaling, Canary, Identity, Pool, Route, ServiceGateway
from sliceworks.specs.model_service.document import ModelService, ModelServiceSpec
from sliceworks.specs.model_service.engines import ENGINES, JetStream, Model, Saxml, SaxModel, Triton, TritonModel, Vllm

__all__ = [
    "ENGINES",
    "Accelerator",
    "Autoscaling",
    "Canary",
    "Identity",
    "JetStream",
    "Model",
    "ModelService",
    "ModelServiceSpec",
    "Pool",
    "Route",
    "SaxModel",
    "Saxml",
    "ServiceGateway",
    "Triton",
    "TritonModel",
    "Vllm",
]
