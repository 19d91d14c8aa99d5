"""The accelerator catalogue: TPU and GPU types, machines and topologies, derived from a few rules.

One source for everything that must agree about them: node pools, quotas, jobs and what the twin's cloud offers. `prices` and
`zones` are dated data beside the rules.
"""

from sliceworks.catalog.finding import Accelerator, find, gpu_for, machine, slice_for, slices, type_names
from sliceworks.catalog.gpus import Gpu, GpuShape
from sliceworks.catalog.machines import Machine
from sliceworks.catalog.tpus import Generation, Placement, Slice

__all__ = [
    "Accelerator",
    "Generation",
    "Gpu",
    "GpuShape",
    "Machine",
    "Placement",
    "Slice",
    "find",
    "gpu_for",
    "machine",
    "slice_for",
    "slices",
    "type_names",
]
