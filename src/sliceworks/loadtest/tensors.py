"""Made-up tensors for infer requests: a picture of noise takes a server as long as one of a cat."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

Object = dict[str, Any]
_MOST = {"UINT8": 255, "INT8": 127}


def filled(body: Object, seed: int) -> Object:
    """A request whose inputs all have data; those that had none have values that are the same for one seed."""
    random = np.random.default_rng([seed, 17])
    inputs = [each if "data" in each else {**each, "data": _values(each, random)} for each in body.get("inputs", [])]
    return {**body, "inputs": inputs}


def _values(tensor: Object, random: np.random.Generator) -> list[Any]:
    kind, count = tensor["datatype"], prod(tensor["shape"])
    if kind.startswith("FP"):
        found: list[Any] = np.round(random.random(count), 4).tolist()
        return found
    if kind == "BYTES":
        return ["word"] * count
    values = random.integers(0, 2 if kind == "BOOL" else _MOST.get(kind, 1_000), count)
    return [bool(each) for each in values] if kind == "BOOL" else [int(each) for each in values]
