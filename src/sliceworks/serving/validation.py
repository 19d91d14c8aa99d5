"""Validates a ModelService beyond its schema: accelerators that the engine cannot use, models that do not fit. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.base import names, quantity
from sliceworks.base.errors import InvalidDocument, SliceworksError, UnknownAccelerator
from sliceworks.serving import saxml, vllm
from sliceworks.serving.hardware import ReplicaHardware, resolve_hardware, weights_gib
from sliceworks.serving.sax_classes import SAX_CLASSES, find_sax_class
from sliceworks.specs.documents import DocumentProblem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.base.yaml_documents import Document
    from sliceworks.serving.sax_classes import SaxClass
    from sliceworks.specs.model_service import Accelerator, ModelService, ModelServiceSpec, SaxModel


_MAX_NAME = 40  # names of Jobs, pods and hosts are derived from it
_KINDS = {"saxml": ("tpu",), "triton": ("gpu",), "jetstream": ("tpu",), "vllm": ("tpu", "gpu")}
_PUBLIC = ("-external-", "-gxlb")  # in the names of GKE's public GatewayClasses
_DEVICES = {"tpu": "TPUs", "gpu": "GPUs"}
Path = tuple[str | int, ...]


def parse_valid(document: Document) -> ModelService:
    """The service of a document; raises its first problem, which holds the others."""
    from sliceworks.specs import documents
    from sliceworks.specs.model_service import ModelService

    service = documents.read_as(document, ModelService)
    if problems := validate(service):
        raise InvalidDocument.first_of(problem.to_error(document) for problem in problems)
    return service


def validate(service: ModelService) -> list[DocumentProblem]:
    """All problems of a service."""
    spec, problems = service.spec, [*_check_name(service), *_check_monitoring(service.spec)]
    if spec.accelerator is None:
        return [*problems, *_check_sources(spec), *_check_route(spec)]
    try:
        hardware = resolve_hardware(spec.accelerator)
    except SliceworksError as error:
        path = ("spec", "accelerator", _invalid_field(spec.accelerator, error))
        return [*problems, DocumentProblem(path, error.message, error.hint)]
    problems += [*_check_engine(spec, hardware), *_check_scaling(spec, hardware), *_check_models(spec, hardware)]
    return [*problems, *_check_sources(spec), *_check_route(spec)]


def _problem(path: Path, message: str, hint: str = "") -> DocumentProblem:
    """A problem whose message starts with the field's path."""
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return DocumentProblem(path, f"{steps.removeprefix('.')}: {message}", hint)


def _invalid_field(accelerator: Accelerator, error: SliceworksError) -> str:
    if accelerator.machine_type:
        return "accelerator" if accelerator.accelerator and isinstance(error, UnknownAccelerator) else "machineType"
    if accelerator.topology and not isinstance(error, UnknownAccelerator):
        return "topology"
    return "accelerator" if accelerator.accelerator else "type"


def _check_name(service: ModelService) -> Iterator[DocumentProblem]:
    name = service.metadata.name
    errors = names.dns1035_label_errors(name)
    if errors:
        yield _problem(("metadata", "name"), f"{name!r}: {errors[0]}")
    elif len(name) > _MAX_NAME:
        yield _problem(("metadata", "name"), f"must be at most {_MAX_NAME} characters, got {len(name)}")


def _check_engine(spec: ModelServiceSpec, hardware: ReplicaHardware) -> Iterator[DocumentProblem]:
    path, kind, shape = ("spec", "accelerator"), hardware.shape.kind, hardware.shape
    if kind not in _KINDS[spec.engine]:
        devices = " or ".join(_DEVICES[kind] for kind in _KINDS[spec.engine])
        problem = f"engine {spec.engine} requires {devices}, {shape.type_name} has {_DEVICES[kind]}"
        yield _problem(path, problem, _suggest_engines(kind))
    elif shape.multi_host and spec.engine != "saxml":
        problem = f"engine {spec.engine} requires a single host, {shape.type_name} {shape.topology} has {shape.hosts}"
        yield _problem(path, problem, "use a single-host slice such as v5litepod-8 or v6e-8, or engine saxml")
    elif spec.saxml and not saxml.chip(spec.saxml, hardware):
        hint = f"supported: {', '.join(saxml.CHIPS)}; or set saxml.platformChip"
        yield _problem(path, f"Sax does not support the chips of {shape.type_name}", hint)
    elif spec.saxml and shape.topology not in saxml.TOPOLOGIES:
        yield _problem(path, f"Sax does not support the topology {shape.topology}", "use another topology or a smaller slice")


def _suggest_engines(kind: str) -> str:
    return f"engines for {_DEVICES[kind]}: {', '.join(name for name, kinds in _KINDS.items() if kind in kinds)}"


def _check_monitoring(spec: ModelServiceSpec) -> Iterator[DocumentProblem]:
    if spec.autoscaling and spec.autoscaling.source == "google" and spec.monitoring is None:
        problem = "autoscaling with source google requires monitoring"
        yield _problem(("spec", "monitoring"), problem, "enable monitoring, or set autoscaling.source: prometheus")


def _check_scaling(spec: ModelServiceSpec, hardware: ReplicaHardware) -> Iterator[DocumentProblem]:
    if spec.saxml and spec.autoscaling:
        yield _problem(("spec", "autoscaling"), "not supported with engine saxml, which has no metric to scale by", "set replicas")
    if spec.saxml and spec.canary:
        problem = "not supported with engine saxml: all servers of a cell run the same version"
        yield _problem(("spec", "canary"), problem, "deploy a second service in another cell")
    if spec.surge and hardware.shape.multi_host:
        problem = f"not supported for slices with several hosts, got {hardware.shape.hosts} hosts"
        yield _problem(("spec", "surge"), problem, "deploy a second service, then delete this one")
    if spec.vllm and (tensor_parallel := spec.vllm.tensor_parallel or 0) > hardware.chips_per_host:
        problem = f"must be at most {hardware.chips_per_host}, the chips of {hardware.shape.type_name}, got {tensor_parallel}"
        yield _problem(("spec", "vllm", "tensorParallel"), problem)
    if spec.vllm and (quantization := spec.vllm.quantization):
        supported = vllm.QUANTIZATIONS[hardware.shape.kind]
        if quantization not in supported:
            problem = f"vLLM does not support {quantization} on {_DEVICES[hardware.shape.kind]}"
            yield _problem(("spec", "vllm", "quantization"), problem, f"supported: {', '.join(supported)}")


def _check_models(spec: ModelServiceSpec, hardware: ReplicaHardware) -> Iterator[DocumentProblem]:
    shape = hardware.shape
    for number, model in enumerate(spec.models):
        has_several = spec.engine in ("saxml", "triton")
        path: Path = ("spec", spec.engine, "models", number) if has_several else ("spec", spec.engine, "model")
        class_name = getattr(model, "model_class", "")
        sax_class = find_sax_class(class_name)
        memory = weights_gib(spec, model)
        if sax_class and sax_class.chips and sax_class.chips != shape.chips:
            problem = f"{class_name} requires {sax_class.chips} chips, {shape.type_name} has {shape.chips}"
            yield _problem((*path, "class"), problem, _suggest_slice(sax_class.chips, hardware))
        elif memory is not None and memory > shape.memory:
            problem = f"the weights of {model.name} need about {memory:.0f} GiB, {shape.type_name} has {shape.memory} GiB"
            yield _problem(path, problem, "use a larger slice or a quantized model")


def _suggest_slice(chips: int, hardware: ReplicaHardware) -> str:
    generation = getattr(hardware.shape, "generation", None)
    if generation is None or not generation.topologies(chips):
        return ""
    return f"use {generation.prefix}-{chips * generation.cores}"


def _check_sources(spec: ModelServiceSpec) -> Iterator[DocumentProblem]:
    jetstream = spec.jetstream
    if jetstream and jetstream.loader and not jetstream.bucket:
        yield _problem(("spec", "jetstream", "loader"), "requires a bucket", "set jetstream.bucket")
    elif jetstream and jetstream.loader and not jetstream.model.checkpoint.startswith(f"gs://{jetstream.bucket}/"):
        problem = f"must be in gs://{jetstream.bucket}, the loader's bucket, got {jetstream.model.checkpoint}"
        yield _problem(("spec", "jetstream", "model", "checkpoint"), problem)
    if spec.triton and not spec.triton.repository.startswith("gs://"):
        for number, model in enumerate(spec.triton.models):
            if model.source:
                path = ("spec", "triton", "models", number, "source")
                yield _problem(path, "requires a repository in Cloud Storage to copy the model into")
    yield from validate_sax_models(spec)


def _check_route(spec: ModelServiceSpec) -> Iterator[DocumentProblem]:
    route, path = spec.route, ("spec", "route")
    if route is None:
        return
    if spec.gateway is None and spec.engine != "triton":
        yield _problem(path, f"requires a gateway: engine {spec.engine} does not check API keys", "set spec.gateway")
    has_keys = bool(spec.gateway and spec.gateway.keys)
    if route.via == "istio" and route.exposure == "internal" and not has_keys and "selector" not in route.model_fields_set:
        problem = "Istio's default gateway may be public, and this route requires no API key"
        hint = "set keys of the gateway, or select an internal Istio gateway with route.selector"
        yield _problem((*path, "via"), problem, hint)
    if route.exposure == "internal" and any(word in route.class_name for word in _PUBLIC):
        problem = f"GatewayClass {route.class_name} is public, but exposure is internal"
        yield _problem((*path, "class"), problem, "set exposure: public, or use another class")
    if route.exposure == "public" and not has_keys:
        yield _problem((*path, "exposure"), "public requires API keys", "set keys of the gateway, or exposure: internal")
    if route.exposure == "public" and not route.tls:
        hint = "set route.tls to the Secret with the certificate"
        yield _problem((*path, "exposure"), "public requires TLS: API keys would be sent unencrypted", hint)


_SAX_RELEASE = re.compile(r"/sax-model-server:v(\d+)\.(\d+)[^/]*")
_LLAMA = re.compile(r"LLaMA(\d+)B")
_MODEL_SIZE = re.compile(r"--model-size[= ](\d+)b\b")
_LLAMA_CONVERTER = "saxml.tools.convert_llama_ckpt"
_CONVERTER_COPIES = 4
"""Copies of the 16-bit weights that the Llama converter holds in memory: Sax documents 500 to 600 GB for 70B."""
_DISK_COPIES = 2
"""Copies of the 16-bit weights on disk: the downloaded and the converted checkpoint."""


def validate_sax_models(spec: ModelServiceSpec) -> Iterator[DocumentProblem]:
    """Problems of Sax model classes and conversions."""
    for number, model in enumerate(spec.saxml.models if spec.saxml else ()):
        path, sax_class = ("spec", "saxml", "models", number), find_sax_class(model.model_class)
        if model.convert and model.checkpoint == "None":
            yield _problem((*path, "checkpoint"), "must be a folder in Cloud Storage to convert into, got None")
        yield from _check_release(spec.image or saxml.IMAGE, model.model_class, path)
        if sax_class is not None:
            yield from _check_conversion(model, sax_class, path)


def _check_release(image: str, name: str, path: Path) -> Iterator[DocumentProblem]:
    """The class is in the Sax release of the image; other images may contain any class."""
    match, sax_class = _SAX_RELEASE.search(image), find_sax_class(name)
    if match is None:
        return
    release = int(match[1]), int(match[2])
    known = [other for other, entry in SAX_CLASSES.items() if entry.is_in(release)]
    if sax_class is None:
        closest = names.suggest_name(name, known) or f"known: {', '.join(other for other in known if SAX_CLASSES[other].billions)}"
        hint = f"{closest}; for a class of your own, set spec.image to an image that contains it"
        yield _problem((*path, "class"), f"{name} is not a class of Sax", hint)
    elif not sax_class.is_in(release):
        same = [other for other in known if sax_class.billions and SAX_CLASSES[other][:3] == sax_class[:3]]
        other_release = f"{'a later' if release < sax_class.since else 'an earlier'} release with spec.image"
        hint = f"use {same[0]}, or {other_release}" if same else f"use {other_release}"
        yield _problem((*path, "class"), f"{name} does not exist in Sax {match[1]}.{match[2]}", hint)


def _check_conversion(model: SaxModel, sax_class: SaxClass, path: Path) -> Iterator[DocumentProblem]:
    conversion = model.convert
    if conversion is None:
        return
    if sax_class.bytes == 1 and not conversion.quantize:
        problem = f"{model.model_class} loads 8-bit weights, and the converter writes 16-bit weights"
        yield _problem((*path, "convert"), problem, "set convert.quantize")
    size_option, class_size = _MODEL_SIZE.search(" ".join(conversion.args)), _LLAMA.search(model.model_class)
    if conversion.module == _LLAMA_CONVERTER and size_option and class_size and size_option[1] != class_size[1]:
        problem = f"--model-size={size_option[1]}b does not match {model.model_class}"
        yield _problem((*path, "convert", "args"), problem, f"use --model-size={class_size[1]}b")
    needed = sax_class.billions * 2 * _CONVERTER_COPIES
    if conversion.module == _LLAMA_CONVERTER and float(quantity.parse(conversion.memory)) < needed * 1e9:
        problem = f"must be about {needed:.0f} GB to convert {model.name}, got {conversion.memory}"
        yield _problem((*path, "convert", "memory"), problem, "raise it, and set convert.pool to larger machines")
    size = sax_class.billions * (2 * _DISK_COPIES + (1 if conversion.quantize else 0))
    if conversion.module == _LLAMA_CONVERTER and float(quantity.parse(conversion.disk)) < size * 1e9:
        problem = f"must be about {size:.0f} GB to convert {model.name}, got {conversion.disk}"
        yield _problem((*path, "convert", "disk"), problem, "raise it, and set convert.pool to machines with larger disks")
