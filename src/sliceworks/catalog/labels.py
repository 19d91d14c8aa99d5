"""Names on nodes, pods and JobSets that several rooms must spell alike: of GKE, of JobSet and Kueue, and our own."""

from __future__ import annotations

TPU = "google.com/tpu"
TPU_ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TPU_TOPOLOGY = "cloud.google.com/gke-tpu-topology"

GPU = "nvidia.com/gpu"
GPU_ACCELERATOR = "cloud.google.com/gke-accelerator"

ACCELERATOR_COUNT = "cloud.google.com/gke-accelerator-count"
"""How many chips or GPUs one node has."""
NODE_POOL = "cloud.google.com/gke-nodepool"


def taint(resource: str) -> dict[str, str]:
    """The taint that keeps pods which do not ask for the resource away from its nodes."""
    return {"key": resource, "value": "present", "effect": "NoSchedule"}


# Names by which the slice controller tells how a JobSet's slices stand, and by which pods say how they may be had.
SLICE_READY = "sliceworks.dev/SliceReady"
"""Condition of a pod that leads a slice."""
SLICES_READY = "sliceworks.dev/SlicesReady"
"""Condition of a JobSet."""
SLICES_CHECK = "sliceworks.dev/slices"
"""The controller that an AdmissionCheck of Kueue names."""
HELD_UNTIL = "slices.sliceworks.dev/held-until"
CAPACITY = "slices.sliceworks.dev/capacity"
ATTEMPTS = "slices.sliceworks.dev/attempts"
SLICES_GIVEN_BACK = "SlicesGivenBack"
CREATION_STARTED = "NodePoolCreationStarted"
CREATION_FAILED = "NodePoolCreationFailed"
POOL_JOBSET_NAME = "google.com/tpu-provisioner-jobset-name"
POOL_JOBSET_NAMESPACE = "google.com/tpu-provisioner-jobset-namespace"

RESERVATION_NAME = "cloud.google.com/reservation-name"
SPOT = "cloud.google.com/gke-spot"
ZONE = "topology.kubernetes.io/zone"

JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
"""On Jobs and pods of a JobSet."""
JOB_UID = "kueue.x-k8s.io/job-uid"
"""On the Workload of a JobSet."""
RUN_SECONDS = "sliceworks.dev/run-seconds"
"""How long the containers of a pod are expected to run: a twin takes them to run for so long."""
