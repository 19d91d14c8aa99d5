"""Every cause that `why` knows: its name, its layer, what is said of the job, and what to do. The reference is made from it."""

from __future__ import annotations

from sliceworks.training.why.answer import Kind

JOB, QUEUE, CHECK, PLACE, SLICE, CONTAINER = "job", "queue", "admission check", "placement", "slice", "container"

# The JobSet itself.
COMPLETED = Kind("completed", JOB, "has completed", "nothing is to be done")
RUNNING = Kind("running", JOB, "runs", "nothing is to be done; `sliceworks train logs` shows what it writes")
STARTING = Kind("starting", JOB, "starts", "wait a moment, and ask again")
RESTARTING = Kind(
    "restarting", JOB, "starts again after a failure", "wait; `sliceworks train logs --previous` shows what went wrong"
)
DELETING = Kind("deleting", JOB, "is being deleted", "wait until it is gone before another takes its name")
SUSPENDED = Kind("suspended", JOB, "is suspended by hand", "set spec.suspend of the JobSet to false to let it go on")
HELD = Kind("slices-given-back", JOB, "is held until its slices are tried again", "wait, or ask for fewer or smaller slices")
BLOCKED = Kind("waits-for-another-part", JOB, "waits for another part of itself", "see why that part is not ready")
RESTARTS_SPENT = Kind(
    "restarts-spent", JOB, "has failed: its restarts are spent", "repair what failed, then submit again; `restarts.max` allows more"
)
DEADLINE = Kind(
    "deadline", JOB, "has failed: it ran longer than its deadline", "set a longer `deadline`, and restart from a checkpoint"
)
FAILED = Kind("failed", JOB, "has failed", "read its logs, repair it, and submit it again")

# Kueue's queues.
NO_KUEUE = Kind("kueue-missing", QUEUE, "waits for Kueue, which is not installed", "install Kueue, or leave the queue's label out")
NO_WORKLOAD = Kind("not-seen-by-kueue", QUEUE, "waits for Kueue to see it", "see whether Kueue's controller runs")
NO_QUEUE = Kind("no-such-queue", QUEUE, "waits in a queue that does not exist", "name a queue that there is, or have this one made")
QUEUE_STOPPED = Kind(
    "queue-stopped", QUEUE, "waits: its queue is stopped", "have an administrator set the LocalQueue's stopPolicy to None"
)
NO_CLUSTER_QUEUE = Kind(
    "no-cluster-queue",
    QUEUE,
    "waits: its queue leads to a ClusterQueue that does not exist",
    "have the ClusterQueue made, or lead elsewhere",
)
CLUSTER_QUEUE_STOPPED = Kind(
    "cluster-queue-stopped",
    QUEUE,
    "waits: the ClusterQueue is stopped",
    "have an administrator set the ClusterQueue's stopPolicy to None",
)
NO_FLAVOR = Kind(
    "flavor-missing",
    QUEUE,
    "waits: its ClusterQueue names a flavor that does not exist",
    "have the ResourceFlavor made, or taken out",
)
QUEUE_INACTIVE = Kind(
    "queue-inactive", QUEUE, "waits: its ClusterQueue admits nobody", "repair what the ClusterQueue's condition says"
)
NAMESPACE = Kind(
    "namespace-not-selected",
    QUEUE,
    "waits: its namespace may not use the ClusterQueue",
    "label the namespace, or widen the selector",
)
NOT_COVERED = Kind(
    "resource-not-covered",
    QUEUE,
    "waits for a resource that its ClusterQueue has not",
    "have the ClusterQueue cover it, or ask for none",
)
NO_FLAVOR_FITS = Kind(
    "no-flavor-fits",
    QUEUE,
    "waits: no flavor of its ClusterQueue fits it",
    "ask for a type that the queue has, or tolerate its taint",
)
QUOTA_TOO_SMALL = Kind(
    "quota-too-small",
    QUEUE,
    "waits for more than its queue can ever give",
    "ask for fewer or smaller slices, or have the quota raised",
)
QUOTA_IN_USE = Kind(
    "quota-in-use", QUEUE, "waits: the quota of its queue is in use", "wait until running jobs end, or ask for less"
)
BORROWING_LIMIT = Kind(
    "borrowing-limit", QUEUE, "waits: its queue may not borrow that much", "ask for less, or have the borrowing limit raised"
)
LOWER_PRIORITY = Kind(
    "lower-priority", QUEUE, "waits behind jobs of higher priority", "wait for them, or submit it with a higher priority"
)
BEHIND = Kind("behind-others", QUEUE, "waits behind jobs that came earlier", "wait for them, or submit it with a higher priority")
PREEMPTED = Kind("preempted", QUEUE, "was preempted and waits again", "submit it with a higher priority, or wait; keep checkpoints")
NOT_READY_IN_TIME = Kind(
    "pods-not-ready-in-time",
    QUEUE,
    "was sent back: its pods were not ready in time",
    "see why its pods do not start; Kueue tries again",
)
OTHERS_NOT_READY = Kind(
    "others-not-ready",
    QUEUE,
    "waits until the pods of other jobs are ready",
    "see why those jobs do not get ready: Kueue starts one at a time",
)
DEACTIVATED = Kind("deactivated", QUEUE, "was given up by Kueue", "repair the cause, then set spec.active of its Workload to true")
EVICTED = Kind("evicted", QUEUE, "was evicted and waits again", "wait: Kueue starts it again")
WAITS = Kind("waits-in-queue", QUEUE, "waits in its queue", "wait, or ask an administrator how full the queue is")

# Admission checks.
CHECK_PENDING = Kind("check-pending", CHECK, "has quota and waits for an admission check", "wait for whoever answers the check")
CHECK_RETRY = Kind("check-retry", CHECK, "was sent back by an admission check", "wait: Kueue tries again")
CHECK_REJECTED = Kind(
    "check-rejected", CHECK, "was rejected by an admission check", "repair what the check says, then submit it again"
)

# Pods and the scheduler.
FOLLOWER = Kind(
    "follower-waits", PLACE, "has hosts that wait for the first host of their slice", "find out why the first host has no place"
)
NO_POOL = Kind(
    "no-matching-pool", PLACE, "waits: no node has what its pods select", "have such a node pool made, or ask for another type"
)
TAINT = Kind("taint", PLACE, "waits: nodes would fit but are tainted", "tolerate the taint, or have it taken off the nodes")
TOO_FEW_HOSTS = Kind(
    "too-few-hosts", PLACE, "waits: there are fewer hosts than it needs", "ask for fewer slices, or have more hosts made"
)
HOSTS_IN_USE = Kind(
    "hosts-in-use", PLACE, "waits: all hosts that fit are in use", "wait until a job on them ends, or have more hosts made"
)
UNSCHEDULABLE = Kind("unschedulable", PLACE, "waits: the scheduler finds no place", "see what the scheduler says")
PODS_REFUSED = Kind("pods-refused", PLACE, "has pods that the cluster refuses", "repair what the refusal says")

# Slices, by the slice controller and the cloud.
POOL_BEING_MADE = Kind("pool-being-made", SLICE, "waits for its slices to be made", "wait: machines take minutes")
STOCKOUT = Kind(
    "stockout", SLICE, "waits: the zone has no machines left", "allow more zones, spot or a reservation, or ask for smaller slices"
)
PROJECT_QUOTA = Kind(
    "project-quota", SLICE, "waits: the project's quota is too small", "have the project's quota raised, or ask for less"
)
RESERVATION = Kind(
    "reservation-not-found",
    SLICE,
    "waits: its reservation does not exist",
    "name a reservation of the zone, or ask for another capacity",
)
RESERVATION_FULL = Kind(
    "reservation-full", SLICE, "waits: its reservation is in use", "wait for what runs on it, or ask for another capacity"
)
SLICE_REFUSED = Kind("slice-refused", SLICE, "waits for slices that cannot be made", "repair what the slice controller says")
DRAINING = Kind("draining", SLICE, "waits: slices are being drained", "`sliceworks slices drain --undo` lets it have slices again")

# Containers.
IMAGE = Kind(
    "image-pull", CONTAINER, "cannot start: its image cannot be pulled", "repair the image's name, or the rights to pull it"
)
CONFIG = Kind(
    "missing-config", CONTAINER, "cannot start: it names a secret or config map that is not there", "make it in the namespace"
)
VOLUME = Kind("volume", CONTAINER, "cannot start: a volume cannot be mounted", "repair the volume, or what it is made from")
CRASH_LOOP = Kind("crash-loop", CONTAINER, "starts and ends again and again", "read the logs of its last run")
MEMORY = Kind(
    "out-of-memory", CONTAINER, "ran out of memory", "ask for more `memory`, or make the batch or the model's share smaller"
)
EXIT_CODE = Kind("exit-code", CONTAINER, "has failed: its program ended with an error", "read the logs of the host that ended")
HOST_LOST = Kind("host-lost", CONTAINER, "lost a host", "restart from a checkpoint; on spot machines this is normal")
NOT_READY = Kind("not-ready", CONTAINER, "runs but is not ready", "read its logs")

KINDS: tuple[Kind, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Kind))
