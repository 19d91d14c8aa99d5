"""Checkpoints in Paxml's format: a folder per variable, as zarr arrays of one chunk, and a description of the variables."""

from __future__ import annotations

import enum
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorstore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paxml.train_states import TrainState

_METADATA_VERSION = 1.1
_SEPARATOR = "."


class CheckpointType(enum.Enum):
    """The only format that Sax reads from a bucket."""

    GDA = "gda"


def save_checkpoint(state: TrainState, path: str, checkpoint_type: CheckpointType = CheckpointType.GDA) -> None:
    """Write a new checkpoint below `path`, in a folder with the number of its step."""
    folder = Path(path) / f"checkpoint_{int(state.step):08d}"
    for name, value in [("step", np.asarray(state.step, np.int32)), *_flatten(state.mdl_vars, "mdl_vars")]:
        _write_array(folder / "state" / name, np.asarray(value))
    (folder / "metadata").mkdir()
    content = {"version": _METADATA_VERSION, "train_state_metadata": {"mdl_vars": _describe(state.mdl_vars)}}
    (folder / "metadata" / "metadata").write_text(json.dumps(content))


def _flatten(values: Any, path: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(values, dict):
        yield path, values
        return
    for name, value in values.items():
        yield from _flatten(value, f"{path}{_SEPARATOR}{name}")


def _write_array(folder: Path, value: np.ndarray) -> None:
    metadata = {
        "shape": value.shape,
        "chunks": value.shape,
        "dtype": value.dtype.str,
        "order": "C",
        "compressor": {"id": "zstd", "level": 1},
        "fill_value": None,
        "filters": None,
        "dimension_separator": ".",
        "zarr_format": 2,
    }
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": str(folder)}, "metadata": metadata}
    # Without this, chunks of zeros are left out.
    tensorstore.open({**spec, "store_data_equal_to_fill_value": True}, create=True).result().write(value).result()


def _describe(values: Any) -> Any:
    if isinstance(values, dict):
        return {name: _describe(value) for name, value in values.items()}
    described = {"_array_metadata_tag": True, "dtype": str(values.dtype), "is_optax_masked_node": False}
    return {**described, "unpadded_shape": list(values.shape)}
