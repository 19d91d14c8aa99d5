"""What is wrong with a ModelService beyond its form: machines that the engine cannot use, models too large for them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sliceworks.base import names
from sliceworks.base.errors import SliceworksError, UnknownAccelerator
from sliceworks.serving import sax_checks, saxml, sizes, vllm
from sliceworks.serving.machines import Machines, machines
from sliceworks.specs.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.base.yamls import Document
    from sliceworks.specs.serving import Accelerator, ModelService, ModelServiceSpec

_LONGEST = 40  # the names of Jobs, pods and hosts follow from it
_KINDS = {"saxml": ("tpu",), "triton": ("gpu",), "jetstream": ("tpu",), "vllm": ("tpu", "gpu")}
_PUBLIC = ("-external-", "-gxlb")  # in the names of Google's classes that have an address of the world
_WORDS = {"tpu": "TPUs", "gpu": "GPUs"}
Path = tuple[str | int, ...]


def checked(document: Document) -> ModelService:
    """The service of a document, with which nothing is wrong; the first finding is raised."""
    from sliceworks.specs import documents
    from sliceworks.specs.serving import ModelService

    service = documents.read_as(document, ModelService)
    for finding in check(service):
        raise finding.told(document)
    return service


def check(service: ModelService) -> list[Finding]:
    """Everything that is wrong."""
    spec, found = service.spec, [*_names(service), *_measured(service.spec)]
    if spec.accelerator is None:
        return [*found, *_buckets(spec), *_routes(spec)]
    try:
        asked = machines(spec.accelerator)
    except SliceworksError as error:
        return [*found, Finding(("spec", "accelerator", _field(spec.accelerator, error)), error.message, error.hint)]
    return [*found, *_engine(spec, asked), *_scaling(spec, asked), *_models(spec, asked), *_buckets(spec), *_routes(spec)]


def _field(accelerator: Accelerator, error: SliceworksError) -> str:
    if accelerator.machine_type:
        return "accelerator" if accelerator.accelerator and isinstance(error, UnknownAccelerator) else "machineType"
    if accelerator.topology and not isinstance(error, UnknownAccelerator):
        return "topology"
    return "accelerator" if accelerator.accelerator else "type"


def _names(service: ModelService) -> Iterator[Finding]:
    name = service.metadata.name
    wrong = names.dns1035_label_errors(name)
    if wrong:
        yield Finding(("metadata", "name"), f"{name!r}: {wrong[0]}")
    elif len(name) > _LONGEST:
        yield Finding(("metadata", "name"), f"the name {name} is too long", f"take one of {_LONGEST} characters at most")


def _engine(spec: ModelServiceSpec, asked: Machines) -> Iterator[Finding]:
    path, kind, shape = ("spec", "accelerator"), asked.shape.kind, asked.shape.type_name
    if kind not in _KINDS[spec.engine]:
        wanted = " or ".join(_WORDS[each] for each in _KINDS[spec.engine])
        yield Finding(path, f"{spec.engine} runs on {wanted}, {shape} has {_WORDS[kind]}", _other_engine(kind))
    elif asked.shape.multi_host and spec.engine != "saxml":
        remedy = "take a slice of one host such as v5litepod-8 or v6e-8, or engine saxml"
        yield Finding(path, f"{spec.engine} serves from one host, {shape} {asked.shape.topology} has {asked.shape.hosts}", remedy)
    elif spec.saxml and not saxml.chip(spec.saxml, asked):
        known = ", ".join(saxml.CHIPS)
        yield Finding(path, f"Sax has no name for the chips of {shape}", f"it knows {known}; or say saxml.platformChip")
    elif spec.saxml and asked.shape.topology not in saxml.TOPOLOGIES:
        yield Finding(path, f"Sax does not know slices of {asked.shape.topology}", "take another topology, or a smaller slice")


def _other_engine(kind: str) -> str:
    return f"engines on {_WORDS[kind]}: {', '.join(name for name, kinds in _KINDS.items() if kind in kinds)}"


def _measured(spec: ModelServiceSpec) -> Iterator[Finding]:
    if spec.autoscaling and spec.autoscaling.source == "google" and spec.monitoring is None:
        problem = "nobody would read what it scales by"
        yield Finding(("spec", "monitoring"), problem, "leave monitoring as it is, or take source: prometheus")


def _scaling(spec: ModelServiceSpec, asked: Machines) -> Iterator[Finding]:
    if spec.saxml and spec.autoscaling:
        yield Finding(("spec", "autoscaling"), "Sax has no gauge to scale by", "say how many replicas there are")
    if spec.saxml and spec.canary:
        yield Finding(("spec", "canary"), "all servers of a Sax cell are alike", "deploy a second service in a cell of its own")
    if spec.spare and asked.shape.multi_host:
        problem = f"a slice of {asked.shape.hosts} hosts is replaced host by host"
        yield Finding(("spec", "spare"), problem, "deploy a second service beside this one, and delete this one after")
    if spec.vllm and (spec.vllm.tensor_parallel or 0) > asked.chips_per_host:
        wanted, has = spec.vllm.tensor_parallel, asked.chips_per_host
        yield Finding(("spec", "vllm", "tensorParallel"), f"{asked.shape.type_name} has {has} chips, not {wanted}")
    if spec.vllm and spec.vllm.quantization and spec.vllm.quantization not in vllm.QUANTIZATIONS[asked.shape.kind]:
        problem = f"vLLM has no {spec.vllm.quantization} on {_WORDS[asked.shape.kind]}"
        remedy = f"it has {' and '.join(vllm.QUANTIZATIONS[asked.shape.kind])} there"
        yield Finding(("spec", "vllm", "quantization"), problem, remedy)


def _models(spec: ModelServiceSpec, asked: Machines) -> Iterator[Finding]:
    has, shape = asked.shape.memory, asked.shape.type_name
    for number, model in enumerate(spec.models):
        path: Path = (
            ("spec", spec.engine, "models", number) if spec.engine in ("saxml", "triton") else ("spec", spec.engine, "model")
        )
        kind = getattr(model, "model_class", "")
        known = sizes.sax_class(kind)
        needs = sizes.weights(spec, model)
        if known and known.chips and known.chips != asked.shape.chips:
            problem = f"class {kind} is laid out for {known.chips} chips, {shape} has {asked.shape.chips}"
            yield Finding((*path, "class"), problem, _fitting(known.chips, asked))
        elif needs is not None and needs > has:
            problem = f"the weights of {model.name} take about {needs:.0f} GiB, {shape} has {has} GiB"
            yield Finding(path, problem, "take a larger slice, or a quantized model")


def _fitting(chips: int, asked: Machines) -> str:
    generation = getattr(asked.shape, "generation", None)
    if generation is None or not generation.topologies(chips):
        return ""
    return f"take {generation.prefix}-{chips * generation.cores}"


def _buckets(spec: ModelServiceSpec) -> Iterator[Finding]:
    part = spec.jetstream
    if part and part.loader and not part.bucket:
        yield Finding(("spec", "jetstream", "loader"), "the loader needs a bucket", "say jetstream.bucket")
    elif part and part.loader and not part.model.checkpoint.startswith(f"gs://{part.bucket}/"):
        problem = f"the loader fills gs://{part.bucket}, the checkpoint is read from {part.model.checkpoint}"
        yield Finding(("spec", "jetstream", "model", "checkpoint"), problem)
    if spec.triton and not spec.triton.repository.startswith("gs://"):
        for number, model in enumerate(spec.triton.models):
            if model.source:
                yield Finding(
                    ("spec", "triton", "models", number, "source"), "models are copied only into a repository in a bucket"
                )
    yield from sax_checks.findings(spec)


def _routes(spec: ModelServiceSpec) -> Iterator[Finding]:
    route, path = spec.route, ("spec", "route")
    if route is None:
        return
    if spec.gateway is None and spec.engine != "triton":
        yield Finding(path, f"{spec.engine} has no keys of its own", "a route to it needs a gateway")
    keys = bool(spec.gateway and spec.gateway.keys)
    if route.via == "istio" and route.exposure == "internal" and not keys and "selector" not in route.model_fields_set:
        remedy = "give the gateway keys, or name an internal one with route.selector"
        yield Finding((*path, "via"), "Istio's usual gateway may be open to the world, and nobody would be asked for a key", remedy)
    if route.exposure == "internal" and any(word in route.class_name for word in _PUBLIC):
        problem = f"class {route.class_name} is open to the world, and exposure says that it is not"
        yield Finding((*path, "class"), problem, "say exposure: public, or take another class")
    if route.exposure == "public" and not keys:
        yield Finding((*path, "exposure"), "whoever finds the address could call it", "give the gateway keys, or make it internal")
    if route.exposure == "public" and not route.tls:
        yield Finding((*path, "exposure"), "keys would travel in the clear", "give route.tls, the Secret with the certificate")
