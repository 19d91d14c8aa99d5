"""A sample model for Triton: a model repository with a tiny ONNX classifier of images, its labels and its configuration. Pure.

The classifier averages the pixels of each channel and compares the color with the colors of its classes: enough to get a correct
answer from a real Triton or ONNX Runtime, in a file of 400 bytes instead of DenseNet's thirty megabytes.
"""

from __future__ import annotations

import math
import operator
import struct
import zlib
from typing import TYPE_CHECKING, Any

from sliceworks.base.protobuf_wire import length_delimited, string, varint

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "densenet_onnx"
INPUT, OUTPUT = "data_0", "fc6_1"
CLASSES = {
    "red": (1.0, -1.0, -1.0),
    "green": (-1.0, 1.0, -1.0),
    "blue": (-1.0, -1.0, 1.0),
    "yellow": (1.0, 1.0, -1.0),
    "cyan": (-1.0, 1.0, 1.0),
    "magenta": (1.0, -1.0, 1.0),
    "white": (1.0, 1.0, 1.0),
    "black": (-1.0, -1.0, -1.0),
}
"""The labels and their colors, with channels between -1 and 1 as Inception models expect them."""
SIZE = 224
_SHARPNESS = 4.0
_FLOAT, _INT64 = 1, 7  # ONNX data types
_OPSET, _IR_VERSION = 13, 8


def repository(name: str = NAME) -> dict[str, bytes]:
    """The files of a model repository, by their path."""
    return {
        f"{name}/1/model.onnx": model(),
        f"{name}/config.pbtxt": configuration(name).encode(),
        f"{name}/labels.txt": "".join(f"{label}\n" for label in CLASSES).encode(),
    }


def configuration(name: str) -> str:
    """The configuration of the model for Triton's ONNX Runtime backend."""
    count = len(CLASSES)
    return f"""name: "{name}"
platform: "onnxruntime_onnx"
max_batch_size: 0
input [{{
  name: "{INPUT}", data_type: TYPE_FP32, format: FORMAT_NCHW
  dims: [ 3, {SIZE}, {SIZE} ], reshape {{ shape: [ 1, 3, {SIZE}, {SIZE} ] }}
}}]
output [{{
  name: "{OUTPUT}", data_type: TYPE_FP32, label_filename: "labels.txt"
  dims: [ {count} ], reshape {{ shape: [ 1, {count} ] }}
}}]
"""


def metadata(name: str) -> dict[str, Any]:
    """The metadata of the model in the Open Inference Protocol."""
    tensors = ((INPUT, [3, SIZE, SIZE]), (OUTPUT, [len(CLASSES)]))
    inputs, outputs = ([{"name": tensor, "datatype": "FP32", "shape": shape}] for tensor, shape in tensors)
    return {"name": name, "versions": ["1"], "platform": "onnxruntime_onnx", "inputs": inputs, "outputs": outputs}


def classify(pixels: Sequence[float]) -> list[tuple[float, int, str]]:
    """What the model answers for an image with its channels first: score, index and label of each class, best first."""
    area = len(pixels) // 3
    color = [sum(pixels[channel * area : (channel + 1) * area]) / area for channel in range(3)]
    scores = [_SHARPNESS * sum(map(operator.mul, color, weights)) for weights in CLASSES.values()]
    powers = [math.exp(score - max(scores)) for score in scores]
    classes = [(power / sum(powers), index, label) for index, (power, label) in enumerate(zip(powers, CLASSES, strict=True))]
    return sorted(classes, reverse=True)


def image(color: tuple[int, int, int], size: int = 8) -> bytes:
    """A PNG of one color."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes(color) * size) * size
    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def model() -> bytes:
    """The classifier as an ONNX ModelProto: average pooling, a product with the colors of the classes, softmax."""
    weights = [_SHARPNESS * CLASSES[label][channel] for channel in range(3) for label in CLASSES]
    nodes = [
        _node("GlobalAveragePool", [INPUT], "pooled"),
        _node("Reshape", ["pooled", "shape"], "color"),
        _node("MatMul", ["color", "weights"], "scores"),
        _node("Softmax", ["scores"], OUTPUT),
    ]
    graph = b"".join(
        [
            *(length_delimited(1, node) for node in nodes),
            string(2, "colors"),
            length_delimited(5, _tensor("weights", [3, len(CLASSES)], _FLOAT, struct.pack(f"<{len(weights)}f", *weights))),
            length_delimited(5, _tensor("shape", [2], _INT64, struct.pack("<2q", 1, 3))),
            length_delimited(11, _value(INPUT, [1, 3, SIZE, SIZE])),
            length_delimited(12, _value(OUTPUT, [1, len(CLASSES)])),
        ]
    )
    opset = string(1, "") + varint(2, _OPSET)
    return varint(1, _IR_VERSION) + string(2, "sliceworks") + length_delimited(7, graph) + length_delimited(8, opset)


def _node(kind: str, inputs: Sequence[str], output: str) -> bytes:
    """A NodeProto."""
    return b"".join(string(1, name) for name in inputs) + string(2, output) + string(3, output) + string(4, kind)


def _tensor(name: str, dims: Sequence[int], data_type: int, raw: bytes) -> bytes:
    """A TensorProto."""
    return b"".join(varint(1, size) for size in dims) + varint(2, data_type) + string(8, name) + length_delimited(9, raw)


def _value(name: str, dims: Sequence[int]) -> bytes:
    """A ValueInfoProto of a tensor of floats."""
    shape = b"".join(length_delimited(1, varint(1, size)) for size in dims)
    return string(1, name) + length_delimited(2, length_delimited(1, varint(1, _FLOAT) + length_delimited(2, shape)))
