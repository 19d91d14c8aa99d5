"""Catalogue of causes: name, layer, title and remedy of each. The reference page is generated from it."""

from __future__ import annotations

from sliceworks.training.diagnosis.model import CauseKind

JOB, QUEUE, CHECK, PLACE, SLICE, CONTAINER = "job", "queue", "admission check", "placement", "slice", "container"

# The JobSet itself.
COMPLETED = CauseKind("completed", JOB, "has completed", "no action needed")
RUNNING = CauseKind("running", JOB, "is running", "no action needed; `sliceworks train logs` prints its output")
STARTING = CauseKind("starting", JOB, "is starting", "wait a few seconds, then run the command again")
RESTARTING = CauseKind(
    "restarting", JOB, "is restarting after a failure", "wait; `sliceworks train logs --previous` shows why it failed"
)
DELETING = CauseKind("deleting", JOB, "is being deleted", "wait until it is deleted before you reuse its name")
SUSPENDED = CauseKind("suspended", JOB, "is suspended by a user", "set spec.suspend of the JobSet to false to resume it")
HELD = CauseKind("slices-released", JOB, "is suspended until its slices are retried", "wait, or request fewer or smaller slices")
BLOCKED = CauseKind(
    "replicated-job-blocked",
    JOB,
    "is pending: a replicated job depends on another",
    "find out why the replicated job that it depends on is not ready",
)
EARLIER_STEP = CauseKind("earlier-step", JOB, "runs an earlier step", "wait until the step is complete")
RESTARTS_SPENT = CauseKind(
    "restart-limit-reached",
    JOB,
    "has failed: it reached its restart limit",
    "fix the failure, then submit it again; `restarts.max` allows more restarts",
)
DEADLINE = CauseKind(
    "deadline", JOB, "has failed: it exceeded its deadline", "set a longer `deadline`, and restart it from a checkpoint"
)
FAILED = CauseKind("failed", JOB, "has failed", "read its logs, fix the failure, and submit it again")

NO_JOBS = CauseKind(
    "no-jobs",
    JOB,
    "is pending: JobSet has not created or resumed its Jobs",
    "check that JobSet's controller manager is running, and read its log",
)

# Kueue's queues.
NO_KUEUE = CauseKind(
    "kueue-missing", QUEUE, "is pending: Kueue is not installed", "install Kueue, or remove the queue label from the JobSet"
)
NO_WORKLOAD = CauseKind(
    "no-workload", QUEUE, "is pending: it has no Workload yet", "check that Kueue's controller manager is running"
)
NOT_RESUMED = CauseKind(
    "not-resumed",
    QUEUE,
    "is pending: Kueue admitted it, but has not resumed it",
    "check that Kueue's controller manager is running, and read its log",
)
NO_QUEUE = CauseKind(
    "queue-not-found", QUEUE, "is pending: its LocalQueue does not exist", "use an existing queue, or have this one created"
)
QUEUE_STOPPED = CauseKind(
    "queue-stopped", QUEUE, "is pending: its LocalQueue is stopped", "have an administrator set the LocalQueue's stopPolicy to None"
)
NO_CLUSTER_QUEUE = CauseKind(
    "no-cluster-queue",
    QUEUE,
    "is pending: the ClusterQueue of its LocalQueue does not exist",
    "have the ClusterQueue created, or use another LocalQueue",
)
CLUSTER_QUEUE_STOPPED = CauseKind(
    "cluster-queue-stopped",
    QUEUE,
    "is pending: its ClusterQueue is stopped",
    "have an administrator set the ClusterQueue's stopPolicy to None",
)
NO_FLAVOR = CauseKind(
    "flavor-missing",
    QUEUE,
    "is pending: its ClusterQueue references a ResourceFlavor that does not exist",
    "have the ResourceFlavor created, or removed from the ClusterQueue",
)
QUEUE_INACTIVE = CauseKind(
    "queue-inactive", QUEUE, "is pending: its ClusterQueue is inactive", "fix what the ClusterQueue's Active condition reports"
)
NAMESPACE = CauseKind(
    "namespace-not-selected",
    QUEUE,
    "is pending: the ClusterQueue does not select its namespace",
    "label the namespace, or widen the ClusterQueue's namespaceSelector",
)
NOT_COVERED = CauseKind(
    "resource-not-covered",
    QUEUE,
    "is pending: its ClusterQueue does not cover a resource that it requests",
    "have the resource added to the ClusterQueue, or do not request it",
)
NO_FLAVOR_FITS = CauseKind(
    "no-flavor-fits",
    QUEUE,
    "is pending: no flavor of its ClusterQueue fits",
    "request a slice type that the queue has, or tolerate the flavor's taint",
)
QUOTA_TOO_SMALL = CauseKind(
    "quota-too-small",
    QUEUE,
    "is pending: it requests more than the maximum quota of its queue",
    "request fewer or smaller slices, or have the quota raised",
)
QUOTA_IN_USE = CauseKind(
    "quota-in-use", QUEUE, "is pending: the quota of its queue is in use", "wait until running jobs finish, or request less"
)
BORROWING_LIMIT = CauseKind(
    "borrowing-limit",
    QUEUE,
    "is pending: it exceeds the borrowing limit of its queue",
    "request less, or have the borrowing limit raised",
)
LOWER_PRIORITY = CauseKind(
    "lower-priority",
    QUEUE,
    "is pending: jobs with a higher priority are ahead",
    "wait for them, or submit it with a higher priority",
)
JOBS_AHEAD = CauseKind(
    "jobs-ahead", QUEUE, "is pending: earlier jobs are ahead", "wait for them, or submit it with a higher priority"
)
PREEMPTED = CauseKind(
    "preempted",
    QUEUE,
    "is pending: it was preempted",
    "wait, or submit it with a higher priority; save checkpoints",
)
NOT_READY_IN_TIME = CauseKind(
    "pods-not-ready-in-time",
    QUEUE,
    "is pending: it was evicted because its pods were not ready in time",
    "find out why its pods do not start; Kueue requeues it",
)
OTHERS_NOT_READY = CauseKind(
    "others-not-ready",
    QUEUE,
    "is pending: Kueue waits until the pods of admitted jobs are ready",
    "find out why those jobs are not ready; Kueue admits no other job until they are",
)
NOT_CONSIDERED = CauseKind(
    "not-considered",
    QUEUE,
    "is pending: its quota is free, but Kueue has not admitted it",
    "check that Kueue's controller manager is running, and read its log",
)
DEACTIVATED = CauseKind(
    "deactivated", QUEUE, "is deactivated in Kueue", "fix the cause, then set spec.active of its Workload to true"
)
EVICTED = CauseKind("evicted", QUEUE, "is pending: it was evicted", "wait: Kueue requeues it")
PENDING = CauseKind("pending-in-queue", QUEUE, "is pending in its queue", "wait, or ask an administrator how much quota is in use")

# Admission checks.
CHECK_PENDING = CauseKind(
    "check-pending",
    CHECK,
    "is pending: it has quota, but an admission check is not ready",
    "wait for the controller of the admission check",
)
CHECK_RETRY = CauseKind("check-retry", CHECK, "is pending: an admission check requested a retry", "wait: Kueue requeues it")
CHECK_REJECTED = CauseKind(
    "check-rejected", CHECK, "was rejected by an admission check", "fix what the check reports, then submit it again"
)

# Pods and the scheduler.
FOLLOWER = CauseKind(
    "followers-pending",
    PLACE,
    "is pending: followers wait for the leader pod of their slice",
    "find out why the leader pod is unschedulable",
)
NO_POOL = CauseKind(
    "no-matching-pool",
    PLACE,
    "is pending: no node matches its node selector",
    "have a matching node pool created, or request another slice type",
)
TAINT = CauseKind(
    "taint",
    PLACE,
    "is pending: matching nodes have a taint that it does not tolerate",
    "tolerate the taint, or have it removed from the nodes",
)
TOO_FEW_HOSTS = CauseKind(
    "too-few-hosts",
    PLACE,
    "is pending: it needs more hosts than the cluster has",
    "request fewer slices, or have more hosts created",
)
HOSTS_IN_USE = CauseKind(
    "hosts-in-use",
    PLACE,
    "is pending: all matching hosts are in use",
    "wait until a job on them finishes, or have more hosts created",
)
UNSCHEDULABLE = CauseKind("unschedulable", PLACE, "is pending: its pods are unschedulable", "read the scheduler's message")
NO_PODS = CauseKind(
    "no-pods", PLACE, "is pending: its pods are not created", "check that kube-controller-manager is running; read the Job's events"
)
NOT_SCHEDULED = CauseKind(
    "not-scheduled",
    PLACE,
    "is pending: the scheduler has not processed its pods",
    "check that the scheduler is running; read the events of its pods",
)
PODS_REJECTED = CauseKind(
    "pods-rejected", PLACE, "is pending: the API server rejects its pods", "fix what the API server's message reports"
)

# Slices: the slices controller and the cloud.
POOL_PROVISIONING = CauseKind(
    "pool-provisioning", SLICE, "is pending: its node pools are being created", "wait: node pools take minutes to create"
)
STOCKOUT = CauseKind(
    "stockout",
    SLICE,
    "is pending: the zone is out of capacity",
    "allow more zones, spot or a reservation, or request smaller slices",
)
PROJECT_QUOTA = CauseKind(
    "project-quota", SLICE, "is pending: the project's quota is exceeded", "have the project's quota raised, or request less"
)
RESERVATION = CauseKind(
    "reservation-not-found",
    SLICE,
    "is pending: its reservation does not exist",
    "use a reservation of the zone, or another capacity type",
)
RESERVATION_FULL = CauseKind(
    "reservation-full",
    SLICE,
    "is pending: its reservation is in use",
    "wait for the jobs that use it, or use another capacity type",
)
SLICE_REJECTED = CauseKind(
    "slice-rejected",
    SLICE,
    "is pending: its node pools cannot be created",
    "fix what the slices controller reports",
)
DRAINING = CauseKind(
    "draining",
    SLICE,
    "is pending: its slices are drained",
    "`sliceworks slices drain --undo` allows node pools for it again",
)

# Containers.
NOT_STARTED = CauseKind(
    "not-started",
    CONTAINER,
    "is pending: a host does not start its containers",
    "inspect the host with `kubectl describe node`, and have it repaired or replaced",
)
IMAGE = CauseKind(
    "image-pull", CONTAINER, "cannot start: its image cannot be pulled", "fix the image's name, or the permission to pull it"
)
CONFIG = CauseKind(
    "missing-config",
    CONTAINER,
    "cannot start: a Secret or ConfigMap that it references does not exist",
    "create it in the job's namespace",
)
VOLUME = CauseKind("volume", CONTAINER, "cannot start: a volume cannot be mounted", "fix the volume, or its source")
CRASH_LOOP = CauseKind("crash-loop", CONTAINER, "is in a crash loop", "read the logs of the previous container")
MEMORY = CauseKind(
    "out-of-memory", CONTAINER, "ran out of memory", "request more `memory`, or reduce the batch or the model's share"
)
EXIT_CODE = CauseKind("exit-code", CONTAINER, "has failed: a container exited with an error", "read the logs of the failed host")
HOST_LOST = CauseKind("host-lost", CONTAINER, "lost a host", "restart it from a checkpoint; this is normal on spot machines")
UNDELETED = CauseKind(
    "pod-not-deleted",
    CONTAINER,
    "waits for pods that are being deleted",
    "have the host repaired or deleted; `kubectl delete pod --force` deletes a pod whose host is lost",
)
NOT_READY = CauseKind("not-ready", CONTAINER, "is running but not ready", "read its logs")

CAUSES: tuple[CauseKind, ...] = tuple(value for value in list(globals().values()) if isinstance(value, CauseKind))
