"""Pictures for vision models: for those of Triton the tensor that the model's own description asks for, and labels in the answer;
for those that talk the file as it is, within an address.

Only Pillow is needed, only here and for Triton: the extra `vision`.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from sliceworks.base import extras
from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Object = dict[str, Any]
_COLOURS = 3
_MEANS = (123.0, 117.0, 104.0)
SCALINGS: dict[str, Callable[[float, int], float]] = {
    "none": lambda value, _: value,
    "inception": lambda value, _: value / 127.5 - 1.0,
    "vgg": lambda value, colour: value - _MEANS[colour],
}
"""What becomes of a byte of a colour."""
_KINDS: dict[str, Callable[[bytes], bool]] = {
    "png": lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"),
    "jpeg": lambda data: data.startswith(b"\xff\xd8\xff"),
    "gif": lambda data: data.startswith((b"GIF87a", b"GIF89a")),
    "webp": lambda data: data[:4] == b"RIFF" and data[8:12] == b"WEBP",
}
_FLOATS = ("FP32", "FP16", "FP64")


def as_url(file: Path) -> str:
    """A picture as an address that holds it."""
    data = file.read_bytes()
    kind = next((kind for kind, matches in _KINDS.items() if matches(data)), None)
    if kind is None:
        raise SliceworksError(f"{file} is no picture", hint=f"give one of {', '.join(each.upper() for each in _KINDS)}")
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def question(description: Object, file: Path, scaling: str, top: int) -> Object:
    """The request for a model with one picture as its input: the `top` classes are asked for."""
    inputs, outputs = description.get("inputs") or [], description.get("outputs") or []
    if len(inputs) != 1 or not outputs:
        raise SliceworksError(f"{description.get('name')} takes {len(inputs)} inputs, a vision model takes one", hint="use --data")
    wanted = inputs[0]
    shape = [1 if size == -1 else size for size in wanted["shape"]]
    height, width, first = _layout(wanted["name"], shape)
    data = values(file, (width, height), scaling, colours_first=first, whole=wanted["datatype"] not in _FLOATS)
    tensor = {"name": wanted["name"], "datatype": wanted["datatype"], "shape": shape, "data": data}
    asked = [{"name": outputs[0]["name"], "parameters": {"classification": top}}]
    return {"inputs": [tensor], "outputs": asked}


def _layout(name: str, shape: list[int]) -> tuple[int, int, bool]:
    """Height, width, and whether colours come first."""
    sizes = shape[-3:]
    if len(sizes) == 3 and sizes[0] == _COLOURS:
        return sizes[1], sizes[2], True
    if len(sizes) == 3 and sizes[2] == _COLOURS:
        return sizes[0], sizes[1], False
    raise SliceworksError(f"input {name} of shape {shape} is no picture", hint="use --data")


def values(file: Path, size: tuple[int, int], scaling: str, *, colours_first: bool, whole: bool = False) -> list[float]:
    """The numbers of a picture of this size, row by row."""
    picture = _open(file).resize(size)
    scale = SCALINGS[scaling]
    raw: bytes = picture.tobytes()
    tables = [[scale(float(value), colour) for value in range(256)] for colour in range(_COLOURS)]
    if whole:
        tables = [[float(round(number)) for number in table] for table in tables]
    if colours_first:
        return [tables[colour][value] for colour in range(_COLOURS) for value in raw[colour::_COLOURS]]
    return [tables[place % _COLOURS][value] for place, value in enumerate(raw)]


def _open(file: Path) -> Any:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise SliceworksError("pictures need Pillow", hint=extras.remedy("vision")) from error
    try:
        with Image.open(file) as found:
            return found.convert("RGB")
    except UnidentifiedImageError as error:
        raise SliceworksError(f"{file} is no picture that Pillow can read") from error


def classes(answer: Object) -> list[tuple[float, str, str]]:
    """What the model sees: score, number and label of each class."""
    found = []
    for text in (answer.get("outputs") or [{}])[0].get("data") or ():
        score, number, label = [*str(text).split(":", 2), "", ""][:3]
        found.append((float(score), number, label))
    return found
