"""The names that this controller reads and writes: labels, annotations, conditions, events.

The first group is that of Google's TPU provisioner, so that either can take over from the other; the second is our own.
"""

from __future__ import annotations

from typing import Final

from sliceworks.catalog import labels

# What pods and JobSets carry.
JOBSET_NAME: Final = labels.JOBSET_NAME
JOB_KEY: Final = "jobset.sigs.k8s.io/job-key"
JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"
REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
QUEUE_NAME: Final = "kueue.x-k8s.io/queue-name"

# What pods select nodes by.
RESERVATION_NAME: Final = labels.RESERVATION_NAME
RESERVATION_PROJECT: Final = "cloud.google.com/reservation-project"
SPOT: Final = labels.SPOT
LOCATION_HINT: Final = "cloud.google.com/gke-location-hint"
ICI_RESILIENCY: Final = "cloud.google.com/gke-tpu-ici-resiliency"
ZONE: Final = labels.ZONE
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"

# What node pools are labelled with.
MANAGER: Final = "google.com/nodepool-manager"
MANAGER_VALUE: Final = "tpu-provisioner"
PARENT_KIND: Final = "google.com/tpu-provisioner-parent-kind"
PARENT_NAME: Final = "google.com/tpu-provisioner-parent-name"
PARENT_NAMESPACE: Final = "google.com/tpu-provisioner-parent-namespace"
POOL_JOBSET_NAME: Final = labels.POOL_JOBSET_NAME
POOL_JOBSET_NAMESPACE: Final = labels.POOL_JOBSET_NAMESPACE
POOL_HASH: Final = "google.com/tpu-provisioner-nodepool-hash"
OLD_POOL_JOBSET_NAME: Final = "provisioner-nodepool-id"  # pools of the first provisioners have this alone

# What pods may say about their pool.
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

# Ours.
OWN: Final = "slices.sliceworks.dev/"
MACHINE_TYPE: Final = OWN + "machine-type"  # selector: a CPU pool of this machine type; becomes a label of its nodes
ZONES: Final = OWN + "zones"  # pod annotation: zones to try, in order
CAPACITY: Final = labels.CAPACITY  # pod annotation: kinds of capacity to try, in order
ATTEMPT: Final = OWN + "attempt"  # pool label: which try made it
CREATED: Final = OWN + "created"  # pool label: when it was asked for, in seconds since 1970
ATTEMPTS: Final = labels.ATTEMPTS  # JobSet annotation: what has failed so far, by Job
HELD_UNTIL: Final = labels.HELD_UNTIL  # JobSet annotation: we suspended it, until this time
DRAIN: Final = OWN + "drain"  # annotation of a JobSet or a Namespace: give its pools back and make none
WHOLE_CLUSTER: Final = "kube-system"  # the Namespace whose annotations stand for the cluster
TIME_LIMIT: Final = OWN + "time-limit"  # JobSet annotation: how long all slices may take to be had; 0 is for ever

POD_CONDITION: Final = labels.SLICE_READY
JOBSET_CONDITION: Final = labels.SLICES_READY
FIELD_MANAGER: Final = "sliceworks-slices"
COMPONENT: Final = "tpu-provisioner"  # whom events come from
CHECK_CONTROLLER: Final = labels.SLICES_CHECK  # spec.controllerName of Kueue's AdmissionCheck
LEASE: Final = "ecaf1259.google.com"  # the Go provisioner's own: the two never work at once

SLICES_GIVEN_BACK: Final = labels.SLICES_GIVEN_BACK
