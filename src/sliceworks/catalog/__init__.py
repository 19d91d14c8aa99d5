"""The accelerator catalog: TPU and GPU types, machine types, topologies, zones and prices.

Node pools, quotas, jobs and the twin's cloud all read it. In reading order:

- `labels`: labels, annotations, taints and condition types
- `machine_types`: machine types, and what GKE leaves allocatable on a node
- `tpus`: TPU generations, topologies and slices
- `gpus`: GPUs and the machine types that have them
- `lookup`: an accelerator or machine type by name, label or node selector
- `availability`: zones that offer an accelerator, and the quotas that a machine uses
- `gke_rules`: what Google Cloud refuses, and the conditions that a document or a request can show
- `prices`: on-demand and spot prices per hour
- `description`: an accelerator as plain data, and as a drawing for terminals
- `data`: the dated YAML files behind `availability`, `gke_rules` and `prices`
"""

from sliceworks.catalog.gpus import Gpu, GpuShape
from sliceworks.catalog.lookup import Accelerator, find, find_gpu, find_machine, find_slice, list_slices, list_type_names
from sliceworks.catalog.machine_types import Machine
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
    "find_gpu",
    "find_machine",
    "find_slice",
    "list_slices",
    "list_type_names",
]
