"""Well-known labels, annotations, conditions and event reasons that the slices controller reads and writes.

The first group belongs to Google's TPU provisioner, so that one can replace the other; the second to this project.
"""

from __future__ import annotations

from typing import Final

from sliceworks.catalog import labels

# Labels of pods and JobSets.
JOBSET_NAME: Final = labels.JOBSET_NAME
JOB_KEY: Final = "jobset.sigs.k8s.io/job-key"
JOB_INDEX: Final = labels.JOB_INDEX
REPLICATED_JOB: Final = labels.REPLICATED_JOB
COMPLETION_INDEX: Final = labels.COMPLETION_INDEX
QUEUE_NAME: Final = labels.QUEUE_NAME

# Node selectors of pods.
RESERVATION_NAME: Final = labels.RESERVATION_NAME
RESERVATION_PROJECT: Final = "cloud.google.com/reservation-project"
SPOT: Final = labels.SPOT
LOCATION_HINT: Final = "cloud.google.com/gke-location-hint"
ICI_RESILIENCY: Final = "cloud.google.com/gke-tpu-ici-resiliency"
ZONE: Final = labels.ZONE
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"

# Labels of node pools.
MANAGER: Final = "google.com/nodepool-manager"
MANAGER_VALUE: Final = "tpu-provisioner"
PARENT_KIND: Final = "google.com/tpu-provisioner-parent-kind"
PARENT_NAME: Final = "google.com/tpu-provisioner-parent-name"
PARENT_NAMESPACE: Final = "google.com/tpu-provisioner-parent-namespace"
POOL_JOBSET_NAME: Final = labels.POOL_JOBSET_NAME
POOL_JOBSET_NAMESPACE: Final = labels.POOL_JOBSET_NAMESPACE
POOL_HASH: Final = "google.com/tpu-provisioner-nodepool-hash"
OLD_POOL_JOBSET_NAME: Final = "provisioner-nodepool-id"  # the only label of early provisioners

# Annotations of pods about their node pool.
DISABLED: Final = "tpu-provisioner.cloud.google.com/disable-autoprovisioning"
COPY_LABELS: Final = "tpu-provisioner.cloud.google.com/copy-labels"
NODE_NETWORKS: Final = "tpu-provisioner.cloud.google.com/additional-node-networks"
NODE_SERVICE_ACCOUNT: Final = "tpu-provisioner.cloud.google.com/node-service-account"

CREATION_STARTED: Final = labels.CREATION_STARTED
CREATION_SUCCEEDED: Final = "NodePoolCreationSucceeded"
CREATION_FAILED: Final = labels.CREATION_FAILED
DELETION_STARTED: Final = "NodePoolDeletionStarted"
DELETION_SUCCEEDED: Final = "NodePoolDeletionSucceeded"
DELETION_FAILED: Final = "NodePoolDeletionFailed"

# Of this project.
OWN: Final = "slices.sliceworks.dev/"
MACHINE_TYPE: Final = OWN + "machine-type"  # node selector: requests a CPU pool of this machine type, and becomes a node label
ZONES: Final = OWN + "zones"  # pod annotation: zones to try, in order
CAPACITY: Final = labels.CAPACITY  # pod annotation: capacity types to try, in order
ATTEMPT: Final = OWN + "attempt"  # pool label: the attempt that created it
CREATED: Final = OWN + "created"  # pool label: time of the create request (Unix time)
ATTEMPTS: Final = labels.ATTEMPTS  # JobSet annotation: failed attempts, by Job
HELD_UNTIL: Final = labels.HELD_UNTIL  # JobSet annotation: suspended by this controller until this time
DRAIN: Final = OWN + "drain"  # annotation of a JobSet or Namespace: delete its node pools and create none
WHOLE_CLUSTER: Final = "kube-system"  # the Namespace whose annotations apply to the cluster
TIME_LIMIT: Final = OWN + "time-limit"  # JobSet annotation: provisioning timeout of all slices; 0 disables it

POD_CONDITION: Final = labels.SLICE_READY
JOBSET_CONDITION: Final = labels.SLICES_READY
FIELD_MANAGER: Final = "sliceworks-slices"
COMPONENT: Final = "tpu-provisioner"  # reportingController of events
CHECK_CONTROLLER: Final = labels.SLICES_CHECK  # spec.controllerName of Kueue's AdmissionCheck
LEASE: Final = "ecaf1259.google.com"  # the TPU provisioner's lease, so that only one of the two is active

SLICES_RELEASED: Final = labels.SLICES_RELEASED
