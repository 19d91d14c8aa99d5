"""Images as model input: data URLs for chat models, tensors for Triton; class labels in the response.

Tensors require Pillow (the extra `vision`).
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from sliceworks.base import imports
from sliceworks.base.errors import SliceworksError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Object = dict[str, Any]
_CHANNELS = 3
_MEANS = (123.0, 117.0, 104.0)
SCALINGS: dict[str, Callable[[float, int], float]] = {
    "none": lambda value, _: value,
    "inception": lambda value, _: value / 127.5 - 1.0,
    "vgg": lambda value, channel: value - _MEANS[channel],
}
"""Scalings of a pixel value, by its channel."""
_FORMATS: dict[str, Callable[[bytes], bool]] = {
    "png": lambda data: data.startswith(b"\x89PNG\r\n\x1a\n"),
    "jpeg": lambda data: data.startswith(b"\xff\xd8\xff"),
    "gif": lambda data: data.startswith((b"GIF87a", b"GIF89a")),
    "webp": lambda data: data[:4] == b"RIFF" and data[8:12] == b"WEBP",
}
_FLOATS = ("FP32", "FP16", "FP64")


def data_url(file: Path) -> str:
    """An image as a data URL."""
    data = file.read_bytes()
    kind = next((kind for kind, matches in _FORMATS.items() if matches(data)), None)
    if kind is None:
        hint = f"supported formats: {', '.join(name.upper() for name in _FORMATS)}"
        raise SliceworksError(f"{file}: not a supported image", hint=hint)
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def infer_body(metadata: Object, file: Path, scaling: str, top: int) -> Object:
    """The inference request with an image for the model that `metadata` describes; requests the `top` classes."""
    inputs, outputs = metadata.get("inputs") or [], metadata.get("outputs") or []
    if len(inputs) != 1 or not outputs:
        message = f"{metadata.get('name')}: expected a vision model with one input, got {len(inputs)} inputs"
        raise SliceworksError(message, hint="use --data")
    tensor = inputs[0]
    shape = [1 if size == -1 else size for size in tensor["shape"]]
    height, width, channels_first = _read_layout(tensor["name"], shape)
    is_integer = tensor["datatype"] not in _FLOATS
    data = pixel_values(file, (width, height), scaling, channels_first=channels_first, as_integers=is_integer)
    image = {"name": tensor["name"], "datatype": tensor["datatype"], "shape": shape, "data": data}
    classes = [{"name": outputs[0]["name"], "parameters": {"classification": top}}]
    return {"inputs": [image], "outputs": classes}


def _read_layout(name: str, shape: list[int]) -> tuple[int, int, bool]:
    """Height, width, and whether the channels come first."""
    sizes = shape[-3:]
    if len(sizes) == 3 and sizes[0] == _CHANNELS:
        return sizes[1], sizes[2], True
    if len(sizes) == 3 and sizes[2] == _CHANNELS:
        return sizes[0], sizes[1], False
    raise SliceworksError(f"input {name}: expected the shape of an image, got {shape}", hint="use --data")


def pixel_values(
    file: Path, size: tuple[int, int], scaling: str, *, channels_first: bool, as_integers: bool = False
) -> list[float]:
    """The values of an image resized to `size`, row by row."""
    scale = SCALINGS[scaling]
    raw: bytes = _open(file).resize(size).tobytes()
    tables = [[scale(float(value), channel) for value in range(256)] for channel in range(_CHANNELS)]
    if as_integers:
        tables = [[float(round(number)) for number in table] for table in tables]
    if channels_first:
        return [tables[channel][value] for channel in range(_CHANNELS) for value in raw[channel::_CHANNELS]]
    return [tables[position % _CHANNELS][value] for position, value in enumerate(raw)]


def _open(file: Path) -> Any:
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise SliceworksError("image input requires Pillow", hint=imports.install_command("vision")) from error
    try:
        with Image.open(file) as image:
            return image.convert("RGB")
    except UnidentifiedImageError as error:
        raise SliceworksError(f"{file}: not an image that Pillow can read") from error


def read_classes(response: Object) -> list[tuple[float, str, str]]:
    """Score, number and label of each class in a response."""
    classes = []
    for value in (response.get("outputs") or [{}])[0].get("data") or ():
        score, number, label = [*str(value).split(":", 2), "", ""][:3]
        classes.append((float(score), number, label))
    return classes
