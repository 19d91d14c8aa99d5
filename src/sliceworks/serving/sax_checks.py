"""What is wrong with the models of a Sax cell: classes that its servers lack, checkpoints that they could not load. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sliceworks.base import quantity
from sliceworks.serving import saxml, sizes
from sliceworks.specs.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sliceworks.serving.sizes import SaxClass
    from sliceworks.specs.serving import ModelServiceSpec, SaxModel

_release = re.compile(r"/sax-model-server:v(\d+)\.(\d+)[^/]*").search
_LLAMA = "saxml.tools.convert_llama_ckpt"
_COPIES = 4
"""How often all weights, in sixteen bits, are in memory while that module converts them: Sax says 500 to 600 GB for 70B."""
Path = tuple[str | int, ...]


def findings(spec: ModelServiceSpec) -> Iterator[Finding]:
    """All of it."""
    for number, model in enumerate(spec.saxml.models if spec.saxml else ()):
        path, known = ("spec", "saxml", "models", number), sizes.sax_class(model.model_class)
        if model.convert and model.checkpoint == "None":
            yield Finding((*path, "checkpoint"), "a converted checkpoint needs a folder of a bucket")
        if known is not None:
            yield from _class(spec.image or saxml.IMAGE, model, known, path)
            yield from _conversion(model, known, path)


def _class(image: str, model: SaxModel, known: SaxClass, path: Path) -> Iterator[Finding]:
    found = _release(image)
    if found is None or (int(found[1]), int(found[2])) >= known.since:
        return
    same = [name for name, each in sizes.SAX_CLASSES.items() if each[:3] == known[:3] and each.since < known.since]
    remedy = f"take {same[0]}, or servers of a later one" if same else "take servers of a later one with spec.image"
    yield Finding((*path, "class"), f"Sax {found[1]}.{found[2]} has no class {model.model_class}", remedy)


def _conversion(model: SaxModel, known: SaxClass, path: Path) -> Iterator[Finding]:
    wanted = model.convert
    if wanted is None:
        return
    if known.bytes == 1 and not wanted.quantize:
        problem = f"class {model.model_class} loads weights in eight bits, and the converter writes sixteen"
        yield Finding((*path, "convert"), problem, "say convert.quantize")
    needed = known.billions * 2 * _COPIES
    if wanted.module == _LLAMA and float(quantity.parse(wanted.memory)) < needed * 1e9:
        problem = f"converting {model.name} takes about {needed:.0f} GB of memory, it may have {wanted.memory}"
        yield Finding((*path, "convert", "memory"), problem, "give it more, on a pool of machines that have it")
