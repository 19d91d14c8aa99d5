"""Labels, annotations, taints and condition types of GKE, JobSet, Kueue and Sliceworks."""

from __future__ import annotations

TPU = "google.com/tpu"
TPU_ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TPU_TOPOLOGY = "cloud.google.com/gke-tpu-topology"

GPU = "nvidia.com/gpu"
GPU_ACCELERATOR = "cloud.google.com/gke-accelerator"

ACCELERATOR_COUNT = "cloud.google.com/gke-accelerator-count"
"""The number of chips or GPUs of a node."""
NODE_POOL = "cloud.google.com/gke-nodepool"


def taint(resource: str) -> dict[str, str]:
    """The taint of nodes that have the resource."""
    return {"key": resource, "value": "present", "effect": "NoSchedule"}


# Conditions, annotations and reasons of the slices controller.
SLICE_READY = "sliceworks.dev/SliceReady"
"""Condition of the leader pod of a slice."""
SLICES_READY = "sliceworks.dev/SlicesReady"
"""Condition of a JobSet."""
RELEASED = "Released"
"""Its reason after the node pools were deleted."""
SLICES_CHECK = "sliceworks.dev/slices"
"""`controllerName` of the AdmissionCheck."""
HELD_UNTIL = "slices.sliceworks.dev/held-until"
CAPACITY = "slices.sliceworks.dev/capacity"
ATTEMPTS = "slices.sliceworks.dev/attempts"
SLICES_RELEASED = "SlicesReleased"
CREATION_STARTED = "NodePoolCreationStarted"
CREATION_FAILED = "NodePoolCreationFailed"
POOL_JOBSET_NAME = "google.com/tpu-provisioner-jobset-name"
POOL_JOBSET_NAMESPACE = "google.com/tpu-provisioner-jobset-namespace"

RESERVATION_NAME = "cloud.google.com/reservation-name"
SPOT = "cloud.google.com/gke-spot"
ZONE = "topology.kubernetes.io/zone"
NODE_RUNTIME = "sliceworks.dev/node"
"""On Nodes that a twin runs."""
SIMULATED = "simulated"
"""Value of NODE_RUNTIME for Nodes whose kubelet is simulated."""

JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
JOBSET_CONTROLLER = "jobset.sigs.k8s.io/jobset-controller"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_INDEX = "jobset.sigs.k8s.io/job-index"
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
"""On Jobs and pods of a JobSet."""
EXCLUSIVE_TOPOLOGY = "alpha.jobset.sigs.k8s.io/exclusive-topology"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
JOB_UID = "kueue.x-k8s.io/job-uid"
"""On the Workload of a JobSet."""
MODEL_SERVICE = "sliceworks.dev/model-service"
"""On the pods of a model service."""
RUN_SECONDS = "sliceworks.dev/run-seconds"
"""How long the containers of a pod run on a twin's simulated nodes."""
DEFAULT_RUN_SECONDS = 60.0
"""Without this annotation, for pods of Jobs."""
READS, WRITES = "sliceworks.dev/reads", "sliceworks.dev/writes"
"""Cloud Storage URLs, separated by commas, that a pod reads and writes on a twin's simulated nodes."""
STORAGE_EXIT_CODE = "sliceworks.dev/storage-exit-code"
"""Exit code of its containers if it may not, or if what it reads does not exist."""
