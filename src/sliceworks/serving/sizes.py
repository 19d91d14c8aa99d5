"""How much memory a model's weights take, where that is known: said in the document, by its class, or by its name. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from sliceworks.base import quantity

if TYPE_CHECKING:
    from sliceworks.specs.serving import Model, ModelServiceSpec

_GIB = 2**30
_BILLIONS = re.compile(r"(?<![A-Za-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)[bB](?![A-Za-z0-9])")
_BYTES = {"int8": 1.0, "fp8": 1.0, "w8a8": 1.0, "awq": 0.5, "gptq": 0.5, "int4": 0.5, "w4a16": 0.5, "float32": 4.0}
_HALF = 2.0


class SaxClass(NamedTuple):
    """A class of Sax's own: billions of parameters, bytes of each, the chips that it is laid out for, and the release that it
    came with."""

    billions: float
    bytes: float
    chips: int
    since: tuple[int, int] = (1, 1)


_LATER = (1, 3)
"""In no release yet: from Sax's sources after 1.2."""
SAX_CLASSES = {
    "LLaMA7BFP16": SaxClass(6.74, 2, 1),
    "LLaMA7BFP16TPUv4": SaxClass(6.74, 2, 4),
    "LLaMA7BFP16TPUv5e": SaxClass(6.74, 2, 4),
    "LLaMA7B": SaxClass(6.74, 2, 1),
    "LLaMA7BTPUv5e4": SaxClass(6.74, 2, 4, (1, 2)),
    "LLaMA7BTPUv5e8": SaxClass(6.74, 2, 8, _LATER),
    "LLaMA7BTPUv5e16": SaxClass(6.74, 2, 16, _LATER),
    "LLaMA7BContinuousBatchingTPUv5e4": SaxClass(6.74, 2, 4, (1, 2)),
    "LLaMA7BContinuousBatchingTPUv5e8": SaxClass(6.74, 2, 8, _LATER),
    "LLaMA13B": SaxClass(13.02, 1, 1),
    "LLaMA33B": SaxClass(32.5, 1, 4),
    "LLaMA65B": SaxClass(65.2, 1, 4),
    "LLaMA70BFP16TPUv5e": SaxClass(68.98, 2, 16),
    "LLaMA70BFP16TPUv5e16": SaxClass(68.98, 2, 16, _LATER),
    "LLaMA70BFP16TPUv5e32": SaxClass(68.98, 2, 32),
    "LLaMA70BFP16TPUv5e64": SaxClass(68.98, 2, 64),
    "LLaMA70BInt8TPUv5e8": SaxClass(68.98, 1, 8, (1, 2)),
}
"""As Sax publishes them: each runs on its number of chips and no other."""


def sax_class(name: str) -> SaxClass | None:
    """What is known of a class, with or without its module."""
    return SAX_CLASSES.get(name.rpartition(".")[2])


def weights(spec: ModelServiceSpec, model: Model) -> float | None:
    """GiB; None where nobody tells."""
    if model.memory is not None:
        return float(quantity.parse(model.memory)) / _GIB
    if spec.saxml:
        known = sax_class(getattr(model, "model_class", ""))
        return known.billions * 1e9 * known.bytes / _GIB if known else None
    named = getattr(model, "source", None) or getattr(model, "maxtext_name", "") or ""
    last = str(named).rstrip("/").rpartition("/")[2]
    billions = _billions(last)
    return billions * 1e9 * _bytes(spec, last) / _GIB if billions else None


def _billions(name: str) -> float | None:
    found = _BILLIONS.search(name)
    return float(found[2]) * int(found[1] or 1) if found else None


def _bytes(spec: ModelServiceSpec, name: str) -> float:
    """Of one parameter: as the document says, or as the name tells."""
    if spec.vllm and (said := _BYTES.get(spec.vllm.quantization) or _BYTES.get(spec.vllm.dtype)):
        return said
    return next((size for word, size in _BYTES.items() if word in name.lower()), _HALF)
