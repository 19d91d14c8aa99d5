"""Changes of a recorded document: a model more, a model less, another checkpoint. Pure: documents in, documents out."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from sliceworks.base.errors import SliceworksError, UsageError
from sliceworks.base.words import closest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sliceworks.serving.record import Record

Object = dict[str, Any]
SEVERAL = ("saxml", "triton")
"""Engines that serve several models at once."""
_WEIGHTS = {"vllm": "source", "jetstream": "checkpoint"}
"""Where the other engines' documents say which weights a model has."""
_BEFORE = "sliceworks.dev/replicas-before"


def with_model(record: Record, model: Mapping[str, Any]) -> Object:
    """The document with this model: beside the others, in the place of the one that has its name, or as the only one."""
    document, part = _copy(record)
    engine = record.service.spec.engine
    if engine not in SEVERAL:
        if model["name"] != part["model"]["name"] and _WEIGHTS[engine] not in model:
            raise UsageError(
                f"the servers have the weights of {part['model']['name']}, and no others are named for {model['name']}",
                hint=f"say where they are with --{_WEIGHTS[engine]}",
            )
        part["model"] = {**part["model"], **model}
        return _started(document)
    if engine == "saxml" and "class" not in model:
        raise UsageError(
            f"Sax wants to know what {model['name']} is", hint="name its class with --class, such as LLaMA7BFP16TPUv5e"
        )
    part["models"] = [each for each in part["models"] if each["name"] != model["name"]] + [dict(model)]
    return document


def changed_model(record: Record, name: str, changes: Mapping[str, Any]) -> Object:
    """The document with something else about a model."""
    known(record, name)
    document, part = _copy(record)
    listed = part["models"] if record.service.spec.engine in SEVERAL else [part["model"]]
    next(each for each in listed if each["name"] == name).update(changes)
    return _started(document)


def without_model(record: Record, name: str) -> Object:
    """The document without a model; where it is the only one, without servers. It is as it was where servers are yet to be told."""
    document, part = _copy(record)
    if telling("unload", name) in record.left:
        return document
    known(record, name)
    if record.service.spec.engine not in SEVERAL:
        return _stopped(document)
    left = [each for each in part["models"] if each["name"] != name]
    if not left:
        service = record.service.metadata.name
        raise SliceworksError(f"{name} is the last model of {service}", hint=f"sliceworks models delete {service}")
    part["models"] = left
    return document


def telling(verb: str, model: str) -> str:
    """The step in which servers load or unload a model."""
    return f"{verb} {model} on every server"


def known(record: Record, name: str) -> None:
    """Whether the service has this model."""
    served = [each.name for each in record.service.spec.models]
    if name not in served:
        hint = closest(name, served) or f"it serves {', '.join(served)}"
        raise UsageError(f"{record.service.metadata.name} does not serve {name!r}", hint=hint)


def _stopped(document: Object) -> Object:
    """Without servers. How many there were is kept beside."""
    spec, metadata = document["spec"], document["metadata"]
    if spec.get("replicas"):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), _BEFORE: str(spec["replicas"])}
    spec["replicas"] = 0
    return document


def _started(document: Object) -> Object:
    """With servers again, where there were none: as many as before."""
    spec, metadata = document["spec"], document["metadata"]
    if spec.get("replicas") != 0:
        return document
    del spec["replicas"]
    before = (metadata.get("annotations") or {}).pop(_BEFORE, "")
    if before.isdecimal():
        spec["replicas"] = int(before)
    if not metadata.get("annotations"):
        metadata.pop("annotations", None)
    return document


def _copy(record: Record) -> tuple[Object, Object]:
    document = deepcopy(record.document)
    return document, document["spec"][record.service.spec.engine]
