"""The documents of Sliceworks as typed, frozen models. No I/O.

In reading order:

- `common`: the base model and shared field types
- `documents`: parses a YAML document into its model, or lists its problems
- `environment`, `training`, `model_service`, `gateway`, `load_test`, `scenario`, `image_map`: one module or package per kind
- `objectives`: service level objectives such as `ttft p99 < 500ms`
"""

from __future__ import annotations

SLICE_JOB = "slice"
"""The replicated job of the slices in the JobSet of a TrainingJob."""
